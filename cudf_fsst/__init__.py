"""FSST compression for string columns of cuDF and pandas, with random access to every row, and codecs for all others.

Importing registers the accessors, ``series.fsst.compress()`` and ``df.fsst.compress()``, and the Arrow extension type
``cudf_fsst.column``.
"""

from importlib.metadata import PackageNotFoundError, version

from .accessor import FsstAccessor, FsstFrameAccessor, register
from .codecs.fsst.symbols import SymbolTable
from .codecs.onpair.symbols import OnPairTable
from .column import CompressedColumn, train
from .device.pinned import set_pinned_limit
from .engines.polars import scan
from .exchange import compress, from_arrow
from .frame import CompressedFrame, load
from .interop import arrow_extension
from .joining import Compressor, concat
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

try:
    __version__ = version("cudf-fsst")
except PackageNotFoundError:  # its sources are used as they lie there
    __version__ = "unknown"
del PackageNotFoundError, version

register()
arrow_extension.register()
del arrow_extension
