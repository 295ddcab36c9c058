"""The main job on real data: TPC-H string columns compressed, checked row by row, read at random.

This is what ``cudf-fsst demo`` shows; nothing here prints.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from ..engine import Engine
from ..parquet.sources import reading

#: Columns the demo takes unless told otherwise: free text, few distinct values, names, random characters.
COLUMNS = ("l_comment", "l_shipinstruct", "o_comment", "c_address", "p_name")
_TABLES = {
    "l": "lineitem",
    "o": "orders",
    "c": "customer",
    "p": "part",
    "ps": "partsupp",
    "s": "supplier",
    "n": "nation",
    "r": "region",
}
#: Rows read one by one and by `take`.
_SCALARS, _TAKEN = 10, 1000
_WARM_UP_ROWS = 1000
#: The best of so many calls is shown, or of those that end within so many seconds; of two at least, as the first of
#: them may have waited for a compiler.
_CALLS, _SECONDS = 5, 1.0


class DemoError(Exception):
    """The demo cannot run, or a column did not come back as it was."""


@dataclass(frozen=True)
class Report:
    """What the demo saw on one column: sizes in bytes, times in seconds, of the best of several calls."""

    column: str
    rows: int
    chars_nbytes: int
    uncompressed_nbytes: int
    nbytes: int
    ratio: float
    compress_seconds: float
    decompress_seconds: float
    taken_rows: int
    take_seconds: float


def table_of(column: str) -> str:
    """Name of the TPC-H table that has `column` (TPC-H column names begin with their table's letters)."""
    prefix = column.partition("_")[0]
    if prefix not in _TABLES:
        raise DemoError(f"{column!r} is not a TPC-H column; try {', '.join(COLUMNS)}")
    return _TABLES[prefix]


def make_table(table: str, scale: float, folder: Path) -> Path:
    """Make a TPC-H table with tpchgen-cli, unless `folder` has it already; return the Parquet file."""
    file = folder / f"tpch-sf{scale:g}" / f"{table}.parquet"
    if file.exists():
        return file
    # Beside this interpreter first: a virtual environment need not be activated.
    program = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpchgen-cli")
    if program is None:
        raise DemoError("tpchgen-cli is missing; in a clone of cudf-fsst: pip install '.[demo]'")
    file.parent.mkdir(parents=True, exist_ok=True)
    # Made elsewhere and renamed: an interrupted run leaves no half-written table to be found by the next one.
    with tempfile.TemporaryDirectory(dir=file.parent) as unfinished:
        command = [program, "parquet", "--quiet", "-s", f"{scale:g}", "-T", table, "-o", unfinished]
        result = subprocess.run(command, capture_output=True, text=True)
        fresh = Path(unfinished, file.name)
        if result.returncode != 0 or not fresh.exists():
            raise DemoError(f"tpchgen-cli failed: {(result.stderr or result.stdout).strip()}")
        os.replace(fresh, file)
    return file


def run_column(engine: Engine, path: Path, column: str, rows: int | None = None) -> Report:
    """Compress a column, decompress it, compare all rows, read some at random and compare them too.

    Parameters
    ----------
    engine
        Reads the column; the device it reads into does the work.
    path, column
        A Parquet file and its column.
    rows
        Take only the first `rows` rows.

    Raises
    ------
    DemoError
        No such column, or values came back changed.
    """
    with reading(path):
        names = pq.read_schema(path).names
    if column not in names:
        raise DemoError(f"{path.stem} has no column {column!r}; it has {', '.join(names)}")
    series = engine.read(path, column)
    if rows is not None:
        series = series.iloc[:rows]
    try:
        accessor = series.fsst
    except AttributeError as error:
        raise DemoError(f"column {column!r}: {error}") from error

    # First use compiles the kernels (later ones find them in a cache on disk).
    warm_up = series.iloc[:_WARM_UP_ROWS].fsst.compress()
    warm_up.decompress()
    if len(series):
        warm_up.take(np.zeros(1, np.int64))

    compressed, compress_seconds = _timed(engine, accessor.compress)
    restored, decompress_seconds = _timed(engine, compressed.decompress)
    _compare(restored, series, f"column {column!r}")

    count = min(_TAKEN, len(series))
    picked = np.random.default_rng(0).integers(0, max(1, len(series)), count)
    taken, take_seconds = _timed(engine, lambda: compressed.take(picked))
    _compare(taken, series.iloc[picked], f"random rows of {column!r}")
    for row in picked[:_SCALARS].tolist():
        if compressed[row] != series.iloc[row]:
            raise DemoError(f"row {row} of {column!r}: got {compressed[row]!r}, expected {series.iloc[row]!r}")

    return Report(
        column=column,
        rows=len(compressed),
        chars_nbytes=compressed.chars_nbytes,
        uncompressed_nbytes=compressed.uncompressed_nbytes,
        nbytes=compressed.nbytes,
        ratio=compressed.ratio,
        compress_seconds=compress_seconds,
        decompress_seconds=decompress_seconds,
        taken_rows=count,
        take_seconds=take_seconds,
    )


def _timed(engine: Engine, work: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and the seconds of the best of several."""
    seconds: list[float] = []
    while len(seconds) < 2 or (len(seconds) < _CALLS and sum(seconds) < _SECONDS):
        result = None  # whose memory the next call may take
        engine.synchronize()
        start = perf_counter()
        result = work()
        engine.synchronize()
        seconds.append(perf_counter() - start)
    return result, min(seconds)


def _compare(actual: Any, expected: Any, what: str) -> None:
    same = actual.dtype == expected.dtype and actual.name == expected.name and actual.index.equals(expected.index)
    if not same or not actual.equals(expected):
        raise DemoError(f"{what} did not come back as it was")
