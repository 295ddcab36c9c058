"""Polars' types of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..arrow_types import is_any_text, plain, within
from ..backend import HostBackend
from ..codecs.node import Content, Node
from ..interop import arrow_columns
from ..interop.pandas import to_chunked
from ..naming import naming
from .tables import EngineTable, readable


def polars_module() -> Any:
    """Polars; ImportError says what to install."""
    try:
        import polars
    except ImportError as error:
        raise ImportError(
            f"this needs Polars ({error}); in a clone of cudf-fsst: pip install '.[polars]'", name="polars"
        ) from error
    return polars


def schema_of(table: EngineTable) -> dict[str, Any]:
    """Polars' types of a table's columns, by name.

    Raises
    ------
    TypeError
        Polars has no such type; the column is named.
    ValueError
        Two columns have the same name.
    """
    ordered = [name for name, content in zip(table.names, table.contents, strict=True) if is_ordered(content.type)]
    loaded = dict(zip(ordered, table.select(ordered).on_host().contents, strict=True))
    return schema(
        table.names, [loaded.get(name, content) for name, content in zip(table.names, table.contents, strict=True)]
    )


def schema(names: Sequence[str], contents: Sequence[Any]) -> dict[str, Any]:
    """Polars' types by name: of columns in host memory, or of the Arrow types of columns that are not read yet."""
    dtypes: dict[str, Any] = {}
    for name, content in zip(names, contents, strict=True):
        if name in dtypes:
            raise ValueError(f"two columns are called {name!r}; Polars tells columns by their names")
        with naming(f"column {name!r}"):
            kind = content.type if isinstance(content, Content) else content
            dtypes[name] = _dtype(kind)
            if is_ordered(kind):
                dtypes[name] = _enums(dtypes[name], kind, content.node)
    return dtypes


def _dtype(kind: Any) -> Any:
    pl, arrow_type = polars_module(), readable(kind)
    for inner in within(arrow_type):
        if isinstance(inner, pa.BaseExtensionType) or pa.types.is_interval(inner):
            raise TypeError(f"Polars has no type for {kind}")
    try:
        dtype = pl.DataFrame(pa.table({"": arrow_columns.no_rows(arrow_type)})).dtypes[0]
        pl.LazyFrame(schema={"": dtype}).collect()  # of decimals it reads more than it has
        return dtype
    except pl.exceptions.PolarsError as error:
        raise TypeError(f"Polars has no type for {kind}: {error}") from None


def is_ordered(kind: Any) -> bool:
    """Whether a type has ordered categories of strings in it."""
    return any(map(_is_enum, within(kind)))


def _is_enum(kind: Any) -> bool:
    return bool(pa.types.is_dictionary(kind) and kind.ordered and is_any_text(plain(kind.value_type)))


def _enums(dtype: Any, kind: Any, node: Node) -> Any:
    """A type of Polars with an Enum for ordered categories; a Categorical where one is missing or there twice."""
    pl = polars_module()
    if _is_enum(kind):
        values = _categories(kind, node)
        return dtype if values.null_count() or values.n_unique() < len(values) else pl.Enum(values)
    if isinstance(dtype, (pl.List, pl.Array)) and node.children:
        inner = _enums(dtype.inner, kind.value_type, node.children[0])
        return pl.List(inner) if isinstance(dtype, pl.List) else pl.Array(inner, dtype.size)
    if isinstance(dtype, pl.Struct) and pa.types.is_struct(kind):
        parts = zip(dtype.fields, kind, node.children, strict=True)
        return pl.Struct(
            [
                pl.Field(field_dtype.name, _enums(field_dtype.dtype, field.type, child))
                for field_dtype, field, child in parts
            ]
        )
    return dtype


def _categories(kind: Any, node: Node) -> Any:
    """Categories of a column, a Series of Polars."""
    (buffers,) = HostBackend().read([node.children[0]])
    array = to_chunked(buffers, plain(kind.value_type))
    array.validate(full=True)
    return polars_module().Series(array)
