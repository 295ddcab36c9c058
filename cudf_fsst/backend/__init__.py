"""Where a column is, and what works on it there: NumPy and pandas on the host, RMM and cuDF on a GPU.

`HostBackend` and `DeviceBackend` have the same methods. ``compress`` describes the buffers of Series and of an index
and compresses them; ``read`` decompresses rows one after another, ``take`` chosen ones. Series are made of them by
``interop``, an `Adapter`.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from ..codecs.registry import names, texts
from ..codecs.text import layout
from ..interop.cudf import is_cudf, is_cudf_frame
from ..interop.pandas import from_arrow_column
from .arrival import Arrival
from .content import SeriesTask
from .device import DeviceBackend
from .host import HostBackend

__all__ = [
    "Arrival",
    "Backend",
    "DeviceBackend",
    "HostBackend",
    "SeriesTask",
    "check_options",
    "of_data",
    "of_frame",
]

Backend = HostBackend | DeviceBackend


def of_data(data: Any) -> tuple[Backend, Any]:
    """Backend for a Series or Index, and the data as that backend takes it (an Arrow array becomes a Series).

    Raises
    ------
    TypeError
        Neither pandas', nor cuDF's, nor Arrow's.
    """
    if isinstance(data, (pd.Series, pd.Index)):
        return HostBackend(), data
    if isinstance(data, (pa.Array, pa.ChunkedArray)):
        return HostBackend(), from_arrow_column(data)
    if is_cudf(data):
        return DeviceBackend(), data
    raise TypeError(f"expected a Series or an Index of pandas or cuDF, or an Arrow array, not {type(data).__name__}")


def of_frame(data: Any) -> Backend:
    """Backend for a DataFrame; TypeError for anything else."""
    if isinstance(data, pd.DataFrame):
        return HostBackend()
    if is_cudf_frame(data):
        return DeviceBackend()
    raise TypeError(f"expected a DataFrame of pandas or cuDF, not {type(data).__name__}")


def check_options(table: Any, tile_size: Any, level: Any, codec: Any = None) -> None:
    """Check the arguments that every kind of compression takes."""
    if table is not None and not isinstance(table, tables := tuple([codec.TABLE for codec in texts()])):
        expected = ", ".join(cls.__name__ for cls in tables)
        raise TypeError(f"table must be a {expected} or None, not {type(table).__name__}")
    layout.check_options(tile_size, level)
    if codec is not None and codec not in names():
        raise ValueError(f"codec must be one of {names()}, not {codec!r}")
