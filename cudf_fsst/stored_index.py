"""An index that a column in host memory keeps as its file or a GPU had it: it is made when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from . import frame_backend
from .codecs import host
from .frame_backend import Written
from .interop import index_stream, pandas_frame, schema


class StoredIndex:
    """An index as a description and Arrow columns, exactly. It does not change.

    pandas' integers do not know missing labels, so a pandas Index of what cuDF had would not always be the same on the
    way back. And a file of few bytes may describe an index of many.

    Parameters
    ----------
    notes : dict
        What `schema.assemble_index` wants to know.
    rows : int
        Labels.
    source : bytes, pyarrow.Table or sequence of (Node, type, dtype)
        The levels: as an Arrow IPC stream that has not been read, as columns that were, or compressed.
    names : sequence of hashable, optional
        Names of the levels, if they are not those of the notes; any that pandas takes.
    """

    __slots__ = ("_made", "_names", "notes", "rows", "source")

    def __init__(self, notes: dict[str, Any], rows: int, source: Any, names: Sequence[Any] | None = None) -> None:
        self.notes, self.rows, self.source = notes, rows, source
        self._names = names
        self._made: Any = None

    def __len__(self) -> int:
        return self.rows

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredIndex, (self.notes, self.rows, self.source, self._names)

    @property
    def is_compressed(self) -> bool:
        """Whether it has levels as files of version 3 keep them."""
        return bool(self._levels)

    @property
    def in_version_1(self) -> bool:
        """Whether version 1 of the format, which knows what pandas has, can say it exactly."""
        levels = zip(self._levels, self.notes["dtypes"], strict=True) if self._levels else ()
        return not any(
            dtype == {"kind": "cudf"} if dtype is not None else node.null_count and schema.has_integers(kind)
            for (node, kind, _), dtype in levels
        )

    def described(self) -> tuple[dict[str, Any], tuple[Written, ...]]:
        """Notes with the names, and compressed levels, as files keep them."""
        names = self.notes["names"] if self._names is None else [schema.encode_name(name) for name in self._names]
        return self.notes | {"names": names}, self._levels

    @property
    def _levels(self) -> tuple[Written, ...]:
        return self.source if isinstance(self.source, tuple) else ()

    def to_pandas(self) -> pd.Index:
        """The index, made once; hand out views of it.

        Raises
        ------
        ValueError
            The file it comes from holds no such index; what can be found out in memory in proportion to the file, was.
        """
        if self._made is None:
            try:
                found = schema.assemble_index(self.notes, self._columns())
            except MemoryError:
                raise
            except Exception as error:  # whatever the libraries raise on damaged bytes is one mistake to the user
                raise ValueError(f"the stored index cannot be read: {type(error).__name__}: {error}") from error
            self._made = found if self._names is None else found.set_names(self._names)
        return self._made

    def to_cudf(self) -> Any:
        """The index in the memory of the current GPU."""
        from .interop import cudf, cudf_frame

        if not self._levels:
            return cudf.index_to_device(self.to_pandas())
        nodes = [node for node, _, _ in self._levels]
        with frame_backend.DeviceFrames().receiving(nodes) as read:
            made = cudf_frame.build_index(self.notes, [(read(node), kind, dtype) for node, kind, dtype in self._levels])
        if self._names is not None:
            made.names = self._names
        return made

    def _columns(self) -> list[Any]:
        if self._levels:
            return [pandas_frame.to_arrow(host.read([node])[0], kind) for node, kind, _ in self._levels]
        table = index_stream.read(self.source) if isinstance(self.source, bytes) else self.source
        return list(table.columns)


def of_file(notes: dict[str, Any], stream: bytes | None, rows: int) -> Any:
    """The index of a file of version 1: a RangeIndex, or what makes it.

    Everything is checked that can be checked in memory in proportion to the file.

    Raises
    ------
    ValueError
        It is not an index of `rows` labels.
    """
    ranged = "range" in notes
    types: list[Any] = []
    plain = False
    try:
        if ranged:
            labels = schema.range_length(notes)
        else:
            types, labels, plain = index_stream.look_at(stream)
        if labels == rows:
            empty = schema.check_index(notes, types)
            return empty if ranged else StoredIndex(notes, rows, index_stream.read(stream) if plain else stream)
    except MemoryError:
        raise
    except Exception as error:  # whatever the libraries raise on damaged bytes is one mistake to the user
        raise ValueError(f"the column's index cannot be read: {type(error).__name__}: {error}") from error
    raise ValueError(f"the column has {rows} rows, but its stored index has {labels} labels")


def described(index: Any) -> tuple[dict[str, Any], tuple[Written, ...]] | None:
    """How files of version 3 keep a column's index; None for one that version 1 says exactly, or nothing does."""
    made = index
    if isinstance(index, StoredIndex):
        if not index.in_version_1:
            return index.described()
        made = index.to_pandas()
    if schema.in_version_1(made):
        return None
    if isinstance(index, StoredIndex) and index.is_compressed:
        return index.described()
    frames = frame_backend.HostFrames()
    with frames.writing({}, None, False) as write:
        notes, levels = frames.index(made, write)
    return notes, tuple(levels)


def of_cudf(index: Any, device: str) -> Any:
    """A cuDF index in host memory, moved compressed: a pandas RangeIndex, or what makes it on the host or a GPU."""
    from .interop import cudf

    if cudf.is_range(index):
        return index.to_pandas()
    names = list(index.names)
    plain = cudf.view(index)
    plain.names = [None] * len(names)  # which may be what no file could hold
    frames = frame_backend.DeviceFrames(device)
    with frames.writing({}, None, True) as write:
        notes, levels = frames.index(plain, write)
    return StoredIndex(notes, len(index), tuple(levels), names)
