"""Row groups read with libcudf, and compressed in GPU memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from .. import index as indexes
from ..backend import DeviceBackend, SeriesTask
from ..codecs.node import Content, Node
from ..compressing import check_codecs
from ..index import CompressedIndex
from ..interop import cudf as interop
from ..interop.cudf_parquet import Begun, Chunk, ParquetFiles
from .reads import Ahead, Compressed, Read, shares, sizes
from .sources import ParquetSource, Piece, reading


class _Frame(NamedTuple):
    """Some columns of a piece.

    Attributes
    ----------
    columns : list
        As `interop.cudf.describe` takes them.
    places : sequence of int
        In the whole frame.
    index : cudf.Index or None
        Of the piece, unless it is a range or another one has it.
    rows : int
        0 where another one of the piece has them.
    """

    columns: list[Any]
    places: Sequence[int]
    index: Any
    rows: int


class DeviceReader:
    """Read pieces, and compress what was read; see `HostReader`.

    Columns and index are what cuDF makes of them. Threads read several pieces at the same time, each in a stream of its
    own: libcudf takes 26 ms for a piece of 2.4 million rows of TPC-H's lineitem, and 33 ms for four of them, so one
    after another they would leave the GPU idle. Columns of large pieces are read, and compressed, some at a time.
    """

    # Compressing takes the main thread 2 ms a call and 0.3 a column, so several reads are compressed at once. With less
    # ahead the readers are idle, more takes memory, and in the beginning there is no result yet. docs/kernels.md has
    # what was tried.
    ahead = Ahead(threads=6, nbytes=3072 << 20, at_once=6, at_least=3, early_nbytes=768 << 20)

    def __init__(self, source: ParquetSource, codecs: Mapping[Any, str] | None, level: str, begun: Begun) -> None:
        self.backend = DeviceBackend()
        self._source = source
        names = source.schema.names
        keys = {name: values for name, values in source.keys.items() if name in names}
        columns = None
        if source.columns is not None:
            columns = [name for name in names if name not in keys and name not in source.levels]
        begun.ranges.update(
            {
                path: file_ranges
                for path, file_ranges in zip(source.paths, source.ranges, strict=True)
                if file_ranges is not None
            }
        )
        with reading(source.paths[0]):
            files = ParquetFiles(source.paths, columns, source.levels, keys, source.filters, begun)
        self._files = files
        self._keys = list(keys)
        #: Of the frame's columns.
        self.labels = files.labels
        codec_of = check_codecs(codecs, self.labels, {name: str(name) for name in codecs or ()})
        self._codecs = [codec_of.get(label) for label in self.labels]
        self._strings = {"tile_size": "auto", "level": level}
        #: Names that are read, but those of the index.
        self._names = [name for name in names if name not in keys and name not in source.levels]
        self._sizes = None
        if source.pieces:
            largest = max(source.pieces, key=lambda piece: piece.rows)
            self._sizes = sizes(largest, [name for name in source.file_schema.names if name not in source.keys])
            shares_of_names = shares(self._names, self._sizes, largest.rows)
            places = iter(range(len(self._names)))
            self._shares = [
                (names_of_share, [next(places) for _ in names_of_share]) for names_of_share in shares_of_names
            ]
            self._shares[0] = [*source.levels, *self._shares[0][0]], self._shares[0][1]
            # What takes longest is read first, so that nothing waits for it alone at the end.
            nbytes_of_shares = [self._nbytes(largest, names) for names, _ in self._shares]
            self._order = sorted(range(len(self._shares)), key=lambda share: -nbytes_of_shares[share])
        self.reads = list(self._planned())

    def _planned(self) -> Iterator[Read]:
        """All reads, piece by piece; without pieces one of a frame without rows."""
        source, files = self._source, self._files
        if not source.pieces:
            yield Read(0, 0, 0, lambda: files.empty)
        for number, piece in enumerate(source.pieces):
            if source.filters is not None:
                yield Read(number, 0, self._nbytes(piece, self._names), partial(self._filtered, piece))
                continue
            for share in self._order:
                names = self._shares[share][0]
                call, table_nbytes = partial(self._scanned, piece, names), self._table_nbytes(piece, names)
                yield Read(number, share, self._nbytes(piece, names), call, table_nbytes)

    def _nbytes(self, piece: Piece, names: Sequence[str]) -> int:
        """Memory that it takes to read columns of a piece, about."""
        if self._sizes is None:
            return self.ahead.nbytes
        sizes_of_columns = [self._sizes[name] for name in names]
        return round(piece.rows * sum(size.table + size.encoded for size in sizes_of_columns))

    def _table_nbytes(self, piece: Piece, names: Sequence[str]) -> int | None:
        """The part of `_nbytes` that the columns themselves take; None where that is not known."""
        return None if self._sizes is None else round(piece.rows * sum(self._sizes[name].table for name in names))

    def _filtered(self, piece: Piece) -> Any:
        with reading(piece.path):
            frame = self._files.read(piece.path, piece.groups, self._keys_of(piece))
        interop.hand_over()
        return frame

    def _scanned(self, piece: Piece, names: Sequence[str]) -> Any:
        if not names:
            return self._files.no_columns(piece.rows)
        with reading(piece.path):
            return self._files.scan(piece.path, piece.groups, names)

    def _keys_of(self, piece: Piece) -> dict[str, Any]:
        return {name: piece.keys[name] for name in self._keys}

    @contextmanager
    def working(self) -> Iterator[None]:
        """A context: at its end, all that was read and compressed within it is complete on the GPU."""
        with self.backend.apart() as self._apart:
            yield

    def compress(self, frames_read: Sequence[tuple[Read, Any]]) -> list[Compressed]:
        """Compress frames that were read; together they wait no more often than one."""
        chunks = [data for _, data in frames_read if isinstance(data, Chunk)]
        # Index, keys and filtered rows are made in the default stream.
        plain = len(chunks) == len(frames_read) and all(chunk.plain for chunk in chunks) and not interop.spills()
        side_by_side = plain and not self._source.levels and not self._keys
        frames = [self._frame(read, data) for read, data in frames_read]
        with self._apart.work(beside=side_by_side):
            try:
                if self._source.levels:
                    return [self._compressed([frame])[0] for frame in frames]
                return self._compressed(frames)
            finally:
                for chunk in chunks:
                    chunk.done()

    def _frame(self, read: Read, data: Any) -> _Frame:
        """What was read, and the places of its columns."""
        first, levels = read.share == 0, bool(self._source.levels)  # which has index and keys as well
        if not self._source.pieces or self._source.filters is not None:
            return self._of_frame(data, range(len(self.labels)), labels=levels, first=True)
        places = self._shares[read.share][1]
        if isinstance(data, Chunk):
            if not levels and not self._keys:
                columns = self._files.columns(data, places)
                if columns is not None:
                    return _Frame(columns, places, None, columns[0].plc_column.size() * first)
            data = self._files.frame(data, places)
        if first and self._keys:
            data = self._files.with_keys(data, self._keys_of(self._source.pieces[read.piece]))
            places = [*places, *range(len(self.labels) - len(self._keys), len(self.labels))]
        return self._of_frame(data, places, labels=first and levels, first=first)

    @staticmethod
    def _of_frame(data: Any, places: Sequence[int], *, labels: bool, first: bool) -> _Frame:
        return _Frame(interop.columns(data), places, data.index if labels else None, len(data) * first)

    def _compressed(self, frames: Sequence[_Frame]) -> list[Compressed]:
        """All columns of frames; of one that has an index, that as well."""
        tasks = [
            SeriesTask(column, self._codecs[place], self._strings, partial("column {!r}".format, self.labels[place]))
            for frame in frames
            for place, column in zip(frame.places, frame.columns, strict=True)
        ]
        index = None
        if frames[0].index is not None:
            contents, index = indexes.compress_with(tasks, frames[0].index, self.backend)
        else:
            contents, _ = self.backend.compress(tasks)
        columns = iter(self.backend.adopt(contents, self._apart))
        return [
            Compressed(
                {place: next(columns) for place in frame.places},
                None if frame.index is None else index,
                frame.rows,
            )
            for frame in frames
        ]

    def join(self, contents: Sequence[Content], node: Node) -> Content:
        """A column of its pieces, whose nodes were joined."""
        return Content(node, contents[0].type, contents[0].stored)

    def ranges(self, levels: Sequence[tuple[range, Any]]) -> CompressedIndex:
        """An index that is a range, the first of `levels`: cuDF reads no other ranges."""
        bounds, name = levels[0]
        cudf_index = interop.cudf_module().RangeIndex(bounds, name=name)
        index = indexes.of_range(cudf_index)
        assert index is not None
        return index
