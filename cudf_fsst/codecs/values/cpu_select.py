"""Values of fixed width on the host of which many are wanted: they are decompressed, some at a time, and picked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..jit import njit
from ..part import Packed
from ..work import run

#: Bytes of values that a thread decompresses at once, to pick from them.
_WINDOW_NBYTES = 2**22
#: Chosen rows that a thread takes at once.
_CHUNK_ROWS = 2**16

Decode = Callable[[Packed, int, int, npt.NDArray[np.uint8]], None]


def every(
    stream: Sequence[Packed],
    rows: range,
    edges: npt.NDArray[np.int64],
    out: npt.NDArray[Any],
    decode: Decode,
    unit: Callable[[Packed], int],
) -> None:
    """Write rows at equal distances, up or down, of a stream; all between are decompressed.

    Parameters
    ----------
    decode
        ``decode(packed, first, last, out)`` writes values of a part, which need not be whole units.
    unit
        Values of a part that are decompressed together.
    """
    work: list[Callable[[], None]] = []
    for number, packed in enumerate(stream):
        base = int(edges[number])
        step = max(1, _WINDOW_NBYTES // (unit(packed) * packed.itemsize)) * unit(packed)
        for first in range(0, packed.rows, step):
            a, b = inside(rows, base + first, base + min(first + step, packed.rows))
            if a < b:
                work.append(partial(_every, packed, rows[a:b], base, out[a:b], decode))
    run(work, len(rows), out.nbytes)


def inside(rows: range, start: int, stop: int) -> tuple[int, int]:
    """Which of rows at equal distances lie in ``start:stop``: the first one, and the one after the last."""
    if rows.step > 0:
        a, b = -((rows.start - start) // rows.step), -((rows.start - stop) // rows.step)
    else:
        a, b = -((stop - 1 - rows.start) // -rows.step), -((start - 1 - rows.start) // -rows.step)
    return min(max(a, 0), len(rows)), min(max(b, 0), len(rows))


def _every(packed: Packed, rows: range, base: int, out: npt.NDArray[Any], decode: Decode) -> None:
    begin, end = min(rows[0], rows[-1]) - base, max(rows[0], rows[-1]) + 1 - base
    span_values = np.empty(end - begin, out.dtype)
    decode(packed, begin, end, span_values.view(np.uint8))
    out[:] = span_values[:: rows.step]


def pick(values: npt.NDArray[Any], rows: npt.NDArray[np.int64], base: int, out: npt.NDArray[Any]) -> None:
    """Write those of `rows` that are ``base`` and so on, of which `values` are."""
    work = [
        partial(_pick, values, rows[a : a + _CHUNK_ROWS], base, out[a : a + _CHUNK_ROWS])
        for a in range(0, rows.size, _CHUNK_ROWS)
    ]
    run(work, rows.size, out.nbytes)


@njit()
def _pick(values: Any, rows: Any, base: int, out: Any) -> None:
    for i in range(rows.size):
        row = rows[i] - base
        if 0 <= row < values.size:
            out[i] = values[row]
