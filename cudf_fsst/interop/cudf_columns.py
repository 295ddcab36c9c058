"""Columns of cuDF <-> buffers in GPU memory, without copying values, and their dtypes.

Layouts are Arrow's but for these: booleans take a byte, offsets of lists have 32 bits, a column may be a slice of its
buffers (``offset()``), and the categories of a categorical column lie in its dtype.

cuDF keeps a string column as a pylibcudf column: ``data()`` is the characters, ``child(0)`` the offsets (INT32 or
INT64), ``null_mask()`` the validity. A slice has an ``offset()`` that counts rows and applies to the offsets and the
validity only. Buffers may be spilled to host memory; those of `describe` are on the GPU and stay there.

Nothing of cuDF is imported before a GPU is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from ..arrow_types import is_string_type
from ..buffers import ColumnBuffers, DeviceStrings, HostStrings
from . import arrow_columns
from .arrow import from_arrow
from .arrow_columns import fixed_width
from .cudf_proxies import unwrap_proxy
from .dtypes import decode_any_dtype, encode_dtype
from .pandas import WANTED

_types = pa.types
_NATURAL = {"kind": "cudf"}
#: Where its parent has no more characters than these, a slice's `chars_limit` is their number.
_FEW_CHARS = 4 << 20


def describe_strings(column: Any) -> DeviceStrings:
    """Addresses of a pylibcudf string column, which may be a slice.

    The characters' address is the parent's: offsets count from there, whatever the slice. Row ``r`` of a slice is bit
    ``offset + r`` of the parent's mask.
    """
    import pylibcudf as plc

    rows = column.size()
    if rows == 0:  # such a column may have no children
        return DeviceStrings(rows=0, chars=0, offsets=0, offsets_itemsize=4, owners=(column,))
    child = column.child(0)
    itemsize = 8 if child.type().id() == plc.TypeId.INT64 else 4
    chars = column.data()
    chars_nbytes = 0 if chars is None else chars.size
    whole = column.offset() == 0 and child.size() == rows + 1
    null_count = column.null_count()
    return DeviceStrings(
        rows=rows,
        chars=0 if chars is None else chars.ptr,
        offsets=child.data().ptr + (child.offset() + column.offset()) * itemsize,
        offsets_itemsize=itemsize,
        validity=column.null_mask().ptr if null_count else 0,
        validity_offset=column.offset() if null_count else 0,
        null_count=null_count,
        owners=(column,),
        chars_limit=chars_nbytes if whole or chars_nbytes <= _FEW_CHARS else None,
    )


def describe_without_null_chars(column: Any) -> DeviceStrings:
    """Buffers of strings, as `describe_strings` gives them, without characters in null rows; of a copy, if need be."""
    import pylibcudf as plc

    strings = describe_strings(column)
    if not strings.null_count:
        return strings
    filled = plc.replace.replace_nulls(column, plc.Scalar.from_py("", plc.DataType(plc.TypeId.STRING)))
    # The copy has no nulls; the mask is still the original's.
    owners = (filled, *strings.owners)
    kept = {"validity": strings.validity, "validity_offset": strings.validity_offset, "null_count": strings.null_count}
    return replace(describe_strings(filled), **kept, owners=owners)


def to_column(strings: DeviceStrings) -> Any:
    """A pylibcudf column around device buffers of at least one row.

    ``owners`` is (offsets, characters, validity or None), `rmm.DeviceBuffer` each, from offset 0; the validity is
    padded as ``pylibcudf.null_mask.bitmask_allocation_size_bytes`` says.
    """
    import pylibcudf as plc

    offsets, chars, validity = strings.owners
    offsets_type = plc.TypeId.INT32 if strings.offsets_itemsize == 4 else plc.TypeId.INT64
    child = plc.Column(plc.DataType(offsets_type), strings.rows + 1, offsets, None, 0, 0, [])
    return plc.Column(
        plc.DataType(plc.TypeId.STRING),
        strings.rows,
        chars,
        validity if strings.null_count else None,
        strings.null_count,
        0,
        [child],
    )


def to_host_strings(strings: DeviceStrings) -> HostStrings:
    """Copy a codec's result to host memory."""
    if strings.rows == 0:
        return HostStrings(0, np.empty(0, np.uint8), np.zeros(1, np.int32))
    import cudf

    # The default dtype: its Arrow form has 64-bit offsets, so any number of characters fits.
    return from_arrow(cudf.Series.from_pylibcudf(to_column(strings)).to_arrow())


def check_dtype(data: Any) -> None:
    """Raise AttributeError, naming the dtype, where a Series or Index cannot be compressed."""
    import cudf

    if isinstance(data, cudf.MultiIndex):
        raise AttributeError(f"Can only use .fsst accessor with {WANTED}, not MultiIndex")
    dtype = data.dtype
    if id(dtype) in _noted_dtypes:
        return
    try:
        arrow_columns.describe(arrow_columns.no_rows(_type_of(dtype)))
    except (TypeError, NotImplementedError) as error:  # no Arrow type is like it, or none that columns take
        raise AttributeError(f"Can only use .fsst accessor with {WANTED}, not {dtype}: {error}") from error


class BareColumn(NamedTuple):
    """A pylibcudf column without children, or of strings, whose buffers are not cuDF's, and its dtype."""

    plc_column: Any
    dtype: Any


class Access:
    """Columns whose buffers are on the GPU, and stay there until the context ends.

    What ``column.access()`` of cuDF does, without a stack of contexts for each column.
    """

    def __init__(self) -> None:
        self._entered: list[Any] = []

    def __enter__(self) -> Access:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            while self._entered:
                self._entered.pop().__exit__(*error)
        finally:
            if self._entered:  # one raised: the others end, too
                self.__exit__(*error)

    def add(self, column: Any) -> Any:
        """Have a pylibcudf column of cuDF's stay there; it is returned."""
        for buffer in (column.data(), column.null_mask()):
            if buffer is not None:
                context = buffer.access(mode="read", scope="internal")
                context.__enter__()
                self._entered.append(context)
        for child in column.children():
            self.add(child)
        return column


def describe(
    data: Any, access: Access, *, drop_null_chars: bool = False
) -> tuple[ColumnBuffers, Any, dict[str, Any] | None]:
    """Buffers of a Series, an Index or a column, its Arrow type and what says its dtype.

    Parameters
    ----------
    data
        Or one of `columns`, or a `BareColumn`.
    access
        The buffers are on the GPU, and stay there, until it ends.
    drop_null_chars
        cuDF's own functions give null rows no characters, but buffers made elsewhere may have some. True: work on a
        copy whose null rows are empty.
    """
    of_strings = describe_without_null_chars if drop_null_chars else describe_strings
    column = getattr(data, "_column", data)
    dtype = column.dtype
    kind, stored, is_plain = _noted(dtype)
    if not is_plain and _is_cut(column.plc_column):
        column = column.copy(deep=True)
    bare = isinstance(column, BareColumn)
    device_column = column.plc_column if bare else access.add(column.plc_column)
    if not is_plain and _types.is_dictionary(kind):
        categories = dtype.categories._column
        inside = access.add(categories.plc_column)
        if inside.null_count():
            raise TypeError(f"dtype {dtype} cannot be compressed: one of its categories is missing")
        kind = pa.dictionary(device_column.type().to_arrow(), kind.value_type, kind.ordered)
        buffers = _describe(device_column, kind, of_strings)
        buffers.children = (_describe(inside, kind.value_type, of_strings),)
    else:
        buffers = _describe(device_column, kind, of_strings)
    buffers.owners += (data, column)
    return buffers, kind, stored


def _noted(dtype: Any) -> tuple[Any, dict[str, Any] | None, bool]:
    """The Arrow type of a dtype, what says it, and whether it is plain: these are looked up, since a frame has many."""
    if not isinstance(dtype, (np.dtype, pd.StringDtype)):
        return _type_of(dtype), dtype_notes(dtype), False
    entry = _noted_dtypes.get(id(dtype))
    if entry is None:
        if len(_noted_dtypes) >= _MOST_DTYPES:
            _noted_dtypes.clear()
        entry = _noted_dtypes[id(dtype)] = dtype, _type_of(dtype), dtype_notes(dtype)
    return *entry[1:], True


#: By the identity of a dtype, since pandas takes longer for its hash: the dtype, so that it lives, and what is noted.
_noted_dtypes: dict[int, tuple[Any, Any, dict[str, Any] | None]] = {}
_MOST_DTYPES = 256


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


def dtype_notes(dtype: Any) -> dict[str, Any] | None:
    """Notes on a dtype, for `pandas_columns.decode_column` and `_dtype`."""
    import cudf

    if isinstance(dtype, cudf.CategoricalDtype):
        categories = dtype.categories.dtype
        if isinstance(categories, cudf.IntervalDtype):
            return {"kind": "category", "categories": {"kind": "interval", "closed": categories.closed}}
        return {"kind": "category", "categories": dtype_notes(categories)}
    if isinstance(dtype, (cudf.ListDtype, cudf.StructDtype, cudf.core.dtypes.DecimalDtype)):
        return dict(_NATURAL)
    return encode_dtype(dtype)


def _describe(column: Any, kind: Any, of_strings: Callable[[Any], DeviceStrings]) -> ColumnBuffers:
    """Buffers of a pylibcudf column."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    rows, nulls, offset = column.size(), column.null_count(), column.offset()
    if rows == 0:  # such a column may have no children
        return arrow_columns.describe(arrow_columns.no_rows(kind))
    if is_string_type(kind):
        return ColumnBuffers(kind, rows, nulls, strings=of_strings(column))
    if _types.is_null(kind):
        return ColumnBuffers(kind, rows, rows)
    mask = column.null_mask().ptr if nulls else None
    buffers = ColumnBuffers(kind, rows, nulls, mask, offset if nulls else 0, owners=(column,))
    if width := fixed_width(kind):
        buffers.itemsize = width
        buffers.values = column.data().ptr + offset * width
    elif _types.is_list(kind) or _types.is_large_list(kind):
        buffers.type, buffers.itemsize = pa.list_(kind.value_field), 4
        buffers.values = column.child(0).data().ptr
        buffers.children = (_describe(column.child(1), kind.value_type, of_strings),)
    elif _types.is_struct(kind):
        buffers.children = tuple(
            _describe(column.child(i), kind.field(i).type, of_strings) for i in range(kind.num_fields)
        )
    else:
        raise TypeError(f"Arrow type {kind} cannot be compressed")
    return buffers


def build(column: ColumnBuffers, kind: Any, stored: dict[str, Any] | None, *, nullable: bool = False) -> Any:
    """A column of cuDF's of what `describe` gave or a host frame holds.

    `nullable`, which `pandas.build` has, makes no difference: cuDF's dtypes do not depend on nulls.
    """
    import cudf
    from cudf.core.column import ColumnBase

    categories = None
    if _types.is_dictionary(kind):
        inside = (stored or {}).get("categories")
        categories = cudf.Index(cudf.Series._from_column(build(column.children[0], kind.value_type, inside)))
    dtype = _dtype(kind, stored, categories)
    nested = _types.is_nested(kind)
    # cuDF itself makes neither of these without rows.
    odd = isinstance(dtype, pd.DatetimeTZDtype) or (nested and isinstance(dtype, pd.ArrowDtype))
    if column.rows == 0 and not odd:
        return cudf.Series([], dtype=dtype)._column
    plain = plain_column(column, kind)
    if categories is not None:
        codes = cudf.Series.from_pylibcudf(plain).astype(dtype._codes_dtype)
        return ColumnBase.create(codes._column.plc_column, dtype)
    if column.strings is None and (nested or _types.is_date32(kind) or _types.is_null(kind)):
        natural = cudf.Series.from_pylibcudf(plain)._column  # of which some have another layout in cuDF
        return natural if natural.dtype == dtype else ColumnBase.create(natural.plc_column, dtype)
    return ColumnBase.create(plain, dtype)


def plain_dtype(kind: Any, stored: dict[str, Any] | None) -> Any:
    """The dtype of what `build` makes of anything but categories, without making a column."""
    return _dtype(kind, stored, None)


def _dtype(kind: Any, stored: dict[str, Any] | None, categories: Any) -> Any:
    """A cuDF dtype of an Arrow type and what is stored of the dtype; plain ones are looked up."""
    if categories is not None or not (stored is None or stored["kind"] in ("string", "object", "cudf")):
        return _made_dtype(kind, stored, categories)
    key = kind, None if stored is None else tuple(stored.items())
    cached = _dtypes.get(key)
    if cached is None:
        cached = _made_dtype(kind, stored, None)
        if not _types.is_nested(kind):
            _dtypes[key] = cached
    return cached


_dtypes: dict[Any, Any] = {}


def _made_dtype(kind: Any, stored: dict[str, Any] | None, categories: Any) -> Any:
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
        dtype = unwrap_proxy(decode_any_dtype(stored, kind))[0]  # under cudf.pandas its dtypes are proxies, too
        return pd.ArrowDtype(in_cudf(dtype.pyarrow_dtype)) if isinstance(dtype, pd.ArrowDtype) else dtype
    return cudf_dtype_from_pa_type(kind)


def in_cudf(kind: Any) -> Any:
    """The Arrow type that cuDF has instead of one with days or large lists, wherever they are."""
    if _types.is_date32(kind):
        return pa.timestamp("s")
    if _types.is_date64(kind):
        return pa.timestamp("ms")
    if _types.is_list(kind) or _types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(in_cudf(kind.value_type)))
    if _types.is_struct(kind):
        return pa.struct([field.with_type(in_cudf(field.type)) for field in kind])
    return kind


def plain_column(column: ColumnBuffers, kind: Any) -> Any:
    """A pylibcudf column around buffers."""
    import pylibcudf as plc

    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if _types.is_timestamp(kind):  # the zone is the dtype's
        kind = pa.timestamp(kind.unit)
    if _types.is_date64(kind):
        kind = in_cudf(kind)
    rows, nulls = column.rows, column.null_count
    if rows == 0:
        return plc.Column.from_arrow(pa.array([], kind))
    if column.strings is not None:
        assert isinstance(column.strings, DeviceStrings)
        return to_column(column.strings)
    if _types.is_null(kind):
        return plc.Column.from_arrow(pa.nulls(rows, pa.string()))
    validity, values = column.owners
    mask = validity if nulls else None
    if _types.is_list(kind) or _types.is_large_list(kind):
        offsets = plc.Column(plc.DataType(plc.TypeId.INT32), rows + 1, values, None, 0, 0, [])
        if column.itemsize == 8:  # of a large_list
            wide = plc.Column(plc.DataType(plc.TypeId.INT64), rows + 1, values, None, 0, 0, [])
            offsets = plc.unary.cast(wide, plc.DataType(plc.TypeId.INT32))
        child = plain_column(column.children[0], kind.value_type)
        return plc.Column(plc.DataType(plc.TypeId.LIST), rows, None, mask, nulls, 0, [offsets, child])
    if _types.is_struct(kind):
        children = [plain_column(child, kind.field(i).type) for i, child in enumerate(column.children)]
        return plc.Column(plc.DataType(plc.TypeId.STRUCT), rows, None, mask, nulls, 0, children)
    if _types.is_dictionary(kind):
        kind = kind.index_type
    return plc.Column(plc.DataType.from_arrow(kind), rows, values, mask, nulls, 0, [])
