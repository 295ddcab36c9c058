"""Values of dictionaries in GPU memory, asked or changed instead of rows, which get what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from ..buffers import ColumnBuffers, DeviceStrings, HostStrings
from ..device.memory import Lane
from ..lazy import weakly_cached
from .device_strings import NewValues, keep_few, read, validity, with_values
from .dict import cuda_answer as answers_of
from .dict import cuda_text, few
from .node import DictPart, Known, Node
from .text import cuda_read as text_read


@weakly_cached()
def _other_cases(node: Node) -> dict[tuple[bool, bool], Node]:
    """What `in_other_case` has made of a node."""
    del node
    return {}


def in_other_case(node: Node, *, small: bool, large: bool, lane: Lane) -> DeviceStrings | None:
    """All rows of strings with ASCII letters in the other case; None where that takes more than other values.

    All rows need a dictionary, of a few short values that have been read before and are ASCII.

    Parameters
    ----------
    node
    small, large : bool
        Whether small letters become large ones, and large ones small.
    """
    other = _other_cases(node).get((small, large)) or _in_other_case(node, small, large)
    return None if other is None else read([other], lane=lane)[0]


def _in_other_case(node: Node, small: bool, large: bool) -> Node | None:
    if not node.all_coded or any(part.known.few is None for part in node.segments):
        return None
    if not all(row.isascii() for part in node.segments for row in part.known.few.rows):
        return None
    change = bytes.swapcase if small and large else bytes.upper if small else bytes.lower
    parts = []
    for part in node.segments:
        known = Known()  # each value is as long as before
        known.longest, known.few = part.known.longest, few.Few(map(change, part.known.few.rows))
        parts.append(DictPart(part.indices, part.values, part.chars, known))
    other = _other_cases(node)[small, large] = replace(node, segments=tuple(parts))
    return other


def values_of(parts: Sequence[DictPart], *, lane: Lane) -> list[DeviceStrings]:
    """The values of parts with a dictionary; a few short ones come from host memory, once they are known."""
    keep_few(parts, lane)
    others = [part.values for part in parts if part.known.few is None]
    decoded_values = iter(text_read.read([values.segments for values in others], lane=lane) if others else ())
    return [next(decoded_values) if part.known.few is None else _uploaded(part.known.few, lane) for part in parts]


def _uploaded(values: few.Few, lane: Lane) -> DeviceStrings:
    offsets = np.array([0, *accumulate(map(len, values.rows))], np.int32)
    chars = np.frombuffer(b"".join(values.rows), np.uint8)
    buffers = lane.allocate(offsets.nbytes), lane.allocate(chars.nbytes)
    lane.upload(buffers[0].ptr, offsets)
    lane.upload(buffers[1].ptr, chars)
    return DeviceStrings(len(values.rows), buffers[1].ptr, buffers[0].ptr, 4, owners=(*buffers, None))


def spread(node: Node, answers: ColumnBuffers, *, lane: Lane) -> ColumnBuffers | None:
    """For all rows of strings that all have dictionaries the answers for their values.

    Parameters
    ----------
    answers
        Of the values of all parts, one part behind another, and then of a missing value, where the column has some.

    Returns
    -------
    ColumnBuffers or None
        None: they are neither strings nor numbers of up to 8 bytes, or others than missing values are missing.
    """
    strings = answers.strings
    if strings is None and (answers.values is None or answers.itemsize > 8 or answers.children):
        return None
    assert not isinstance(strings, HostStrings)
    column = answers if strings is None else strings
    if column.null_count != (node.null_count > 0):
        return None
    if column.null_count:
        bit = column.validity_offset + answers.rows - 1
        assert isinstance(column.validity, int)
        if lane.read(column.validity + bit // 8, 1, np.uint8)[0] >> bit % 8 & 1:
            return None
    result = ColumnBuffers(answers.type, node.rows, node.null_count)
    if strings is not None:
        result.strings = with_values(node, _spread_values(node, strings, lane), lane)
        return result
    out, row, first = lane.allocate(node.rows * answers.itemsize), 0, 0
    for part in node.segments:
        table = answers.values + first * answers.itemsize
        answers_of.remap(part, table, answers.itemsize, out.ptr + row * answers.itemsize, lane=lane)
        row, first = row + part.rows, first + part.values.rows
    mask = validity(node, lane=lane)
    result.validity, result.values, result.itemsize = None if mask is None else mask.ptr, out.ptr, answers.itemsize
    result.owners = mask, out
    return result


def _spread_values(node: Node, strings: DeviceStrings, lane: Lane) -> list[NewValues]:
    """Answers as the values of each part; waits for their lengths."""
    keep_few(node.segments, lane)
    itemsize, first, fetched = strings.offsets_itemsize, 0, []
    for part in node.segments:
        count = part.values.rows
        fetched.append(lane.fetch(strings.offsets + first * itemsize, count + 1, f"i{itemsize}"))
        first += count
    lane.synchronize()
    per_part, first = [], 0
    for part, offsets in zip(node.segments, fetched, strict=True):
        lengths = np.diff(offsets)
        at = strings.offsets + first * itemsize
        dictionary_of = cuda_text.Dictionary(strings.chars, at, itemsize, lengths.size, int(lengths.max(initial=0)))
        known = part.known.few
        per_part.append(NewValues(dictionary_of, known is not None and lengths.tolist() == list(map(len, known.rows))))
        first += lengths.size
    return per_part
