"""Rows that users ask for, checked, as row numbers (``c[...]``, ``take``, ``filter``, ``iloc``); pieces of rows.

The same code serves NumPy and CuPy arrays; a large selection that is on the GPU stays there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .codecs.chosen import Ordered, ascending, summarize
from .codecs.node import Node
from .codecs.text.layout import ROW_BLOCK
from .codecs.text.segment import Segment
from .interop.adapter import Adapter
from .interop.cudf import unwrap_proxy

_OFFSET_NBYTES = 4
#: Row numbers on a GPU that come to the host, which looks at them in less time than it takes to have the GPU look.
_FEW_ROWS = 4096
#: Bytes of a piece, and pieces of more, on a GPU: what decoded pieces take is less than what joining the results does.
_PIECE_NBYTES = 64 << 20
_PIECES = 4
#: Bytes of a piece of `map_chunks` where there is memory: as many as have offsets of 4 bytes. l_comment (1.6 GB) on an
#: H200, milliseconds in 4, 3, 2 pieces and one, and decompressed first: ``contains`` 5.42, 5.26, 4.78, 4.23 and 4.19;
#: ``upper`` 24.8, 24.3, 23.7, 22.3 and 21.9, of which joining takes 1.7.
_MAPPED_NBYTES = 2**31 - 1


def row_number(key: int, length: int) -> int:
    """One row's number, counted from the front."""
    if not -length <= key < length:
        raise IndexError(f"row {key} is out of range for a column of {length} rows")
    return key + length if key < 0 else key


def row_numbers(values: Any, length: int) -> Any:
    """Row numbers as int64, counted from the front.

    Parameters
    ----------
    values : ndarray of integers, one dimension
        Negative ones count from the end. An empty array may have any type.
    length : int
        Rows of the column.

    Raises
    ------
    TypeError
        No integers.
    IndexError
        A row that is not there: the message names it.
    """
    if values.ndim == 0:
        raise TypeError(
            f"rows are selected by position: an int, a slice, integers or a mask, not {_shown(values.item())}"
        )
    if values.ndim != 1:
        raise TypeError(f"rows must be selected by one dimension of integers, not {values.ndim}")
    if values.size == 0:
        return np.empty(0, np.int64)
    # Python's integers are objects where 64 bits do not hold them.
    if values.dtype.kind not in "iu" and not _holds_integers(values):
        missing = values.dtype.kind in "Of" and bool(_missing(values).any())
        what = "missing values" if missing else values.dtype
        raise TypeError(f"rows must be selected by integers, not {what}")
    lowest, highest = _extremes(values)
    if lowest < -length or highest >= length:
        wrong = lowest if lowest < -length else highest
        raise IndexError(f"row {wrong} is out of range for a column of {length} rows")
    rows = values.astype(np.int64, copy=False)
    return rows if lowest >= 0 else np.where(rows < 0, rows + length, rows)


def _extremes(values: Any) -> tuple[int, int]:
    ends = values.min(), values.max()
    if hasattr(values, "__cuda_array_interface__"):  # one wait for both
        import cupy

        ends = cupy.stack(ends).tolist()
    return int(ends[0]), int(ends[1])


def mask_rows(values: Any, length: int) -> Any:
    """Numbers of the rows where a mask is true; IndexError where it has another length than the column."""
    if values.dtype.kind == "O" and bool(_missing(values).all()):
        values = np.zeros(values.shape, bool)  # missing ones are False; nothing else says that they are booleans
    if values.ndim != 1 or (values.dtype.kind != "b" and values.size):
        raise TypeError(f"a mask must be one dimension of booleans, not {values.ndim} of {values.dtype}")
    if values.size != length:
        raise IndexError(f"a mask of {values.size} rows does not fit a column of {length} rows")
    if isinstance(values, np.ndarray):
        return values.nonzero()[0].astype(np.int64, copy=False)
    from .device.mask_rows import mask_rows as rows_on_gpu
    from .device.memory import Lane

    with Lane() as lane:
        return rows_on_gpu(values, lane=lane)


def _holds_integers(values: Any) -> bool:
    return values.dtype.kind == "O" and pd.api.types.infer_dtype(values, skipna=False) == "integer"


def _missing(values: Any) -> Any:
    return pd.isna(values) if values.dtype.kind == "O" else values != values


def _shown(value: Any) -> str:
    """A value in a message: itself where that is short, else its type."""
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


class Positions:
    """The value of ``iloc``, whose ``[key]`` gives rows."""

    def __init__(self, select: Callable[[Any], Any]) -> None:
        self._select = select

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("what is compressed does not change; decompress() gives data that does")

    def __getitem__(self, key: Any) -> Any:
        return self._select(key)


def last_rows(n: Any, length: int) -> slice:
    """Where the last `n` of `length` rows are; of a negative number, all but the first ``-n``."""
    n = operator.index(n)
    if n == 0:
        return slice(0, 0)  # as pandas has it, whose labels of no rows begin there
    return slice(max(length - n, 0), None) if n >= 0 else slice(-n, None)


def row_pieces(length: int, nbytes: int, piece_nbytes: int, unit: int) -> list[tuple[int, int]]:
    """Ranges of rows of about `piece_nbytes`, where all rows together have `nbytes`; multiples of `unit` rows."""
    if length == 0:
        return []
    step = max(1, piece_nbytes * length // max(nbytes, 1) // unit) * unit
    return [(start, min(start + step, length)) for start in range(0, length, step)]


def text_pieces(
    node: Node, chunk_bytes: int, row_starts: Callable[[Sequence[Segment]], Iterable[Any]]
) -> list[tuple[int, int]]:
    """Ranges of rows of strings, of about `chunk_bytes`: one row block at least, or whole segments.

    `row_starts` gives, of segments, how many characters lie before each of their row blocks, and before their end.
    """
    parts = node.segments
    most_rows = max(chunk_bytes // _OFFSET_NBYTES, ROW_BLOCK)
    long = [part for part in parts if part.chars > chunk_bytes or part.rows > most_rows]
    segments = [part for part in long if not part.children]
    starts = dict(zip(segments, row_starts(segments), strict=True))
    pieces: list[tuple[int, int]] = []
    base = first = chars = 0  # where the part and the piece begin, and characters of the piece
    for part in parts:
        too_long = chars + part.chars > chunk_bytes or base + part.rows - first > most_rows
        if too_long and base > first:
            pieces.append((first, base))
            first, chars = base, 0
        if part.chars > chunk_bytes or part.rows > most_rows:
            if part in starts:
                cut: Iterable[tuple[int, int]] = _cut(starts[part], part.rows, chunk_bytes, most_rows)
            else:
                nbytes = max(part.chars, _OFFSET_NBYTES * part.rows)
                cut = row_pieces(part.rows, nbytes, chunk_bytes, ROW_BLOCK)
            pieces += [(base + a, base + b) for a, b in cut]
            first = base + part.rows
        else:
            chars += part.chars
        base += part.rows
    return [*pieces, (first, base)] if base > first else pieces


def _cut(starts: Any, rows: int, chunk_bytes: int, most_rows: int) -> Iterator[tuple[int, int]]:
    """Ranges of a segment's rows, of about `chunk_bytes` characters; `starts`: those of its row blocks."""
    blocks, first = len(starts) - 1, 0
    while first < blocks:
        limit = int(starts[first]) + chunk_bytes
        # Row blocks without characters at the end of the segment count for nothing.
        last = min(max(first + 1, int(np.searchsorted(starts, np.uint64(limit), side="right")) - 1), blocks)
        last = min(last, first + most_rows // ROW_BLOCK)
        yield first * ROW_BLOCK, min(last * ROW_BLOCK, rows)
        first = last


def piece_nbytes(nbytes: int, *, on_gpu: bool) -> int:
    """Uncompressed bytes of a piece of rows that have `nbytes` together: on a GPU enough to keep all of it busy."""
    return max(_PIECE_NBYTES, nbytes // _PIECES if on_gpu else 0)


def chunk_nbytes(chunk_bytes: Any, *, on_gpu: bool) -> int:
    """The argument of `map_chunks`, checked, or what None stands for."""
    if chunk_bytes is None and on_gpu:
        from .device.memory import share_of_memory

        return share_of_memory(_MAPPED_NBYTES)
    if chunk_bytes is None:
        return _PIECE_NBYTES
    chunk_bytes = operator.index(chunk_bytes)
    if chunk_bytes <= 0:
        raise ValueError(f"chunk_bytes must be positive, not {chunk_bytes}")
    return chunk_bytes


def map_pieces(
    func: Callable[[Any], Any],
    read: Callable[[int, int], Any],
    pieces: Sequence[tuple[int, int]],
    interop: Adapter,
) -> Any:
    """The result of `map_chunks`, of pieces that `read` reads; `interop` joins the results."""
    results = [func(read(start, stop)) for start, stop in pieces or [(0, 0)]]
    if all(interop.is_frame(result) for result in results):
        return results[0] if len(results) == 1 else interop.concat(results)
    return results


def is_mask(key: Any) -> bool:
    """Whether a list or an array is one of booleans, missing ones aside; an empty list is none."""
    if getattr(getattr(key, "dtype", None), "kind", None) == "b":
        return True
    return len(key) > 0 and pd.api.types.infer_dtype(key, skipna=True) == "boolean"


def row_array(rows: Any) -> Any:
    """The numbers of selected rows, an array, whether they come as one or with facts about them."""
    return getattr(rows, "rows", rows)


def numbers(key: Any, length: int, backend: Any, how: Callable[[Any, int], Any] | None = None) -> Any:
    """Numbers of the rows that a key selects.

    Parameters
    ----------
    key
        Numbers or a mask, of any library.
    backend
        Of the rows; what is on its GPU stays there, but for a few row numbers.
    how
        `row_numbers` or `mask_rows`; None: the key's type says which.

    Returns
    -------
    ndarray of int64, Chosen or Ordered
        With the facts that are known of them; on a GPU what is there.
    """
    if how is None and (key is None or isinstance(key, (str, bytes, bool, np.bool_, tuple, dict, type(Ellipsis)))):
        raise TypeError(f"rows are selected by position: an int, a slice, integers or a mask, not {key!r}")
    key, _ = unwrap_proxy(key)
    with backend.current():
        values = backend.interop.row_values(key)
        how = how or (mask_rows if values.dtype.kind == "b" else row_numbers)
        if not isinstance(values, np.ndarray) and how is row_numbers and values.size <= _FEW_ROWS:
            values = values.get()
        if not isinstance(values, np.ndarray):
            return Ordered(how(values, length), int(how is mask_rows))
        if how is mask_rows:
            return ascending(mask_rows(values, length))
        if values.dtype == np.int64 and values.ndim == 1 and values.flags.c_contiguous and values.size:
            summary = summarize(values)
            if summary.lowest >= 0 and summary.highest < length:
                return summary
        return how(values, length)
