"""Which objects are cuDF's, or proxies of cudf.pandas; nothing here imports cuDF."""

from __future__ import annotations

import sys
from typing import Any


def is_cudf(data: Any) -> bool:
    """Whether this is a cuDF Series or Index (or something as like one); does not import cuDF."""
    return type(data).__module__.partition(".")[0] == "cudf" and hasattr(type(data), "dtype")


def is_cudf_frame(data: Any) -> bool:
    """Whether this is a cuDF DataFrame; does not import cuDF."""
    return type(data).__module__.partition(".")[0] == "cudf" and hasattr(type(data), "columns")


def unwrap_proxy(data: Any) -> tuple[Any, bool]:
    """The object inside a cudf.pandas proxy, or `data` itself, and whether it was a proxy.

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
