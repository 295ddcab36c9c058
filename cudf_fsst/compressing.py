"""How a Series, an Index or a DataFrame becomes a compressed column or frame."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd

from . import index as indexes
from . import query
from .backend import Backend, HostBackend, SeriesTask, check_options, of_data, of_frame
from .codecs import registry
from .column import CompressedColumn
from .content_dtype import holds_text
from .frame import CompressedFrame
from .interop import cudf as interop_cudf


def check_codecs(
    codecs: Mapping[Any, str] | None, labels: Any, names: Mapping[Any, Any] | None = None
) -> dict[Any, str]:
    """`codecs` as a dict; raise where they are no codecs of columns with these labels. `names`: others -> labels."""
    if codecs is not None and not isinstance(codecs, Mapping):
        raise TypeError(f"codecs must be a dict of column labels and codecs, not {type(codecs).__name__}")
    wanted = {(names or {}).get(label, label): codec for label, codec in (codecs or {}).items()}
    known = set(labels) if wanted else ()  # not the index itself, which has parts of a MultiIndex' labels too
    for label, codec in wanted.items():
        if label not in known:
            raise KeyError(f"codecs names a column that the frame does not have: {label!r}")
        if codec not in registry.names():
            raise ValueError(f"codec of column {label!r} must be one of {registry.names()}, not {codec!r}")
    return wanted


def compress(data: Any, **options: Any) -> CompressedColumn:
    """Compress a Series or Index; what ``data.fsst.compress()`` does (see there)."""
    return compress_checked(*checked(data), **options)


def checked(data: Any) -> tuple[Backend, Any, bool]:
    """Backend for a Series or Index, the data without a cudf.pandas proxy around it, and whether it had one.

    Raises
    ------
    AttributeError
        Nothing takes such values.
    TypeError
        It is no Series, Index or Arrow array.
    """
    data, proxied = interop_cudf.unwrap_proxy(data)
    backend, data = of_data(data)
    backend.interop.check_dtype(data)
    return backend, data, proxied


def compress_checked(
    backend: Backend,
    data: Any,
    proxied: bool,
    *,
    table: Any = None,
    tile_size: Any = "auto",
    level: Any = "default",
    codec: str | None = None,
    stream: Any = None,
    to_host: bool = False,
) -> CompressedColumn:
    """Compress what `checked` returned; `to_host`: into host memory, wherever the data is."""
    check_options(table, tile_size, level, codec)
    name, index = backend.interop.labels(data)
    task = SeriesTask(data, codec, {"table": table, "tile_size": tile_size, "level": level}, lenient=True)
    if backend.device == "cpu":
        ([content], _), labels = backend.compress([task], stream=stream), indexes.of_pandas(index)
    else:
        [content], labels = indexes.compress_with([task], index, backend, stream=stream, to_host=to_host)
        backend = HostBackend() if to_host else backend
    dtype = None
    if isinstance(data, (pd.Series, pd.Index)) and holds_text(content):
        dtype = data.dtype
        query.made_of_text(content.node, dtype)
    return CompressedColumn._make(content, backend, name, labels, dtype, proxied and backend.device != "cpu")


def train(data: Any, *, codec: str = "fsst", level: str = "default", stream: Any = None) -> Any:
    """Train a symbol table, for compressing other data that is like this.

    Parameters
    ----------
    data : pandas or cudf Series or Index, or pyarrow.Array
        Strings.
    codec : str
        A codec of text, whose table it is.
    level : {"default", "max"}
        The level at which the table will be used. Any table works at any level, but fits its own best.
    stream : rmm or CuPy stream, optional
        The stream to work on. Only for data on a GPU.

    Returns
    -------
    SymbolTable or OnPairTable
        Of codec ``"fsst"`` or ``"onpair"``. Equal strings give equal tables, on a GPU and on the host.

    Raises
    ------
    AttributeError
        The data is not of strings.
    ValueError
        There is no such `level`, or no such `codec` of text.
    """
    check_options(None, "auto", level)
    registry.of_text(codec)
    backend, data, _ = checked(data)
    if not backend.interop.holds_strings(data):
        raise AttributeError(f"a symbol table is trained on strings, not on {data.dtype}")
    return backend.train(data, codec, level=level, stream=stream)


def compress_frame(
    data: Any,
    *,
    codecs: Mapping[Any, str] | None = None,
    tile_size: int | str = "auto",
    level: str = "default",
    stream: Any = None,
    to_host: bool = False,
) -> CompressedFrame:
    """Compress a DataFrame; what ``df.fsst.compress()`` does (see there). `to_host`: into host memory."""
    check_options(None, tile_size, level)
    data, proxied = interop_cudf.unwrap_proxy(data)
    backend = of_frame(data)
    labels = pd.Index(data.columns) if not isinstance(data.columns, pd.Index) else data.columns.view()
    codec_of = check_codecs(codecs, labels)
    strings = {"tile_size": tile_size, "level": level}
    tasks = [
        SeriesTask(series, codec_of.get(label), strings, partial("column {!r}".format, label))
        for label, series in zip(labels.tolist(), backend.interop.columns(data), strict=True)
    ]
    columns, index = indexes.compress_with(tasks, data.index, backend, stream=stream, to_host=to_host)
    backend = HostBackend() if to_host else backend
    return CompressedFrame._make(backend, columns, labels, index, proxied and backend.device != "cpu")
