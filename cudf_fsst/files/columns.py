"""Columns and frames to files, and back: which version of the format, what says names, dtypes and index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..arrow_types import MOST_VALUES, is_strings, needs_version_3, values_of_a_row
from ..codecs import host, host_strings
from ..codecs.host import HostCompressor
from ..codecs.node import Content, Node, of_parts
from ..codecs.values import cpu
from ..interop import arrow_columns, index_stream, indexes, schema
from ..interop import pandas as interop_pandas
from ..interop.dtypes import arrow_type, encode_dtype
from ..interop.labels import decode_labels, describe_labels, encode_labels
from ..interop.pandas_columns import check_values
from ..naming import naming
from . import outer, storage, trees
from .storage import FIRST_TEXT as FIRST_TEXT
from .versions import EXACT_VERSION, FORMAT_VERSION, NEWEST_VERSION


@dataclass(frozen=True)
class Loaded:
    """What a file holds, in host memory.

    Attributes
    ----------
    holds : str
        ``"column"`` or ``"frame"``.
    labels : pandas.Index
        Of columns; the name of a column.
    columns : list of Content
    notes : dict
        What says the kind, names and dtypes of the index.
    levels : list of Content
        Of the index.
    rows : int
    stream : bytes, pyarrow.Table or None
        Levels of the index of a column of version 1.
    dtype : pandas dtype or None
        Of a column of version 1.
    every : pandas.Index
        Labels of all columns of a frame, those too that were not read.
    types : sequence of pyarrow.DataType
        Of the same.
    unchecked : list of (str, Segment)
        As `storage.Opened` has it.
    """

    holds: str
    labels: Any
    columns: list[Content]
    notes: dict[str, Any]
    levels: list[Content]
    rows: int
    stream: Any = None
    dtype: Any = None
    every: Any = None
    types: Sequence[Any] = ()
    unchecked: Sequence[tuple[str, Any]] = ()


#: Which columns to read, by their places, given the labels and types of all.
Choice = Callable[[Any, Sequence[Any]], Sequence[int]]


def load(
    path: storage.Target,
    choose: Choice | None = None,
    *,
    levels: bool = True,
    storage_options: storage.Options = None,
    destination: storage.Destination | None = None,
) -> Loaded:
    """Read a file, or some columns of a frame's, and check what is read; see `cudf_fsst.load`.

    Parameters
    ----------
    path
    choose : callable, optional
        Given the labels and types of the frame's columns, says which to read, by their places. Others are not read.
    levels : bool
        Read the levels of the index, too.
    storage_options
        For URLs, as fsspec takes them.
    destination
        Where the columns go to.
    """
    with storage.opened(path, storage_options, destination) as file:
        if file.version != FORMAT_VERSION:
            loaded = _of_streams(file, choose, levels)
        elif choose is not None:
            raise ValueError("holds a column, not a frame")
        else:
            loaded = _text(file, file.read([0], later=[0]))
        return replace(loaded, unchecked=file.unchecked)


def outline(path: storage.Target) -> Loaded:
    """What a file holds, without what its columns' rows are: parts that have sizes, but no buffers.

    Read and checked are the head of the file, the schema, labels of columns, symbol tables, and what says how many
    characters the rows of strings with a dictionary have; of version 1 the index. So damage elsewhere is not seen.
    """
    with storage.opened(path) as file:
        if file.version != FORMAT_VERSION:
            return _of_streams(file, None, True, outlined=True)
        return _text(file, file.outline([0]))


def save_text(
    path: Any,
    segments: Sequence[Any],
    name: Any,
    dtype: Any,
    index: pd.Index,
    **options: Any,
) -> None:
    """Write a column of strings in host memory as a file of version 1; `options` are those of `storage.save`."""
    described, stream = schema.to_bytes(name, dtype, index)
    streams = [(FIRST_TEXT, segments)]
    storage.save(path, streams=streams, schema=described, index=stream, version=FORMAT_VERSION, **options)


def save(
    path: Any,
    holds: str,
    labels: Any,
    columns: Sequence[Content],
    index: dict[str, Any],
    levels: Sequence[Content],
    rows: int,
    *,
    compression: str | None = None,
    **options: Any,
) -> None:
    """Write columns in host memory as a file of version 2, or of a later one where they need it.

    `holds` is ``"frame"`` or ``"column"``; the label of a column is its name; `options` are those of `storage.save`.
    """
    outer.check(compression)
    named: Sequence[Content] = ()
    try:
        described = encode_labels(labels)
    except TypeError as error:
        described, named = _label_levels(labels, error)
    everything = [*columns, *levels, *named]
    streams: list[storage.Stream] = []
    forests = [{"dtype": content.stored, "tree": trees.describe(content.node, streams)} for content in everything]
    notes = {"labels": described, "index": index, "rows": rows}
    notes["columns"], notes["levels"] = forests[: len(columns)], forests[len(columns) : len(columns) + len(levels)]
    version = storage.needed_version(streams)
    own_version = any(needs_version_3(content.type) or trees.has_dictionary(content.node) for content in everything)
    if named or holds != "frame" or own_version:
        version = max(version, EXACT_VERSION)
    if compression is not None:
        version = NEWEST_VERSION
    if version >= EXACT_VERSION:
        notes |= {"holds": holds, "label_levels": forests[len(columns) + len(levels) :]}
    names = [*map(str, labels), *(f"index {i}" for i in range(len(levels))), *(f"label {i}" for i in range(len(named)))]
    fields = [(name, content.type) for name, content in zip(names, everything, strict=True)]
    described_bytes = schema.frame_to_bytes(fields, notes)
    storage.save(
        path,
        streams=streams,
        schema=described_bytes,
        version=version,
        compression=compression,
        **options,
    )


class _PlainStore(HostCompressor):
    """Store values as they are, so that reading labels takes memory in proportion to the file."""

    def compress_validity(self, column: Any) -> Any:
        bits = np.unpackbits(column.validity, bitorder="little")[column.validity_offset :][: column.rows]
        return cpu.compress(np.packbits(bits, bitorder="little"), codec=trees.RAW)

    def values_options(self, column: Any) -> dict[str, Any]:
        return super().values_options(column) | {"codec": trees.RAW}

    def compress_strings(self, column: Any) -> Node:
        return host_strings.compress(column.strings, column.type, codec=FIRST_TEXT)


def _label_levels(labels: Any, error: TypeError) -> tuple[dict[str, Any], list[Content]]:
    """Labels as version 3 keeps those that version 2 cannot say, which `error` tells."""
    try:
        described, arrays = describe_labels(labels)
    except TypeError:
        raise TypeError(f"the labels of the columns: {error}; rename the columns first") from error
    store = _PlainStore(None, {})
    return described, [Content(store.node(arrow_columns.describe(array)), array.type, None) for array in arrays]


def _of_streams(file: storage.Opened, choose: Choice | None, with_levels: bool, *, outlined: bool = False) -> Loaded:
    """What a file of version 2 or later holds, or those of its columns; ValueError names what does not fit together."""
    types, notes = schema.frame_from_bytes(file.schema)
    if file.index is not None:
        raise ValueError("the file of a frame has no section of its index")
    try:
        rows, holds, named = notes["rows"], "frame", []
        if type(rows) is not int or not 0 <= rows < 2**63:
            raise ValueError(f"a frame of {rows!r} rows")
        if file.version >= EXACT_VERSION:
            holds, named = notes["holds"], notes["label_levels"]
            if holds not in ("frame", "column"):
                raise ValueError(f"the file holds {holds!r}, not a frame or a column")
        elif any(map(needs_version_3, types)):
            raise ValueError(f"version {file.version} has no columns of types {', '.join(map(str, types))}")
        count = len(notes["columns"])
        if holds == "column" and (count != 1 or choose is not None):
            raise ValueError(f"the file of a column holds {count}" if count != 1 else "holds a column, not a frame")
        described = [*notes["columns"], *notes["levels"]]
        if len(described) + len(named) != len(types):
            raise ValueError(f"{len(described) + len(named)} columns and levels for {len(types)} fields")
        at_once = choose is None and not outlined
        edges = trees.edges([entry["tree"] for entry in [*described, *named]], len(file.codecs))
        first, of_columns = edges[len(described)], range(edges[count])
        streams = file.read(range(len(file.codecs)), of_columns) if at_once else {}
        if not at_once:
            streams = file.read(range(first, len(file.codecs)))
        reader = trees.TreeReader(streams, file.codecs, first, version=file.version)
        labels = _read_labels(notes["labels"], named, types[len(described) :], reader, count)
        if len(labels) != count:
            raise ValueError(f"{len(labels)} labels for {count} columns")
        index = notes["index"]
        if "range" in index and indexes.range_length(index) != rows:
            raise ValueError(f"the frame has {rows} rows, its index {indexes.range_length(index)} labels")
        places = list(range(count)) if choose is None else _chosen(choose, labels, types[:count])
        chosen = sorted({*places, *(range(count, len(described)) if with_levels else ())})
        if not at_once:
            numbers = [number for i in chosen for number in range(edges[i], edges[i + 1])]
            streams = file.outline(numbers) if outlined else file.read(numbers, of_columns)
        whole, contents = file if outlined else None, {}
        for i in chosen:
            entry, kind, what = described[i], types[i], f"column {i}"
            of_file: dict[str, Any] = {"version": file.version, "outline_of": whole}
            if file.destination is not None and i < count:
                of_file["count_chars"] = file.destination.count_chars
            trunk = trees.TreeReader(streams, file.codecs, edges[i], **of_file)
            node = trunk.node(entry["tree"], kind, what)
            if node.rows != rows:
                raise ValueError(f"{what}: {node.rows} rows, the frame has {rows}")
            contents[i] = Content(node, kind, entry["dtype"])
        for kind in types[count : len(described)]:  # of levels that are not read, too
            if values_of_a_row(kind) > MOST_VALUES:
                raise ValueError(f"a row of type {kind} has more than {MOST_VALUES} values")
        schema.check_dtypes(
            [(content.type, content.stored) for i, content in contents.items() if i < count],
            index,
            types[count : len(described)],
        )
        for i, content in contents.items() if not outlined else ():  # values may take memory; now all columns fit
            with naming(f"column {i}"):
                check_values(content.type, content.stored, partial(trees.survey, content.node))
    except _ChoiceError as error:
        raise error.args[0] from None
    except (LookupError, TypeError, AttributeError, OverflowError, NotImplementedError, RecursionError) as error:
        # JSON of another shape than `save` writes, or an Arrow type that no column has.
        raise ValueError(f"the frame's schema cannot be read: {type(error).__name__}: {error}") from error
    columns, levels = [contents[i] for i in places], [contents[i] for i in chosen if i >= count]
    kept = labels if choose is None else labels.take(places)
    return Loaded(holds, kept, columns, index, levels, rows, every=labels, types=types[:count])


class _ChoiceError(Exception):
    """What is wrong with the columns that were asked for, not with the file."""


def _chosen(choose: Choice, labels: Any, types: Sequence[Any]) -> Sequence[int]:
    try:
        return choose(labels, types)
    except Exception as error:
        raise _ChoiceError(error) from None


def _read_labels(
    stored: dict[str, Any], levels: Sequence[Any], types: Sequence[Any], reader: trees.TreeReader, count: int
) -> Any:
    """Labels of `count` columns, in memory in proportion to the file."""
    if "range" in stored and indexes.range_length(stored) != count:
        raise ValueError(f"{indexes.range_length(stored)} labels for {count} columns")
    if "labels" in stored or "range" in stored:
        if levels:
            raise ValueError(f"{len(levels)} levels of labels that have none")
        return decode_labels(stored)
    reader.check_plain()
    nodes = []
    for i, (entry, kind) in enumerate(zip(levels, types, strict=True)):
        node = reader.node(entry["tree"], kind, f"labels, level {i}")
        if node.rows != count:
            raise ValueError(f"labels, level {i}: {node.rows} rows for {count} columns")
        if trees.has_dictionary(node):
            raise ValueError(f"labels, level {i}: dictionaries of strings, which labels do not have")
        for inner in _nulls_and_strings(node):
            # Categories are all different, so one may have no characters; only a damaged file has more rows than this.
            if inner.rows > count + 1 + inner.chars_nbytes:
                raise ValueError(f"labels, level {i}: {inner.rows} rows of {inner.type} for {count} columns")
        nodes.append(node)
    try:
        levels_read = zip(host.read(nodes), types, strict=True)
        columns = [interop_pandas.to_chunked(buffers, kind) for buffers, kind in levels_read]
        for column in columns:
            column.validate(full=True)  # labels are shown, so their texts have to be some
        return indexes.assemble_index(stored, columns)
    except MemoryError:
        raise
    except Exception as error:  # whatever the libraries raise on damaged bytes is one mistake to the user
        raise ValueError(f"the labels cannot be read: {type(error).__name__}: {error}") from error


def _nulls_and_strings(node: Node) -> Iterator[Node]:
    """A node and those below it whose rows may take next to no bytes."""
    if pa.types.is_null(node.type) or is_strings(node.type):
        yield node
    for child in node.children:
        yield from _nulls_and_strings(child)


def _text(file: storage.Opened, streams: dict[int, storage.Stream]) -> Loaded:
    """The column of a file of version 1."""
    _, segments = streams[0]
    rows = sum(segment.rows for segment in segments)
    name, dtype, notes = schema.from_bytes(file.schema)
    stream = check_index(notes, file.index, rows)
    kind = arrow_type(dtype)
    node = of_parts(kind, segments)
    labels = pd.Index([name], dtype=object, tupleize_cols=False)
    content = Content(node, kind, encode_dtype(dtype))
    return Loaded("column", labels, [content], notes, [], rows, stream, dtype)


def check_index(notes: dict[str, Any], stream: bytes | None, rows: int) -> Any:
    """The Arrow stream of an index of version 1, or its columns where they take no more memory; None of a RangeIndex.

    Everything is checked that can be checked in memory in proportion to the file.
    """
    types: list[Any] = []
    plain = False
    try:
        if "range" in notes:
            labels = indexes.range_length(notes)
        else:
            types, labels, plain = index_stream.inspect(stream)
        if labels == rows:
            indexes.check_index(notes, types)
            if "range" in notes:
                return None
            return index_stream.read(stream) if plain else stream
    except MemoryError:
        raise
    except Exception as error:  # whatever the libraries raise on damaged bytes is one mistake to the user
        raise ValueError(f"the column's index cannot be read: {type(error).__name__}: {error}") from error
    raise ValueError(f"the column has {rows} rows, but its stored index has {labels} labels")
