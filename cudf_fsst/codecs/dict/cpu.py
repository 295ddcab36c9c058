"""Dictionaries on the host: strings to codes of distinct values (``distinct.py``), and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...buffers import HostStrings
from ...naming import What
from ...workers import map_items
from ..bitmap import rebased
from ..chosen import Selected
from ..node import DictPart, dict_part, of_parts, of_validity
from ..part import Packed
from ..text import cpu as text
from ..text.choose import codec_of
from ..unaligned import address, padded_copy
from ..values import cpu as fixed
from ..work import cut, run
from . import cpu_kernels as kernels
from . import few, plan
from .distinct import CodedDistinct, DictionaryRows, Distinct, sampled
from .few import Few

#: Rows of which a thread makes strings at once.
_STEP_ROWS = 2**16
#: Rows whose codes are held at a time when strings are made of them.
_WINDOW_ROWS = 2**22
#: Rows whose codes a thread checks at once: with 2^18 60 million took 50 ms on 16 cores, most of it Python's time.
_CHECKED_ROWS = 2**21
_NONE: npt.NDArray[Any] = np.empty(0, np.uint8)
# --- encoding -------------------------------------------------------------------------------------------------------


def encode(
    strings: HostStrings | DictionaryRows, kind: Any, named: bool, what: What, options: dict[str, Any]
) -> DictPart | None:
    """The part of a scope with a dictionary, or None where a codec of text alone is better."""
    rows = strings.rows
    distinct: Callable[[int], Distinct | CodedDistinct]
    if isinstance(strings, DictionaryRows):
        chars, distinct = strings.chars_nbytes, partial(CodedDistinct, strings)
    else:
        chars, distinct = int(strings.offsets[-1] - strings.offsets[0]), partial(Distinct, strings)
    if not plan.has_rows(rows, named=named):
        return None
    most = plan.most_values(rows, chars, named=named)
    if not named and not (most and plan.repeats(*sampled(strings))):
        return None
    numbering = distinct(most)
    if not numbering.complete:
        return None
    sizes = numbering.sizes
    if not plan.accepts(rows, chars, sizes.size, int(sizes.sum()), named=named):
        return None
    values = numbering.values()
    codes: list[Packed] = []
    for first, last in cut(0, rows, plan.PIECE_CODES):
        window = numbering.codes(first, last)
        if strings.validity is not None:
            window = fixed.fill_nulls(window, strings.validity, strings.validity_offset + first)
        codes += fixed.compress(window, choice=plan.CODES)
    validity: tuple[Packed, ...] = ()
    if strings.validity is not None:
        bits = rebased(strings.validity, strings.validity_offset, rows)
        validity = fixed.compress(bits, what=of_validity(what))
    compressed_values = of_parts(kind, text.compress(values, codec_of(), **options))
    return dict_part(compressed_values, tuple(codes), validity, strings.null_count, chars)


# --- decoding -------------------------------------------------------------------------------------------------------


class _Values(NamedTuple):
    """Distinct values as `cpu_kernels.expand` takes them: addresses, sizes, the characters with some bytes more."""

    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    chars: npt.NDArray[np.uint8]
    longest: int = 0


def _values(part: DictPart) -> _Values:
    strings = text.read(part.values.segments, edges=part.values.segment_edges)
    offsets, chars = strings.offsets.astype(np.int64), padded_copy(strings.chars, kernels.COPIED)
    sizes = offsets[1:] - offsets[:-1]
    return _Values(offsets[:-1] + address(chars), sizes, chars, int(sizes.max(initial=0)))


def bits_of(part: DictPart, first: int, last: int) -> npt.NDArray[np.uint8]:
    """The validity of rows, from bit 0; () without nulls."""
    indices = part.indices
    if not indices.validity:
        return _NONE
    bits = fixed.read(indices.validity, 1, first // 8, -(-last // 8), edges=indices.validity_edges)
    return rebased(bits, first % 8, last - first)


def codes_of(part: DictPart, first: int = 0, last: int | None = None) -> npt.NDArray[Any]:
    """Codes of rows; those of null rows mean nothing."""
    (parts,), (edges,) = part.indices.values, part.indices.values_edges
    return fixed.read(parts, part.itemsize, first, part.rows if last is None else last, edges=edges)


def few_of(part: DictPart) -> Few | None:
    """The values where they are a few short ones, decoded once and cached with the part; else None."""
    cached = part.known
    if cached.few is not None:
        return cached.few
    if cached.few_on_host is None and few.may_be(part.values.rows, part.values.chars_nbytes):
        cached.few_on_host = Few.of_strings(text.read(part.values.segments))
    return cached.few_on_host


def look_up(part: DictPart, answers: npt.NDArray[Any], out: npt.NDArray[Any], begin: int = 0) -> None:
    """Write the answer of the value of every row from `begin` on; of null rows it means nothing."""
    if not answers.size:  # nulls alone
        out[:] = 0
        return
    for first, last in cut(begin, begin + out.size, _WINDOW_ROWS):
        codes, into = codes_of(part, first, last), out[first - begin : last - begin]
        steps = cut(0, into.size, _STEP_ROWS)
        work = [partial(kernels.look_up_codes, codes[a:b], answers, into[a:b]) for a, b in steps]
        if not all(run(work, into.size, 0)):
            raise damaged()


def damaged() -> ValueError:
    return ValueError("damaged segment: a code of a value that the dictionary does not have")


def _lengths(codes: npt.NDArray[Any], bits: npt.NDArray[np.uint8], values: _Values) -> list[int]:
    """Characters of every `_STEP_ROWS` rows."""
    steps = cut(0, codes.size, _STEP_ROWS)
    work = [partial(kernels.expanded_chars, codes[a:b], bits, a, values.sizes) for a, b in steps]
    lengths = run(work, codes.size, 0)
    if min(lengths, default=0) < 0:
        raise damaged()
    return lengths


def appear_early(part: DictPart) -> bool:
    """Whether all values are numbered by first appearance, and appear in the first `_CHECKED_ROWS` rows."""
    seen = 0
    for rows in cut(0, min(part.rows, _CHECKED_ROWS), _STEP_ROWS):
        seen = kernels.first_seen(codes_of(part, *rows), bits_of(part, *rows), seen)
        if seen < 0 or seen == part.values.rows:
            break
    return seen == part.values.rows


def count_chars(part: DictPart) -> int:
    """Bytes of the strings of a part's rows, from its codes alone.

    Raises
    ------
    ValueError
        A code has no value. Or codes do not number the values of rows that are not null by first appearance, all of
        them.
    """
    sizes = text.row_ends(part.values.segments)
    sizes[1:] -= sizes[:-1].copy()

    def facts_of(rows: tuple[int, int]) -> tuple[int, int, int]:
        return kernels.code_facts(codes_of(part, *rows), bits_of(part, *rows), sizes)

    windows = cut(0, part.rows, _CHECKED_ROWS)
    facts = map_items(facts_of, windows)
    largest = max((largest for largest, _, _ in facts), default=-1)
    if part.null_count < part.rows and largest >= sizes.size:
        raise ValueError(f"code {largest} of {sizes.size} categories")
    # Codes of a window are of values that were seen, unless one is larger than all before. Few windows have such.
    seen = 0
    news = []
    for window, (_, last, _) in zip(windows, facts, strict=True):
        if last >= seen:
            news.append((window, seen, last + 1))
            seen = last + 1

    def are_in_order(window: tuple[int, int], number: int, end: int) -> bool:
        for step in cut(*window, _STEP_ROWS):
            number = kernels.first_seen(codes_of(part, *step), bits_of(part, *step), number)
            if number < 0 or number == end:  # what follows is of values that were seen
                break
        return number == end

    if not all(map_items(lambda new: are_in_order(*new), news)):
        raise ValueError("damaged segment: codes that do not number values by first appearance")
    if seen != sizes.size:
        raise ValueError(f"damaged segment: {sizes.size} values, of which rows have {seen}")
    return sum(chars for _, _, chars in facts)


def _write(
    codes: npt.NDArray[Any],
    bits: npt.NDArray[np.uint8],
    first: int,
    values: _Values,
    start: int,
    end: int,
    offsets: npt.NDArray[Any],
    chars: npt.NDArray[np.uint8],
) -> None:
    """Strings of codes of rows from `first` on, which are `start` to ``end - 1`` of the characters."""
    to = start, end, offsets, address(chars)
    kernels.expand(codes, bits, first, values.starts, values.sizes, values.longest, *to)


def _expand(
    codes: npt.NDArray[Any],
    bits: npt.NDArray[np.uint8],
    values: _Values,
    lengths: Sequence[int],
    position: int,
    offsets: npt.NDArray[Any],
    chars: npt.NDArray[np.uint8],
) -> int:
    """Strings of codes, the first of which begins at `position`; where the last one ends."""
    work: list[Callable[[], None]] = []
    start = position
    for (a, b), nbytes in zip(cut(0, codes.size, _STEP_ROWS), lengths, strict=True):
        work.append(partial(_write, codes[a:b], bits, a, values, position, position + nbytes, offsets[a:b], chars))
        position += nbytes
    if position > chars.size:
        raise damaged()
    run(work, codes.size, position - start)
    return position


class Coded:
    """Rows that are about to be written, a window of codes at a time: how many, and how many characters.

    As `text.cpu_joined.Unwritten`.
    """

    def __init__(self, part: DictPart, first: int, last: int) -> None:
        self.rows, self.chars = last - first, 0
        self._part, self._first, self._values = part, first, _values(part)
        self._windows = cut(first, last, _WINDOW_ROWS)
        self._held: Any = None
        if first == 0 and last == part.rows:
            self.chars = part.chars
            return
        for window in self._windows:
            self._held = self._codes(window)
            self.chars += sum(self._held[2])

    def _codes(self, window: tuple[int, int]) -> tuple[Any, Any, list[int]]:
        codes, bits = codes_of(self._part, *window), bits_of(self._part, *window)
        return codes, bits, _lengths(codes, bits, self._values)

    def write(self, position: int, offsets: npt.NDArray[Any], chars: npt.NDArray[np.uint8]) -> tuple[Any, int]:
        """Write where rows end, and their characters from `position` on; their validity or None, and nulls."""
        end = position
        for a, b in self._windows:
            decoded = self._held if len(self._windows) == 1 and self._held is not None else self._codes((a, b))
            codes, bits, lengths = decoded
            end = _expand(codes, bits, self._values, lengths, end, offsets[a - self._first : b - self._first], chars)
        if end != position + self.chars:
            raise damaged()
        bits_of_rows = bits_of(self._part, self._first, self._first + self.rows)
        if not bits_of_rows.size:
            return None, 0
        return bits_of_rows, self.rows - int(np.bitwise_count(bits_of_rows).sum(dtype=np.int64))


def take(part: DictPart, rows: Selected, *, scratch_nbytes: int) -> HostStrings:
    """Rows of a part by number, in any order, repeated or not; numbers were checked before."""
    indices, values = part.children
    (parts,), (edges,) = indices.values, indices.values_edges
    codes = fixed.take(parts, part.itemsize, rows, edges=edges, scratch_nbytes=scratch_nbytes).astype(np.int64)
    count, bits, nulls = codes.size, None, 0
    if not count:
        return HostStrings(0, _NONE, np.zeros(1, np.int32))
    if indices.validity:
        bits = fixed.take_bits(indices.validity, rows, edges=indices.validity_edges)
        valid = np.unpackbits(bits, count=count, bitorder="little")
        nulls = count - int(np.count_nonzero(valid))
        bits = bits if nulls else None
        codes[valid == 0] = 0
    if nulls == count:
        return HostStrings(count, _NONE, np.zeros(count + 1, np.int32), bits, 0, nulls)
    if int(codes.max()) >= values.rows:
        raise damaged()
    if 4 * count < values.rows:
        rows, codes = np.unique(codes, return_inverse=True)
        strings = text.take(values.segments, rows, edges=values.segment_edges)
    else:
        strings = text.read(values.segments, edges=values.segment_edges)
    if not nulls:
        return text.gather(strings, codes)
    # One more value, of no characters, for the null rows.
    offsets = np.append(strings.offsets, strings.offsets[-1:])
    codes[valid == 0] = strings.rows
    gathered = text.gather(HostStrings(strings.rows + 1, strings.chars, offsets), codes)
    return HostStrings(gathered.rows, gathered.chars, gathered.offsets, bits, 0, nulls)
