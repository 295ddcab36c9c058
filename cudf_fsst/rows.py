"""What columns and frames have in common: rows by position, piece by piece, and where they are."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from . import selection
from .arrow_types import has_floats
from .backend import Backend, DeviceBackend, HostBackend
from .backend.content import move
from .codecs.chosen import Chosen, Ordered
from .codecs.node import Content, Node, form
from .codecs.part import Leaf
from .index import CompressedIndex
from .interop import cudf as interop_cudf
from .interop import pandas as interop_pandas

#: Rows of a piece are a multiple of this.
_PIECE_ROWS = 1024

_R = TypeVar("_R", bound="Rows")


class Rows:
    """Rows of one column or more, with an index: the base of `CompressedColumn` and `CompressedFrame`."""

    __slots__ = ()

    _backend: Backend
    _index: CompressedIndex
    # Came from a cudf.pandas proxy, so what is decompressed goes back as proxies.
    _proxied: bool

    # What a column and a frame each say of themselves: nothing is a `Rows` alone --------------------------------------

    @property
    @abstractmethod
    def _contents(self) -> Sequence[Content]:
        """The columns."""

    @abstractmethod
    def _made_of(self: _R, contents: Sequence[Content], backend: Backend, index: CompressedIndex) -> _R:
        """An object of this class with other columns, without proxies."""

    @abstractmethod
    def _built(self, buffers: Sequence[Any], labels: Any) -> Any:
        """A Series or a DataFrame of what was read of the columns; `labels`: their index."""

    @abstractmethod
    def _row(self, number: int) -> Any:
        """One row, as ``iloc`` gives it."""

    @abstractmethod
    def _columns_at(self: _R, places: Sequence[int]) -> _R:
        """A frame of some of the columns, with the index; of a column itself."""

    @abstractmethod
    def _is_like(self: _R, other: _R) -> bool:
        """Whether another one of as many rows has the same labels and dtypes."""

    @abstractmethod
    def _save(self, path: Any, **options: Any) -> None:
        """Write what is in host memory to a file; see `save` and `files.save`."""

    @property
    @abstractmethod
    def uncompressed_nbytes(self) -> int:
        """Bytes in Arrow."""

    @abstractmethod
    def decompress(self) -> Any:
        """All rows, a Series or a DataFrame."""

    @abstractmethod
    def copy(self: _R) -> _R:
        """A new one, which shares everything with this one."""

    # What it is -------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._index)

    @property
    def index(self) -> Any:
        """The index, decompressed."""
        with self._backend.current():
            return self._out(self._index.to_library(self._backend))

    @property
    def device(self) -> str:
        """Where it is: ``"cpu"``, or ``"cuda:0"`` and so on."""
        return self._backend.device

    def __copy__(self: _R) -> _R:
        return self.copy()

    def __deepcopy__(self: _R, memo: object) -> _R:
        return self.copy()  # nothing in it can change

    def equals(self, other: Any) -> bool:
        """Whether another column, or frame, has the same dtypes, values, nulls and index labels.

        A frame has to have the same labels of columns, too. The name of a column does not matter.

        Parameters
        ----------
        other : object
            Anything but a column, or a frame, on the same device is not equal.

        Returns
        -------
        bool
        """
        if not isinstance(other, type(self)) or (len(self), self.device) != (len(other), other.device):
            return False
        if not self._is_like(other):
            return False
        places = self._different(other)
        if not places and self._index.is_same(other._index):
            return True
        mine, theirs = self._columns_at(places), other._columns_at(places)
        share = 0 if self.device == "cpu" else mine.uncompressed_nbytes // 32
        with self._backend.current():
            same = self._backend.interop.same
            pieces = mine._pieces(max(64 << 20, share)) or [(0, 0)]
            return all(same(mine._range(*piece), theirs._range(*piece)) for piece in pieces)

    def _different(self: _R, other: _R) -> list[int]:
        """Places of the columns that may differ from those of another one of the same dtypes: all but equal bytes.

        A column that may have a NaN differs from others for some libraries, even if it has the same bytes. For cuDF
        alone nothing differs from itself.
        """
        places, owners, pairs = set[int](), list[int](), list[tuple[Leaf, Leaf]]()
        for place, (mine, theirs) in enumerate(zip(self._contents, other._contents, strict=True)):
            may_have_nan = has_floats(mine.type)
            same_object = other is self and self.device != "cpu"
            if mine.type == theirs.type and mine.node is theirs.node and (same_object or not may_have_nan):
                continue
            if mine.type == theirs.type and not may_have_nan and form(mine.node) == form(theirs.node):
                pairs += zip(mine.node.parts, theirs.node.parts, strict=True)
                owners += [place] * (len(pairs) - len(owners))
            else:
                places.add(place)
        same = self._backend.same_bytes(pairs)
        return sorted(places.union(place for place, is_same in zip(owners, same, strict=True) if not is_same))

    # Rows -------------------------------------------------------------------------------------------------------------

    def head(self, n: int = 5) -> Any:
        """The first `n` rows, decompressed. A negative `n` gives all but the last ``-n``."""
        return self._at(slice(operator.index(n)))

    def tail(self, n: int = 5) -> Any:
        """The last `n` rows, decompressed. A negative `n` gives all but the first ``-n``."""
        return self._at(selection.last_rows(n, len(self)))

    def take(self, rows: Any, *, stream: Any = None) -> Any:
        """Rows by number, in any order. A row may come more than once.

        Parameters
        ----------
        rows : sequence of int, array or Series
            Negative numbers count from the end.
        stream : rmm or CuPy stream, optional
            The stream to work on. Only for what is on a GPU.

        Returns
        -------
        Series or DataFrame
            With the index labels of these rows. Of a column a Series, of a frame a DataFrame.

        Raises
        ------
        IndexError
            There is no such row.
        """
        return self._out(self._take(self._numbers(rows, selection.row_numbers), stream=stream))

    def filter(self, mask: Any, *, stream: Any = None) -> Any:
        """Rows where a mask is true, as in square brackets.

        ``filter`` of pandas is another thing: it selects labels.

        Parameters
        ----------
        mask : sequence of bool, array or Series
            One boolean for each row. Missing ones are False. The index of a Series is not looked at.
        stream : rmm or CuPy stream, optional
            The stream to work on. Only for what is on a GPU.

        Returns
        -------
        Series or DataFrame
            With the index labels of these rows. Of a column a Series, of a frame a DataFrame.
        """
        return self._out(self._take(self._numbers(mask, selection.mask_rows), stream=stream))

    def _at(self, key: Any) -> Any:
        """Rows by position: one row, or a Series or DataFrame."""
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._out(self._range(start, stop))
            with self._backend.current():
                rows = self._backend.row_range(start, stop, step)
            return self._out(self._take(rows, key=key))
        if not isinstance(key, (bool, np.bool_)):
            try:
                number = operator.index(key)
            except TypeError:
                pass
            else:
                return self._row(selection.row_number(number, len(self)))
        return self._out(self._take(self._numbers(key)))

    def _numbers(self, key: Any, how: Callable[[Any, int], Any] | None = None) -> Any:
        """Numbers of the rows that are selected; without `how`, the key's type says whether it is a mask."""
        return selection.numbers(key, len(self), self._backend, how)

    @property
    def _everything(self) -> tuple[Content, ...]:
        """The columns, then the levels of the index."""
        return (*self._contents, *self._index.levels)

    @property
    def _nodes(self) -> list[Node]:
        """The node of each column."""
        return [content.node for content in self._contents]

    def _take(self, rows: Any, *, key: slice | None = None, stream: Any = None) -> Any:
        """Chosen rows; `key`: the slice that they come from."""
        backend, index = self._backend, self._index
        backend.check_stream(stream)
        numbers = rows.rows if isinstance(rows, (Chosen, Ordered)) else rows
        if isinstance(rows, Chosen) and rows.a_range and backend.device == "cpu":
            key = slice(rows.lowest, rows.highest + 1)
        with backend.current():
            if index.is_chosen_from:
                labels: list[Any] = []

                def choose() -> None:
                    labels.append(index.chosen(backend, numbers, key))

                return self._built(backend.take(self._nodes, rows, stream=stream, meanwhile=choose), *labels)
            levels = index.nodes
            buffers = backend.take([*levels, *self._nodes], rows, stream=stream)
            return self._built(buffers[len(levels) :], index.build(backend, buffers[: len(levels)]))

    def _range(self, start: int, stop: int | None, stream: Any = None) -> Any:
        """Rows one after another; all of them without a `stop`, none where it is below `start`."""
        backend, index = self._backend, self._index
        with backend.current():
            levels = index.nodes
            end = stop if stop is None else max(start, stop)
            buffers = backend.read([*levels, *self._nodes], start, end, stream=stream)
            return self._built(buffers[len(levels) :], index.build(backend, buffers[: len(levels)], start, stop))

    def map_chunks(self, func: Callable[[Any], Any], *, chunk_bytes: int | None = None) -> Any:
        """Call a function on piece after piece of what is decompressed, and join the results.

        Beyond the result it needs the memory of a piece, and what the function takes. Joining needs the result once
        more.

        Parameters
        ----------
        func : callable
            It is called with a Series, or of a frame with a DataFrame, of consecutive rows and their index labels, of
            pandas or cuDF as `decompress` gives it.
        chunk_bytes : int, optional
            About how many bytes a piece has: of a column of strings its characters, else what it takes in Arrow. Of
            strings, the offsets of its rows, four bytes each, are no more than that either. A piece of strings ends at
            a multiple of 256 rows of a segment, any other at a multiple of 1,024 rows. None takes 64 MiB; on a
            GPU 2 GiB, or a fortieth of its memory where that is less.

        Returns
        -------
        Series, DataFrame or list
            Series and DataFrames are joined, and their labels kept. Other results come as a list with one for each
            piece. Without rows there is one piece.
        """
        # Proxies are joined by pandas, which is a proxy itself then.
        interop = interop_pandas if self._proxied else self._backend.interop
        with self._backend.current():
            pieces = self._pieces(selection.chunk_nbytes(chunk_bytes, on_gpu=self.device != "cpu"))
            return selection.map_pieces(func, self._piece, pieces, interop)

    def _piece(self, start: int, stop: int) -> Any:
        return self._out(self._range(start, stop))

    def _pieces(self, chunk_bytes: int) -> list[tuple[int, int]]:
        """Row ranges of about `chunk_bytes`."""
        return selection.row_pieces(len(self), self.uncompressed_nbytes, chunk_bytes, _PIECE_ROWS)

    def _default_pieces(self) -> list[tuple[int, int]]:
        return self._pieces(selection.piece_nbytes(self.uncompressed_nbytes, on_gpu=self.device != "cpu"))

    def _out(self, data: Any) -> Any:
        return interop_cudf.wrap_proxy(data) if self._proxied else data

    # Elsewhere --------------------------------------------------------------------------------------------------------

    def to_pandas(self) -> Any:
        """What `decompress` gives, as a pandas.Series or pandas.DataFrame wherever it is."""
        return self.to_host()._range(0, None)

    def to_cudf(self) -> Any:
        """What `decompress` gives, as a cudf.Series or cudf.DataFrame. From host memory it moves compressed."""
        if self.device != "cpu":
            return self._range(0, None)
        device = DeviceBackend()
        index = self._index.for_device(device)
        moved = self._made_of(self._contents, device, index)
        if index is not self._index:  # its levels are there already
            return moved._built(device.receive(self._nodes), index.to_library(device))
        levels = index.nodes
        buffers = device.receive([*levels, *self._nodes])
        return moved._built(buffers[len(levels) :], index.build(device, buffers[: len(levels)]))

    def save(
        self, path: Any, *, compression: str | None = None, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        """Write the column or the frame to a file, from which `cudf_fsst.load` reads it.

        Parameters
        ----------
        path : path, URL or file object
            Where to write. If anything fails, an older file stays as it was. A symbolic link is followed, and the
            permissions of an older file stay. A process that is killed meanwhile may leave a file
            ``.cudf-fsst-*.tmp`` beside it, which can be deleted. URLs, as ``"s3://bucket/name"``, go through fsspec:
            the file is written to a temporary one of this machine, and sent when it is complete.
        compression : str, optional
            ``"zstd"``: an outer codec over each part of the file, which is smaller then, and slower to write and load.
            The file is of version 4 of the format; its bytes depend on the release of Zstandard, too.
        storage_options : dict, optional
            For a URL: what fsspec's file system takes, as in `pandas.DataFrame.to_parquet`.

        Raises
        ------
        TypeError
            A file cannot give back the name, labels of columns or the index: an object index of mixed types, for
            example, or a name in a time zone without a name of its own.
        ValueError
            There is no such `compression`.
        OSError
            The file cannot be written.

        Notes
        -----
        docs/format.md defines the file. A column is of version 1, a frame of version 2. What these cannot say is of
        version 3: columns of values other than strings, strings with a dictionary, values that have a common divisor,
        such as dates in seconds, and some types, labels and indexes. Missing labels of an object index become None, and
        NumPy's numbers in names become Python's.
        Codec ``onpair``, and floats with a NaN where that makes them smaller, are of version 4.
        """
        options = {"compression": compression, "storage_options": storage_options}
        backend = self._backend
        if isinstance(backend, HostBackend):
            self._save(path, **options)
            return
        with backend.leaving() as (mover, arrived):
            index = self._index.with_levels(move(self._index.levels, mover))
            for part in [part for node in index.nodes for part in node.parts]:  # labels are looked at first
                arrived(part.meta)
                arrived(part.codes)
            there = self._made_of(move(self._contents, mover), HostBackend(), index)
            there._save(path, **options, arrived=arrived)

    def to_host(self: _R, *, stream: Any = None) -> _R:
        """A copy in pinned host memory, moved compressed. What is in host memory is returned itself.

        Parameters
        ----------
        stream : rmm or CuPy stream, optional
            The stream to work on. Only for what is on a GPU.
        """
        backend = self._backend
        backend.check_stream(stream)
        if isinstance(backend, HostBackend):
            return self
        return self._moved(HostBackend(), self._index, lambda parts: backend.to_host(parts, stream=stream))

    def to_device(self: _R, *, stream: Any = None) -> _R:
        """A copy in the memory of the current GPU, moved compressed. What is on a GPU is returned itself.

        Parameters
        ----------
        stream : rmm or CuPy stream, optional
            The stream to work on.

        Raises
        ------
        ImportError
            cuDF or CuPy is missing; the message says what to install.
        """
        if self.device != "cpu":
            return self
        device = DeviceBackend()
        index = self._index.for_device(device)
        return self._moved(device, index, lambda parts: device.to_device(parts, stream=stream))

    def _moved(self: _R, backend: Backend, index: CompressedIndex, mover: Callable[[Any], Any]) -> _R:
        """A copy whose parts lie elsewhere; `index` is this one's, or lies there already."""
        if index is not self._index:
            return self._made_of(move(self._contents, mover), backend, index)
        buffers, count = move(self._everything, mover), len(self._contents)
        return self._made_of(buffers[:count], backend, index.with_levels(buffers[count:]))
