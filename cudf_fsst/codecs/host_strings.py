"""Columns of strings on the host: rows go to the codec of their part, what comes of them is put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..automata import RowAutomaton
from ..buffers import HostStrings
from ..naming import What
from .bitmap import rebased
from .chosen import Selected, parts_of, row_array, shares_of
from .dict import cpu as dictionary
from .dict import plan as dict_plan
from .dict.distinct import DictionaryRows
from .node import DictPart, Node, of_parts
from .part import Part
from .registry import DICTIONARIES, is_text
from .text import cpu as text
from .text import plan as text_plan
from .text import search
from .text.choose import codecs_of
from .text.cpu_joined import DecodedRows, Unwritten, joined, put_valid
from .values.cpu import ROOM_NBYTES


def compress(
    strings: HostStrings, kind: Any, *, codec: str | None = None, table: Any = None, what: What = None, **options: Any
) -> Node:
    """Compress a column, each scope by a dictionary or by a codec of text.

    Parameters
    ----------
    strings
        The column; its characters under nulls are dropped.
    kind : pyarrow.DataType
        Of the column.
    codec : str, optional
        That of text, or of dictionaries; None: whichever is expected to be smaller, for each scope.
    table : Table, optional
        Of a codec of text, which is the codec then.
    what : str, callable or None
        What the log calls the column.
    **options
        ``tile_size`` and ``level`` of text, for distinct values too.

    Raises
    ------
    ValueError
        A wrong argument, or offsets that decrease or lie outside the characters.
    """
    of_text, named = codecs_of(codec, table, options.get("level", "default")), codec == DICTIONARIES.NAME
    if is_text(codec) or table is not None or not dict_plan.eligible(strings.rows, named=named):
        return of_parts(kind, text.compress(strings, *of_text, table=table, **options))
    strings = text.checked(strings)
    strings.chars = np.ascontiguousarray(strings.chars)
    parts: list[Part] = []
    plain: list[text.Scope] = []

    def end_plain() -> None:
        if plain:
            parts.extend(text.encode(strings, plain, of_text, **options))
            plain.clear()

    for scope in text.scopes_of(strings.offsets):
        part = dictionary.encode(_rows(strings, scope[0][0], scope[-1][1]), kind, named, what, options)
        if part is None:
            plain.append(scope)
        else:
            end_plain()
            parts.append(part)
    end_plain()
    return of_parts(kind, parts)


def _rows(strings: HostStrings, first: int, last: int) -> HostStrings:
    """Rows `first` to ``last - 1``, of the same characters."""
    rows, nulls = last - first, 0
    offset = strings.validity_offset + first
    if strings.validity is not None:
        bits = rebased(strings.validity, offset, rows)
        nulls = rows - int(np.bitwise_count(bits).sum(dtype=np.int64))
    validity = strings.validity if nulls else None
    return HostStrings(rows, strings.chars, strings.offsets[first : last + 1], validity, offset, nulls)


def compress_coded(
    coded: DictionaryRows, kind: Any, *, codec: str | None = None, what: What = None, **options: Any
) -> Node | None:
    """Compress strings that come with codes, to the bytes of `compress`; None: it would make no dictionary, or more."""
    named = codec is not None
    one_scope = text_plan.segment_count(coded.chars_nbytes) <= text_plan.segments_per_table(coded.chars_nbytes)
    if is_text(codec) or not dict_plan.eligible(coded.rows, named=named) or not one_scope:
        return None
    part = dictionary.encode(coded, kind, named, what, options)
    return None if part is None else of_parts(kind, [part])


def read(node: Node, start: int, stop: int) -> HostStrings:
    """Rows `start` to ``stop - 1`` of strings, as `text.cpu_read.read` gives them.

    Raises
    ------
    ValueError
        A part is damaged.
    """
    pieces: list[Unwritten] = []
    numbers = range(*parts_of(node.run_edges, start, stop))
    for number in numbers:
        run, base = node.runs[number], int(node.run_edges[number])
        first, last = max(start - base, 0), min(stop - base, run.rows)
        if isinstance(run, DictPart):
            pieces.append(dictionary.Coded(run, first, last))
            continue
        strings = text.read(run.segments, first, last, edges=run.segment_edges)
        if len(numbers) == 1:
            return strings
        pieces.append(DecodedRows(strings))
    return joined(pieces)


def validity(node: Node) -> tuple[npt.NDArray[np.uint8] | None, int]:
    """The validity bitmap of all rows of strings, or None where there are no nulls, and how many."""
    if not node.coded:
        return text.validity(node.segments)
    if not node.null_count:
        return None, 0
    bitmap = np.zeros(-(-node.rows // 8), np.uint8)
    for run, row in zip(node.runs, node.run_edges.tolist(), strict=False):
        bits = dictionary.bits_of(run, 0, run.rows) if isinstance(run, DictPart) else text.validity(run.segments)[0]
        put_valid(bitmap, row, run.rows, bits)
    return bitmap, node.rows - int(np.bitwise_count(bitmap).sum(dtype=np.int64))


def take(node: Node, rows: Selected, *, scratch_nbytes: int = ROOM_NBYTES) -> HostStrings:
    """Rows of strings, in any order, repeated or not, each of which is there."""
    if len(node.runs) == 1:
        return _taken(node.runs[0], rows, scratch_nbytes)
    rows = row_array(rows)
    if not rows.size:
        return read(node, 0, 0)
    places = np.empty(0, np.int64)
    order = rows
    if (np.diff(rows) < 0).any():
        places = np.argsort(rows, kind="stable")
        order = rows[places]
    by_run = [
        _taken(node.runs[number], order[first:last] - int(node.run_edges[number]), scratch_nbytes)
        for number, first, last in shares_of(order, node.run_edges)
    ]
    strings = by_run[0] if len(by_run) == 1 else joined(list(map(DecodedRows, by_run)))
    if not places.size:
        return strings
    back = np.empty(rows.size, np.int64)
    back[places] = np.arange(rows.size)
    return text.gather(strings, back)


def _taken(run: Node | DictPart, rows: Selected, scratch_nbytes: int) -> HostStrings:
    if isinstance(run, DictPart):
        return dictionary.take(run, rows, scratch_nbytes=scratch_nbytes)
    return text.take(run.segments, rows, edges=run.segment_edges, scratch_nbytes=scratch_nbytes)


def match(node: Node, plan: search.Plan) -> tuple[npt.NDArray[np.generic], bool]:
    """Answer a question about strings for every row; distinct values are asked once.

    Returns
    -------
    (ndarray of bool or int32, shape (rows,), bool)
        As `text.cpu_match.match` gives, of null rows it means nothing; and whether that is the answer: else the rows
        found are candidates.

    Raises
    ------
    OverflowError
        An answer is larger than int32.
    ValueError
        A part is damaged.
    """
    if not node.coded:
        return _searched(node, plan)
    answers, exact = np.empty(node.rows, search.answer_dtype(plan.question)), True
    for run, first in zip(node.runs, node.run_edges.tolist(), strict=False):
        out = answers[first : first + run.rows]
        if isinstance(run, Node):
            out[:], is_answer = _searched(run, plan)
        elif (few := dictionary.few_of(run)) is not None:
            dictionary.look_up(run, few.answers(plan.question), out)
            continue
        else:
            value_answers, is_answer = _searched(run.values, plan)
            dictionary.look_up(run, value_answers, out)
        exact = exact and is_answer
    return answers, exact


def accept(node: Node, machine: RowAutomaton) -> npt.NDArray[np.uint8]:
    """What an automaton says of every row of strings; distinct values are asked once.

    Returns
    -------
    ndarray of uint8, shape (rows,)
        As `text.cpu_rows.answer` gives.

    Raises
    ------
    ValueError
        A part is damaged.
    """
    from .text import cpu_rows  # compiled where it is needed

    if not node.coded:
        return cpu_rows.answer(node.segments, machine)
    answers = np.empty(node.rows, np.uint8)
    for run, first in zip(node.runs, node.run_edges.tolist(), strict=False):
        out = answers[first : first + run.rows]
        if isinstance(run, Node):
            out[:] = cpu_rows.answer(run.segments, machine)
        else:
            dictionary.look_up(run, cpu_rows.answer(run.values.segments, machine), out)
    return answers


def _searched(strings: Node, plan: search.Plan) -> tuple[npt.NDArray[np.generic], bool]:
    from .text import cpu_match  # compiled where it is needed

    return cpu_match.match(strings.segments, plan), plan.exact or search.values_of(plan.question) is not None
