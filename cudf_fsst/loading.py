"""The column or the frame that a file holds."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from . import index as indexes
from .backend import Arrival, DeviceBackend, HostBackend
from .column import CompressedColumn
from .column import of_loaded as column_of
from .files import columns as files
from .frame import CompressedFrame
from .interop import cudf as interop_cudf


def load(
    path: Any,
    *,
    columns: Sequence[Hashable] | None = None,
    device: str = "cpu",
    storage_options: Mapping[str, Any] | None = None,
) -> CompressedColumn | CompressedFrame:
    """Read a column or a frame that ``save`` wrote.

    Parameters
    ----------
    path : path, URL or file object
        The file. All of it that is read is checked before it is used. A file object is read from its beginning.
    columns : sequence of labels, optional
        Columns of a frame, in the order in which the result has them. They and the index alone are read, besides what
        says where they are. None: all.
    device : str
        ``"cpu"``: into host memory; ``"gpu"``: into the memory of the current GPU, by way of pinned host memory;
        ``"auto"``: to the GPU where one is found.
    storage_options : dict, optional
        For a URL: what fsspec's file system takes, as in `pandas.read_parquet`.

    Returns
    -------
    CompressedColumn or CompressedFrame
        Wherever it was when it was saved. Loading takes memory in proportion to the file. An index may be larger, and
        is made when it is asked for.

    Raises
    ------
    ValueError
        The bytes are damaged, the file holds something else, or its format version is not known. The message says
        which part is wrong, and how. Or `columns` are asked of the file of a column. Or `device` is none.
    KeyError
        The frame has no such column, or several.
    TypeError
        `columns` is a text, or no sequence.
    OSError
        The file cannot be read.
    ImportError, RuntimeError
        ``device="gpu"``, and there is no cuDF or no GPU.
    """
    gpu = DeviceBackend() if interop_cudf.on_gpu(device) else None
    if columns is not None:
        if isinstance(columns, (str, bytes)) or not isinstance(columns, Iterable):
            raise TypeError(f"columns must be labels of columns in a list, not {columns!r}")
        columns = list(columns)
    choose = None if columns is None else partial(_places_of, columns)
    if gpu is None:
        return of_loaded(files.load(path, choose, storage_options=storage_options))
    with Arrival(gpu) as arrival:
        loaded = files.load(path, choose, storage_options=storage_options, destination=arrival)
        arrival.check(loaded.unchecked)
        frame = of_loaded(loaded)
        return frame._moved(gpu, frame._index.for_device(gpu), arrival.moved)


def of_loaded(loaded: files.Loaded) -> CompressedColumn | CompressedFrame:
    """The column or the frame of a file."""
    if loaded.holds == "column":
        return column_of(loaded)
    return CompressedFrame._make(HostBackend(), loaded.columns, loaded.labels, indexes.of_loaded(loaded))


def _places_of(names: Sequence[Hashable], labels: Any, types: Any) -> list[int]:
    """Which columns have these labels."""
    del types
    places = []
    for label in names:
        try:
            place = labels.get_loc(label)
        except (KeyError, TypeError, pd.errors.InvalidIndexError):
            raise KeyError(f"the frame has no column {label!r}") from None
        if not isinstance(place, (int, np.integer)):
            raise KeyError(f"{label!r} names several columns")
        places.append(int(place))
    return places
