"""`load(path, columns=...)`: some columns of a stored frame, and nothing of the others."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cudf_fsst
import hostile
import sound_files
from cudf_fsst.codecs.dict import cpu as dictionary
from cudf_fsst.codecs.text import validate
from cudf_fsst.files import columns as files
from cudf_fsst.files import disk, storage

FRAMES = dict(sound_files.frames())


def saved(frame: pd.DataFrame, folder: Path) -> Path:
    path = folder / "f.fsst"
    frame.fsst.compress().save(path)
    return path


@pytest.mark.parametrize("name", FRAMES)
def test_some_columns_in_the_order_asked(name: str, tmp_path: Path) -> None:
    path = saved(FRAMES[name], tmp_path)
    whole = cudf_fsst.load(path)
    labels = list(whole.columns)
    for some in (labels, labels[::-1], labels[1:2], labels[-1:] + labels[:1], []):
        found = cudf_fsst.load(path, columns=some)
        assert found.equals(whole[some])
        assert list(found.columns) == some
        assert found.to_arrow().equals(whole[some].to_arrow())
        assert found.index.equals(whole.index)


def test_nothing_else_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({f"c{i}": rng.integers(0, 2**60, 20_000) for i in range(8)})
    path = saved(frame, tmp_path)
    taken = 0
    fill = disk._Disk.fill

    def counted(self: Any, targets: Any) -> None:
        nonlocal taken
        taken += sum(array.size for _, array in targets)
        fill(self, targets)

    monkeypatch.setattr(disk._Disk, "fill", counted)
    cudf_fsst.load(path)
    assert taken > 8 * 20_000 * 7
    taken = 0
    found = cudf_fsst.load(path, columns=["c6", "c1"])
    assert taken < 2.1 * 20_000 * 8
    pd.testing.assert_frame_equal(found.decompress(), frame[["c6", "c1"]])


def test_damage_is_found_in_what_is_read(tmp_path: Path) -> None:
    """And nothing is said of what is not read."""
    frame = pd.DataFrame({"a": np.arange(3000) ** 3, "s": [f"word {i}" for i in range(3000)], "b": np.arange(3000) / 7})
    path = saved(frame, tmp_path)
    data = path.read_bytes()
    with storage.opened(io.BytesIO(data)) as file:
        places = [section for section in file._sections if section.nbytes]
        tables = {record.first_table for record in file._records if record.tables}
    assert tables
    seen = set()
    for place in places:
        broken = bytearray(data)
        broken[place.offset + place.nbytes // 2] ^= 0x10
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=f"{path}: .*checksum"):
            cudf_fsst.load(path)
        for label in frame:
            try:
                found = cudf_fsst.load(path, columns=[label])
            except ValueError as error:
                said = str(error)
                assert place.name in said
                seen.add((label, place.name.partition(" ")[0]))
            else:
                pd.testing.assert_frame_equal(found.decompress(), frame[[label]])
    assert seen >= {(label, kind) for label in frame for kind in ("schema", "codes")} | {("s", "symbol"), ("s", "meta")}
    for cut in (0, 30, 64, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises(ValueError, match=r"f\.fsst: "):
            cudf_fsst.load(path, columns=["a"])


@pytest.mark.parametrize(
    ("columns", "error", "text"),
    [
        (["z"], KeyError, "no column 'z'"),
        (["a", "twice"], KeyError, "several"),
        ([["a"]], KeyError, "no column"),
        ("a", TypeError, "'a'"),
        (5, TypeError, "5"),
    ],
)
def test_wrong_columns(columns: Any, error: type[Exception], text: str, tmp_path: Path) -> None:
    path = saved(pd.DataFrame([[1, 2, 3]], columns=["a", "twice", "twice"]), tmp_path)
    with pytest.raises(error, match=text):
        cudf_fsst.load(path, columns=columns)
    assert len(cudf_fsst.load(path, columns=["a", "a"]).columns) == 2


@pytest.mark.parametrize("values", [["a", None], [1, 2]])
def test_a_file_of_a_column(values: list[Any], tmp_path: Path) -> None:
    pd.Series(values, name="a").fsst.compress().save(tmp_path / "c")
    with pytest.raises(ValueError, match="c: holds a column"):
        cudf_fsst.load(tmp_path / "c", columns=["a"])


def test_where_to(tmp_path: Path) -> None:
    path = saved(pd.DataFrame({"a": [1, 2]}), tmp_path)
    assert cudf_fsst.load(path, device="cpu").device == "cpu"
    with pytest.raises(ValueError, match="device must be 'auto', 'cpu' or 'gpu', not 'tpu'"):
        cudf_fsst.load(path, device="tpu")


class Later:
    """A place whose segments are checked when all is read."""

    count_chars = staticmethod(dictionary.count_chars)

    def buffers(self, sizes: Sequence[int]) -> list[Any]:
        return [np.empty(nbytes, np.uint8) for nbytes in sizes]

    def begin(self, parts: Sequence[Any]) -> None:
        assert all(part.codes.size == part.codes_nbytes for part in parts)

    def checks_codes(self, codec: str) -> bool:
        return codec == "fsst"


def error_of(call: Callable[[], Any]) -> str | None:
    try:
        call()
    except ValueError as error:
        return str(error)
    return None


def test_codes_that_are_checked_where_they_go(tmp_path: Path) -> None:
    """Those of columns; those of labels and of the index as ever."""
    words = pd.Series([f"word {number % 5000} of many" for number in range(30_000)])
    data = pd.DataFrame({"s": words, "m": ["AIR", "MAIL", None] * 10_000}).set_index(words + "!")
    path = saved(data, tmp_path)
    found = files.load(path, destination=Later())
    segments = [one for content in found.columns for one in content.node.parts if one.codec == "fsst"]
    assert [one for _, one in found.unchecked] == segments
    sound = hostile.File(path.read_bytes())
    refused = set()
    for number in range(len(sound.segments)):
        file = hostile.File(path.read_bytes())
        codes = file.section(hostile.CODES, number)
        assert codes is not None
        codes[:] = b"\xff" * len(codes)
        path.write_bytes(file.to_bytes())
        wanted = error_of(lambda: cudf_fsst.load(path))
        unchecked = list[tuple[str, Any]]()
        found_now = error_of(lambda some=unchecked: some.extend(files.load(path, destination=Later()).unchecked))
        if found_now is None and wanted is not None:
            errors = [(name, error_of(lambda one=segment: validate.check(one))) for name, segment in unchecked]
            (found_now,) = (f"{name.removesuffix(': codes')}: {error}" for name, error in errors if error)
            refused.add("later")
        elif wanted is not None:
            refused.add("read")
        assert found_now == wanted
        path.write_bytes(sound.to_bytes())
    assert refused == {"read", "later"}


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["gpu", "auto"])
def test_to_a_gpu(device: str, tmp_path: Path) -> None:
    """Equal to what goes there from host memory; damaged files are refused as there."""
    words = [f"word {number % 5000} of many" for number in range(30_000)]
    data = pd.DataFrame({"n": np.arange(30_000) ** 3, "s": words, "m": ["AIR", "MAIL", None] * 10_000})
    path = saved(data, tmp_path)
    data["s"].fsst.compress().save(tmp_path / "c")
    found = cudf_fsst.load(path, device=device)
    assert found.device.startswith("cuda")
    assert found.equals(cudf_fsst.load(path).to_device())
    assert cudf_fsst.load(path, columns=["m"], device=device).equals(found[["m"]])
    assert cudf_fsst.load(tmp_path / "c", device=device).device.startswith("cuda")
    broken = bytearray(path.read_bytes())
    broken[-1] ^= 1
    path.write_bytes(broken)
    with pytest.raises(ValueError, match="checksum"):
        cudf_fsst.load(path, device=device)


@pytest.mark.gpu
def test_a_gpu_refuses_what_the_host_refuses(tmp_path: Path) -> None:
    said = Counter[str]()
    for number in range(300):
        (tmp_path / "f").write_bytes(hostile.hostile_segments(number)[1])
        texts = []
        for device in ("cpu", "gpu"):
            try:
                texts.append(f"{len(cudf_fsst.load(tmp_path / 'f', device=device))} rows")
            except ValueError as error:
                texts.append(str(error))
            except (NotImplementedError, TypeError):  # cuDF has no such type
                texts.append(texts[0])
        assert texts[0] == texts[1]
        said[texts[0].partition(" has a ")[2] or texts[0].rpartition(" ")[2]] += 1
    assert said["rows"] > 30
    assert said["code that its symbol table lacks"] > 0
