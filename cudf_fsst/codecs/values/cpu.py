"""Fixed-width values on the host: fill nulls, choose a codec, cut, compress; and back."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..fsst.cpu import num_threads
from ..jit import njit
from ..part import Packed
from . import plan
from .launch import FILL_BLOCK

#: Bytes of values that `survey` holds at a time, or what a codec decodes at once, which is up to twice as much.
_WALK_NBYTES = 2**18
_T = TypeVar("_T")


def codec_module(name: str) -> Any:
    """The host side of a codec."""
    return importlib.import_module(f"...codecs.{name}.cpu", __package__)


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
    if len(items) == 1:
        return [function(items[0])]
    with ThreadPoolExecutor(num_threads()) as threads:
        return list(threads.map(function, items))


def choose(values: npt.NDArray[Any], *, floats: bool, signed: bool, codec: str | None) -> plan.Choice:
    """The codec for a stream of values (unsigned integers: their bits)."""
    found = plan.candidates(values.itemsize, floats=floats, codec=codec)
    if len(found) == 1 and codec is not None:
        return found[0]
    sample = np.concatenate([values[start:stop] for start, stop in plan.sample_runs(values.size)])
    measured = {
        choice: codec_module(choice.codec).measure(sample, signed=signed, **dict(choice.options)) for choice in found
    }
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
        One of `plan.CODECS`; None: the best on a sample.
    """
    if values.size == 0:
        return ()
    choice = choose(values, floats=floats, signed=signed, codec=codec)
    module, options = codec_module(choice.codec), dict(choice.options)
    cut = [values[start:stop] for start, stop in plan.pieces(values.size, values.itemsize)]
    return tuple(_map(lambda piece: module.compress(piece, signed=signed, **options), cut))


def decompress(stream: Sequence[Packed], itemsize: int) -> npt.NDArray[Any]:
    """Values of a stream, as unsigned integers."""
    out = np.empty(plan.pieces_rows(stream), f"<u{itemsize}")
    ends = np.cumsum([piece.rows for piece in stream])
    jobs = [(piece, out[end - piece.rows : end].view(np.uint8)) for piece, end in zip(stream, ends, strict=True)]
    if jobs:
        _map(lambda job: codec_module(job[0].codec).decompress(*job), jobs)
    return out


def _walk(piece: Packed) -> Iterator[npt.NDArray[Any]]:
    """Values of a piece, some at a time, each time in the same room."""
    module = codec_module(piece.codec)
    unit = module.unit(piece)
    step = max(1, _WALK_NBYTES // (unit * piece.itemsize)) * unit
    room = np.empty(min(step, piece.rows) * piece.itemsize, np.uint8)
    for first in range(0, piece.rows, step):
        last = min(first + step, piece.rows)
        part = room[: (last - first) * piece.itemsize]
        module.decompress(piece, part, first, last)
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
        codec_module(piece.codec).check(piece)
