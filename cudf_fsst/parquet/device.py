"""Row groups read with libcudf, and compressed in GPU memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from .. import index as indexes
from ..backend import Asked, DeviceBackend
from ..codecs.node import Content, Node
from ..frame import check_codecs
from ..index import CompressedIndex
from ..interop import cudf as interop
from ..interop.cudf_parquet import Chunk, ParquetFiles
from .reads import Read, shares, sizes
from .sources import Piece, Source, reading

#: Reads at the same time, at most, and memory that they may take, by what `sizes` estimates.
THREADS, MOST_NBYTES = 8, 1792 << 20


class DeviceReader:
    """Read pieces, and compress what was read; see `HostReader`.

    Columns and index are what cuDF makes of them. Some columns are read, and compressed, at a time: then less memory is
    taken for less time, and the more can be read beside it.
    """

    threads, most_nbytes = THREADS, MOST_NBYTES

    def __init__(self, source: Source, codecs: Mapping[Any, str] | None, level: str) -> None:
        self.backend = DeviceBackend()
        self._source = source
        names = source.schema.names
        keys = {name: values for name, values in source.keys.items() if name in names}
        columns = None
        if source.columns is not None:
            columns = [name for name in names if name not in keys and name not in source.levels]
        files = ParquetFiles(source.paths, columns, source.levels, keys, source.filters)
        self._files = files
        self._keys = list(keys)
        #: Of the frame's columns.
        self.labels = files.labels
        wanted = check_codecs({str(name): codec for name, codec in (codecs or {}).items()}, self.labels)
        self._codecs = [wanted.get(label) for label in self.labels]
        self._strings = {"tile_size": "auto", "level": level}
        #: Names that are read, but those of the index.
        self._names = [name for name in names if name not in keys and name not in source.levels]
        self._sizes = None
        if source.pieces:
            largest = max(source.pieces, key=lambda piece: piece.rows)
            self._sizes = sizes(largest, [name for name in source.whole.names if name not in source.keys])
            found = shares(self._names, self._sizes, largest.rows)
            places = iter(range(len(self._names)))
            self._shares = [(some, [next(places) for _ in some]) for some in found]
            self._shares[0] = [*source.levels, *self._shares[0][0]], self._shares[0][1]
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
            for share, (names, _) in enumerate(self._shares):
                yield Read(number, share, self._nbytes(piece, names), partial(self._scanned, piece, names))

    def _nbytes(self, piece: Piece, names: Sequence[str]) -> int:
        """Memory that it takes to read columns of a piece, about."""
        if self._sizes is None:
            return MOST_NBYTES
        own = [self._sizes[name] for name in names]
        return round(piece.rows * sum(one.table + one.encoded for one in own))

    def _filtered(self, piece: Piece) -> Any:
        with reading(piece.path):
            found = self._files.read(piece.path, piece.groups, self._keys_of(piece))
        interop.hand_over()
        return found

    def _scanned(self, piece: Piece, names: Sequence[str]) -> Any:
        if not names:
            return self._files.no_columns(piece.rows)
        with reading(piece.path):
            return self._files.scan(piece.path, piece.groups, names)

    def _keys_of(self, piece: Piece) -> dict[str, Any]:
        return {name: piece.keys[name] for name in self._keys}

    def compress(self, read: Read, data: Any) -> tuple[dict[int, Content], CompressedIndex | None, int]:
        """Columns by their places, index and rows of what was read; no index where that is a range."""
        whole = not self._source.pieces or self._source.filters is not None
        if whole:
            return self._compressed(data, range(len(self.labels)), index=bool(self._source.levels))
        places = self._shares[read.share][1]
        if not isinstance(data, Chunk):
            return self._with_keys(read, data, places)
        try:
            return self._with_keys(read, self._files.frame(data, places), places)
        finally:
            data.done()

    def _with_keys(
        self, read: Read, found: Any, places: Sequence[int]
    ) -> tuple[dict[int, Content], CompressedIndex | None, int]:
        first = read.share == 0  # which has index and keys as well
        if first and self._keys:
            found = self._files.with_keys(found, self._keys_of(self._source.pieces[read.piece]))
            places = [*places, *range(len(self.labels) - len(self._keys), len(self.labels))]
        columns, index, rows = self._compressed(found, places, index=first and bool(self._source.levels))
        return columns, index, rows if first else 0

    def _compressed(
        self, data: Any, places: Sequence[int], *, index: bool
    ) -> tuple[dict[int, Content], CompressedIndex | None, int]:
        asked = [
            Asked(series, self._codecs[place], self._strings, partial("column {!r}".format, self.labels[place]))
            for place, series in zip(places, interop.columns(data), strict=True)
        ]
        plain, names = indexes.unnamed(data.index, self.backend) if index else (None, [])
        columns, described = self.backend.compress(asked, plain)
        made = dict(zip(places, columns, strict=True))
        return made, indexes.of_described(described, len(data), names) if index else None, len(data)

    def join(self, contents: Sequence[Content], node: Node) -> Content:
        """A column of its pieces, whose nodes were joined."""
        return Content(node, contents[0].type, contents[0].stored)

    def range(self, start: int, stop: int, step: int, name: Any) -> CompressedIndex:
        """A RangeIndex."""
        made = interop.cudf_module().RangeIndex(start, stop, step, name=name)
        index = indexes.of_range(made, self.backend)
        assert index is not None
        return index
