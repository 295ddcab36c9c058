"""Columns whose values repeat: what their dictionaries take, in short columns and in pieces, and how fast they are.

    python benchmarks/bench_dictionaries.py --tpch DIR --out benchmarks/results/dictionaries.json

``--tpch`` names a folder with lineitem.parquet (tpchgen-cli parquet -s 10). With cuDF and a GPU all is measured there;
without one on the CPU, of at most a million rows of lineitem, and nothing is said of GB/s. Milliseconds are medians of
whole calls by the host's clock. Names and paths are made here; cities, people and titles have the lengths and the
skewed frequencies of real ones.

* ``nbytes``: of a column. ``over_one_call``: of pieces that were put together, over that of one call.
* ``ratio``: of a frame, uncompressed Arrow bytes over bytes kept.
* ``compress_ms``, ``concat_ms``, ``value_counts_ms``, ``compress_gbps`` (characters).
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from datasets import SEED, SYLLABLES
from records import Record, as_text

import cudf_fsst

ROWS = 2_000_000
#: How often these rows follow each other where GB/s are measured.
TIMES = 30
#: Rows of a row group: what DuckDB and pandas write.
ROW_GROUPS = {"duckdb": 122_880, "pandas": 1_048_576}


def words(count: int, parts: int, seed: int) -> np.ndarray[Any, Any]:
    """Distinct words of some syllables."""
    if count > 0.8 * len(SYLLABLES) ** parts:
        raise ValueError(f"{count} words of {parts} syllables")
    random, found = np.random.default_rng(seed), dict[str, None]()
    while len(found) < count:
        chosen = random.integers(0, len(SYLLABLES), (count, parts))
        found.update(dict.fromkeys("".join(SYLLABLES[i] for i in row).capitalize() for row in chosen))
    return np.array(list(found)[:count], object)


def skewed(values: np.ndarray[Any, Any], rows: int, power: float, seed: int) -> list[str]:
    """Rows in which the value of rank r is there about r ** -power times as often as the first."""
    weights = np.arange(1, len(values) + 1) ** -power
    places = np.searchsorted(np.cumsum(weights / weights.sum()), np.random.default_rng(seed).random(rows))
    return values[np.minimum(places, len(values) - 1)].tolist()


def paths(rows: int, seed: int = SEED) -> list[str]:
    """Paths of 506 files."""
    folders, names = words(22, 2, seed), words(23, 3, seed + 1)
    values = np.array([f"/usr/share/{a.lower()}/{b.lower()}.py" for a in folders for b in names], object)
    return values[np.random.default_rng(seed).integers(0, len(values), rows)].tolist()


def made(rows: int) -> dict[str, list[str]]:
    """Columns of values that repeat, few of them to many."""
    titles = np.array([f"{a} {b}" for a, b in zip(words(60_000, 4, 5), words(60_000, 4, 6), strict=True)], object)
    return {
        "paths": paths(rows),
        "cities": skewed(words(3000, 3, 1), rows, 0.9, 2),
        "last_names": skewed(words(20_000, 3, 3), rows, 1.0, 4),
        "titles": skewed(titles, rows, 0.7, 7),
    }


def median_ms(call: Callable[[], Any], repeat: int, wait: Callable[[], Any]) -> float:
    """Milliseconds of a call, after one that is not counted."""
    seconds = []
    for _ in range(repeat + 1):
        wait()
        start = time.perf_counter()
        kept = call()
        wait()
        seconds.append(time.perf_counter() - start)
        del kept
    return 1e3 * statistics.median(seconds[1:])


def measure(
    lineitem: Any, series_of: Callable[[list[str]], Any], wait: Callable[[], Any], gpu: bool
) -> Iterator[Record]:
    """All records."""
    few = 15 if gpu else 3

    def record(dataset: str, name: str, value: float, codec: str = "cudf_fsst", **more: Any) -> Record:
        return {"dataset": dataset, "codec": codec, "measure": name, "value": value, **more}

    # Short frames and columns.
    for rows in (5000, 100_000, len(lineitem)):
        some = lineitem.iloc[:rows].copy(deep=True)
        frame = some.fsst.compress()
        name = f"tpch.lineitem.{rows}"
        yield record(name, "ratio", frame.ratio, rows=rows)
        if rows <= 100_000:
            strings = [label for label, codec in frame.codecs.items() if codec == "dict"]
            plain = dict.fromkeys(strings, "fsst")
            yield record(name, "compress_ms", median_ms(some.fsst.compress, 3 * few, wait), rows=rows)
            without = median_ms(lambda some=some, plain=plain: some.fsst.compress(codecs=plain), 3 * few, wait)
            yield record(name, "compress_ms", without, "cudf_fsst.fsst", rows=rows)
            yield record(name, "ratio", some.fsst.compress(codecs=plain).ratio, "cudf_fsst.fsst", rows=rows)
    short = series_of(paths(200_000))
    for codec in (None, "dict", "fsst"):
        column = short.fsst.compress(codec=codec)
        yield record("made.paths.200k", "nbytes", column.nbytes, f"cudf_fsst{'.' + codec if codec else ''}")
    category = pd.Series(paths(200_000)).astype("category").memory_usage(index=False, deep=True)
    yield record("made.paths.200k", "nbytes", int(category), "pandas.category")

    # Columns of more and more values.
    for name, values in made(ROWS).items():
        series = series_of(values)
        for codec in (None, "fsst"):
            column = series.fsst.compress(codec=codec)
            own = f"cudf_fsst{'.' + codec if codec else ''}"
            facts = {"rows": ROWS, "chosen": column.codec, "bytes": column.chars_nbytes}
            yield record(f"made.{name}", "nbytes", column.nbytes, own, **facts)
            took = median_ms(lambda series=series, codec=codec: series.fsst.compress(codec=codec), few, wait)
            yield record(f"made.{name}", "compress_ms", took, own, **facts)
            if gpu:
                large = sys.modules["cudf"].concat([series] * TIMES, ignore_index=True)
                column = large.fsst.compress(codec=codec)
                took = median_ms(lambda large=large, codec=codec: large.fsst.compress(codec=codec), few, wait)
                facts |= {"rows": TIMES * ROWS, "bytes": column.chars_nbytes, "chosen": column.codec}
                yield record(f"made.{name}", "compress_gbps", column.chars_nbytes / took / 1e6, own, **facts)
                del large, column
        # Pieces.
        one = series.fsst.compress()
        for count in (10, 20):
            edges = np.linspace(0, ROWS, count + 1).astype(int).tolist()
            pieces = [series.iloc[a:b] for a, b in pairwise(edges)]
            columns = [piece.fsst.compress() for piece in pieces]
            joined = cudf_fsst.concat(columns)
            compressor = cudf_fsst.Compressor()
            for piece in pieces:
                compressor.append(piece)
            common = {"rows": ROWS, "pieces": count}
            yield record(f"made.{name}", "concat_over_one_call", joined.nbytes / one.nbytes, **common)
            yield record(f"made.{name}", "compressor_over_one_call", compressor.finish().nbytes / one.nbytes, **common)
            took = median_ms(lambda columns=columns: cudf_fsst.concat(columns), few, wait)
            yield record(f"made.{name}", "concat_ms", took, **common)
            took = median_ms(joined.value_counts, few, wait)
            yield record(f"made.{name}", "value_counts_ms", took, **common)

    # Files.
    table = pd.DataFrame({**made(ROWS), "line": np.random.default_rng(SEED).integers(0, 2000, ROWS)})
    one = table.fsst.compress()
    with tempfile.TemporaryDirectory() as folder:
        for writer, rows in ROW_GROUPS.items():
            path = Path(folder) / f"{writer}.parquet"
            table.to_parquet(path, row_group_size=rows, index=False)
            frame = cudf_fsst.read_parquet(path)
            common = {"rows": ROWS, "row_group": rows}
            for label in table:
                over = frame.column(label).nbytes / one.column(label).nbytes
                yield record(f"made.{label}.{writer}", "file_over_one_call", over, **common)
            yield record(f"made.frame.{writer}", "file_over_one_call", frame.nbytes / one.nbytes, **common)
            took = median_ms(frame.column("paths").value_counts, few, wait)
            yield record(f"made.paths.{writer}", "value_counts_ms", took, **common)

    # Parts of a frame, as a pool keeps them.
    parts = [
        lineitem.iloc[at : at + 100_000].fsst.compress() for at in range(0, min(len(lineitem), 1_000_000), 100_000)
    ]
    whole = lineitem.iloc[:1_000_000].fsst.compress()
    kept = sum(part.nbytes for part in parts)
    yield record("tpch.lineitem.1m", "parts_of_whole_ratio", whole.nbytes / kept, parts=len(parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpch", type=Path, required=True, help="folder with lineitem.parquet")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cpu", action="store_true", help="measure on the CPU, where there is a GPU too")
    options = parser.parse_args()
    path = options.tpch / "lineitem.parquet"
    try:
        if options.cpu:
            raise ImportError
        import bench_column
        import cudf
        import cupy
        import timing
    except ImportError:
        batch = next(pq.ParquetFile(path).iter_batches(1_000_000))
        lineitem = batch.to_pandas(types_mapper=pd.ArrowDtype)
        facts = {"python": platform.python_version(), "pandas": pd.__version__, "cores": len(os.sched_getaffinity(0))}
        arguments = [Path(part).name if Path(part).is_absolute() else part for part in sys.argv]
        head: Record = {
            "machine": facts,
            "date": datetime.date.today().isoformat(),
            "command": " ".join(["python", *arguments]),
        }
        records = list(measure(lineitem, lambda values: pd.Series(values, dtype="str"), lambda: None, gpu=False))
    else:
        bench_column.use_pool()
        head = {"machine": timing.machine(), **timing.run()}
        records = list(measure(cudf.read_parquet(path), cudf.Series, cupy.cuda.runtime.deviceSynchronize, gpu=True))
    options.out.write_text(as_text({**head, "records": records}))
    for one in records:
        print(f"{one['dataset']:28} {one['codec']:18} {one['measure']:26} {one['value']:,.4g}")


if __name__ == "__main__":
    main()
