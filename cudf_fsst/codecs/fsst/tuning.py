"""Launch choices of the FSST kernels: defaults, and what ``cudf-fsst autotune`` measured on this machine's GPU.

They decide how fast the kernels run, never what they store. A measured entry is a small JSON file a GPU model in the
user's cache folder. It is advice: one that is damaged, of another GPU, made for other kernels or out of range is
ignored with one warning in the log. Needs no GPU and no CuPy.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from ...device.kernels import source
from ..text.layout import TILE_SIZES

CACHE_VARIABLE = "CUDF_FSST_CACHE_DIR"
#: Version of the entry's own layout.
LAYOUT = 1
#: An entry has a few hundred bytes; a file longer than this is none.
_FILE_NBYTES_MAX = 65536

_log = logging.getLogger("cudf_fsst")


@dataclass(frozen=True)
class Choices:
    """How to launch the kernels for one tile size.

    Attributes
    ----------
    encode_warps
        Warps of an encoder's thread block, if its shared memory holds that many. None: as many as it holds.
    encode_blocks
        Thread blocks of the encoder for every multiprocessor, where there is work for so many.
    decode_warps
        Warps of a decoder's thread block, if its shared memory holds that many. None: what puts most on a
        multiprocessor.
    decode_capacity
        Room for codes in a decoder warp's shared memory, as a multiple of what its tiles have on average. Warps whose
        tiles have more stage them in several rounds, with fewer lanes at work.
    """

    encode_warps: int | None = None
    encode_blocks: float = 1.0
    decode_warps: int | None = None
    decode_capacity: float = 7 / 6


DEFAULT = Choices()
#: What an entry may say: bounds, and whether it must be a whole number. Where fewer warps fit, fewer are launched.
LIMITS: dict[str, tuple[float, float, bool]] = {
    "encode_warps": (1, 32, True),
    "encode_blocks": (0.125, 8, False),
    "decode_warps": (1, 8, True),
    "decode_capacity": (0.25, 4, False),
}


def folder() -> Path:
    """Where entries lie: ``$CUDF_FSST_CACHE_DIR``, else ``cudf_fsst`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification has relative paths ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "cudf_fsst"


def path(gpu: str) -> Path:
    """The file of a GPU model's entry."""
    return folder() / f"launch-{re.sub('[^A-Za-z0-9.]+', '-', gpu)}.json"


@cache
def kernels_hash() -> str:
    """What tells the kernels an entry was measured with from those of another version."""
    text = "\0".join(source(name) for name in ("fsst_encode", "fsst_decode"))
    return hashlib.sha256(text.encode()).hexdigest()


def load(gpu: str) -> dict[int, Choices]:
    """Measured choices by tile size; empty, with a warning in the log, where the entry is of no use."""
    file: Path | str = "the launch choices' file"
    try:
        file = path(gpu)
        if not file.exists():
            return {}
        return _parse(_read(file), gpu)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: no home folder; JSON nested too deeply
        _log.warning("ignored %s: %s; `cudf-fsst autotune` writes it anew", file, error)
        return {}


def save(gpu: str, choices: Mapping[int, Choices], notes: Mapping[str, Any]) -> Path:
    """Write an entry, replacing the GPU's earlier one at once; `notes` (when, how fast) are for people."""
    file = path(gpu)
    file.parent.mkdir(parents=True, exist_ok=True)
    entry = {
        "layout": LAYOUT,
        "gpu": gpu,
        "kernels": kernels_hash(),
        "tile_sizes": {str(tile_size): asdict(chosen) for tile_size, chosen in sorted(choices.items())},
        "notes": dict(notes),
    }
    _parse(entry, gpu)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".launch.") as unfinished:
        fresh = Path(unfinished, file.name)
        fresh.write_text(json.dumps(entry, indent=1) + "\n", encoding="utf-8")
        os.replace(fresh, file)
    return file


def _read(file: Path) -> Any:
    if not file.is_file():
        raise ValueError("not a file")
    with file.open("rb") as opened:
        content = opened.read(_FILE_NBYTES_MAX + 1)
    if len(content) > _FILE_NBYTES_MAX:
        raise ValueError(f"longer than {_FILE_NBYTES_MAX} bytes")
    return json.loads(content)


def _parse(entry: Any, gpu: str) -> dict[int, Choices]:
    if not isinstance(entry, dict) or entry.get("layout") != LAYOUT:
        raise ValueError("not a file of launch choices, or of another version")
    if entry.get("gpu") != gpu:
        raise ValueError(f"measured on {entry.get('gpu')!r:.80}, this is {gpu!r}")
    if entry.get("kernels") != kernels_hash():
        raise ValueError("measured with kernels of another version")
    sizes = entry.get("tile_sizes")
    if not isinstance(sizes, dict):
        raise ValueError("no tile sizes")
    known = {str(tile_size): tile_size for tile_size in TILE_SIZES}
    found = {}
    for text, values in sizes.items():
        if text not in known:
            raise ValueError(f"tile size {text!r:.80}")
        found[known[text]] = _choices(values)
    return found


def _choices(values: Any) -> Choices:
    names = {field.name for field in fields(Choices)}
    if not isinstance(values, dict) or set(values) != names:
        raise ValueError(f"choices must be {', '.join(sorted(names))}")
    for name, value in values.items():
        least, most, whole = LIMITS[name]
        if value is None and whole:
            continue
        right = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
        if not right or not least <= value <= most:
            raise ValueError(f"{name} is {value!r:.80}, not a{' whole' * whole} number from {least:g} to {most:g}")
    return Choices(**values)
