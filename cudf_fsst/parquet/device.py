"""Row groups read with libcudf, and compressed in GPU memory: several at a time, each as if it were by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa

from .. import index as indexes
from ..backend import Asked, DeviceBackend
from ..codecs.node import Content, Node
from ..frame import check_codecs
from ..index import CompressedIndex
from ..interop import cudf as interop
from ..interop.arrow_columns import fixed_width
from ..interop.cudf_parquet import ParquetFiles
from .sources import RowGroup, Source, reading

#: Bytes of the row groups that are read at once, as they will be in GPU memory.
_BATCH_NBYTES = 384 << 20
#: Of a string in GPU memory, at least, for Parquet's encodings hide how long repeated ones are.
_STRING_NBYTES = 16


class DeviceReader:
    """Read row groups, and compress what was read; see `HostReader`.

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

    def batches(self) -> Iterator[Sequence[RowGroup]]:
        """Row groups of a file that are read at once; with a filter each by itself."""
        batch: list[RowGroup] = []
        nbytes = 0
        for one in self._source.row_groups:
            size = self._nbytes(one)
            if batch and (
                self._source.filters is not None or one.path != batch[0].path or nbytes + size > _BATCH_NBYTES
            ):
                yield batch
                batch, nbytes = [], 0
            batch.append(one)
            nbytes += size
        if batch:
            yield batch

    def _nbytes(self, one: RowGroup) -> int:
        """About how many bytes a row group takes in GPU memory; more than it takes in the file."""
        kinds = [field.type for field in self._source.schema]
        plain = [0 if pa.types.is_dictionary(kind) else fixed_width(kind) for kind in kinds]
        return max(one.nbytes, one.rows * sum(width or _STRING_NBYTES for width in plain))

    def read(self, batch: Sequence[RowGroup]) -> Any:
        """A DataFrame of row groups, with an index of its own or a RangeIndex; of none, one without rows."""
        if not batch:
            return self._files.empty
        path = batch[0].path
        with reading(path), self.backend.current():
            keys = {name: batch[0].keys[name] for name in self._keys}
            data = self._files.read(path, [one.number for one in batch], keys)
            interop.hand_over()
        return data

    def compress(
        self, data: Any, batch: Sequence[RowGroup]
    ) -> list[tuple[Sequence[Content], CompressedIndex | None, int]]:
        """Columns, index and rows of each row group; no index where that is a range."""
        pieces = [data]
        if len(batch) > 1:
            ends = [0]
            for one in batch:
                ends.append(ends[-1] + one.rows)
            pieces = [data.iloc[start:stop] for start, stop in pairwise(ends)]
        asked = []
        for piece in pieces:
            for label, series, codec in zip(self.labels, interop.columns(piece), self._codecs, strict=True):
                asked.append(Asked(series, codec, self._strings, partial("column {!r}".format, label)))
        notes: dict[str, Any] = {}
        levels = 0
        if self._source.levels:
            for piece in pieces:
                plain, names = indexes.unnamed(piece.index, self.backend)
                notes, columns = interop.describe_index(plain)
                levels = len(columns)
                asked += [Asked(level, what="the index") for level in columns]
        made, _ = self.backend.compress(asked)
        width = len(self.labels)
        found: list[tuple[Sequence[Content], CompressedIndex | None, int]] = []
        for number, piece in enumerate(pieces):
            index = None
            if levels:
                first = width * len(pieces) + levels * number
                contents = [Content(one.node, one.type, None) for one in made[first : first + levels]]
                index = CompressedIndex(notes, len(piece), contents, names=names)
            found.append((made[width * number : width * (number + 1)], index, len(piece)))
        return found

    def join(self, contents: Sequence[Content], node: Node) -> Content:
        """A column of its row groups, whose nodes were joined."""
        return Content(node, contents[0].type, contents[0].stored)

    def range(self, start: int, stop: int, step: int, name: Any) -> CompressedIndex:
        """A RangeIndex."""
        made = interop.cudf_module().RangeIndex(start, stop, step, name=name)
        index = indexes.of_range(made, self.backend)
        assert index is not None
        return index
