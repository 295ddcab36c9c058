"""A campaign of hostile files whose checksums hold: no crash, no hang, no memory without bound, no odd errors.

``CUDF_FSST_HOSTILE_CASES=100000`` asks for so many on the host, and in proportion for the others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hostile
from cudf_fsst.codecs import registry
from cudf_fsst.codecs.text import cpu as fsst
from cudf_fsst.codecs.values import cpu
from cudf_fsst.files import storage
from emulation.conftest import emulator
from emulation.device import FakeDevice, emulated
from emulation.emulator import Emulator
from fsst_gpu import TextCalls
from stored_file import load_stored

__all__ = ["emulator"]

HERE = Path(__file__).parent
#: Cases of the test that always runs, of the whole campaign, of them with bounds checked, on the emulated GPU. Of fewer
#: than the first nothing can be said of what they refuse.
QUICK = 200
CASES = int(os.environ.get("CUDF_FSST_HOSTILE_CASES", "6000"))
CHECKED = max(CASES // 20, QUICK)
EMULATED = CASES // 40
#: Larger streams are not decompressed on the emulated GPU.
LARGE = 2**17


def campaign(folder: Path, first: int, count: int, **environment: str) -> Counter[str]:
    """Put cases through a process of their own; what they did."""
    note = folder / f"case {first}"
    paths = [str(HERE), str(Path(storage.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    environment |= {"PYTHONPATH": os.pathsep.join(paths), "CUDF_FSST_HOSTILE_CASE": str(note)}
    command = [sys.executable, str(HERE / "hostile_reader.py"), str(first), str(count)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [f"case {line['case']} of {line['of']}: {line['error']}" for line in lines if "case" in line]
    if done.returncode not in (0, 1) or not lines or "counts" not in lines[-1]:
        last = note.read_text() if note.exists() else "none"
        wrong.append(f"process ended with {done.returncode} in case {last}: {done.stderr[-5000:]}")
    assert not wrong, "\n".join(wrong) + f"\nsee {HERE / 'hostile_reader.py'}"
    return Counter(lines[-1]["counts"])


def check_counts(counts: Counter[str], cases: int) -> None:
    """Enough was refused, and enough read, that the campaign means something."""
    assert counts["refused"] > cases / 3
    assert counts["save"] > cases / 10
    for kind in ("decompress refused", "index refused", "a column refused", "take", "rows", "to_arrow", "iteration"):
        assert counts[kind] > cases / 1000, kind


def test_hostile_files(tmp_path: Path) -> None:
    check_counts(campaign(tmp_path, 0, QUICK), QUICK)


@pytest.mark.long
@pytest.mark.slow
def test_many_hostile_files(tmp_path: Path) -> None:
    processes = len(os.sched_getaffinity(0))
    each = -(-CASES // processes)
    with ThreadPoolExecutor(processes) as pool:
        firsts = range(QUICK, QUICK + each * processes, each)
        counts = sum(pool.map(lambda first: campaign(tmp_path, first, each), firsts), Counter[str]())
    check_counts(counts, each * processes)


@pytest.mark.long
@pytest.mark.slow
def test_bounds_of_arrays(tmp_path: Path) -> None:
    """Compiled functions that look at every index, as Numba's others do not."""
    cache = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    check_counts(campaign(tmp_path, 10**9, CHECKED, **cache), CHECKED)


# On the emulated GPU ------------------------------------------------------------------------------------------------


@pytest.fixture
def device(emulator: Emulator) -> Iterator[FakeDevice]:
    made = FakeDevice(emulator, order="eager")
    with emulated(made, "values"):
        yield made


def read(device: FakeDevice, buffer: Any, nbytes: int) -> Any:
    return np.frombuffer(device.emulator.read(buffer.ptr, nbytes) if nbytes else b"", np.uint8)


def decompress_values(device: FakeDevice, parts: list[Any]) -> Any:
    """Bytes of the values of a stream; a range and rows of them are read, too."""
    modules: dict[str, Any] = dict(sys.modules)
    values: Any = modules["cudf_fsst.codecs.values.cuda"]
    rows, itemsize = sum(part.rows for part in parts), parts[0].itemsize
    numbers = device.array(np.array([0, rows - 1, rows // 2, 0]))
    with modules["cudf_fsst.device.memory"].Lane() as lane:
        moved = tuple(modules["cudf_fsst.device.transfer"].to_device(parts))
        start, stop = rows // 3, rows // 2 + 1
        whole, some, chosen = (lane.allocate(count * itemsize) for count in (rows, stop - start, 4))
        values.decompress([values.ReadRequest((moved,), whole.ptr)], lane=lane)
        values.decompress([values.ReadRequest((moved,), some.ptr, start, stop)], lane=lane)
        taken = modules["cudf_fsst.codecs.cuda_tables"].RowNumbers(numbers.data.ptr, numbers.size)
        values.take([values.ReadRequest((moved,), chosen.ptr)], taken, lane=lane)
        lane.synchronize()
        found = read(device, whole, rows * itemsize)
        if is_sound(parts[0].codec, parts):
            each = found.reshape(rows, itemsize)
            for buffer, wanted in ((some, each[start:stop]), (chosen, each[[0, -1, rows // 2, 0]])):
                assert np.array_equal(read(device, buffer, wanted.size).reshape(-1, itemsize), wanted)
        return found


def decompress_strings(device: FakeDevice, segments: list[Any]) -> Any:
    """Characters of strings; rows of them are taken, too."""
    cuda = TextCalls()
    moved = cuda.to_device(segments)
    rows = sum(segment.rows for segment in segments)
    cuda.take(moved, np.array([0, rows - 1, rows // 2]))
    cuda.take_range(moved, rows // 3, rows // 2 + 1)
    found = cuda.decompress(moved)
    device.default.synchronize()
    _, chars, _ = found.owners
    return read(device, chars, chars.size)


def is_sound(codec: str, parts: list[Any]) -> bool:
    try:
        if registry.is_text(codec):
            for segment in parts:
                fsst.check(segment)
        else:
            cpu.check(parts)
    except ValueError:
        return False
    return True


def test_hostile_segments_on_the_gpu(device: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels read segments that nobody checked: any values, or ValueError, but nothing outside the buffers."""
    monkeypatch.setattr(storage, "_check_part", lambda *_: None)
    path = tmp_path / "c.fsst"
    counts: Counter[str] = Counter()
    for number in range(EMULATED):
        name, data = hostile.hostile_segments(number)
        path.write_bytes(data)
        try:
            streams = load_stored(path).streams
        except ValueError:
            counts["refused"] += 1
            continue
        for codec, parts in streams:
            strings = registry.is_text(codec)
            if not parts or sum(part.chars if strings else part.values_nbytes for part in parts) > LARGE:
                continue
            sound = is_sound(codec, list(parts))
            if sound and number % 10:  # of what is sound, little is worth the time
                continue
            try:
                found = (decompress_strings if strings else decompress_values)(device, list(parts))
            except ValueError:
                assert not sound
                counts["error"] += 1
                continue
            except Exception as error:
                raise AssertionError(f"segments of case {number} of {name}, codec {codec}") from error
            counts["sound" if sound else "damaged"] += 1
            if sound:
                wanted = fsst.read(parts).chars if strings else cpu.read(parts, parts[0].itemsize)
                np.testing.assert_array_equal(found, wanted.view(np.uint8))
    assert counts["sound"] > EMULATED / 20
    assert counts["damaged"] + counts["error"] > EMULATED / 5
