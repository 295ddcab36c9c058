"""FSST compression for string columns of cuDF and pandas, with random access to every row.

Importing registers the accessor: ``series.fsst.compress()``.
"""

from importlib.metadata import PackageNotFoundError, version

from .accessor import FsstAccessor, register
from .codecs.fsst.symbols import SymbolTable
from .column import CompressedColumn, concat, load, train
from .compressor import Compressor
from .spill import SpillPool, spilling

__all__ = [
    "CompressedColumn",
    "Compressor",
    "FsstAccessor",
    "SpillPool",
    "SymbolTable",
    "concat",
    "load",
    "spilling",
    "train",
]

try:
    __version__ = version("cudf-fsst")
except PackageNotFoundError:  # its sources are used as they lie there
    __version__ = "unknown"
del PackageNotFoundError, version

register()
