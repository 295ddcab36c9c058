"""FSST compression for string columns of cuDF and pandas, with random access to every row, and codecs for all others.

Importing registers the accessors, ``series.fsst.compress()`` and ``df.fsst.compress()``, and the Arrow extension type
``cudf_fsst.column``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .accessor import FsstAccessor, FsstFrameAccessor, register
from .codecs.fsst.symbols import SymbolTable
from .codecs.onpair.symbols import OnPairTable
from .column import CompressedColumn
from .compressing import train
from .device.pinned import set_pinned_limit
from .exchange import compress, from_arrow
from .frame import CompressedFrame
from .interop import arrow_extension
from .joining import Compressor, concat
from .loading import load

if TYPE_CHECKING:
    from .engines.polars import scan
    from .parquet import read_parquet
    from .spill import SpillPool, spilling

__all__ = [
    "CompressedColumn",
    "CompressedFrame",
    "Compressor",
    "FsstAccessor",
    "FsstFrameAccessor",
    "OnPairTable",
    "SpillPool",
    "SymbolTable",
    "compress",
    "concat",
    "from_arrow",
    "load",
    "read_parquet",
    "scan",
    "set_pinned_limit",
    "spilling",
    "train",
]

#: Public names whose modules are imported when they are asked for.
_LATER = {"SpillPool": ".spill", "read_parquet": ".parquet", "scan": ".engines.polars", "spilling": ".spill"}

register()
arrow_extension.register()
del arrow_extension


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _LATER:
        value = getattr(import_module(_LATER[name], __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("cudf-fsst")
    except PackageNotFoundError:  # its sources are used as they lie there
        return "unknown"
