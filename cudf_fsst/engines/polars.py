"""Compressed frames as LazyFrames of Polars."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

from ..interop.cudf import on_gpu
from ..remote import Remote, is_file_object, is_url, located
from .polars_source import FileFrame, PolarsSource
from .polars_types import polars_module, schema_of
from .tables import EngineTable


def lazy(table: EngineTable, where: Any = None) -> Any:
    """A LazyFrame of a table; see `CompressedFrame.lazy`."""
    pl = polars_module()
    if where is not None and not isinstance(where, pl.Expr):
        raise TypeError(f"where must be an expression of Polars, not {type(where).__name__}")
    return source_class()(schema_of(table), (table,), where).lazy()


def scan(path: Any, where: Any = None, *, storage_options: Mapping[str, Any] | None = None) -> Any:
    """Query stored frames with Polars: a LazyFrame that reads the columns that a query uses, file by file.

    Of a file whose rows a filter leaves out altogether, by the codes of the columns that it is about, no other column
    is read; and none of it where a query ends before it (``head``). See `CompressedFrame.lazy` for what is answered on
    the codes. All that is read is checked as by `load`.

    Parameters
    ----------
    path : path, pattern, or list of them
        Files that `CompressedFrame.save` wrote, as ``"part-*.fsst"``: the rows of one after those of another, those of
        a pattern in the order of their names. All have the same columns. Their types are read at once, their rows when
        the query runs. Or URLs, as ``"s3://bucket/part-*.fsst"``, or file objects.
    where : polars.Expr, optional
        Rows for which it is not true are left out; see `CompressedFrame.lazy`.
    storage_options : dict, optional
        For URLs: what fsspec's file system takes, as in `pandas.read_parquet`.

    Returns
    -------
    polars.LazyFrame

    Raises
    ------
    ImportError
        Polars is missing.
    TypeError
        Polars has no type for a column, which is named. Or `path` or `where` is something else.
    ValueError
        A file is damaged, holds a column, or has other columns than the first; it is named.
    FileNotFoundError
        There is no such file.
    """
    pl = polars_module()
    if where is not None and not isinstance(where, pl.Expr):
        raise TypeError(f"where must be an expression of Polars, not {type(where).__name__}")
    tables = [FileFrame(table, storage_options) for table in _paths(path, storage_options)]
    schema = tables[0].schema()
    for table in tables[1:]:
        if (other_schema := table.schema()) != schema or list(other_schema) != list(schema):
            raise ValueError(f"{table.path}: its columns are {other_schema}, those of {tables[0].path} are {schema}")
    return source_class()(schema, tables, where).lazy()


def _paths(path: Any, storage_options: Mapping[str, Any] | None) -> list[Any]:
    """Files of a path, a pattern, a URL, a file object or a list of them, in order."""
    if is_url(path) and glob.has_magic(path) and isinstance(files := located(path, storage_options), Remote):
        if not (matches := files.matches()):
            raise FileNotFoundError(f"no file has a name like {path!r}")
        return [match.name for match in matches]
    if is_url(path) or is_file_object(path):
        return [path]
    if isinstance(path, (str, os.PathLike)):
        name = os.fsdecode(located(path))
        if os.path.exists(name) or not glob.has_magic(name):
            return [name]
        files = sorted(glob.glob(name, recursive=True))
        if not files:
            raise FileNotFoundError(f"no file has a name like {name!r}")
        return files
    if not isinstance(path, Sequence) or isinstance(path, bytes):
        raise TypeError(f"expected a path, a pattern or a list of them, not {type(path).__name__}")
    if not path:
        raise ValueError("no files to scan")
    return [name for match in path for name in _paths(match, storage_options)]


@cache
def source_class() -> type[PolarsSource]:
    """The source that the engines of this process can ask."""
    if find_spec("cudf_polars") is None or not on_gpu("auto"):
        return PolarsSource
    from .polars_gpu import GpuSource

    return GpuSource
