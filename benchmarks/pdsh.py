"""The queries of TPC-H as cudf-polars has them for Polars, and in SQL: taken out of its wheel, not copied.

The module that has them is asked for nothing but the queries. What else it needs of cudf-polars, it gets from here.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

#: Where the wheel lies, if it was downloaded.
VARIABLE = "CUDF_FSST_PDSH"
REQUIREMENT = "cudf-polars-cu13==26.10.*"
_MODULE = "cudf_polars/streaming/benchmarks/pdsh.py"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
NUMBERS = tuple(range(1, 23))


@dataclass(frozen=True)
class QueryResult:
    """What a query returns: its frame is all that is looked at here."""

    frame: Any
    sort_by: list[tuple[str, bool]]
    limit: int | None = None
    nulls_last: bool = True
    sort_keys: Any = None


def download(folder: Path) -> Path:
    """The wheel, by pip into a folder; CalledProcessError where that fails."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
    subprocess.run([*command, REQUIREMENT], check=True)
    (wheel,) = folder.glob("cudf_polars*.whl")
    return wheel


def load(wheel: Path | None = None) -> ModuleType:
    """The module of a wheel, or of the cudf-polars that is installed."""
    if wheel is None:
        (folder,) = importlib.util.find_spec("cudf_polars").submodule_search_locations  # type: ignore[union-attr]
        text = (Path(folder).parent / _MODULE).read_text()
    else:
        with zipfile.ZipFile(wheel) as file:
            text = file.read(_MODULE).decode()
    made = ModuleType("pdsh_of_the_wheel")
    kept, there = dict(os.environ), {name: one for name, one in sys.modules.items() if name.startswith("cudf_polars")}
    try:
        # As where cudf-polars is not installed, for which the module has a way.
        for name in there:
            del sys.modules[name]
        sys.modules["cudf_polars"] = None  # type: ignore[assignment]
        exec(compile(text, _MODULE, "exec"), made.__dict__)
    finally:
        del sys.modules["cudf_polars"]
        sys.modules.update(there)
        os.environ.clear()
        os.environ.update(kept)
    made.__dict__["QueryResult"] = QueryResult
    return made


def query(module: ModuleType, number: int, table: Callable[[str], Any], scale_factor: float) -> Any:
    """A query of tables, by their names, as a LazyFrame."""
    module.__dict__["get_data"] = lambda _path, name, _suffix="": table(name)
    config = SimpleNamespace(dataset_path="", suffix="", scale_factor=scale_factor)
    return getattr(module.PDSHQueries, f"q{number}")(config).frame


def sql(module: ModuleType, number: int, scale_factor: float) -> str:
    """A query in SQL."""
    config = SimpleNamespace(dataset_path="", suffix="", scale_factor=scale_factor)
    return str(getattr(module.PDSHDuckDBQueries, f"q{number}")(config))
