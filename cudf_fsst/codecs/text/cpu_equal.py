"""Which rows of an FSST column on the host are equal to values: those of their lengths are decoded and compared.

Searching all codes for the values' ends took 1.5 to 4 times as long (TPC-H l_comment), and left rows to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import groupby

import numpy as np
import numpy.typing as npt

from ..part import edges_of
from ..unaligned import address
from ..work import cut, run
from . import cpu_equal_kernels as kernels
from .cpu import SegmentReader
from .layout import ROW_BLOCK
from .segment import Segment

#: Characters, and row blocks, that a thread looks at together; and characters of rows that it decodes together.
_CHUNK_CHARS, _CHUNK_ROW_BLOCKS, _DECODED_CHARS = 2**22, 256, 2**20
#: Rows that are at least one character of so many are decoded with all between them.
_DENSE = 4
#: Sizes of values are told apart by a table if they are at most so far from each other.
_SIZES = 2**12


class Values:
    """Values that rows are compared with.

    Attributes
    ----------
    sizes, firsts, words, word_starts : ndarray
        As `kernels.equal_rows` takes them.
    wanted : ndarray of bool
        As `kernels.rows_of_sizes` does.
    """

    def __init__(self, values: Collection[bytes]) -> None:
        padded = {value: np.frombuffer(value.ljust(-(-len(value) // 8) * 8, b"\0"), "<u8") for value in values}
        ordered = sorted(padded, key=lambda value: (len(value), padded[value].tolist()))
        groups = {size: len(list(some)) for size, some in groupby(ordered, len)}
        self.sizes = np.array(list(groups), np.int64)
        self.wanted = np.zeros(0, np.bool_)
        if self.sizes.size > 1 and self.sizes[-1] - self.sizes[0] < _SIZES:
            self.wanted = np.isin(np.arange(self.sizes[0], self.sizes[-1] + 1), self.sizes)
        self.firsts = np.cumsum([0, *groups.values()])
        self.words = np.concatenate([padded[value] for value in ordered])
        self.word_starts = np.cumsum([0, *(padded[value].size for value in ordered)])


def match(segments: Sequence[Segment], values: Collection[bytes]) -> npt.NDArray[np.bool_]:
    """Tell of every row whether it is one of some values.

    Parameters
    ----------
    segments
        Host segments.
    values

    Returns
    -------
    ndarray of bool, shape (rows,)
        False for null rows.

    Raises
    ------
    ValueError
        A segment is damaged, as far as was looked at.
    """
    edges = edges_of(segments)
    answers = np.zeros(int(edges[-1]), np.bool_)
    if not values:
        return answers
    wanted = Values(values)
    work: list[Callable[[], None]] = []
    for segment, base in zip(segments, edges.tolist(), strict=False):
        reader, blocks = SegmentReader(segment), segment.layout.row_blocks
        step = min(max(1, _CHUNK_CHARS * blocks // max(1, segment.chars)), _CHUNK_ROW_BLOCKS)
        for first, last in cut(0, blocks, step):
            out = answers[base + first * ROW_BLOCK : base + min(last * ROW_BLOCK, segment.rows)]
            work.append(partial(_match_blocks, reader, first, last, wanted, out))
    run(work, answers.size, sum(segment.chars for segment in segments))
    return answers


def _match_blocks(reader: SegmentReader, first: int, last: int, values: Values, answers: npt.NDArray[np.bool_]) -> None:
    """Compare the rows of row blocks `first` to ``last - 1``."""
    segment = reader.segment
    found, starts, sizes = (np.empty(answers.size + 1, np.int64) for _ in range(3))
    least, most = int(values.sizes[0]), int(values.sizes[-1])
    count = kernels.rows_of_sizes(reader.rows, first, last, least, most, values.wanted, found, starts, sizes)
    if count < 0:
        reader.damaged_rows(-1 - count)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(sizes[:count], out=offsets[1:])
    begin = 0
    while begin < count:
        end = int(np.searchsorted(offsets, offsets[begin] + _DECODED_CHARS, "right")) - 1
        end = min(max(end, begin + 1), count)
        lowest, highest = int(starts[begin]), int(starts[end - 1] + sizes[end - 1])
        nbytes = int(offsets[end] - offsets[begin])
        if highest - lowest <= _DENSE * nbytes:
            chars = np.empty(highest - lowest + 8, np.uint8)
            reader.decode(lowest, highest, chars[: highest - lowest])
            places = starts[begin:end] - lowest
        else:
            chars = np.empty(nbytes + 8, np.uint8)
            some = offsets[begin : end + 1] - offsets[begin]
            reader.decode_rows(starts[begin:end], np.empty(0, np.int64), some, chars, long=chars.size)
            places = some[:-1]
        kernels.equal_rows(
            found[begin:end],
            places,
            sizes[begin:end],
            address(chars),
            values.sizes,
            values.firsts,
            values.words,
            values.word_starts,
            address(answers),
        )
        begin = end
    if segment.null_count:
        bits = segment.section("validity")[first * ROW_BLOCK // 8 :]
        answers &= np.unpackbits(bits, count=answers.size, bitorder="little").view(np.bool_)
