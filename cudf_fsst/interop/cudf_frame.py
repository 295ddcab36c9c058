"""cuDF DataFrames <-> buffers of their columns, without copying values.

Layouts are Arrow's but for these: booleans take a byte, offsets of lists have 32 bits, a column may be a slice of its
buffers (``offset()``), and the categories of a categorical column lie in its dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pandas as pd
import pyarrow as pa

from ..buffers import ColumnBuffers, DeviceStrings
from . import arrow_columns, schema
from . import cudf as strings
from .arrow_columns import fixed_width

_types = pa.types
_NATURAL = {"kind": "cudf"}


@contextmanager
def describe(
    series: Any, *, drop_null_chars: bool = False
) -> Iterator[tuple[ColumnBuffers, Any, dict[str, Any] | None]]:
    """Buffers of a Series, its Arrow type and what says its dtype; buffers are on the GPU while the context lasts.

    `drop_null_chars`: see `interop.cudf.open_strings`.
    """
    of_strings = strings.describe_without_null_chars if drop_null_chars else strings.describe
    with ExitStack() as stack:
        kind, stored = _type_of(series.dtype), _stored(series.dtype)
        column = series._column
        if _is_cut(column.plc_column):
            column = column.copy(deep=True)
        opened = stack.enter_context(column.access(mode="read", scope="internal"))
        if _types.is_dictionary(kind):
            categories = series.dtype.categories._column
            inside = stack.enter_context(categories.access(mode="read", scope="internal"))
            kind = pa.dictionary(_codes_type(opened.plc_column), kind.value_type, kind.ordered)
            buffers = _describe(opened.plc_column, kind, of_strings)
            buffers.children = (_describe(inside.plc_column, kind.value_type, of_strings),)
        else:
            buffers = _describe(opened.plc_column, kind, of_strings)
        buffers.owners += (series, column)
        yield buffers, kind, stored


def _is_cut(column: Any) -> bool:
    """Whether a nested column is a slice, so that its children are longer than it is."""
    import pylibcudf as plc

    kind = column.type().id()
    if kind not in (plc.TypeId.LIST, plc.TypeId.STRUCT):
        return False
    children = [column.child(i) for i in range(column.num_children())]
    if column.offset() or (kind == plc.TypeId.STRUCT and any(child.size() != column.size() for child in children)):
        return True
    if kind == plc.TypeId.LIST and children and column.size() and children[0].size() != column.size() + 1:
        return True
    return any(child.offset() or _is_cut(child) for child in children)


def _type_of(dtype: Any) -> Any:
    """Arrow type of a cuDF dtype."""
    import cudf
    from cudf.utils.dtypes import cudf_dtype_to_pa_type

    if isinstance(dtype, pd.ArrowDtype):
        return dtype.pyarrow_dtype
    if isinstance(dtype, cudf.CategoricalDtype):
        values = _type_of(dtype.categories.dtype)
        if isinstance(values, pa.BaseExtensionType):  # which files do not keep
            values = values.storage_type
        return pa.dictionary(pa.int32(), values, bool(dtype.ordered))
    if isinstance(dtype, cudf.IntervalDtype):
        return dtype.to_arrow()
    return cudf_dtype_to_pa_type(dtype)


def _codes_type(column: Any) -> Any:
    return column.type().to_arrow()


def _stored(dtype: Any) -> dict[str, Any] | None:
    """What `schema.decode_column` and `_dtype` want to know of a dtype."""
    import cudf

    if isinstance(dtype, cudf.CategoricalDtype):
        categories = dtype.categories.dtype
        if isinstance(categories, cudf.IntervalDtype):
            return {"kind": "category", "categories": {"kind": "interval", "closed": categories.closed}}
        return {"kind": "category", "categories": _stored(categories)}
    if isinstance(dtype, (cudf.ListDtype, cudf.StructDtype, cudf.core.dtypes.DecimalDtype)):
        return dict(_NATURAL)
    return schema.encode_dtype(dtype)


def _describe(column: Any, kind: Any, of_strings: Callable[[Any], DeviceStrings]) -> ColumnBuffers:
    """Buffers of a pylibcudf column."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    rows, nulls, offset = column.size(), column.null_count(), column.offset()
    if rows == 0:  # such a column may have no children
        return arrow_columns.describe(arrow_columns.no_rows(kind))
    if _types.is_null(kind):
        return ColumnBuffers(kind, rows, rows)
    if _types.is_string(kind) or _types.is_large_string(kind):
        return ColumnBuffers(kind, rows, nulls, strings=of_strings(column))
    mask = column.null_mask().ptr if nulls else None
    made = ColumnBuffers(kind, rows, nulls, mask, offset if nulls else 0, owners=(column,))
    if width := fixed_width(kind):
        made.itemsize = width
        made.values = column.data().ptr + offset * width
    elif _types.is_list(kind) or _types.is_large_list(kind):
        made.type, made.itemsize = pa.list_(kind.value_field), 4
        made.values = column.child(0).data().ptr
        made.children = (_describe(column.child(1), kind.value_type, of_strings),)
    elif _types.is_struct(kind):
        made.children = tuple(
            _describe(column.child(i), kind.field(i).type, of_strings) for i in range(kind.num_fields)
        )
    else:
        raise TypeError(f"Arrow type {kind} cannot be compressed")
    return made


def build(column: ColumnBuffers, kind: Any, stored: dict[str, Any] | None) -> Any:
    """A Series of what `describe` gave or a host frame holds, without name and labels."""
    import cudf
    from cudf.core.column import ColumnBase

    categories = None
    if _types.is_dictionary(kind):
        inside = (stored or {}).get("categories")
        categories = cudf.Index(build(column.children[0], kind.value_type, inside))
    dtype = _dtype(kind, stored, categories)
    if column.rows == 0 and not isinstance(dtype, pd.DatetimeTZDtype):
        return cudf.Series([], dtype=dtype)
    plain = _build(column, kind)
    if categories is not None:
        codes = cudf.Series.from_pylibcudf(plain).astype(dtype._codes_dtype)
        return cudf.Series._from_column(ColumnBase.create(codes._column.plc_column, dtype))
    natural = cudf.Series.from_pylibcudf(plain)
    if natural.dtype == dtype:
        return natural
    return cudf.Series._from_column(ColumnBase.create(natural._column.plc_column, dtype))


def _dtype(kind: Any, stored: dict[str, Any] | None, categories: Any) -> Any:
    """A cuDF dtype of an Arrow type and what is stored of the dtype."""
    import cudf
    from cudf.utils.dtypes import cudf_dtype_from_pa_type

    if categories is not None:
        return cudf.CategoricalDtype(categories, ordered=kind.ordered)
    if stored is not None and stored["kind"] == "interval":
        return cudf.IntervalDtype(cudf_dtype_from_pa_type(kind.field(0).type), stored["closed"])
    if stored is not None and stored["kind"] == "period":
        raise TypeError("cuDF has no dtype for periods")
    named = stored is not None and stored["kind"] in ("string", "masked", "arrow")
    if stored is not None and (named or (stored["kind"] == "object" and _types.is_string(kind))):
        return schema.decode_any_dtype(stored, kind)
    return cudf_dtype_from_pa_type(kind)


def _build(column: ColumnBuffers, kind: Any) -> Any:
    """A pylibcudf column around buffers."""
    import pylibcudf as plc

    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if _types.is_timestamp(kind):  # the zone is the dtype's
        kind = pa.timestamp(kind.unit)
    rows, nulls = column.rows, column.null_count
    if rows == 0:
        return plc.Column.from_arrow(pa.array([], kind))
    if column.strings is not None:
        assert isinstance(column.strings, DeviceStrings)
        return strings.to_column(column.strings)
    if _types.is_null(kind):
        return plc.Column.from_arrow(pa.nulls(rows, pa.string()))
    validity, values = column.owners
    mask = validity if nulls else None
    if _types.is_list(kind) or _types.is_large_list(kind):
        offsets = plc.Column(plc.DataType(plc.TypeId.INT32), rows + 1, values, None, 0, 0, [])
        if column.itemsize == 8:  # of a large_list
            wide = plc.Column(plc.DataType(plc.TypeId.INT64), rows + 1, values, None, 0, 0, [])
            offsets = plc.unary.cast(wide, plc.DataType(plc.TypeId.INT32))
        child = _build(column.children[0], kind.value_type)
        return plc.Column(plc.DataType(plc.TypeId.LIST), rows, None, mask, nulls, 0, [offsets, child])
    if _types.is_struct(kind):
        children = [_build(child, kind.field(i).type) for i, child in enumerate(column.children)]
        return plc.Column(plc.DataType(plc.TypeId.STRUCT), rows, None, mask, nulls, 0, children)
    if _types.is_dictionary(kind):
        kind = kind.index_type
    return plc.Column(plc.DataType.from_arrow(kind), rows, values, mask, nulls, 0, [])


def describe_index(index: Any) -> tuple[dict[str, Any], list[Any]]:
    """What says an index' kind, names and dtypes, and its levels as Series (none of a RangeIndex)."""
    import cudf

    names = [schema.encode_name(name) for name in index.names]
    if isinstance(index, cudf.RangeIndex):
        return {"names": names, "range": [index.start, index.stop, index.step]}, []
    multi = isinstance(index, cudf.MultiIndex)
    levels = [strings.view(index)]
    if multi:
        index = levels.pop()
        # A level is found by its name first, which may be a number, and only names that differ replace older ones.
        index.names = [f"level {i}" for i in range(index.nlevels)]
        levels = [index.get_level_values(name) for name in index.names]
    series = [cudf.Series._from_column(level._column) for level in levels]
    dtypes = [_stored(one.dtype) for one in series]
    freqs = [None if multi else schema.frequency_name(getattr(level, "freq", None)) for level in levels]
    return {"names": names, "multi": multi, "dtypes": dtypes, "freqs": freqs}, series


def build_index(notes: dict[str, Any], levels: Sequence[tuple[ColumnBuffers, Any, Any]]) -> Any:
    """An index of what `describe_index` gave or a host frame holds."""
    import cudf

    names = [schema.decode_name(name) for name in notes["names"]]
    if "range" in notes:
        start, stop, step = notes["range"]
        return cudf.RangeIndex(start, stop, step, name=names[0])
    series = [build(buffers, kind, stored) for (buffers, kind, _), stored in zip(levels, notes["dtypes"], strict=True)]
    if not notes["multi"]:
        made = cudf.Index(series[0], name=names[0])
        freq = pd.tseries.frequencies.to_offset(notes["freqs"][0])
        if freq is not None and isinstance(made, cudf.DatetimeIndex):
            with suppress(ValueError):  # of one that cuDF does not have, as business days
                # Its constructor would look at all labels, and refuse months of several lengths.
                made = cudf.DatetimeIndex._from_column(made._column, name=names[0], freq=freq)
        return made
    made = cudf.MultiIndex.from_frame(cudf.DataFrame(dict(enumerate(series))))
    made.names = names
    return made


def frame(columns: Sequence[Any], labels: Any, index: Any) -> Any:
    """A DataFrame of Series, the labels of its columns, and an index."""
    import cudf

    made = cudf.DataFrame._from_data({number: one._column for number, one in enumerate(columns)}, index=index)
    made.columns = labels
    return made


def series(values: Any, name: Any, index: Any) -> Any:
    """Give a Series its name and labels."""
    import cudf

    return cudf.Series._from_column(values._column, name=name, index=index)


def columns(data: Any) -> list[Any]:
    """The columns of a DataFrame."""
    import cudf

    return [cudf.Series._from_column(column) for column in data._columns]


def nbytes(data: Any) -> int:
    """About how many bytes a DataFrame's rows take; of a slice, its share of the buffers."""
    series = columns(data)
    return round(sum(_nbytes(one._column.plc_column) for one in series))


def _nbytes(column: Any) -> float:
    import pylibcudf as plc

    rows, kind = column.size(), column.type().id()
    mask = rows / 8 if column.null_count() else 0
    if kind == plc.TypeId.STRUCT:
        return mask + sum(_nbytes(column.child(i)) for i in range(column.num_children()))
    if kind not in (plc.TypeId.LIST, plc.TypeId.STRING):
        return mask + rows * plc.types.size_of(column.type())
    if column.num_children() == 0 or rows == 0:
        return 0
    share = rows / max(column.child(0).size() - 1, 1)
    if kind == plc.TypeId.LIST:
        return mask + 4 * rows + share * _nbytes(column.child(1))
    chars = column.data()
    return mask + 4 * rows + share * (0 if chars is None else chars.size)
