"""cuDF Series and Index of strings <-> `DeviceStrings`, without copying characters.

cuDF keeps a string column as a pylibcudf column: ``data()`` is the characters, ``child(0)`` the offsets (INT32 or
INT64), ``null_mask()`` the validity. A slice has an ``offset()`` that counts rows and applies to the offsets and the
validity only. Buffers may be spilled to host memory; inside `open_strings` they are on the GPU and stay there.

Nothing here is imported before a GPU is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..buffers import DeviceStrings, HostStrings
from .arrow import from_arrow
from .pandas import WANTED, is_string_dtype

MISSING = (
    "this needs an NVIDIA GPU and cuDF, which cannot be imported ({error}); "
    'install it with: pip install "cudf-fsst[cuda12]" (or "cudf-fsst[cuda13]")'
)


def cudf_module() -> Any:
    """Import cuDF; ImportError says which extra to install."""
    try:
        import cudf
    except ImportError as error:
        raise ImportError(MISSING.format(error=error)) from error
    return cudf


def check_dtype(data: Any) -> None:
    """Raise AttributeError, naming the dtype, where a Series or Index does not hold strings."""
    is_multi = isinstance(data, cudf_module().MultiIndex)
    if is_multi or not is_string_dtype(data.dtype):
        shown = "MultiIndex" if is_multi else data.dtype
        raise AttributeError(f"Can only use .fsst accessor with {WANTED}, not {shown}")


def labels(data: Any) -> tuple[Any, Any]:
    """Name and index of a Series; an Index counts as a Series with a RangeIndex."""
    cudf = cudf_module()
    if isinstance(data, cudf.Index):
        return data.name, cudf.RangeIndex(len(data))
    return data.name, data.index


def view(index: Any) -> Any:
    """The same labels as an Index of its own, whose names can be set without changing the other's; nothing is copied.

    cuDF itself hands out the very index of a Series.
    """
    return index.copy(deep=False)


def is_range(index: Any) -> bool:
    """Whether an index is three numbers."""
    return isinstance(index, cudf_module().RangeIndex)


@contextmanager
def open_strings(data: Any, *, drop_null_chars: bool = False) -> Iterator[DeviceStrings]:
    """Addresses of a Series' or Index' buffers, unspilled, and locked as long as the context lasts.

    Parameters
    ----------
    data : cudf.Series or cudf.Index
        One that passed `check_dtype`.
    drop_null_chars : bool
        cuDF's own functions give null rows no characters, but buffers made elsewhere may have some. True: work on a
        copy whose null rows are empty.
    """
    with data._column.access(mode="read", scope="internal") as column:
        strings = describe(column.plc_column)
        if not (drop_null_chars and strings.null_count):
            yield strings
            return
        filled = data.fillna("")
        with filled._column.access(mode="read", scope="internal") as copy:
            compact = describe(copy.plc_column)
            # The copy has no nulls; the mask is still the original's.
            compact.validity = strings.validity
            compact.validity_offset = strings.validity_offset
            compact.null_count = strings.null_count
            compact.owners += (filled, *strings.owners)
            yield compact


def describe(column: Any) -> DeviceStrings:
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
        chars_limit=(0 if chars is None else chars.size) if whole else None,
    )


def describe_without_null_chars(column: Any) -> DeviceStrings:
    """As `describe`, of a copy whose null rows are empty."""
    import pylibcudf as plc

    strings = describe(column)
    if not strings.null_count:
        return strings
    filled = plc.replace.replace_nulls(column, plc.Scalar.from_py("", plc.DataType(plc.TypeId.STRING)))
    # The copy has no nulls; the mask is still the original's.
    owners = (filled, *strings.owners)
    kept = {"validity": strings.validity, "validity_offset": strings.validity_offset, "null_count": strings.null_count}
    return replace(describe(filled), **kept, owners=owners)


def to_series(strings: DeviceStrings, dtype: Any, name: Any, index: Any) -> Any:
    """Build a cudf.Series around device buffers, without a copy.

    Parameters
    ----------
    strings : DeviceStrings
        A codec's result: ``owners`` is (offsets, characters, validity or None), `rmm.DeviceBuffer` each, from offset 0;
        the validity is padded as ``pylibcudf.null_mask.bitmask_allocation_size_bytes`` says.
    dtype : pandas dtype or None
        None: cuDF's own default, ``str``.
    name : hashable
    index : cudf.Index or None
    """
    if strings.rows == 0:
        return empty(dtype, name, index)
    series = cudf_module().Series.from_pylibcudf(to_column(strings), {"name": name, "index": index})
    # Between string dtypes this only relabels the column.
    return series if dtype is None or series.dtype == dtype else series.astype(dtype)


def to_column(strings: DeviceStrings) -> Any:
    """A pylibcudf column around device buffers of at least one row; see `to_series`."""
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


def empty(dtype: Any, name: Any, index: Any) -> Any:
    """A Series of this dtype without rows."""
    series = cudf_module().Series([], dtype="str", name=name, index=index)
    return series if dtype is None or series.dtype == dtype else series.astype(dtype)


def to_host_strings(strings: DeviceStrings) -> HostStrings:
    """Copy a codec's result to host memory."""
    if strings.rows == 0:
        return HostStrings(0, np.empty(0, np.uint8), np.zeros(1, np.int32))
    # The default dtype: its Arrow form has 64-bit offsets, so any number of characters fits.
    return from_arrow(to_series(strings, None, None, None).to_arrow())


def index_to_device(index: Any) -> Any:
    """The same index in cuDF, without a frequency that cuDF does not have, as business days."""
    cudf = cudf_module()
    try:
        return cudf.from_pandas(index)
    except ValueError:
        if getattr(index, "freq", None) is None:
            raise
    plain = index.copy(deep=True)
    plain.freq = None
    return cudf.from_pandas(plain)


def row_values(key: Any) -> Any:
    """Numbers or booleans of a selection; missing booleans are False.

    What is on a GPU becomes a CuPy array on the current one.
    """
    import cupy

    cudf = cudf_module()
    if isinstance(key, (cudf.Series, cudf.Index)):
        if key.dtype.kind == "b" and key.isna().any():
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


def take_labels(index: Any, rows: Any) -> Any:
    """Labels of some rows."""
    cudf = cudf_module()
    if isinstance(index, cudf.RangeIndex):
        # cuDF would make, and keep, the labels of all rows first.
        import cupy

        return cudf.Index(index.start + index.step * cupy.asarray(rows), name=index.name)
    return index.take(rows)


def concat_labels(names: Sequence[Any], indexes: Sequence[Any]) -> tuple[Any, Any]:
    """Name and index of ``cudf.concat`` of Series with these names and indexes."""
    import cupy

    cudf = cudf_module()
    # cuDF itself decides, on rows of one byte.
    parts = [
        cudf.Series(cupy.zeros(len(index), np.int8), index=index, name=name)
        for name, index in zip(names, indexes, strict=True)
    ]
    joined = cudf.concat(parts)
    return joined.name, joined.index


def concat(results: Sequence[Any]) -> Any:
    """Join the results of a function called on consecutive pieces, labels kept."""
    return cudf_module().concat(results)


def is_frame(value: Any) -> bool:
    """Whether `concat` can join such values."""
    cudf = cudf_module()
    return isinstance(value, (cudf.Series, cudf.DataFrame))


def current_device() -> str:
    """Name of the current GPU, as columns say it."""
    import cupy

    return f"cuda:{cupy.cuda.runtime.getDevice()}"


@contextmanager
def on_device(device: str) -> Iterator[None]:
    """Make a GPU the current one."""
    import cupy

    with cupy.cuda.Device(int(device.removeprefix("cuda:"))):
        yield


def hand_over() -> None:
    """Let other threads go on with what this one has made on the current GPU: see `device.memory.hand_over`."""
    from ..device import memory

    memory.hand_over()


def read_u64(buffer: Any, offset: int, count: int) -> npt.NDArray[np.uint64]:
    """Copy 64-bit numbers that start at byte `offset` of a device buffer to the host."""
    from rmm.pylibrmm.device_buffer import copy_ptr_to_host

    numbers = np.empty(count, np.uint64)
    if count:
        copy_ptr_to_host(buffer.ptr + offset, numbers.view(np.uint8))
    return numbers


def is_cudf(data: Any) -> bool:
    """Whether this is a cuDF Series or Index (or something as like one); does not import cuDF."""
    return type(data).__module__.partition(".")[0] == "cudf" and hasattr(data, "dtype")


def is_cudf_frame(data: Any) -> bool:
    """Whether this is a cuDF DataFrame; does not import cuDF."""
    return type(data).__module__.partition(".")[0] == "cudf" and hasattr(data, "columns")


def unwrap_proxy(data: Any) -> tuple[Any, bool]:
    """Of a cudf.pandas proxy the object inside, and whether it was one.

    The object is cuDF's, or pandas' where cuDF cannot hold the data.
    """
    accelerator = sys.modules.get("cudf.pandas")
    if accelerator is None or not accelerator.is_proxy_object(data):
        return data, False
    try:
        return data.as_gpu_object(), True
    except Exception:  # cudf.pandas itself falls back to pandas on whatever cuDF raises
        return data.as_cpu_object(), True


def wrap_proxy(data: Any) -> Any:
    """Wrap a Series, DataFrame or Index as cudf.pandas has it."""
    from cudf.pandas import as_proxy_object

    return as_proxy_object(data)
