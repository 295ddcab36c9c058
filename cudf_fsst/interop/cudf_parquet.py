"""Parquet files as cuDF's frames, some row groups at a time."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from ..remote import FileObject, Ranges
from ..workers import Promise, TaskGroup
from .cudf import columns as columns_of
from .cudf import cudf_module, current_device, on_device, with_dtype
from .cudf_columns import BareColumn

_T = TypeVar("_T")


class _Footer:
    """The footer of a file, parsed once for all reads; for any thread.

    Parameters
    ----------
    path : str
    ranges : Ranges or None
        What the file is read by; None: it is one of this machine.
    """

    def __init__(self, path: str, ranges: Ranges | None) -> None:
        import pylibcudf as plc

        self._ranges = ranges
        if ranges is None:
            with open(path, "rb") as file:
                source = FileObject(file)
                self._nbytes, footer = source.size, _footer_bytes(source)
        else:
            self._nbytes, footer = ranges.size, _footer_bytes(ranges)
        #: A file of its footer alone, from which no rows can be read.
        self.alone = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
        self._source = plc.io.SourceInfo([path] if ranges is None else [io.BytesIO(self.alone)])
        self._metadata = plc.io.experimental.HybridScanMetadata.from_footer_bytes(footer, self._options(None))

    def _options(self, names: Sequence[str] | None) -> Any:
        import pylibcudf as plc

        options = plc.io.parquet.ParquetReaderOptions.builder(self._source).build()
        if names is not None:
            options.set_column_names(list(names))
        return options

    def read(self, groups: Sequence[int], names: Sequence[str], stream: Any) -> tuple[list[Any], dict[str, Any]]:
        """Columns of row groups and their names, made in a stream, which is waited for."""
        import pylibcudf as plc
        import rmm
        from rmm.pylibrmm.stream import Stream

        options, numbers = self._options(names), list(groups)
        reader = plc.io.experimental.HybridScanReader.from_metadata(self._metadata)
        ranges = reader.all_column_chunks_byte_ranges(numbers, options)
        for chunk_range in ranges:
            if (
                not 0 <= chunk_range.offset <= self._nbytes
                or not 0 <= chunk_range.size <= self._nbytes - chunk_range.offset
            ):
                raise ValueError(f"{chunk_range.size} bytes at {chunk_range.offset} of a file of {self._nbytes}")
        if self._ranges is None:
            policy = plc.io.parquet_io_utils.IOSubmissionPolicy.SERIALIZE
            chunks = plc.io.parquet_io_utils.fetch_byte_ranges_to_device(self._source, ranges, policy, stream)
        else:
            chunk_bytes = self._ranges.read(
                [(chunk_range.offset, chunk_range.offset + chunk_range.size) for chunk_range in ranges]
            )
            rmm_stream = Stream(stream)
            chunks = [plc.gpumemoryview(rmm.DeviceBuffer.to_device(bytes(chunk), rmm_stream)) for chunk in chunk_bytes]
        table = reader.materialize_all_columns(numbers, chunks, options, stream)
        columns = [_without_days(column, stream) for column in table.tbl.columns()]
        stream.synchronize()
        return columns, {"columns": table.column_names(include_children=False), "child_names": table.child_names}


def _footer_bytes(file: Ranges) -> bytes:
    """A file's footer, which lies before its length and the magic bytes at the end."""
    (tail,) = file.read([(max(file.size - _TAIL, 0), file.size)])
    length = int.from_bytes(tail[:4], "little")
    if length > file.size - _TAIL:
        raise ValueError(f"a footer of {length} bytes in a file of {file.size}")
    (footer,) = file.read([(file.size - _TAIL - length, file.size - _TAIL)])
    return bytes(footer)


def _without_days(column: Any, stream: Any) -> Any:
    """Days as seconds, for cuDF has no days; it would make the seconds itself, in the default stream."""
    import pylibcudf as plc

    if column.type().id() != plc.TypeId.TIMESTAMP_DAYS:
        return column
    return plc.unary.cast(column, plc.DataType(plc.TypeId.TIMESTAMP_SECONDS), stream)


class Begun:
    """Footers and empty frames of files, for libcudf. Threads make them while pyarrow reads the same files' footers.

    Of a file of 524 row groups that takes pyarrow 13 ms, libcudf 7 for the footer and 11 for a frame without rows. Use
    it as a context, several times over as a `TaskGroup`, on the device that reads.

    Parameters
    ----------
    path, columns, filters
        What `read_parquet` is asked for.
    """

    def __init__(self, path: Any, columns: Sequence[str] | None, filters: Any) -> None:
        self._request = path, columns, filters
        self._device = on_device(current_device())
        self._group = TaskGroup(2)
        self._lock, self._footers = threading.Lock(), dict[str, Promise[_Footer]]()
        self._empty: dict[str, Promise[Any]] = {}
        #: What files are read by that are none of this machine.
        self.ranges: dict[str, Ranges] = {}

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self._group.__exit__(*error)

    def begin(self) -> None:
        """Begin to look at the file, in threads, if it is one of this machine."""
        path, columns, filters = self._request
        if isinstance(path, (str, os.PathLike)) and os.path.isfile(path):
            name = os.fsdecode(path)
            if columns is None:
                self._empty[name] = self._promise(_empty, name, None)
            if filters is None:
                self.expect(name)

    def expect(self, path: str) -> Promise[_Footer]:
        """The footer of a file, which is parsed once for all reads; in any thread."""
        with self._lock:
            if path not in self._footers:
                if len(self._footers) == _FOOTERS:  # files are read one after another
                    del self._footers[next(iter(self._footers))]
                self._footers[path] = self._promise(_Footer, path, self.ranges.get(path))
            return self._footers[path]

    def _promise(self, call: Callable[..., _T], *arguments: Any) -> Promise[_T]:
        def make() -> _T:
            with self._device:
                return call(*arguments)

        return Promise(self._group, make)

    def empty(self, path: str, columns: Sequence[str] | None) -> Any:
        """A DataFrame of columns of a file, without rows."""
        if columns is None and path in self._empty:
            return self._empty[path].result()
        if path in self.ranges:
            return _empty(io.BytesIO(self.expect(path).result().alone), columns)
        return _empty(path, columns)


def _empty(path: Any, columns: Sequence[str] | None) -> Any:
    return cudf_module().read_parquet(path, columns=columns, nrows=0, **_ONE_FILE)


class Chunk(NamedTuple):
    """Columns of row groups, their names, and the stream in which their memory is given back."""

    columns: list[Any]
    names: dict[str, Any]
    stream: Any

    @property
    def plain(self) -> bool:
        """Whether a DataFrame of it has just these buffers: nothing is made in the default stream."""
        import pylibcudf as plc

        copied_types = (plc.TypeId.LIST, plc.TypeId.STRUCT, plc.TypeId.EMPTY)
        return not any(column.type().id() in copied_types for column in self.columns)

    def done(self) -> None:
        """Have its memory reused only after the work that this thread has enqueued with it."""
        from ..device.memory import Lane

        self.stream.wait_event(Lane().event())


@cache
def _streams(device: str) -> SimpleQueue[Any]:
    """A device's streams for reading that are free at the moment."""
    del device
    return SimpleQueue()


class ParquetFiles:
    """Files of one schema.

    Frames have the labels, dtypes and index that ``cudf.read_parquet`` gives the first file, with an index that is a
    range left as it comes.

    Parameters
    ----------
    paths : sequence of str
    columns : sequence of str or None
        To read, besides those of the index; None: all.
    levels : sequence of str
        Columns of the index; none of a range.
    keys : mapping of str to list
        Of folders like ``year=2026`` the names that are wanted, and all their values.
    filters : list or None
        As ``cudf.read_parquet`` takes them.
    begun : Begun
    """

    def __init__(
        self,
        paths: Sequence[str],
        columns: Sequence[str] | None,
        levels: Sequence[str],
        keys: Mapping[str, Sequence[Any]],
        filters: Any,
        begun: Begun,
    ) -> None:
        self._columns, self._levels, self._filters, self._begun = columns, list(levels), filters, begun
        self._keys = {name: pd.Index([value for value in values if value is not None]) for name, values in keys.items()}
        if filters is None:
            begun.expect(paths[0])
        empty = begun.empty(paths[0], columns)
        #: A frame without rows.
        self.empty = self.with_keys(empty, dict.fromkeys(keys))
        #: Of its columns: a pandas.Index.
        self.labels = self.empty.columns if isinstance(self.empty.columns, pd.Index) else self.empty.columns.to_pandas()
        self._dtypes = [column.dtype for column in columns_of(self.empty)]
        self._types = [column.plc_column.type() for column in columns_of(self.empty)]

    def read(self, path: str, groups: Sequence[int], keys: Mapping[str, Any]) -> Any:
        """A DataFrame of row groups of a file that lies in folders of these keys, filtered."""
        source: Any = path
        if (ranges := self._begun.ranges.get(path)) is not None:  # cuDF would read the whole file, too
            source = io.BytesIO(bytes(ranges.read([(0, ranges.size)])[0]))
        frame = cudf_module().read_parquet(
            source, columns=self._columns, row_groups=[list(groups)], filters=self._filters
        )
        frame = frame.drop(columns=[name for name in self._keys if name in frame.columns])
        return self.with_keys(frame, keys)

    def scan(self, path: str, groups: Sequence[int], names: Sequence[str]) -> Chunk:
        """Columns of row groups of a file, for `frame`; in any thread."""
        import cupy

        footer = self._begun.expect(path).result()
        streams = _streams(current_device())
        try:
            stream = streams.get_nowait()
        except Empty:
            stream = cupy.cuda.Stream(non_blocking=True)
        try:
            return Chunk(*footer.read(groups, names, stream), stream)
        finally:
            streams.put(stream)

    def columns(self, chunk: Chunk, places: Sequence[int]) -> list[BareColumn] | None:
        """Columns of `frame` without the frame, which takes as long as half of compressing them; None: not of these."""
        if not chunk.plain or any(
            column.type() != self._types[place] for place, column in zip(places, chunk.columns, strict=True)
        ):
            return None
        return [BareColumn(column, self._dtypes[place]) for place, column in zip(places, chunk.columns, strict=True)]

    def frame(self, chunk: Chunk, places: Sequence[int]) -> Any:
        """A DataFrame of what `scan` read: columns of these places, and those of the index if they were read."""
        import pylibcudf as plc

        frame = cudf_module().DataFrame.from_pylibcudf(plc.Table(chunk.columns), metadata=chunk.names)
        if self._levels and self._levels[0] in chunk.names["columns"]:
            frame = self._with_index(frame)
        # Not the frame's own dtypes, nor its columns as Series: for 16 columns they take 7 ms, compressing them 2.5.
        for place, name, column in zip(places, list(frame), columns_of(frame), strict=True):
            dtype = self._dtypes[place]
            if column.dtype != dtype:  # pandas' notes tell of decimals another precision, of nulls object
                frame[name] = with_dtype(frame[name], dtype)
        return frame

    def no_columns(self, rows: int) -> Any:
        """A DataFrame of so many rows."""
        cudf = cudf_module()
        return cudf.DataFrame(index=cudf.RangeIndex(rows))

    def _with_index(self, frame: Any) -> Any:
        cudf = cudf_module()
        labels, names = frame[self._levels], list(self.empty.index.names)
        if len(self._levels) == 1:
            index = cudf.Index(labels[self._levels[0]], name=names[0])
        else:
            index = cudf.MultiIndex.from_frame(labels)
            index.names = names
        frame = frame.drop(columns=self._levels)
        frame.index = index
        return frame

    def with_keys(self, frame: Any, keys: Mapping[str, Any]) -> Any:
        """The frame with columns of categories for the folders that its file lies in."""
        cudf = cudf_module()
        for name, values in self._keys.items():
            code = -1 if keys[name] is None else values.get_loc(keys[name])
            codes = pd.Categorical.from_codes(np.full(len(frame), code), values)
            frame[name] = cudf.Series(codes, index=frame.index)
        return frame


#: Files whose footers are kept.
_FOOTERS = 16
#: Bytes at the end of a file, behind its footer: the footer's length, and "PAR1".
_TAIL = 8
#: For one file: no look at the folders it lies in.
_ONE_FILE: dict[str, Any] = {"dataset_kwargs": {"partitioning": None}}
