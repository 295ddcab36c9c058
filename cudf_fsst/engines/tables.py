"""Tables as engines see them: columns that are in memory, in pieces of some rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .. import selection
from ..arrow_types import is_any_text, plain, within
from ..backend import Backend, DeviceBackend, HostBackend
from ..backend.content import move
from ..codecs.node import Content
from ..interop import arrow_columns
from .filter import Filter
from .predicates import Predicate

#: Arrow bytes of a piece, about.
PIECE_NBYTES = 64 << 20
_PIECE_ROWS = 1024
#: Of a piece of which more than this part of the rows is left, all are decoded.
_TAKEN_DIVISOR = 4


@dataclass(frozen=True)
class EngineTable:
    """Columns of an engine's table.

    Attributes
    ----------
    backend : Backend
    names : tuple of str
    contents : tuple of Content
    rows : int
    """

    backend: Backend
    names: tuple[str, ...]
    contents: tuple[Content, ...]
    rows: int

    def begin(self) -> EngineTable:
        """The table itself, which is in memory."""
        return self

    def select(self, names: Sequence[str]) -> EngineTable:
        """A table of some columns."""
        places = [self.names.index(name) for name in names]
        return EngineTable(self.backend, tuple(names), tuple(self.contents[place] for place in places), self.rows)

    def on_host(self) -> EngineTable:
        """The table in host memory, moved compressed; itself if it is there."""
        if self.backend.device == "cpu":
            return self
        assert isinstance(self.backend, DeviceBackend)
        return self._moved(HostBackend(), self.backend)

    def on_gpu(self) -> EngineTable:
        """The table in the memory of the current GPU, moved compressed; itself if it is on a GPU."""
        if self.backend.device != "cpu":
            return self
        backend = DeviceBackend()
        return self._moved(backend, backend)

    def _moved(self, backend: Backend, by: DeviceBackend) -> EngineTable:
        mover = by.to_host if backend.device == "cpu" else by.to_device
        return EngineTable(backend, self.names, tuple(move(self.contents, mover)) if self.contents else (), self.rows)

    def __reduce__(self) -> tuple[Any, ...]:
        there = self.on_host()
        return _restored, (self.backend.device != "cpu", self.names, there.contents, self.rows)

    @property
    def nbytes(self) -> int:
        """Arrow bytes of all rows."""
        return sum(content.node.uncompressed_nbytes for content in self.contents)

    def pieces(self, piece_nbytes: int) -> list[tuple[int, int]]:
        """Ranges of rows of about so many Arrow bytes."""
        return selection.row_pieces(self.rows, self.nbytes, piece_nbytes, _PIECE_ROWS)

    def mask(self, predicates: Sequence[tuple[str, Predicate | None]]) -> Any:
        """Rows for which all of some predicates may be true; None: any may be."""
        if not self.rows:
            return None
        with self.backend.current():
            return Filter(self.backend, [content.node for content in self.contents]).rows(predicates)

    def read(self, rows: PieceRows) -> list[Any]:
        """Rows of the columns, as `ColumnBuffers`."""
        nodes = [content.node for content in self.contents]
        with self.backend.current():
            if rows.numbers is None:
                return self.backend.read(nodes, rows.start, rows.stop)
            return self.backend.take(nodes, rows.numbers)


def _restored(on_gpu: bool, names: tuple[str, ...], contents: tuple[Content, ...], rows: int) -> EngineTable:
    """Unpickle a table; one that was on a GPU goes to the current one."""
    table = EngineTable(HostBackend(), names, contents, rows)
    return table.on_gpu() if on_gpu else table


@dataclass(frozen=True)
class PieceRows:
    """Rows of a piece: a range, or, where a filter leaves few of it, their numbers."""

    start: int
    stop: int
    numbers: Any = None

    def __len__(self) -> int:
        return self.stop - self.start if self.numbers is None else len(self.numbers)


def chosen(table: EngineTable, mask: Any, start: int, stop: int) -> PieceRows:
    """The rows of a range that a mask leaves, or all where these are many."""
    if mask is None:
        return PieceRows(start, stop)
    with table.backend.current():
        numbers = selection.mask_rows(mask[start:stop], stop - start) + start
    return PieceRows(start, stop, None if len(numbers) * _TAKEN_DIVISOR > stop - start else numbers)


def cuts(table: EngineTable, rows: range, mask: Any) -> Iterator[PieceRows]:
    """Pieces of some rows of a table, without the rows that a mask leaves out; what nothing is left of does not come.

    Parameters
    ----------
    rows : range
        Their numbers.
    mask : array of bool or None
        Of all rows of the table.
    """
    for start, stop in table.pieces(PIECE_NBYTES):
        first, last = max(start, rows.start), min(stop, rows.stop)
        if first < last and len(piece := chosen(table, mask, first, last)):
            yield piece


def readable(kind: Any) -> Any:
    """The type in which engines read a column: without runs and views within others, whose values are the same."""
    types = pa.types
    if types.is_run_end_encoded(kind):
        return readable(kind.value_type)
    if types.is_list_view(kind) or types.is_list(kind):
        return pa.list_(kind.value_field.with_type(readable(kind.value_type)))
    if types.is_large_list_view(kind) or types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(readable(kind.value_type)))
    if types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(readable(kind.value_type)), kind.list_size)
    if types.is_struct(kind):
        return pa.struct([field.with_type(readable(field.type)) for field in kind])
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, plain(kind.value_type), kind.ordered)
    return kind


def array(read: Any, kind: Any, name: str) -> Any:
    """Rows of a column as an Arrow array; strings that are not UTF-8 are refused: engines do not look."""
    rebuilt = arrow_columns.rebuild(read, readable(kind))
    if any(map(is_any_text, within(kind))):
        try:
            rebuilt.validate(full=True)
        except pa.ArrowInvalid as error:
            raise ValueError(f"column {name!r}: {error}") from None
    return rebuilt
