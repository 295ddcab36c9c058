"""Fixed-width values on the host: fill nulls, choose a codec, cut, compress; and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ...naming import What
from ...profiling import MEASURE
from ...workers import map_items
from ..chosen import Selected, chosen, parts_of, row_array, shares_of
from ..contract import Host
from ..jit import njit
from ..part import Packed, edges_of
from ..registry import of_values
from ..work import cut
from . import cpu_select, plan
from .launch import FILL_BLOCK

#: Bytes of values that a thread decodes at once, at least a unit.
_JOB_NBYTES = 2**22
#: Bytes of values from which `take` takes at once, and the units they lie in.
_WINDOW_NBYTES = 2**22
#: Bytes of values that `survey` holds at a time, or what a codec decodes at once, which is up to twice as much.
_WALK_NBYTES = 2**18
#: All values are decompressed, and chosen ones taken from there, where these are at least one of so many.
_DENSE = 32
#: The same in a window, of rows that ascend or descend.
_DENSE_IN_ORDER = 16
#: Bytes of values that chosen rows in no order are taken from at once, if nobody knows that there may be more.
ROOM_NBYTES = 64 << 20
#: Rows whose bits are taken at a time, a multiple of 8.
_BITS_ROWS = 1 << 20
#: Chosen rows for which no threads are started.
_FEW_ROWS = 2**12
_T = TypeVar("_T")
Edges = npt.NDArray[np.int64] | None


def side(name: str) -> Host:
    """The host side of a codec."""
    return of_values(name).host()


@njit()
def _fill(values: Any, validity: Any, offset: int, out: Any) -> None:
    for begin in range(0, values.size, FILL_BLOCK):
        last = values.dtype.type(0)
        end = min(begin + FILL_BLOCK, values.size)
        for row in range(begin, end):
            bit = offset + row
            if validity[bit >> 3] >> (bit & 7) & 1:
                last = values[row]
                break
        for row in range(begin, end):
            bit = offset + row
            if validity[bit >> 3] >> (bit & 7) & 1:
                last = values[row]
            out[row] = last


def fill_nulls(values: npt.NDArray[Any], validity: npt.NDArray[np.uint8], offset: int) -> npt.NDArray[Any]:
    """A copy in which a null row has the value of the last row before it that is not null.

    In each `FILL_BLOCK` rows by themselves: before the first such row, nulls get its value; without one, 0.
    """
    out = np.empty_like(values)
    _fill(values, validity, offset, out)
    return out


def least_nan(values: npt.NDArray[Any]) -> int:
    """The bits of the least NaN, as a number, of floating point numbers; 0: there is none but that of all ones."""
    if values.itemsize < 4:
        return 0
    nans = values[np.isnan(values.view(f"<f{values.itemsize}"))]
    least = int(nans.min()) if nans.size else 0
    return 0 if least == np.iinfo(values.dtype).max else least


@MEASURE
def choose(
    values: npt.NDArray[Any], *, floats: bool, signed: bool, codec: str | None, what: What = None
) -> plan.Choice:
    """The codec for a stream of values (unsigned integers: their bits)."""
    candidates = plan.candidates(values.itemsize, floats=floats, codec=codec)
    if len(candidates) == 1 and codec is not None:
        return candidates[0]
    sample = np.concatenate([values[start:stop] for start, stop in plan.sample_runs(values.size)])
    candidates = (
        *candidates,
        *plan.with_nan(values.itemsize, floats=floats, codec=codec, nan=least_nan(sample) if floats else 0),
    )
    measured = {
        choice: side(choice.codec).measure(sample, signed=signed, **dict(choice.options)) for choice in candidates
    }
    return plan.choose(sample.nbytes, measured, named=codec is not None, what=what)


def compress(
    values: npt.NDArray[Any],
    *,
    floats: bool = False,
    signed: bool = False,
    codec: str | None = None,
    what: What = None,
    choice: plan.Choice | None = None,
) -> tuple[Packed, ...]:
    """Compress a stream of values.

    Parameters
    ----------
    values : ndarray of uint8, uint16, uint32 or uint64
        Their bits, those under nulls filled in.
    floats, signed
        What the bits are: floating point numbers, or integers with a sign.
    codec
        Its name (`registry.values`); None: the best on a sample.
    what : str, callable or None
        What the log calls them.
    choice
        The codec, with its options; then nothing is tried.
    """
    if values.size == 0:
        return ()
    if choice is None:
        choice = choose(values, floats=floats, signed=signed, codec=codec, what=what)
    module, options = side(choice.codec), dict(choice.options)
    cut = [values[start:stop] for start, stop in plan.part_rows(values.size, values.itemsize)]
    return tuple(map_items(lambda rows: module.encode(rows, signed=signed, **options), cut))


def read(
    stream: Sequence[Packed], itemsize: int, start: int = 0, stop: int | None = None, *, edges: Edges = None
) -> npt.NDArray[Any]:
    """Values `start` to ``stop - 1`` (default: all) of a stream, as unsigned integers; `edges` as `take` has them.

    Raises
    ------
    IndexError
        The values are not there.
    ValueError
        A part is damaged.
    """
    edges = edges_of(stream) if edges is None else edges
    total = int(edges[-1])
    stop = total if stop is None else stop
    if not 0 <= start <= stop <= total:
        raise IndexError(f"values {start} to {stop} of {total}")
    out = np.empty(stop - start, f"<u{itemsize}")
    jobs: list[tuple[Packed, int, int, npt.NDArray[np.uint8]]] = []
    for number in range(*parts_of(edges, start, stop)):
        base, packed = int(edges[number]), stream[number]
        first, last = max(start - base, 0), min(stop - base, packed.rows)
        jobs.extend(
            (packed, a, b, out[base + a - start : base + b - start].view(np.uint8))
            for a, b in cut(first, last, _step(packed, _JOB_NBYTES))
        )
    if jobs:
        map_items(lambda job: _decode_some(*job), jobs)
    return out


def take(
    stream: Sequence[Packed],
    itemsize: int,
    rows: Selected,
    *,
    edges: Edges = None,
    scratch_nbytes: int = ROOM_NBYTES,
) -> npt.NDArray[Any]:
    """Values `rows` of a stream, in any order, repeated or not, as unsigned integers.

    Rows are brought together in windows, so that no unit is decoded twice, and what is held is bounded. Many rows in no
    order are taken from all the values, decompressed, which is faster.

    Parameters
    ----------
    scratch_nbytes : int
        Bytes of values that are decompressed at once.
    edges : ndarray of int64
        `edges_of` the stream, if that is at hand.

    Raises
    ------
    IndexError
        A value is not there.
    ValueError
        A part is damaged.
    """
    edges = edges_of(stream) if edges is None else edges
    total = int(edges[-1])
    if isinstance(rows, range) and len(rows) > _FEW_ROWS and abs(rows.step) <= _DENSE_IN_ORDER:
        out = np.empty(len(rows), f"<u{itemsize}")
        cpu_select.every(stream, rows, edges, out, _decode_some, lambda packed: side(packed.codec).unit(packed))
        return out
    selected = chosen(rows, total)
    if selected.a_range:
        return read(stream, itemsize, selected.lowest, selected.highest + 1, edges=edges)
    in_order = selected.ascending or selected.descending
    if not in_order and selected.rows.size * _DENSE >= total:
        out = np.empty(selected.rows.size, f"<u{itemsize}")
        span = max(scratch_nbytes // itemsize, 1)
        for start in range(selected.lowest, selected.highest + 1, span):
            values = read(stream, itemsize, start, min(start + span, selected.highest + 1), edges=edges)
            cpu_select.pick(values, selected.rows, start, out)
            del values
        return out
    out = np.empty(selected.rows.size, f"<u{itemsize}")
    step = max(1, _WINDOW_NBYTES // itemsize)
    rows, places = selected.rows, np.empty(0, np.int64)
    if len(stream) > 1 or in_order:
        if not in_order:
            rows, places = selected.sorted()
        up = rows if selected.ascending or not in_order else rows[::-1]
        shares = [
            (number, a, b)
            for number, first, last in shares_of(up, edges)
            for a, b in _windows(up, first, last, step)
            if a < b
        ]
        if up is not rows:
            shares = [(number, rows.size - b, rows.size - a) for number, a, b in shares]
    else:
        rows, places, ends = selected.grouped(step.bit_length() - 1)
        shares = [(0, int(a), int(b)) for a, b in pairwise([0, *ends]) if a < b]

    def work(share: tuple[int, int, int]) -> None:
        number, first, last = share
        packed, share_rows = stream[number], rows[first:last]
        taken = np.empty(last - first, out.dtype) if places.size else out[first:last]
        if in_order and share_rows.size * _DENSE_IN_ORDER > abs(int(share_rows[-1] - share_rows[0])):
            begin = int(min(share_rows[0], share_rows[-1]) - edges[number])
            end = int(max(share_rows[0], share_rows[-1]) - edges[number]) + 1
            span_values = np.empty(end - begin, out.dtype)
            _decode_some(packed, begin, end, span_values.view(np.uint8))
            _pick(span_values, share_rows, begin + edges[number], taken)
        else:
            side(packed.codec).take(packed, share_rows - edges[number], taken)
        if places.size:
            out[places[first:last]] = taken

    if rows.size <= _FEW_ROWS:
        for share in shares:
            work(share)
    else:
        map_items(work, shares)
    return out


@njit()
def _pick(values: Any, rows: Any, base: int, out: Any) -> None:
    for i in range(rows.size):
        out[i] = values[rows[i] - base]


def take_bits(stream: Sequence[Packed], rows: Selected, *, edges: Edges = None) -> npt.NDArray[np.uint8]:
    """A bitmap of chosen rows of a bitmap, zeros past the last."""
    edges = edges_of(stream) if edges is None else edges
    if isinstance(rows, range):
        # Bytes of the result at a time.
        bitmap = np.empty(-(-len(rows) // 8), np.uint8)
        for first_row in range(0, len(rows), _BITS_ROWS):
            part_rows = rows[first_row : first_row + _BITS_ROWS]
            first, last = min(part_rows[0], part_rows[-1]), max(part_rows[0], part_rows[-1])
            stored = read(stream, 1, first // 8, last // 8 + 1, edges=edges)
            bits = np.unpackbits(stored, bitorder="little")[first % 8 :][: last + 1 - first]
            part = np.packbits(bits[:: part_rows.step], bitorder="little")
            bitmap[first_row // 8 :][: part.size] = part
        return bitmap
    numbers = row_array(rows)
    stored = take(stream, 1, numbers >> 3, edges=edges)
    return np.packbits(stored >> (numbers & 7).astype(np.uint8) & 1, bitorder="little")


def _windows(rows: npt.NDArray[np.int64], first: int, last: int, step: int) -> list[tuple[int, int]]:
    """Cut ascending rows `first` to ``last - 1`` where their numbers pass multiples of `step`."""
    begin, end = int(rows[first]), int(rows[last - 1])
    limits = np.arange(begin // step * step + step, end + 1, step)
    return list(pairwise([first, *(np.searchsorted(rows[first:last], limits) + first).tolist(), last]))


def _step(packed: Packed, nbytes: int) -> int:
    """How many rows have at most `nbytes`, in whole units; one unit at least."""
    unit = side(packed.codec).unit(packed)
    return max(1, nbytes // (unit * packed.itemsize)) * unit


def _decode_some(packed: Packed, first: int, last: int, out: npt.NDArray[np.uint8]) -> None:
    """Decode values `first` to ``last - 1``, which need not be whole units."""
    module, size = side(packed.codec), packed.itemsize
    unit = module.unit(packed)
    begin, end = first // unit * unit, min(-(-last // unit) * unit, packed.rows)
    if begin == first and end == last:
        module.decode(packed, out, first, last)
        return
    whole_units = np.empty((end - begin) * size, np.uint8)
    module.decode(packed, whole_units, begin, end)
    out[:] = whole_units[(first - begin) * size : (last - begin) * size]


def _walk(packed: Packed, begin: int, end: int) -> Iterator[npt.NDArray[Any]]:
    """Values of a part, some at a time, each time in the same buffer; both ends are those of units."""
    module = side(packed.codec)
    step = _step(packed, _WALK_NBYTES)
    buffer = np.empty(min(step, end - begin) * packed.itemsize, np.uint8)
    for first in range(begin, end, step):
        last = min(first + step, end)
        values = buffer[: (last - first) * packed.itemsize]
        module.decode(packed, values, first, last)
        yield values.view(f"<u{packed.itemsize}")


def survey(stream: Sequence[Packed], visit: Callable[[npt.NDArray[Any]], _T]) -> list[_T]:
    """Call `visit` with the values of a stream, some at a time, so that never all of them are held.

    Parameters
    ----------
    stream
        Pieces that were checked.
    visit
        Called in threads, with up to half a MiB of the values, as unsigned integers, which it must not keep.

    Returns
    -------
    list
        What each call returned, in the order of the values.
    """
    if not stream:
        return []
    jobs = [(packed, a, b) for packed in stream for a, b in cut(0, packed.rows, _step(packed, _JOB_NBYTES))]
    return [result for results in map_items(lambda job: list(map(visit, _walk(*job))), jobs) for result in results]


def check(stream: Iterable[Packed]) -> None:
    """Raise ValueError where decoding could leave a buffer."""
    for packed in stream:
        side(packed.codec).check(packed)
