"""Labels of rows: the index of a column or a frame, which both keep in the same way and may share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

import pandas as pd

from .backend import Backend, DeviceBackend, HostBackend, SeriesTask
from .backend.content import Described
from .buffers import ColumnBuffers
from .codecs.node import Content, Node
from .files.columns import Loaded
from .interop import arrow_columns, index_stream
from .interop import cudf as interop_cudf
from .interop import pandas as interop_pandas
from .interop.dtypes import has_integers
from .interop.indexes import assemble_index, in_version_1
from .interop.names import decode_name, encode_name
from .naming import naming


class CompressedIndex:
    """An index that does not change: notes on its kind, names and dtypes, and its levels, compressed.

    Two others have no levels yet. The index of a pandas Series is kept as it is: it is in host memory, shared with the
    Series, and may hold what Arrow does not. And a file of version 1 has an Arrow stream, which is read when the index
    is asked for, since a file of few bytes may describe an index of many.

    Parameters
    ----------
    notes : dict
        For `assemble_index`; of a RangeIndex its three numbers.
    rows : int
        Labels.
    levels : sequence of Content
        None of a RangeIndex.
    names : sequence of hashable, optional
        Names of the levels, if they are not those of the notes; any that pandas takes.
    kept : pandas.Index, optional
        The index itself.
    stream : bytes or pyarrow.Table, optional
        The levels as an Arrow IPC stream that has not been read, or as columns that were.
    """

    __slots__ = ("_names", "_pandas_index", "_shared_indexes", "_stream", "levels", "notes", "rows")

    def __init__(
        self,
        notes: dict[str, Any],
        rows: int,
        levels: Sequence[Content] = (),
        *,
        names: Sequence[Any] | None = None,
        pandas_index: Any = None,
        stream: Any = None,
    ) -> None:
        self.notes, self.rows, self.levels = notes, rows, tuple(levels)
        self._names, self._pandas_index, self._stream = names, pandas_index, stream
        self._shared_indexes: list[tuple[str, ref[Any]]] = []  # by place, what `shared` gave

    def __len__(self) -> int:
        return self.rows

    def __reduce__(self) -> tuple[Any, ...]:
        pandas_index = self._pandas_index if self._stream is None else None
        return _restore, (self.notes, self.rows, self.levels, self._names, pandas_index, self._stream)

    @property
    def nodes(self) -> list[Node]:
        """Buffers of the levels, which are read along with those of columns."""
        return [level.node for level in self.levels]

    @property
    def names(self) -> list[Any]:
        """Names of the levels."""
        if self._pandas_index is not None:
            return list(self._pandas_index.names)
        if self._names is not None:
            return list(self._names)
        return [decode_name(name) for name in self.notes["names"]]

    @property
    def is_pandas(self) -> bool:
        """Whether it is an index of pandas, which is not compressed."""
        return self._pandas_index is not None

    @property
    def nbytes(self) -> int:
        """Bytes of its levels, compressed; of an index of pandas that is kept, what pandas says of it."""
        if self._pandas_index is not None:
            return interop_pandas.nbytes(self._pandas_index)
        if isinstance(self._stream, bytes):
            return len(self._stream)
        return sum(level.node.nbytes for level in self.levels) + (0 if self._stream is None else self._stream.nbytes)

    @property
    def uncompressed_nbytes(self) -> int:
        """Bytes of its levels in Arrow; of one that has none yet, what it takes."""
        if self._pandas_index is not None or self._stream is not None:
            return self.nbytes
        return sum(level.node.uncompressed_nbytes for level in self.levels)

    def is_same(self, other: CompressedIndex) -> bool:
        """Whether it is surely equal to another one: the same, or a range of the same labels."""
        if self is other:
            return True
        kept = (self._pandas_index, self._stream, other._pandas_index, other._stream)
        ranges = not (self.levels or other.levels) and all(labels is None for labels in kept)
        return ranges and self.notes == other.notes

    # Labels -------------------------------------------------------------------------------------------------------

    def to_library(self, backend: Backend) -> Any:
        """The index as the library has it, where the backend's columns are."""
        if self._pandas_index is None and self._stream is None:
            return self.build(backend, backend.read(self.nodes) if self.levels else [])
        index = interop_pandas.view(self._as_pandas())
        return index if backend.device == "cpu" else interop_cudf.index_to_device(index)

    def shared(self, backend: Backend) -> Any:
        """The index as `to_library` gives it, which is decoded anew only when nobody holds the last one any more.

        Each of them has an Index of its own around the same values, for it may rename it.
        """
        if not self.levels:
            return self.to_library(backend)
        alive = [
            (place, reference, held) for place, reference in self._shared_indexes if (held := reference()) is not None
        ]
        held_here = next((held for place, _, held in alive if place == backend.device), None)
        if held_here is None:
            index = self.to_library(backend)
        else:
            index = backend.interop.with_names(backend.interop.view(held_here), self.names)
        self._shared_indexes = [*((place, reference) for place, reference, _ in alive), (backend.device, ref(index))]
        return index

    def build(self, backend: Backend, buffers: Sequence[ColumnBuffers], start: int = 0, stop: int | None = None) -> Any:
        """Labels of the rows ``start:stop``, of which `buffers` hold the levels."""
        if self.levels:
            read_levels = [
                (level_buffers, level.type, level.node.null_count > 0)
                for level_buffers, level in zip(buffers, self.levels, strict=True)
            ]
            return self._with_names(backend, self._assembled(backend, read_levels))
        if self._pandas_index is None and self._stream is None:
            index = self._with_names(backend, self._assembled(backend, []))
        else:
            index = self.to_library(backend)
        return index if start == 0 and stop is None else index[start:stop]

    def without_rows(self) -> Any:
        """An index of pandas of its kind, names and dtypes, for which no level is read."""
        levels = [arrow_columns.describe(arrow_columns.no_rows(level.type)) for level in self.levels]
        return self.build(HostBackend(), levels, 0, 0)

    @property
    def is_chosen_from(self) -> bool:
        """Whether `chosen` gives labels of chosen rows; else the levels are read as the columns are, for `build`."""
        return not self.levels or any(freq is not None for freq in self.notes.get("freqs", ()))

    def chosen(self, backend: Backend, rows: Any, key: slice | None = None) -> Any:
        """Labels of chosen rows.

        Parameters
        ----------
        rows
            Row numbers, where the columns are.
        key
            The slice that they come from.
        """
        index = self.to_library(backend)  # which knows what becomes of its frequency
        return index[key] if key is not None else backend.interop.take_labels(index, rows)

    def _assembled(self, backend: Backend, levels: Sequence[tuple[ColumnBuffers, Any, bool]]) -> Any:
        with naming("the index"):
            return backend.interop.build_index(self.notes, levels)

    def _with_names(self, backend: Backend, index: Any) -> Any:
        return index if self._names is None else backend.interop.with_names(index, self._names)

    def _as_pandas(self) -> Any:
        """The index of pandas that this was made of, or the one in the file's stream, which is read once.

        Raises
        ------
        ValueError
            The file it comes from holds no such index; what can be found out in memory in proportion to the file, was.
        """
        if self._pandas_index is None:
            try:
                table = index_stream.read(self._stream) if isinstance(self._stream, bytes) else self._stream
                index = assemble_index(self.notes, table.columns)
            except MemoryError:
                raise
            except Exception as error:  # whatever the libraries raise on damaged bytes is one mistake to the user
                raise ValueError(f"the stored index cannot be read: {type(error).__name__}: {error}") from error
            self._pandas_index = index if self._names is None else index.set_names(self._names)
        return self._pandas_index

    def to_pandas(self) -> Any:
        """The index of a column in host memory."""
        return self.to_library(HostBackend())

    # Elsewhere ----------------------------------------------------------------------------------------------------

    def with_levels(self, levels: Sequence[Content]) -> CompressedIndex:
        """An index of the same labels whose levels lie elsewhere."""
        return CompressedIndex(
            self.notes, self.rows, levels, names=self._names, pandas_index=self._pandas_index, stream=self._stream
        )

    def for_device(self, backend: DeviceBackend) -> CompressedIndex:
        """The index for a column that goes from host memory to a GPU; itself if it has compressed levels already."""
        if self._pandas_index is None and self._stream is None:
            return self
        return compress(interop_cudf.index_to_device(self._as_pandas()), backend)

    # Files --------------------------------------------------------------------------------------------------------

    def described(self) -> Described:
        """Notes with the names, and levels in host memory, as files of versions 2 and 3 keep them.

        Raises
        ------
        TypeError
            A name, or labels, that a file cannot give back.
        """
        if self._pandas_index is not None or self._stream is not None:
            compressed = compress(self._as_pandas(), HostBackend())
            return compressed.described()
        names = self.notes["names"] if self._names is None else [encode_name(name) for name in self._names]
        return self.notes | {"names": names}, list(self.levels)

    def for_version_1(self) -> Any:
        """The index as version 1 of the format keeps it, of pandas; None where only version 3 says it exactly."""
        if self.levels and not self._pandas_has_it:
            return None
        index = self.to_pandas()
        return index if in_version_1(index) else None

    @property
    def _pandas_has_it(self) -> bool:
        """Whether pandas' index of the levels says all of them."""
        return not any(
            dtype == {"kind": "cudf"} if dtype is not None else level.node.null_count and has_integers(level.type)
            for level, dtype in zip(self.levels, self.notes["dtypes"], strict=True)
        )


def _restore(notes: Any, rows: int, levels: Any, names: Any, pandas_index: Any, stream: Any) -> CompressedIndex:
    return CompressedIndex(notes, rows, levels, names=names, pandas_index=pandas_index, stream=stream)


def of_pandas(index: pd.Index) -> CompressedIndex:
    """An index of pandas, which is not compressed."""
    return CompressedIndex({}, len(index), pandas_index=interop_pandas.view(index))


def compress_with(
    tasks: Sequence[SeriesTask], index: Any, backend: Backend, **options: Any
) -> tuple[list[Content], CompressedIndex]:
    """Compress columns and the labels of their rows in one call; `options` are the backend's."""
    range_index = None if backend.device == "cpu" else of_range(index)
    if range_index is not None:
        return backend.compress(tasks, **options)[0], range_index
    names = list(index.names)  # which no file might be able to hold
    plain = backend.interop.with_names(backend.interop.view(index), [None] * len(names))
    contents, described = backend.compress(tasks, plain, **options)
    assert described is not None
    notes, levels = described
    return contents, CompressedIndex(notes, len(index), levels, names=names)


def of_range(index: Any) -> CompressedIndex | None:
    """A RangeIndex of cuDF; None for another index."""
    bounds = interop_cudf.range_of(index)
    if bounds is None:
        return None
    return CompressedIndex({"names": [None], "range": bounds}, len(range(*bounds)), names=[index.name])


def compress(index: Any, backend: Backend) -> CompressedIndex:
    """Compress an index by itself."""
    return compress_with([], index, backend)[1]


def of_loaded(loaded: Loaded) -> CompressedIndex:
    """The index of what a file holds."""
    return CompressedIndex(loaded.notes, loaded.rows, loaded.levels, stream=loaded.stream)
