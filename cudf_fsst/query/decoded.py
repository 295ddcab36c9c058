"""Answers by decoding: the distinct values of a dictionary, piece by piece, or the whole column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend import DeviceBackend
from ..interop import pandas as interop_pandas
from .source import LOGGER, ColumnSource
from .text import bytes_named

#: Rows that get their answers at a time from those of distinct values: on the host, and on a GPU.
_HOST_ROWS, _DEVICE_ROWS = 1 << 20, 1 << 24
#: Methods whose results are strings about as long as the rows, or longer.
_AS_LONG = frozenset(
    """
    capitalize casefold center ljust lower lstrip normalize pad repeat replace rjust rstrip slice_replace strip swapcase
    title translate upper wrap zfill filter_characters insert normalize_characters normalize_spaces url_encode
    """.split()
)


@bytes_named
def row_by_row(column: ColumnSource, name: str, ask: Callable[[Any], Any], *, raw: bool = False) -> Any:
    """Ask something whose answer depends on the value of each row alone: once a distinct value where there is a choice.

    Parameters
    ----------
    column
    name
        What the log calls the call.
    ask
        Gets a Series that is labelled from 0; gives a Series with a value for each row, the same for equal values.
    raw
        Ask the library itself, where the column came from a proxy of cudf.pandas.

    Returns
    -------
    Series
        With the column's index. Needs memory for itself twice.
    """
    answers = _by_values(column, name, ask, raw)
    return in_pieces(column, name, ask, raw=raw) if answers is None else answers


def _by_values(column: ColumnSource, name: str, ask: Callable[[Any], Any], raw: bool) -> Any:
    """The answer from the values of dictionaries; None unless all rows have one."""
    backend, node = column._backend, column._content.node
    proxied = column._proxied and not raw
    # Of strings that are all missing, libraries make other results: they are for `in_pieces`.
    if proxied or not node.all_coded or column.null_count == len(column):
        return None
    interop, array = backend.interop, backend.arrays
    with backend.current():
        try:
            values = [column._series_of(buffers) for buffers in backend.values_of(node.segments)]
            if column.null_count:
                missing = int(backend.as_bits(backend.validity(node)).argmin())
                values.append(column._unlabelled(missing, missing + 1))
        except UnicodeDecodeError:  # whose row is to be named
            return None
        counts = [part.values.rows for part in node.segments]
        values = [part_values for part_values in values if len(part_values)]
        all_values = values[0] if len(values) == 1 else interop.concat_values(values)
        answers = ask(all_values)
        if isinstance(backend, DeviceBackend):
            spread = backend.spread(node, answers)
            if spread is not None:
                LOGGER.debug("%s: decoded %d distinct values", name, sum(counts))
                result = interop.series(spread, answers.name, column._index.shared(backend))
                return column._out(result) if raw else result
        step = _HOST_ROWS if backend.device == "cpu" else _DEVICE_ROWS
        pieces, first = [], 0
        for part, count in zip(node.segments, counts, strict=True):
            for start in range(0, part.rows, step):
                (codes,) = backend.read([part.indices], start, min(start + step, part.rows))
                numbers = backend.as_array(codes).view(f"<u{codes.itemsize}").astype(np.int32) + np.int32(first)
                if codes.null_count:
                    numbers = array.where(backend.as_bits(codes).view(np.bool_), numbers, np.int32(sum(counts)))
                pieces.append(interop.rows_of(answers, numbers))
            first += count
        LOGGER.debug("%s: decoded %d distinct values", name, first)
        result = pieces[0] if len(pieces) == 1 else interop.concat_values(pieces)
        result = interop.with_labels(result, column._index.shared(backend))
        return column._out(result) if raw else result


@bytes_named
def in_pieces(column: ColumnSource, name: str, ask: Callable[..., Any], *others: Any, raw: bool = False) -> Any:
    """Ask piece after piece of the decoded column; the answers, a value a row each, are joined.

    Parameters
    ----------
    column
    name
        What the log calls the call.
    ask
        Gets a Series of rows that is labelled from 0, and the same rows of the others.
    others
        Give ``(start, stop)`` their rows.
    raw
        Ask the library itself, where the column came from a proxy of cudf.pandas.

    Returns
    -------
    Series
        With the column's index. Needs memory for itself twice, and for two pieces; for itself and the decoded column
        where methods give strings that are as long as the rows, on a GPU.
    """
    backend = column._backend
    proxied = column._proxied and not raw
    interop = interop_pandas if proxied else backend.interop
    # What pandas makes of results that are all missing depends on the others.
    objects = column._is_text and backend.device == "cpu" and interop_pandas.is_object(column.dtype)
    with backend.current():
        pieces = list(column._default_pieces()) or [(0, 0)]
        # To join results that are as long as the rows takes as much memory as all rows decoded, and time. TPC-H SF 10
        # l_comment on an H200: `lstrip` 12.5 ms and `title` 91.3 in four pieces, 9.7 and 87.4 at once, 3.7 GB in both.
        if name in _AS_LONG and column._is_text and backend.device != "cpu":
            pieces = [(0, len(column))]
        results: list[Any] = []
        missing: list[int] = []  # pieces without any value
        fruitless: list[int] = []  # others without any result
        for number, (start, stop) in enumerate(pieces):
            piece = _piece(column, start, stop)
            if column._is_text and column.null_count and not others and backend.interop.all_missing(piece):
                missing.append(number)
            other_rows = [other(start, stop) for other in others]
            results.append(ask(column._out(piece) if proxied else piece, *other_rows))
            if objects and not others and missing[-1:] != [number] and results[-1].isna().all():
                fruitless.append(number)
        # Of strings that are all missing, libraries make other results: they are asked about a value with them.
        useful = [number for number in range(len(pieces)) if number not in {*missing, *fruitless}]
        repeated = [*missing, *fruitless] if useful else missing
        if repeated and (useful or fruitless):
            number = (useful or fruitless)[0]
            example = _piece(column, *pieces[number])
            present = example[results[number].notna() if objects and useful else example.notna()].iloc[:1]
            for number in repeated:
                piece = interop.concat_values([present, _piece(column, *pieces[number])])
                results[number] = ask(column._out(piece) if proxied else piece).iloc[1:]
        LOGGER.debug("%s: decoded in %d piece%s", name, len(pieces), "" if len(pieces) == 1 else "s")
        result = results[0] if len(results) == 1 else interop.concat_values(results)
        index = column._index.shared(backend)
        result = interop.with_labels(result, column._out(index) if proxied else index)
        return column._out(result) if raw else result


def _piece(column: ColumnSource, start: int, stop: int) -> Any:
    try:
        return column._unlabelled(start, stop)
    except UnicodeDecodeError:
        column._range(start, stop)  # whose error says which row it is
        raise


@bytes_named
def as_a_whole(column: ColumnSource, name: str, ask: Callable[[Any], Any]) -> Any:
    """Ask the whole decoded column."""
    LOGGER.debug("%s: decoded as a whole", name)
    return ask(column.decompress())
