"""Fixed-width values on the host: fill nulls, choose a codec, cut, compress; and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..contract import Host
from ..fsst.cpu import num_threads
from ..jit import njit
from ..part import Packed
from ..registry import of_values
from . import plan
from .launch import FILL_BLOCK

#: Bytes of values that a thread decodes at once, at least a unit.
_JOB_NBYTES = 2**22
#: Bytes of values from which `take` takes at once, at least a unit's.
_WINDOW_NBYTES = 2**22
#: Bytes of values that `survey` holds at a time, or what a codec decodes at once, which is up to twice as much.
_WALK_NBYTES = 2**18
_T = TypeVar("_T")


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


def _map(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    count = min(num_threads(), len(items))
    if count <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(function, items))


def choose(values: npt.NDArray[Any], *, floats: bool, signed: bool, codec: str | None) -> plan.Choice:
    """The codec for a stream of values (unsigned integers: their bits)."""
    found = plan.candidates(values.itemsize, floats=floats, codec=codec)
    if len(found) == 1 and codec is not None:
        return found[0]
    sample = np.concatenate([values[start:stop] for start, stop in plan.sample_runs(values.size)])
    measured = {choice: side(choice.codec).measure(sample, signed=signed, **dict(choice.options)) for choice in found}
    return plan.choose(sample.nbytes, measured, wanted=codec is not None)


def compress(
    values: npt.NDArray[Any], *, floats: bool = False, signed: bool = False, codec: str | None = None
) -> tuple[Packed, ...]:
    """Compress a stream of values.

    Parameters
    ----------
    values : ndarray of uint8, uint16, uint32 or uint64
        Their bits, those under nulls filled in.
    floats, signed
        What the bits are: floating point numbers, or integers with a sign.
    codec
        Its name (`registry.VALUES`); None: the best on a sample.
    """
    if values.size == 0:
        return ()
    choice = choose(values, floats=floats, signed=signed, codec=codec)
    module, options = side(choice.codec), dict(choice.options)
    cut = [values[start:stop] for start, stop in plan.pieces(values.size, values.itemsize)]
    return tuple(_map(lambda piece: module.encode(piece, signed=signed, **options), cut))


def read(stream: Sequence[Packed], itemsize: int, start: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
    """Values `start` to ``stop - 1`` (default: all) of a stream, as unsigned integers.

    Raises
    ------
    IndexError
        The values are not there.
    ValueError
        A piece is damaged.
    """
    edges = edges_of(stream)
    total = int(edges[-1])
    stop = total if stop is None else stop
    if not 0 <= start <= stop <= total:
        raise IndexError(f"values {start} to {stop} of {total}")
    out = np.empty(stop - start, f"<u{itemsize}")
    jobs: list[tuple[Packed, int, int, npt.NDArray[np.uint8]]] = []
    for number in range(*_touched(edges, start, stop)):
        base, piece = int(edges[number]), stream[number]
        first, last = max(start - base, 0), min(stop - base, piece.rows)
        jobs.extend(
            (piece, a, b, out[base + a - start : base + b - start].view(np.uint8))
            for a, b in _cut(first, last, _step(piece, _JOB_NBYTES))
        )
    if jobs:
        _map(lambda job: _decode_some(*job), jobs)
    return out


def take(stream: Sequence[Packed], itemsize: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Values `rows` of a stream, in any order, repeated or not, as unsigned integers.

    The stream is cut into windows. Of each that has rows, the units that they need are decoded once, and the values
    taken from there.

    Raises
    ------
    IndexError
        A value is not there.
    ValueError
        A piece is damaged.
    """
    out = np.empty(rows.size, f"<u{itemsize}")
    if rows.size == 0:
        return out
    edges = edges_of(stream)
    if rows.min() < 0 or rows.max() >= edges[-1]:
        raise IndexError(f"values {rows.min()} to {rows.max()} of {edges[-1]}")
    pieces, starts = _windows(stream, edges)
    places = None
    if (rows[1:] < rows[:-1]).any():
        places = np.argsort(np.searchsorted(starts, rows, side="right"), kind="stable")
        rows = rows[places]
        ends = np.searchsorted(np.searchsorted(starts, rows, side="right"), np.arange(1, starts.size + 1), side="right")
    else:
        ends = np.append(np.searchsorted(rows, starts[1:]), rows.size)
    begins = np.concatenate([[0], ends[:-1]])

    def work(window: int) -> None:
        part = slice(begins[window], ends[window])
        number = pieces[window]
        found = out[part] if places is None else np.empty(part.stop - part.start, out.dtype)
        side(stream[number].codec).take(stream[number], rows[part] - edges[number], found)
        if places is not None:
            out[places[part]] = found

    _map(work, np.flatnonzero(begins < ends).tolist())
    return out


def edges_of(parts: Sequence[Any]) -> npt.NDArray[np.int64]:
    """The first row of every part, and behind them how many rows there are."""
    return np.cumsum([0, *(part.rows for part in parts)], dtype=np.int64)


def _touched(edges: npt.NDArray[np.int64], start: int, stop: int) -> tuple[int, int]:
    """The first and last (exclusive) part that have rows of a range."""
    if start == stop:
        return 0, 0
    return int(np.searchsorted(edges, start, side="right")) - 1, int(np.searchsorted(edges, stop))


def _step(piece: Packed, nbytes: int) -> int:
    """As many rows as have `nbytes`, in whole units; one unit at least."""
    unit = side(piece.codec).unit(piece)
    return max(1, nbytes // (unit * piece.itemsize)) * unit


def _cut(first: int, last: int, step: int) -> list[tuple[int, int]]:
    """Cut a range at the multiples of `step`."""
    edges = [first, *range((first // step + 1) * step, last, step), last]
    return list(pairwise(edges)) if first < last else []


def _windows(stream: Sequence[Packed], edges: npt.NDArray[np.int64]) -> tuple[list[int], npt.NDArray[np.int64]]:
    """Of every window, the number of its piece and its first row."""
    pieces: list[int] = []
    starts = []
    for number, piece in enumerate(stream):
        some = np.arange(0, piece.rows, _step(piece, _WINDOW_NBYTES), dtype=np.int64)
        pieces.extend([number] * some.size)
        starts.append(some + edges[number])
    return pieces, np.concatenate(starts)


def _decode_some(piece: Packed, first: int, last: int, out: npt.NDArray[np.uint8]) -> None:
    """Decode values `first` to ``last - 1``, which need not be whole units."""
    module, size = side(piece.codec), piece.itemsize
    unit = module.unit(piece)
    begin, end = first // unit * unit, min(-(-last // unit) * unit, piece.rows)
    if begin == first and end == last:
        module.decode(piece, out, first, last)
        return
    room = np.empty((end - begin) * size, np.uint8)
    module.decode(piece, room, begin, end)
    out[:] = room[(first - begin) * size : (last - begin) * size]


def _walk(piece: Packed) -> Iterator[npt.NDArray[Any]]:
    """Values of a piece, some at a time, each time in the same room."""
    module = side(piece.codec)
    unit = module.unit(piece)
    step = max(1, _WALK_NBYTES // (unit * piece.itemsize)) * unit
    room = np.empty(min(step, piece.rows) * piece.itemsize, np.uint8)
    for first in range(0, piece.rows, step):
        last = min(first + step, piece.rows)
        part = room[: (last - first) * piece.itemsize]
        module.decode(piece, part, first, last)
        yield part.view(f"<u{piece.itemsize}")


def survey(stream: Sequence[Packed], look: Callable[[npt.NDArray[Any]], _T]) -> list[_T]:
    """What `look` finds in the values of a stream, without ever holding them all.

    Parameters
    ----------
    stream
        Pieces that were checked.
    look
        Called in threads, with up to half a MiB of the values, as unsigned integers, which it must not keep.

    Returns
    -------
    list
        What it returned, in the order of the values.
    """
    if not stream:
        return []
    return [found for some in _map(lambda piece: list(map(look, _walk(piece))), stream) for found in some]


def check(stream: Iterable[Packed]) -> None:
    """Raise ValueError where decoding could leave a buffer."""
    for piece in stream:
        side(piece.codec).check(piece)
