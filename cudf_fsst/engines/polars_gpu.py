"""The source that Polars' GPU engine asks, whose pieces are in GPU memory. It needs cudf-polars."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pylibcudf as plc
from cudf_polars.containers import Column, DataFrame, DataType
from cudf_polars.dsl import ir
from cudf_polars.streaming.rank_aware_source import RankAwareSource, SizedChunks

from ..device.memory import default_stream, hand_over, share_of_memory
from ..interop.cudf_columns import plain_column
from .polars_source import PolarsSource, mask_of
from .tables import EngineTable, PieceRows, chosen, readable

#: Arrow bytes of a piece, about: the engine's own size of a partition on large GPUs.
PIECE_NBYTES = 1 << 30


class GpuSource(PolarsSource, RankAwareSource):
    """A source for Polars' GPU engine: pieces come in GPU memory, one after another, and each rank gets others."""

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: Any,
        n_rows: int | None,
        batch_size: int | None,
        rank: int | None = None,
        nranks: int | None = None,
    ) -> Iterator[Any]:
        """Pieces of the tables, `cudf_polars.containers.DataFrame`; of Polars where its CPU engine asks.

        Parameters
        ----------
        with_columns, predicate, n_rows, batch_size
            As `PolarsSource` takes them.
        rank, nranks : int or None
            What streaming GPU engines say. All rows come, each to one rank.
        """
        if rank is None and not _is_asked_by_engine():
            return super().__call__(with_columns, predicate, n_rows, batch_size)
        names = list(self._schema) if with_columns is None else with_columns
        count, pieces = self._sized(names, self._share(rank or 0, nranks or 1, n_rows))
        return SizedChunks(count, pieces)

    def _sized(self, names: Sequence[str], rows: range) -> tuple[int, Iterator[Any]]:
        """How many pieces of some rows there are, and the pieces."""
        read = list(names) or list(self._schema)[:1]
        if not isinstance(self._tables[0], EngineTable):
            return self._of_files(names, read, rows)
        (table,) = self._tables
        used = self._used(self._where)
        needed = table.select(list(dict.fromkeys([*used, *read]))).on_gpu()
        mask, output = mask_of(needed.select(used), self._where), needed.select(read)
        rows = range(rows.start, min(rows.stop, table.rows))
        planned = _planned(output, mask, rows)
        return len(planned), (self._piece(output, names, chosen(output, mask, *bounds)) for bounds in planned)

    def _of_files(self, names: Sequence[str], read: Sequence[str], rows: range) -> tuple[int, Iterator[Any]]:
        """Pieces of files have as many rows as the first file's bytes of a row say, for the others are not open yet."""
        files = list(self._tables_of(rows))
        if not files:
            return 1, iter([self._no_rows(names)])
        first, _ = files[0]
        nbytes = first.select(read).nbytes
        step = max(share_of_memory(PIECE_NBYTES) * first.rows // max(nbytes, 1), 1)
        ranges = [
            (file, [(begin, min(begin + step, rows_of_file.stop)) for begin in rows_of_file[::step]])
            for file, rows_of_file in files
        ]
        return sum(len(rows_of_file) for _, rows_of_file in ranges), self._pieces_of_files(names, read, ranges)

    def _pieces_of_files(self, names: Sequence[str], read: Sequence[str], ranges: Sequence[Any]) -> Iterator[Any]:
        for file, pieces in ranges:
            mask = mask_of(file.select(self._used(self._where)).on_gpu(), self._where)
            table: EngineTable | None = None
            for start, stop in pieces:
                if mask is not None and not bool(mask[start:stop].any()):
                    yield self._no_rows(names)
                    continue
                table = table or file.select(read).on_gpu()
                yield self._piece(table, names, chosen(table, mask, start, stop))
            file.end()

    def _piece(self, table: EngineTable, names: Sequence[str], rows: PieceRows) -> Any:
        """Rows of a table as a DataFrame of cudf-polars."""
        dtypes = {name: DataType(self._schema[name]) for name in names}
        with table.backend.current():
            columns = [
                Column(_as(plain_column(column, readable(content.type)), dtypes[name]), dtypes[name], name=name)
                for name, column, content in zip(table.names, table.read(rows), table.contents, strict=True)
                if name in dtypes
            ]
            hand_over()
            return DataFrame(columns, default_stream()[1], num_rows=len(rows))


def _is_asked_by_engine() -> bool:
    """Whether a GPU engine calls, through Polars' own function; one that works in memory does not say so."""
    frame = sys._getframe(2)
    for _ in range(2):
        if frame.f_globals is vars(ir):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


def _planned(table: EngineTable, mask: Any, rows: range) -> list[tuple[int, int]]:
    """Ranges of rows of which so much is decoded that each fills a piece; one at least."""
    limit = share_of_memory(PIECE_NBYTES)
    ranges = [(max(a, rows.start), min(b, rows.stop)) for a, b in table.pieces(limit)]
    ranges = [(start, stop) for start, stop in ranges if start < stop] or [(0, 0)]
    if mask is None:
        return ranges
    limit_rows = max(limit * table.rows // max(table.nbytes, 1), 1)
    with table.backend.current():
        counts = table.backend.arrays.stack([mask[start:stop].sum() for start, stop in ranges]).tolist()
    planned, count_held = [ranges[0]], counts[0]
    for (start, stop), count in zip(ranges[1:], counts[1:], strict=True):
        if count_held + count <= limit_rows // 4:  # so few that they are taken by number
            planned[-1], count_held = (planned[-1][0], stop), count_held + count
        else:
            planned.append((start, stop))
            count_held = count
    return planned


def _as(column: Any, dtype: Any) -> Any:
    """A pylibcudf column as the engine has a type: decimals of 16 bytes, times in units that Polars has."""
    target = dtype.plc_type
    if dtype.id() == plc.TypeId.EMPTY:
        return plc.Column(target, column.size(), None, None, column.size(), 0, [])
    children = [column.child(i) for i in range(column.num_children())]
    if dtype.id() == plc.TypeId.LIST and children:
        (inner,) = dtype.children
        children = [children[0], _as(children[1], inner)]
    elif dtype.id() == plc.TypeId.STRUCT:
        children = [_as(child, inner) for child, inner in zip(children, dtype.children, strict=True)]
    elif column.type() != target:
        return plc.unary.cast(column, target)
    else:
        return column
    return plc.Column(target, column.size(), None, column.null_mask(), column.null_count(), column.offset(), children)
