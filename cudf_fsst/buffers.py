"""Plain descriptions of string columns as buffers: what interop hands to a codec, and gets back.

Nothing here knows cuDF, pandas or Arrow objects; nothing here knows a codec.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(eq=False)
class HostStrings:
    """A string column in host memory, as Arrow lays it out.

    Attributes
    ----------
    rows : int
    chars : ndarray of uint8
        Characters; only ``offsets[0]:offsets[-1]`` belong to the column.
    offsets : ndarray of int32 or int64, shape (rows + 1,)
        Need not start at 0.
    validity : ndarray of uint8 or None
        Arrow validity bitmap; row ``r`` is bit ``validity_offset + r``. None: no nulls.
    validity_offset : int
    null_count : int
    """

    rows: int
    chars: npt.NDArray[np.uint8]
    offsets: npt.NDArray[Any]
    validity: npt.NDArray[np.uint8] | None = None
    validity_offset: int = 0
    null_count: int = 0


@dataclass
class DeviceStrings:
    """A string column in GPU memory: raw addresses and whatever keeps them alive.

    Same meaning as `HostStrings`; ``chars``, ``offsets`` and ``validity`` are device addresses (0: no such buffer).
    ``offsets`` already points at the first offset of the column (a slice's start is added). ``chars_limit``: a bound
    of its characters that is not far from them, where one is known without looking.
    """

    rows: int
    chars: int
    offsets: int
    offsets_itemsize: int
    validity: int = 0
    validity_offset: int = 0
    null_count: int = 0
    owners: tuple[Any, ...] = field(default=(), repr=False)
    chars_limit: int | None = field(default=None, compare=False)


class CharactersUnderNulls(Exception):
    """A codec that cannot drop them itself found characters under null rows (cuDF columns hardly ever have any)."""


@dataclass(eq=False)
class ColumnBuffers:
    """A column of any type: the buffers of its Arrow layout, on the host or in GPU memory.

    Attributes
    ----------
    type : pyarrow.DataType
        Of a dictionary column the dictionary type, of an extension type its storage's.
    rows, null_count : int
    validity : ndarray of uint8 or int or None
        Arrow validity bitmap (on the GPU its address), where there are nulls; row ``r`` is bit ``validity_offset + r``.
    validity_offset : int
    values : ndarray or int or None
        Values of fixed width, one after another: bits as unsigned integers, booleans a byte each, numbers of 16 bytes
        of shape (rows, 2). Of a list column its rows + 1 offsets, from 0; of a dictionary column its codes. None:
        strings, structs, nulls.
    itemsize : int
        Bytes of a value; 0 without values.
    strings : HostStrings or DeviceStrings, optional
    children : tuple of ColumnBuffers
        Values of a list, fields of a struct, the dictionary of a dictionary column.
    owners
        What keeps the buffers alive.
    """

    type: Any
    rows: int
    null_count: int = 0
    validity: Any = None
    validity_offset: int = 0
    values: Any = None
    itemsize: int = 0
    strings: HostStrings | DeviceStrings | None = None
    children: tuple[ColumnBuffers, ...] = ()
    owners: tuple[Any, ...] = field(default=(), repr=False)
