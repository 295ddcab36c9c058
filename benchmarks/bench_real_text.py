"""Measure real text in host memory: what pandas keeps, what this library does, and what a Parquet file takes.

    python benchmarks/bench_real_text.py --out benchmarks/results/real_text.json

The text ships with Python and with the packages of the environment that this runs in: lines of source, docstrings,
descriptions of packages, names and paths of files, time zones, names of characters. Hashes are made here. So figures
move a little with what is installed; the results name the versions.

``nbytes`` counts all that is kept of a column. pandas' columns are of its ``str`` dtype, in Arrow's memory, and
``pandas.category`` is the same column of categories. ``arrow`` is what ratios refer to, as
`CompressedColumn.uncompressed_nbytes` has it. Parquet files have one column, Zstd, and else the defaults of
`pyarrow.parquet.write_table`.

Questions are asked of ours, of pandas' column and of one of Polars, with one thread each. Milliseconds are the best of
the repetitions, in which all take turns. Answers are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import hashlib
import os
import sys
import sysconfig
import tempfile
import time
import unicodedata
import zoneinfo
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import distributions, version
from pathlib import Path
from random import Random
from typing import Any

import bench_cpu
import pandas as pd
from records import as_text

import cudf_fsst  # noqa: F401 - registers the accessor

OURS = "cudf_fsst.cpu"


def sources() -> list[str]:
    """Texts of the standard library's files, its tests left out."""
    folder = Path(sysconfig.get_path("stdlib"))
    found = []
    for path in sorted(folder.rglob("*.py")):
        if not {"site-packages", "dist-packages", "test", "tests", "idle_test"} & {*path.relative_to(folder).parts}:
            try:
                found.append(path.read_text("utf-8"))
            except UnicodeDecodeError:
                continue
    return found


def source_lines() -> list[str]:
    """Lines of the standard library, without empty ones."""
    return [line for text in sources() for line in text.splitlines() if line.strip()]


def docstrings() -> list[str]:
    """Docstrings of the standard library's modules, classes and functions."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    every = (node for text in sources() for node in ast.walk(ast.parse(text)) if isinstance(node, kinds))
    return [found for node in every if (found := ast.get_docstring(node))]


def descriptions() -> list[str]:
    """Paragraphs of the descriptions that installed packages have of themselves."""
    texts = [found for one in distributions() if (found := one.metadata.get_payload() or one.metadata["Description"])]
    return [part.strip() for text in sorted(texts) for part in text.split("\n\n") if part.strip()]


def paths() -> list[str]:
    """Paths of the files that packages have installed."""
    return sorted({str(path) for one in distributions() for path in one.files or ()})


def time_zones() -> list[str]:
    """A time zone for each of many users."""
    return Random(1).choices(sorted(zoneinfo.available_timezones()), k=300_000)


def character_names() -> list[str]:
    """Names of Unicode's characters."""
    return [name for code in range(sys.maxunicode) if (name := unicodedata.name(chr(code), ""))]


#: Dataset -> its rows, in the order of the tables.
DATASETS: dict[str, Callable[[], list[str]]] = {
    "source lines": source_lines,
    "docstrings": docstrings,
    "package descriptions": descriptions,
    "file names": lambda: [path.rpartition("/")[2] for path in paths()],
    "paths": paths,
    "names of characters": character_names,
    "time zones": time_zones,
    "SHA-256, in hex": lambda: [hashlib.sha256(b"%d" % i).hexdigest() for i in range(50_000)],
}

#: What is asked: of ours and of pandas' column, and of Polars'.
QUESTIONS: dict[str, tuple[Callable[[Any, str], Any], Callable[[Any, str], Any]]] = {
    "contains a word": (
        lambda column, word: column.str.contains(word, regex=False),
        lambda column, word: column.str.contains(word, literal=True),
    ),
    "starts with": (
        lambda column, word: column.str.startswith(word[:3]),
        lambda column, word: column.str.starts_with(word[:3]),
    ),
    "ends with": (
        lambda column, word: column.str.endswith(word[-3:]),
        lambda column, word: column.str.ends_with(word[-3:]),
    ),
    "==": (lambda column, word: column == word, lambda column, word: column == word),
    "isin": (
        lambda column, word: column.isin([word, f"{word}s", "x"]),
        lambda column, word: column.is_in([word, f"{word}s", "x"]),
    ),
    "regular expression": (
        lambda column, word: column.str.contains(rf"{word}\w*s\b", regex=True),
        lambda column, word: column.str.contains(rf"{word}\w*s\b"),
    ),
    "length": (lambda column, word: column.str.len(), lambda column, word: column.str.len_chars()),
}
#: Datasets that are asked -> the word.
WORDS = {
    "source lines": "return",
    "package descriptions": "install",
    "file names": "__init__.py",
    "names of characters": "LETTER",
}


def sizes(series: pd.Series, packed: Any) -> dict[str, int]:
    """Bytes of a column in every form."""
    small = series.fsst.compress(level="max")
    for one in (packed, small):
        if not one.decompress().equals(series):
            raise AssertionError("the column came back changed")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "one.parquet")
        series.to_frame("text").to_parquet(file, compression="zstd", index=False)
        parquet = file.stat().st_size
    return {
        "pandas": series.memory_usage(index=False, deep=True),
        "pandas.category": series.astype("category").memory_usage(index=False, deep=True),
        "arrow": packed.uncompressed_nbytes,
        OURS: packed.nbytes,
        f"{OURS}.max": small.nbytes,
        "parquet.zstd": parquet,
    }


def best(calls: dict[str, Callable[[], Any]], repeat: int) -> dict[str, float]:
    """Milliseconds of the fastest of `repeat` calls each, in turns, after one that is not timed."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(1 + repeat):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn:
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: min(found) for name, found in times.items()}


def answers(series: pd.Series, packed: Any, word: str, repeat: int) -> Iterator[dict[str, Any]]:
    """What every question takes."""
    import polars as pl

    frame = pl.DataFrame({"text": series.array.__arrow_array__()})
    for question, (ours, theirs) in QUESTIONS.items():
        calls = {
            OURS: partial(ours, packed, word),
            "pandas": partial(ours, series, word),
            "polars": lambda theirs=theirs: frame.select(theirs(pl.col("text"), word)).to_series(),
        }
        found = {name: [int(one) for one in call().to_numpy()] for name, call in calls.items()}
        if not found[OURS] == found["pandas"] == found["polars"]:
            raise AssertionError(f"{question}: answers differ")
        for codec, value in best(calls, repeat).items():
            yield {"measure": "ms", "question": question, "word": word, "codec": codec, "value": round(value, 3)}


def measure(name: str, repeat: int) -> Iterator[dict[str, Any]]:
    """All records of a dataset."""
    series = pd.Series(DATASETS[name](), dtype="str")
    packed = series.fsst.compress()
    common = {"dataset": name, "rows": len(series), "bytes": packed.chars_nbytes}
    for codec, value in sizes(series, packed).items():
        yield {**common, "measure": "nbytes", "codec": codec, "value": int(value)}
    if name in WORDS:
        for record in answers(series, packed, WORDS[name], repeat):
            yield {**common, **record}


def main() -> None:
    """Print what is measured, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="*", default=[*DATASETS], choices=[*DATASETS], metavar="NAME")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--out", type=Path, help="results file to write")
    options = parser.parse_args()
    os.environ["CUDF_FSST_NUM_THREADS"] = os.environ["POLARS_MAX_THREADS"] = "1"  # before Polars is imported
    records = []
    for name in options.datasets:
        found = list(measure(name, options.repeat))
        records += found
        print(f"{name}: {found[0]['rows']:,} rows, {found[0]['bytes']:,} characters")
        for record in found:
            what = record.get("question", record["measure"])
            print(f"  {what:20} {record['codec']:18} {record['value']:14,}", flush=True)
    if options.out:
        machine = bench_cpu.machine()
        machine["versions"] |= {one: version(one) for one in ("pandas", "polars")}
        result = {
            "machine": machine,
            "date": datetime.date.today().isoformat(),
            "command": " ".join(["python", *(Path(one).name if Path(one).is_absolute() else one for one in sys.argv)]),
            "records": records,
        }
        options.out.write_text(as_text(result))


if __name__ == "__main__":
    main()
