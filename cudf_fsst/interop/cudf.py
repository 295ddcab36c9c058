"""What this package does with Series, Index and DataFrame of cuDF; their columns are `cudf_columns`.

`adapter.Adapter` says what functions do that have no words here.

What is private in cuDF and used here, in `cudf_columns` and in `cudf_indexes`, and only there:

``Series._column``, ``DataFrame._columns``, ``buffer.access()``, ``column.plc_column``
    Addresses of buffers. The public ``to_pylibcudf`` gives no data of a column that cuDF has spilled, loses the offset
    of a buffer that is a part of another, and keeps nothing from being spilled while it is read.
``column.null_count``
    It is known; the public ``isna().any()`` is a kernel and a wait.
``ColumnBase.create``, ``Series._from_column``, ``DataFrame._from_data``, ``Index._from_column``
    Columns of exactly a dtype. The public ``from_pylibcudf`` infers dtypes, so that columns of decimals and others are
    made twice, and a Series for each: `decompress` of a small frame of 16 columns took 1.74 ms with it, and takes 1.22.
    It is used where cuDF lays values out in another way than Arrow (nested columns, days, nulls), and for codes of
    categories.
``ColumnAccessor``
    A DataFrame's columns with their labels, as assigning to ``columns`` makes it: 20 us instead of 110 for 16 of them.
``CategoricalDtype._codes_dtype``, ``cudf.utils.dtypes.cudf_dtype_to_pa_type`` and ``cudf_dtype_from_pa_type``
    Which dtype goes with which Arrow type; nothing public says it.

Nothing here is imported before a GPU is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..arrow_types import is_string_type
from ..buffers import ColumnBuffers

# Part of the adapter, like `build`.
from .cudf_columns import Access as Access
from .cudf_columns import build as build
from .cudf_columns import check_dtype as check_dtype
from .cudf_columns import describe as describe
from .cudf_columns import plain_column
from .cudf_columns import plain_dtype as plain_dtype
from .cudf_columns import to_host_strings as to_host_strings
from .cudf_indexes import build_index as build_index
from .cudf_indexes import column_of as column_of
from .cudf_indexes import concat_labels as concat_labels
from .cudf_indexes import describe_index as describe_index
from .cudf_indexes import index_of_codes as index_of_codes
from .cudf_indexes import index_to_device as index_to_device
from .cudf_indexes import labels as labels
from .cudf_indexes import range_of as range_of
from .cudf_indexes import take_labels as take_labels
from .cudf_indexes import view as view
from .cudf_indexes import with_level_dtypes as with_level_dtypes
from .cudf_indexes import with_names as with_names
from .cudf_proxies import is_cudf as is_cudf
from .cudf_proxies import is_cudf_frame as is_cudf_frame
from .cudf_proxies import unwrap_proxy as unwrap_proxy
from .cudf_proxies import wrap_proxy as wrap_proxy

MISSING = (
    "this needs an NVIDIA GPU and cuDF, which cannot be imported ({error}); "
    "in a clone of cudf-fsst: pip install '.[cuda12]' (or '.[cuda13]')"
)


def cudf_module() -> Any:
    """Import cuDF; ImportError says which extra to install."""
    try:
        import cudf
    except ImportError as error:
        raise ImportError(MISSING.format(error=error)) from error
    return cudf


def row_values(key: Any) -> Any:
    """Numbers or booleans of a selection; missing booleans are False.

    What is on a GPU becomes a CuPy array on the current one.
    """
    import cupy

    cudf = cudf_module()
    if isinstance(key, (cudf.Series, cudf.Index)):
        if key.dtype.kind == "b" and key._column.null_count:
            key = key.fillna(False)
        key = key.values
    if hasattr(key, "__cuda_array_interface__"):
        array = cupy.asarray(key)
        if array.device.id == cupy.cuda.runtime.getDevice():
            return array
        array.device.synchronize()  # its streams are not this GPU's
        return array.copy()
    from . import pandas

    return pandas.row_values(key)


def present_values(data: Any, dtype: Any) -> Any:
    """The values of a Series or Index of this dtype in a CuPy array; None where some are missing, or of another."""
    if not isinstance(data, (cudf_module().Series, cudf_module().Index)) or data.dtype != dtype:
        return None
    return None if data._column.null_count else data.values


def concat(results: Sequence[Any]) -> Any:
    return cudf_module().concat(results)


def concat_values(results: Sequence[Any]) -> Any:
    return cudf_module().concat(results, ignore_index=True)


def rows_of(series: Any, numbers: Any) -> Any:
    return series.take(numbers).reset_index(drop=True)


def all_missing(series: Any) -> bool:
    return 0 < len(series) == series.null_count


def with_labels(series: Any, index: Any) -> Any:
    return cudf_module().Series._from_column(series._column, name=series.name, index=index)


def with_dtype(series: Any, dtype: Any) -> Any:
    """A Series of the same buffers with another dtype of the same layout, as decimals of another precision."""
    from cudf.core.column import ColumnBase

    column = ColumnBase.create(series._column.plc_column, dtype)
    return cudf_module().Series._from_column(column, name=series.name, index=series.index)


def of_array(values: Any, name: Any, index: Any) -> Any:
    """A Series of numbers or booleans without missing ones, of a CuPy array."""
    return series(cudf_module().Series(values)._column, name, index)


@cache
def _plain_types(kind: Any) -> tuple[Any, Any]:
    """What pylibcudf and cuDF call Arrow's type of booleans or numbers."""
    import pylibcudf as plc

    return plc.DataType.from_arrow(kind), plain_dtype(kind, None)


def answers(column: ColumnBuffers, dtype: Any, missing: Any, name: Any, index: Any) -> Any:
    if column.rows:  # without all that `build` asks about types
        import pylibcudf as plc
        from cudf.core.column import ColumnBase

        kind, own_dtype = _plain_types(column.type)
        validity, values = column.owners
        mask, nulls = validity if column.null_count else None, column.null_count
        result_column = ColumnBase.create(plc.Column(kind, column.rows, values, mask, nulls, 0, []), own_dtype)
    else:
        result_column = build(column, column.type, None)
    result = series(result_column, name, index)
    if column.null_count and not pd.isna(missing):
        result = result.fillna(missing)
    return result if result.dtype == dtype else result.astype(dtype)


def categories(values: Any) -> tuple[Any, Any]:
    """The codes of values as categories, -1 of missing ones, in a CuPy array, and their dtype."""
    converted = values.astype("category")
    codes = converted.cat.codes  # missing ones are -1, or missing, by version
    return codes.fillna(-1).values, converted.dtype


def categorical(column: ColumnBuffers, dtype: Any) -> Any:
    """A column of categories, of codes and which rows have none."""
    import pylibcudf as plc
    from cudf.core.column import ColumnBase

    validity, values = column.owners
    column.owners = validity, plc.gpumemoryview(values)
    codes = cudf_module().Series.from_pylibcudf(plain_column(column, column.type)).astype(dtype._codes_dtype)
    return ColumnBase.create(codes._column.plc_column, dtype)


def matching_rows(left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, Any]:
    """Positions of the rows that an inner join brings together, of each side a pylibcudf column of int32.

    libcudf joins the keys, as it does for cuDF's ``merge``, which would make frames of them before and after.

    Parameters
    ----------
    left, right
        Columns of keys, with rows, those of both sides of the same dtypes.
    """
    import pylibcudf as plc

    with Access() as access:
        sides = [plc.Table([access.add(column.plc_column) for column in side]) for side in (left, right)]
        rows: tuple[Any, Any] = plc.join.inner_join(*sides, plc.types.NullEquality.EQUAL)
    return rows


def positions(rows: Any) -> Any:
    """Row numbers of a side of `matching_rows` as a CuPy array, which shares their memory."""
    import cupy

    return cupy.asarray(rows.data()).view(np.int32)


def gathered(columns: Sequence[Any], rows: Any) -> list[Any]:
    """Rows of columns, by the row numbers of their side of `matching_rows`."""
    import pylibcudf as plc
    from cudf.core.column import ColumnBase

    if not columns:
        return []
    with Access() as access:
        table = plc.Table([access.add(column.plc_column) for column in columns])
        gathered_columns = plc.copying.gather(table, rows, plc.copying.OutOfBoundsPolicy.DONT_CHECK).columns()
    return [
        ColumnBase.create(gathered_column, column.dtype)
        for gathered_column, column in zip(gathered_columns, columns, strict=True)
    ]


def factorized(series: Any) -> tuple[Any, Any]:
    codes, values = series.factorize()
    return codes, cudf_module().Series(values, name=series.name)


def distinct(series: Any) -> Any:
    return series.drop_duplicates(ignore_index=True)


def counted(values: Any, counts: Any, *, normalize: bool, sort: bool, ascending: bool) -> Any:
    cudf = cudf_module()
    example = values.value_counts(sort=False, dropna=False)  # in the order of the values, each of which is there once
    frame = cudf.DataFrame({"count": counts, "first": range(len(values))}, index=example.index)
    if sort:  # equal numbers stay in that order
        frame = frame.sort_values(["count", "first"], ascending=[ascending, True])
    result = frame["count"].astype(example.dtype)
    return (result / result.sum()).rename("proportion") if normalize else result


def scalars(series: Any) -> list[Any]:
    return list(series.to_pandas())


def sample(values: Sequence[str | None], dtype: Any, kind: Any, stored: dict[str, Any] | None) -> Any:
    import pylibcudf as plc
    from cudf.core.column import ColumnBase

    del dtype  # under cudf.pandas it may be a proxy
    column = plc.Column.from_arrow(pa.array(values, pa.string()))
    return series(ColumnBase.create(column, plain_dtype(kind, stored)), None, None)


def one_missing(dtype: Any) -> Any:
    """A Series of a missing value."""
    return cudf_module().Series([None], dtype=dtype)


def mode() -> Any:
    return cudf_module().get_option("mode.pandas_compatible")


def like(series: Any, pat: str, esc: str | None = None) -> Any:
    return series.str.like(pat, esc)


def byte_count(series: Any) -> Any:
    return series.str.byte_count()


def is_frame(value: Any) -> bool:
    cudf = cudf_module()
    return isinstance(value, (cudf.Series, cudf.DataFrame))


def current_device() -> str:
    """Name of the current GPU, as columns say it."""
    import cupy

    return _device_name(cupy.cuda.runtime.getDevice())


@cache
def _device_name(number: int) -> str:
    return f"cuda:{number}"


def on_gpu(choice: str) -> bool:
    """Whether what can be done in either place is done on the current GPU.

    Parameters
    ----------
    choice
        ``"gpu"``, ``"cpu"``, or ``"auto"``: on the GPU if cuDF can be imported and there is one.

    Raises
    ------
    ValueError
        It is none of these.
    ImportError
        The GPU was asked for and cuDF cannot be imported.
    RuntimeError
        The GPU was asked for and none is found.
    """
    if choice not in ("auto", "cpu", "gpu"):
        raise ValueError(f"device must be 'auto', 'cpu' or 'gpu', not {choice!r}")
    if choice == "cpu":
        return False
    try:
        cudf_module()
        current_device()  # CuPy raises CUDARuntimeError, a RuntimeError, where there is no driver or no device
    except Exception:  # not installed, no driver, or broken, of which `accessor.register` warned
        if choice == "gpu":
            raise
        return False
    return True


@cache
def on_device(device: str) -> AbstractContextManager[Any]:
    """A context in which a GPU is the current one."""
    import cupy

    return cupy.cuda.Device(int(device.removeprefix("cuda:")))


def spills() -> bool:
    """Whether cuDF may move buffers to host memory and back."""
    return bool(cudf_module().get_option("spill"))


def hand_over() -> None:
    """Let other threads go on with what this one has made on the current GPU: see `device.memory.hand_over`."""
    from ..device import memory

    memory.hand_over()


def frame(columns: Sequence[Any], labels: Any, index: Any) -> Any:
    import cudf

    by_label = {} if isinstance(labels, pd.MultiIndex) else dict(zip(labels, columns, strict=True))
    # An index would make a table to see whether it is unique. Numbers that are missing are not equal to each other.
    simple = pd.api.types.is_integer_dtype(labels.dtype) or pd.api.types.is_string_dtype(labels.dtype)
    if len(by_label) < len(columns) or not (simple or labels.is_unique):
        result = cudf.DataFrame._from_data(dict(enumerate(columns)), index=index)
        result.columns = labels
        return result
    from cudf.core.column_accessor import ColumnAccessor

    data = ColumnAccessor(
        by_label,
        level_names=(labels.name,),
        rangeindex=isinstance(labels, pd.RangeIndex),
        label_dtype=labels.dtype,
        verify=False,
    )
    return cudf.DataFrame._from_data(data, index=index)


def series(values: Any, name: Any, index: Any) -> Any:
    import cudf

    return cudf.Series._from_column(values, name=name, index=index)


def column_series(
    column: ColumnBuffers,
    kind: Any,
    stored: dict[str, Any] | None,
    dtype: Any,
    name: Any,
    index: Any,
    *,
    nullable: bool = False,
) -> Any:
    """A Series with a name and labels, of buffers in GPU memory; see `Adapter.column_series`."""
    del dtype  # which `stored` says
    return series(build(column, kind, stored, nullable=nullable), name, index)


def holds_strings(data: Any) -> bool:
    dtype = data.dtype
    if isinstance(dtype, pd.ArrowDtype):
        return is_string_type(dtype.pyarrow_dtype)
    return isinstance(dtype, pd.StringDtype) or dtype == np.dtype(object)


def same(left: Any, right: Any) -> bool:
    if not left.index.equals(right.index):
        return False
    if not hasattr(left, "columns"):
        return _same_values(left, right)
    pairs = zip(columns(left), columns(right), strict=True)
    return all(_same_values(*(cudf_module().Series._from_column(column) for column in pair)) for pair in pairs)


def _same_values(left: Any, right: Any) -> bool:
    try:
        return bool(left.reset_index(drop=True).equals(right.reset_index(drop=True)))
    except (TypeError, NotImplementedError):  # cuDF does not compare decimals, lists and structs
        return bool(left.to_arrow().equals(right.to_arrow()))


def columns(data: Any) -> list[Any]:
    """The columns of a DataFrame, as `describe` takes them."""
    return list(data._columns)


def nbytes(data: Any) -> int:
    """About how many bytes a DataFrame's rows take; of a slice, its share of the buffers."""
    return round(sum(_nbytes(column.plc_column) for column in columns(data)))


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
