"""Row groups read with libcudf, and compressed in GPU memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from .. import index as indexes
from ..backend import Asked, DeviceBackend
from ..codecs.node import Content, Node
from ..frame import check_codecs
from ..index import CompressedIndex
from ..interop import cudf as interop
from ..interop.cudf_parquet import ParquetFiles
from .sources import Source, reading


class DeviceReader:
    """Read pieces, and compress what was read; see `HostReader`.

    Columns and index are what cuDF makes of them.
    """

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

    def tables(self) -> Iterator[Any]:
        """A DataFrame of each piece, with an index of its own or a RangeIndex; without pieces one without rows."""
        if not self._source.pieces:
            yield self._files.empty
        for _, some in groupby(self._source.pieces, lambda piece: piece.file):
            pieces = list(some)
            path = pieces[0].path
            keys = {name: pieces[0].keys[name] for name in self._keys}
            with reading(path):
                found: Iterator[Any]
                if self._source.filters is not None:
                    found = (self._files.read(path, piece.groups, keys) for piece in pieces)
                else:
                    groups = [number for piece in pieces for number in piece.groups]
                    found = self._files.cut(path, groups, [piece.rows for piece in pieces], keys)
                for data in found:
                    interop.hand_over()
                    yield data
                    del data

    def compress(self, data: Any) -> tuple[Sequence[Content], CompressedIndex | None, int]:
        """Columns, index and rows of a DataFrame that was read; no index where that is a range."""
        asked = [
            Asked(series, codec, self._strings, partial("column {!r}".format, label))
            for label, series, codec in zip(self.labels, interop.columns(data), self._codecs, strict=True)
        ]
        if not self._source.levels:
            return self.backend.compress(asked)[0], None, len(data)
        plain, names = indexes.unnamed(data.index, self.backend)
        columns, described = self.backend.compress(asked, plain)
        return columns, indexes.of_described(described, len(data), names), len(data)

    def join(self, contents: Sequence[Content], node: Node) -> Content:
        """A column of its pieces, whose nodes were joined."""
        return Content(node, contents[0].type, contents[0].stored)

    def range(self, start: int, stop: int, step: int, name: Any) -> CompressedIndex:
        """A RangeIndex."""
        made = interop.cudf_module().RangeIndex(start, stop, step, name=name)
        index = indexes.of_range(made, self.backend)
        assert index is not None
        return index
