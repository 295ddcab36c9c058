"""The values of dictionaries in GPU memory: decoded for a call, or, a few short ones, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...buffers import DeviceStrings, HostStrings
from ...device.memory import Lane, device_attributes, pinned
from ..cuda_kernels import blocks
from ..cuda_tables import JobTables
from ..node import DictPart, Known
from ..text import cuda_read as text_read
from . import cuda_packed, cuda_text, few, launch
from .cuda import read_kernel

#: Bytes of values of dictionaries that are in memory at once.
VALUES_NBYTES = 24 << 20
#: Bytes of codes that are unpacked at once, at least.
CODES_NBYTES = 24 << 20


def _longest(parts: Sequence[DictPart], values: Sequence[DeviceStrings], lane: Lane) -> list[int]:
    """Bytes of the longest of the values of each dictionary: found once, with a wait, and kept with them."""
    new = [i for i, part in enumerate(parts) if part.known.longest is None]
    if new:
        lengths = lane.allocate(8 * len(new))
        lane.zero(lengths.ptr, lengths.size)
        tables, grids, fields = JobTables(), list[int](), list[int]()
        for k, i in enumerate(new):
            grid = min(blocks(values[i].rows, 8 * launch.READ_THREADS), device_attributes()["multiprocessors"])
            wide = values[i].offsets_itemsize == 8
            fields += launch.LongestJob(values[i].offsets, wide, values[i].rows, lengths.ptr + 8 * k, grid)
            grids.append(grid)
        tables.add_jobs(read_kernel("dict_longest"), launch.READ_THREADS, grids, fields)
        tables.launch(lane)
        for i, longest in zip(new, lane.read(lengths.ptr, len(new), np.int64).tolist(), strict=True):
            parts[i].known.longest = longest
    return [part.known.longest or 0 for part in parts]


def decoded(parts: Sequence[DictPart], lane: Lane) -> list[tuple[cuda_text.Dictionary, Any]]:
    """The values of parts with a dictionary, and what keeps them; a few short ones are decoded once."""
    new = [i for i, part in enumerate(parts) if part.known.few is None]
    segments = [parts[i].values.segments for i in new]
    strings_of = dict(zip(new, text_read.read(segments, lane=lane) if new else (), strict=True))
    nonempty = [i for i, strings in strings_of.items() if strings.rows]
    sizes = dict(
        zip(nonempty, _longest([parts[i] for i in nonempty], [strings_of[i] for i in nonempty], lane), strict=True)
    )
    _keep_few([(parts[i].known, strings_of[i], n) for i, n in sizes.items() if is_packed(parts[i])], lane)
    dictionaries: list[tuple[cuda_text.Dictionary, Any]] = []
    for i, part in enumerate(parts):
        if (strings := strings_of.get(i)) is not None:
            dictionary = cuda_text.Dictionary(
                strings.chars, strings.offsets, strings.offsets_itemsize, strings.rows, sizes.get(i, 0)
            )
            dictionaries.append((dictionary, strings))
        else:
            image = None if part.known.few is None else part.known.few.image
            dictionaries.append((cuda_text.Dictionary(0, 0, 4, part.values.rows, part.known.longest or 0, image), None))
    return dictionaries


def _keep_few(values: Sequence[tuple[Known, DeviceStrings, int]], lane: Lane) -> None:
    """Cache a few short values in host memory, with their dictionary, so that they are decoded once."""
    downloads = []
    for known, strings, longest in values:
        chars = strings.owners[1].size
        if strings.rows <= few.MOST and 0 < longest <= few.SHORT and strings.offsets_itemsize == 4:
            places = pinned(strings.rows + 1, np.int32), pinned(chars, np.uint8)
            lane.download(places[0], strings.offsets)
            lane.download(places[1], strings.chars)
            downloads.append((known, *places))
    if downloads:
        lane.synchronize()
    for known, offsets, data in downloads:
        known.few = few.Few.of_strings(HostStrings(offsets.size - 1, data, offsets))


def values_nbytes(part: DictPart) -> int:
    """Memory that the values take, or more."""
    values = part.values
    return values.chars_nbytes + cuda_packed.image_limit(values.rows) + 1


def is_packed(part: DictPart) -> bool:
    return cuda_packed.packed(part.packed)


def may_be_few(part: DictPart) -> bool:
    """Whether the values are few and short enough to be cached in host memory."""
    longest = part.known.longest
    return (
        few.may_be(part.values.rows, part.values.chars_nbytes)
        and (longest is None or 0 < longest <= few.SHORT)
        and is_packed(part)
    )
