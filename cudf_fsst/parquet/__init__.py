"""Parquet files into compressed frames, row group by row group."""

from .reading import read_parquet

__all__ = ["read_parquet"]
