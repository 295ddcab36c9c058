"""FSST compression for string columns of cuDF and pandas, with random access to every row.

Importing registers the accessor: ``series.fsst.compress()``.
"""

from .accessor import FsstAccessor, register
from .codecs.fsst.symbols import SymbolTable
from .column import CompressedColumn, concat, load, train
from .compressor import Compressor

__all__ = ["CompressedColumn", "Compressor", "FsstAccessor", "SymbolTable", "concat", "load", "train"]

register()
