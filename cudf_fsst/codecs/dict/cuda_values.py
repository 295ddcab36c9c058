"""The values of dictionaries in GPU memory: decoded for a call, or, a few short ones, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...buffers import DeviceStrings, HostStrings
from ...device.memory import Lane, device_attributes, pinned
from ..cuda_kernels import blocks
from ..cuda_tables import JobTables
from ..text import cuda_read as text_read
from . import cuda_packed, cuda_text, few, launch
from .cuda import read_kernel
from .part import DictPart, Known

#: Bytes of values of dictionaries that are in memory at once.
VALUES_NBYTES = 24 << 20
#: Bytes of codes that are unpacked at once, at least.
CODES_NBYTES = 24 << 20


def _longest(parts: Sequence[DictPart], found: Sequence[DeviceStrings], lane: Lane) -> list[int]:
    """Bytes of the longest of the values of each dictionary: found once, with a wait, and kept with them."""
    new = [i for i, part in enumerate(parts) if part.known.longest is None]
    if new:
        there = lane.allocate(8 * len(new))
        lane.zero(there.ptr, there.size)
        tables, grids, fields = JobTables(), list[int](), list[int]()
        for k, i in enumerate(new):
            grid = min(blocks(found[i].rows, 8 * launch.READ_THREADS), device_attributes()["multiprocessors"])
            wide = found[i].offsets_itemsize == 8
            fields += launch.LongestJob(found[i].offsets, wide, found[i].rows, there.ptr + 8 * k, grid)
            grids.append(grid)
        tables.add_jobs(read_kernel("dict_longest"), launch.READ_THREADS, grids, fields)
        tables.launch(lane)
        for i, longest in zip(new, lane.read(there.ptr, len(new), np.int64).tolist(), strict=True):
            parts[i].known.longest = longest
    return [part.known.longest or 0 for part in parts]


def decoded(parts: Sequence[DictPart], lane: Lane) -> list[tuple[cuda_text.Dictionary, Any]]:
    """The values of parts with a dictionary, and what keeps them; a few short ones are decoded once."""
    new = [i for i, part in enumerate(parts) if part.known.few is None]
    asked = [parts[i].values.segments for i in new]
    found = dict(zip(new, text_read.read(asked, lane=lane) if new else (), strict=True))
    some = [i for i, one in found.items() if one.rows]
    sizes = dict(zip(some, _longest([parts[i] for i in some], [found[i] for i in some], lane), strict=True))
    _keep_few([(parts[i].known, found[i], n) for i, n in sizes.items() if is_packed(parts[i])], lane)
    made: list[tuple[cuda_text.Dictionary, Any]] = []
    for i, part in enumerate(parts):
        if (one := found.get(i)) is not None:
            there = cuda_text.Dictionary(one.chars, one.offsets, one.offsets_itemsize, one.rows, sizes.get(i, 0))
            made.append((there, one))
        else:
            image = None if part.known.few is None else part.known.few.image
            made.append((cuda_text.Dictionary(0, 0, 4, part.values.rows, part.known.longest or 0, image), None))
    return made


def _keep_few(found: Sequence[tuple[Known, DeviceStrings, int]], lane: Lane) -> None:
    """Keep a few short values with them, in host memory: who wants them again need not decode them."""
    downloads = []
    for known, one, longest in found:
        chars = one.owners[1].size
        if one.rows <= few.MOST and 0 < longest <= few.SHORT and one.offsets_itemsize == 4:
            places = pinned(one.rows + 1, np.int32), pinned(chars, np.uint8)
            lane.download(places[0], one.offsets)
            lane.download(places[1], one.chars)
            downloads.append((known, *places))
    if downloads:
        lane.synchronize()
    for known, offsets, data in downloads:
        known.few = few.Few(HostStrings(offsets.size - 1, data, offsets))


def values_nbytes(part: DictPart) -> int:
    """Memory that the values take, or more."""
    values = part.values
    return values.chars_nbytes + cuda_packed.image_limit(values.rows) + 1


def is_packed(part: DictPart) -> bool:
    return cuda_packed.packed(part.packed)


def may_be_few(part: DictPart) -> bool:
    """Whether the values may be kept, or are."""
    longest = part.known.longest
    return few.may_be(part.values) and (longest is None or 0 < longest <= few.SHORT) and is_packed(part)
