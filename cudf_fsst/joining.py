"""Columns and frames one after another, and those that arrive in pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import pandas as pd
import pyarrow as pa

from . import index as indexes
from .arrow_types import has_offsets, is_string_type
from .backend import Backend, HostBackend, check_options
from .buffers import ColumnBuffers
from .codecs import host
from .codecs.node import Content, Node, Parts, of_parts
from .codecs.table import Table
from .codecs.task import ColumnTask
from .column import CompressedColumn
from .compressing import compress, compress_frame
from .content_dtype import holds_text
from .frame import CompressedFrame
from .index import CompressedIndex
from .interop import arrow_columns
from .interop import pandas as interop_pandas
from .interop.cudf import cudf_module
from .naming import What, naming


@overload
def concat(columns: Sequence[CompressedColumn]) -> CompressedColumn: ...
@overload
def concat(columns: Sequence[CompressedFrame]) -> CompressedFrame: ...
def concat(columns: Sequence[Any]) -> Any:
    """Put columns, or frames, one after another.

    The result shares their parts. Small things are made anew: a null mask that ends within a byte, offsets of lists,
    and codes of categories whose order differs. Dictionaries of strings become one where that is smaller: each value is
    there once, and the rows' codes are numbered anew. Nothing else is encoded again.

    Parameters
    ----------
    columns : sequence of CompressedColumn or of CompressedFrame
        All of one dtype and on one device. Frames have the same labels of columns in the same order.

    Returns
    -------
    CompressedColumn or CompressedFrame
        Name and index are what ``pandas.concat`` (``cudf.concat``) gives for the Series or DataFrames.

    Raises
    ------
    ValueError
        The sequence is empty, its members are on several devices, or frames have different labels.
    TypeError
        The members have several dtypes, or are not all columns or all frames.
    """
    if isinstance(columns, (CompressedColumn, CompressedFrame)) or not hasattr(columns, "__iter__"):
        raise TypeError(f"concat takes a list of columns or frames, not a {type(columns).__name__}")
    members = list(columns)
    if not members:
        raise ValueError("no columns to concatenate")
    kind = CompressedFrame if isinstance(members[0], CompressedFrame) else CompressedColumn
    for member in members:
        if not isinstance(member, kind):
            first = isinstance(members[0], kind)
            expected = kind.__name__ if first else "CompressedColumn or CompressedFrame"
            raise TypeError(f"expected {expected} objects, got {type(member).__name__}")
    for member in members[1:]:
        if member.device != members[0].device:
            raise ValueError(
                f"{'frames' if kind is CompressedFrame else 'columns'} are on several devices, "
                f"{members[0].device} and {member.device}; move them first"
            )
    with members[0]._backend.current():
        return _frames(members) if kind is CompressedFrame else _columns(members)


def _columns(columns: Sequence[CompressedColumn]) -> CompressedColumn:
    first = columns[0]
    for column in columns[1:]:
        if column.dtype != first.dtype:
            raise TypeError(f"columns are of several dtypes, {first.dtype} and {column.dtype}")
    backend = first._backend
    (content,) = _contents([[column._content for column in columns]], backend, ["columns"])
    nothing = pd.RangeIndex(0) if isinstance(backend, HostBackend) else cudf_module().RangeIndex(0)
    name, _ = backend.interop.concat_labels([column._name for column in columns], [nothing] * len(columns))
    index = join_indexes([column._index for column in columns], backend, as_concat=True)
    proxied = any(column._proxied for column in columns)
    return CompressedColumn._make(content, backend, name, index, first._dtype, proxied)


def _frames(frames: Sequence[CompressedFrame]) -> CompressedFrame:
    first = frames[0]
    dtypes = first._dtypes()
    for frame in frames[1:]:
        if not (len(frame._labels) == len(first._labels) and frame._labels.equals(first._labels)):
            raise ValueError(f"frames have different columns: {list(first._labels)} and {list(frame._labels)}")
        for label, dtype, other in zip(first._labels, dtypes, frame._dtypes(), strict=True):
            if dtype != other:
                raise TypeError(f"column {label!r}: frames have it of several dtypes, {dtype} and {other}")
    backend = first._backend
    columns = _contents(
        [[frame._columns[place] for frame in frames] for place in range(len(first._labels))],
        backend,
        [f"column {label!r}" for label in first._labels],
    )
    index = join_indexes([frame._index for frame in frames], backend, as_concat=True)
    labels = first._labels
    if any(frame._labels.names != labels.names for frame in frames):  # as pandas has it, what differs is no name
        named = zip(*(frame._labels.names for frame in frames), strict=True)
        labels = labels.set_names([each[0] if len(set(each)) == 1 else None for each in named])
    return CompressedFrame._make(backend, columns, labels, index, any(frame._proxied for frame in frames))


def _contents(columns: Sequence[Sequence[Content]], backend: Backend, names: Sequence[str]) -> list[Content]:
    """Contents of columns, each put together of several."""
    alike = [_alike(contents, backend, what) for contents, what in zip(columns, names, strict=True)]
    nodes = join_columns([[content.node for content in contents] for contents in alike], backend, names)
    return [Content(node, contents[0].type, contents[0].stored) for node, contents in zip(nodes, alike, strict=True)]


def _alike(contents: Sequence[Content], backend: Backend, what: str) -> Sequence[Content]:
    """Contents that can be put together; TypeError where they cannot."""
    blank = [_is_blank(content, backend) for content in contents]
    typed = [content for content, nothing in zip(contents, blank, strict=True) if not nothing]
    if typed and len(typed) < len(contents):
        contents = [
            _nulls(content, typed[0]) if nothing and content.type != typed[0].type else content
            for content, nothing in zip(contents, blank, strict=True)
        ]
    if isinstance(backend, HostBackend) and arrow_columns.holds_dictionary(contents[0].type):
        contents = _with_same_categories(contents, backend, what)
    first = contents[0]
    text = all(map(holds_text, contents))  # of either Arrow type
    for content in contents[1:]:
        if content.type != first.type and not text:
            raise TypeError(f"{what}: several Arrow types, {first.type} and {content.type}")
    return contents


def _is_blank(content: Content, backend: Backend) -> bool:
    """Whether these are objects that are all missing, or none at all, so that the Arrow type says nothing."""
    if pa.types.is_null(content.type):
        return True
    if not isinstance(backend, HostBackend) or not holds_text(content):
        return False
    return bool(content.stored["kind"] == "object" and content.node.null_count == content.node.rows)


def _with_same_categories(contents: Sequence[Content], backend: HostBackend, what: str) -> Sequence[Content]:
    """Contents of equal values whose codes have one list of categories; dtypes may be equal where the order differs.

    What has the categories of the first stays as it is. Arrow's dictionaries may differ in more than the order; then
    all become one.
    """
    if any(content.type != contents[0].type for content in contents):
        return contents  # refused by the caller
    kind = contents[0].type
    categories_of = [list(_categories(content.node, backend)) for content in contents]
    same_as_first = [
        all(
            own_categories.equals(first_categories)
            for own_categories, first_categories in zip(categories_of[0], of_content, strict=True)
        )
        for of_content in categories_of
    ]
    if all(same_as_first):
        return contents
    first = contents[0]
    if not pa.types.is_dictionary(kind) or first.stored is None or first.stored["kind"] == "arrow":
        arrays = [interop_pandas.to_chunked(backend.read([content.node])[0], kind) for content in contents]
        chunks = [chunk for array in arrays for chunk in array.chunks]
        try:
            unified = pa.chunked_array(chunks, kind).unify_dictionaries().combine_chunks()
        except pa.ArrowException as error:
            raise TypeError(f"{what}: dictionaries of {kind} that cannot become one: {error}") from error
        return [_compressed(arrow_columns.describe(unified), first)]
    categories = interop_pandas.build(backend.read([first.node], 0, 0)[0], kind, first.stored).cat.categories
    results = []
    for content, same in zip(contents, same_as_first, strict=True):
        if not same:
            series = interop_pandas.build(backend.read([content.node])[0], kind, content.stored)
            buffers, _, _ = interop_pandas.describe(series.cat.set_categories(categories))
            content = _compressed(buffers, first)
        results.append(content)
    return results


def _categories(node: Node, backend: HostBackend) -> Iterator[Any]:
    """Categories of a column, or of those within a nested one."""
    if pa.types.is_dictionary(node.type):
        yield interop_pandas.to_chunked(backend.read(node.children)[0], node.type.value_type)
    else:
        for child in node.children:
            yield from _categories(child, backend)


def _compressed(column: ColumnBuffers, like: Content) -> Content:
    return Content(host.compress([ColumnTask(column)])[0], like.type, like.stored)


def _nulls(content: Content, like: Content) -> Content:
    """A column of missing values alone: as many rows as `content`, the type of `like`."""
    column = arrow_columns.describe(pa.nulls(content.node.rows, like.type))
    return _compressed(column, like)


def join_indexes(members: Sequence[CompressedIndex], backend: Backend, *, as_concat: bool = False) -> CompressedIndex:
    """The index of all rows; levels that are alike are put together as columns are.

    `as_concat`: dtypes are those of ``pandas.concat``, which makes `str` of strings in an object index.
    """
    first, rows = members[0], sum(map(len, members))
    if first.levels and all(
        member.levels
        and member.names == first.names
        and {**member.notes, "names": None} == {**first.notes, "names": None}
        and [level.type for level in member.levels] == [level.type for level in first.levels]
        for member in members
    ):
        plain = not any(pa.types.is_dictionary(level.type) for level in first.levels)
        if plain and not any(freq is not None for freq in first.notes["freqs"]):
            same_levels = list(zip(*(member.levels for member in members), strict=True))
            levels = _contents(same_levels, backend, ["columns"] * len(same_levels))
            notes = first.notes
            if as_concat and isinstance(backend, HostBackend) and not notes["multi"] and _has_strings(levels[0]):
                notes = {**notes, "dtypes": [interop_pandas.joined_dtype(notes["dtypes"][0])]}
            return CompressedIndex(notes, rows, levels, names=first.names)
    names = [None] * len(members)
    _, labels = backend.interop.concat_labels(names, [member.to_library(backend) for member in members])
    any_pandas = isinstance(backend, HostBackend) and any(member.is_pandas for member in members)
    return indexes.of_pandas(labels) if any_pandas else indexes.compress(labels, backend)


def _has_strings(level: Content) -> bool:
    """Whether labels are texts, some of which are there."""
    is_text = is_string_type(level.type)
    return is_text and level.node.null_count < level.node.rows


# Nodes ------------------------------------------------------------------------------------------------------------


def join_columns(columns: Sequence[Sequence[Node]], backend: Backend, names: Sequence[What]) -> list[Node]:
    """A node for each column, of the rows of all its nodes; errors call it by its name."""
    with_rows = [[node for node in nodes if node.rows] or list(nodes[:1]) for nodes in columns]
    coded = [nodes for nodes in with_rows if len(nodes) > 1 and any(node.coded for node in nodes)]
    # Dictionaries of all columns are merged together, which takes little longer than those of one.
    parts_of = [[part for node in nodes for part in node.segments] for nodes in coded]
    merged = iter(backend.merged(parts_of) if coded else ())
    joined = []
    for nodes, what in zip(with_rows, names, strict=True):
        with naming(what):
            if len(nodes) > 1 and any(node.coded for node in nodes):
                joined.append(of_parts(nodes[0].type, next(merged)))
            else:
                joined.append(_joined(nodes, backend))
    return joined


def _joined(nodes: Sequence[Node], backend: Backend) -> Node:
    """A node of the rows of all; of strings none has a dictionary."""
    first = nodes[0]
    if len(nodes) == 1:
        return first
    rows, nulls = sum(node.rows for node in nodes), sum(node.null_count for node in nodes)
    validity: Parts = ()
    if any(node.validity for node in nodes):
        validity = _validity(nodes, backend)
    values: tuple[Parts, ...]
    if has_offsets(first.type):
        values = (_offsets(nodes, backend),)
    else:
        halves = zip(*(node.values for node in nodes), strict=True)
        values = tuple(tuple(part for parts in half for part in parts) for half in halves)
    segments = tuple(segment for node in nodes for segment in node.segments)
    if pa.types.is_dictionary(first.type):
        children = first.children  # the same categories, see `_with_same_categories`
    else:
        same = list(zip(*(node.children for node in nodes), strict=True))
        children = tuple(join_columns(same, backend, [None] * len(same)))
    return Node(first.type, rows, nulls, validity, values, segments, children)


def _validity(nodes: Sequence[Node], backend: Backend) -> Parts:
    if all(node.validity for node in nodes) and not any(node.rows % 8 for node in nodes[:-1]):
        return tuple(part for node in nodes for part in node.validity)
    array = backend.arrays
    bits = []
    for node in nodes:
        if node.validity:
            packed = _values(Node(pa.uint8(), -(-node.rows // 8), 0, values=(node.validity,)), backend)
            bits.append(array.unpackbits(packed, bitorder="little")[: node.rows])
        else:
            bits.append(array.ones(node.rows, np.uint8))
    return _encoded(array.packbits(array.concatenate(bits), bitorder="little"), pa.uint8(), backend)


def _offsets(nodes: Sequence[Node], backend: Backend) -> Parts:
    array, width = backend.arrays, nodes[0].values[0][0].itemsize
    kind = pa.uint32() if width == 4 else pa.uint64()
    total = sum(node.children[0].rows for node in nodes)
    if width == 4 and total >= 2**31:
        raise ValueError(f"lists of {total} values together: their offsets have 32 bits")
    pieces, before = [array.zeros(1, f"<u{width}")], 0
    for node in nodes:
        offsets = _values(Node(kind, node.rows + 1, 0, values=node.values), backend).view(f"<u{width}")
        pieces.append(offsets[1:] + offsets.dtype.type(before))
        before += node.children[0].rows
    return _encoded(array.concatenate(pieces), kind, backend)


def _values(node: Node, backend: Backend) -> Any:
    """The values of a node as an array of the backend's, of bytes on a GPU."""
    (buffers,) = backend.read([node])
    return backend.as_array(buffers)


def _encoded(values: Any, kind: Any, backend: Backend) -> Parts:
    nodes = backend.encode(values, kind)
    return nodes.values[0]


def _contents_of(piece: CompressedColumn | CompressedFrame) -> Sequence[Content]:
    return piece._columns if isinstance(piece, CompressedFrame) else [piece._content]


# Pieces -----------------------------------------------------------------------------------------------------------


class Compressor:
    """Compress pieces of a column or a frame as they arrive. The whole of it is never in memory uncompressed.

    Each piece is compressed by itself, and `concat` puts them together. Unless `table` is given, each piece trains
    symbol tables of its own. So small pieces compress less well. Pieces of 32 MiB or more
    compress almost as well as the whole column.

    Parameters
    ----------
    table : SymbolTable or OnPairTable, optional
        The symbol table for all pieces of a column of strings, as `cudf_fsst.train` makes it.
    tile_size, level, stream, codec
        As in ``series.fsst.compress()``. `codec` is not for DataFrames.
    codecs : mapping, optional
        As in ``df.fsst.compress()``, for pieces that are DataFrames.

    Examples
    --------
    >>> import pandas as pd
    >>> import cudf_fsst
    >>> compressor = cudf_fsst.Compressor()
    >>> for piece in (["Ada", "Alan"], ["Grace"]):
    ...     compressor.append(pd.Series(piece))
    >>> len(compressor.finish())
    3
    """

    def __init__(
        self,
        *,
        table: Table | None = None,
        tile_size: int | str = "auto",
        level: str = "default",
        stream: Any = None,
        codecs: Mapping[Any, str] | None = None,
        codec: str | None = None,
    ) -> None:
        check_options(table, tile_size, level, codec)
        if codecs is not None and not isinstance(codecs, Mapping):
            raise TypeError(f"codecs must be a dict of column labels and codecs, not {type(codecs).__name__}")
        self._table, self._codecs, self._codec = table, codecs, codec
        self._options: dict[str, Any] = {"tile_size": tile_size, "level": level, "stream": stream}
        self._pieces: list[Any] | None = []

    def append(self, data: Any) -> None:
        """Compress the next piece.

        Parameters
        ----------
        data : Series, Index or DataFrame of pandas or cuDF, or pyarrow.Array
            It has the dtype, or the labels and dtypes, of the first piece and lies on the same device. Nothing of it is
            kept but the index of a pandas Series.

        Raises
        ------
        AttributeError
            It holds values that cannot be compressed.
        TypeError, ValueError
            It differs from the first piece in dtype, columns or device. Or `finish` was called before. Or `table` or
            `codec` was given for a DataFrame, or `codecs` for something else.

        Notes
        -----
        After an error, MemoryError too, the pieces are what they were before.
        """
        pieces = self._open()
        piece: Any
        if hasattr(data, "columns"):
            if self._table is not None:
                raise TypeError("table is for columns of strings, not for a DataFrame")
            if self._codec is not None:
                raise TypeError("codec is for a column; codecs= names those of a DataFrame")
            piece = compress_frame(data, codecs=self._codecs, **self._options)
        else:
            if self._codecs is not None:
                raise TypeError(f"codecs is for DataFrames, not for a {type(data).__name__}")
            piece = compress(data, table=self._table, codec=self._codec, **self._options)
        if pieces:
            self._check(piece, pieces[0])
            self._check_types(piece, pieces)
        pieces.append(piece)

    def _check(self, piece: Any, first: Any) -> None:
        if type(piece) is not type(first):
            raise TypeError(f"the pieces so far make a {type(first).__name__}, this one a {type(piece).__name__}")
        if piece.device != first.device:
            raise ValueError(f"the pieces so far are on {first.device}, this one is on {piece.device}")
        if isinstance(piece, CompressedFrame):
            if not piece.columns.equals(first.columns):
                raise ValueError(f"the pieces so far have columns {list(first)}, this one has {list(piece)}")
            for label, dtype, other in zip(first, first.dtypes, piece.dtypes, strict=True):
                if dtype != other:
                    raise TypeError(f"column {label!r}: the pieces so far are of dtype {dtype}, this one is {other}")
        elif piece.dtype != first.dtype:
            raise TypeError(f"the pieces so far are of dtype {first.dtype}, this one is {piece.dtype}")

    def _check_types(self, piece: Any, pieces: Sequence[Any]) -> None:
        """Objects of one dtype may have several Arrow types, which `concat` would refuse."""
        backend = piece._backend
        for place, content in enumerate(_contents_of(piece)):
            others = (_contents_of(earlier)[place] for earlier in pieces)
            other = next((column for column in others if not _is_blank(column, backend)), None)
            if other is None or other.type == content.type or _is_blank(content, backend):
                continue
            if not (holds_text(content) and holds_text(other)):
                what = f"column {piece.columns[place]!r}: " if isinstance(piece, CompressedFrame) else ""
                raise TypeError(f"{what}the pieces so far are of Arrow type {other.type}, this one is {content.type}")

    def finish(self) -> Any:
        """The column or frame made of all pieces.

        Returns
        -------
        CompressedColumn or CompressedFrame
            Name and index are what ``pandas.concat`` (``cudf.concat``) gives for the pieces.

        Raises
        ------
        ValueError
            Nothing was appended, so there is no dtype. Or `finish` was called before.
        MemoryError
            There is no memory for the index. The pieces are kept, and `finish` may be called again.
        """
        pieces = self._open()
        if not pieces:
            raise ValueError("nothing was appended, so the column has no dtype; append an empty Series if need be")
        result = concat(pieces)
        self._pieces = None
        return result

    def _open(self) -> list[Any]:
        if self._pieces is None:
            raise ValueError("this Compressor is finished; make a new one")
        return self._pieces
