"""FSST compression for string columns of cuDF and pandas, with random access to every row, and codecs for all others.

Importing registers the accessors: ``series.fsst.compress()`` and ``df.fsst.compress()``.
"""

from importlib.metadata import PackageNotFoundError, version

from .accessor import FsstAccessor, FsstFrameAccessor, register
from .codecs.fsst.symbols import SymbolTable
from .column import CompressedColumn, train
from .device.pinned import set_pinned_limit
from .frame import CompressedFrame, load
from .joining import Compressor, concat
from .parquet import read_parquet
from .spill import SpillPool, spilling

__all__ = [
    "CompressedColumn",
    "CompressedFrame",
    "Compressor",
    "FsstAccessor",
    "FsstFrameAccessor",
    "SpillPool",
    "SymbolTable",
    "concat",
    "load",
    "read_parquet",
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
