"""An outer codec over the sections of a file (docs/format.md, section 21): Zstandard, by Arrow.

What a section would hold is compressed, each section by itself, behind the number of its bytes.

The host takes it off, for a GPU, too. nvCOMP would be faster: 838 MB of lineitem's sections took it 0.135 s on an H200,
16 cores 0.18 s, and in frames of 64 KiB 0.01 s. But "providing a corrupt buffer for decompression will result in
undefined behavior" (zstd.h of nvCOMP 5.3), and of a frame only decoding it tells whether it is corrupt.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: What users call it -> its number in the kind of a section.
NUMBERS = {"zstd": 1}
#: A section that is more often larger than what is stored of it is damaged.
MOST_GROWTH = 1024
_LEVEL = 3
_NBYTES = struct.Struct("<Q")


def check(name: Any) -> None:
    """Raise ValueError unless this is an outer codec, or None."""
    if name is not None and name not in list(NUMBERS):  # which hashes nothing
        raise ValueError(f"compression must be one of {list(NUMBERS)} or None, not {name!r}")


def wrap(content: Any, name: str) -> bytes | None:
    """The content of a section as `name` compresses it, its size first; None where that is no smaller."""
    nbytes = memoryview(content).nbytes
    if nbytes <= _NBYTES.size:
        return None
    wrapped = pa.Codec(name, compression_level=_LEVEL).compress(content, asbytes=True)
    stored = _NBYTES.pack(nbytes) + wrapped
    return stored if len(stored) < nbytes <= MOST_GROWTH * len(stored) else None


#: Bytes of what is stored that say how large the section is.
HEAD_NBYTES = _NBYTES.size


def nbytes_of(stored: npt.NDArray[np.uint8], stored_nbytes: int) -> int:
    """Bytes of the section of which this is stored, or the first `HEAD_NBYTES` of so many.

    Raises
    ------
    ValueError
        It is damaged: there are not so many bytes in it.
    """
    if stored_nbytes <= _NBYTES.size:
        raise ValueError(f"{stored_nbytes} bytes are no section with an outer codec")
    (nbytes,) = _NBYTES.unpack(stored[: _NBYTES.size].tobytes())
    if nbytes > MOST_GROWTH * stored_nbytes:
        raise ValueError(f"{nbytes} bytes in {stored_nbytes}, more than {MOST_GROWTH} times as many")
    return int(nbytes)


def unwrap(stored: npt.NDArray[np.uint8], number: int, content: npt.NDArray[np.uint8]) -> None:
    """Write a section, of `nbytes_of` it, to an array; ValueError where it is damaged."""
    name = next(name for name, known in NUMBERS.items() if known == number)
    try:
        unwrapped = pa.Codec(name).decompress(pa.py_buffer(stored[_NBYTES.size :]), content.size)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"its outer codec {name} cannot be taken off: {error}") from error
    if unwrapped.size != content.size:
        raise ValueError(f"its outer codec {name} gives {unwrapped.size} bytes, not {content.size}")
    content[:] = np.frombuffer(unwrapped, np.uint8)
