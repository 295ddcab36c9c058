"""Time questions about a compressed column in host memory, beside pyarrow's on the plain column, with the same threads.

    python benchmarks/bench_query_cpu.py --tpch DIR --dbtext DIR --out benchmarks/results/query_cpu.json

``--tpch`` names a folder with lineitem.parquet (tpchgen-cli parquet -s 1), ``--dbtext`` one with the text files of the
FSST paper, one string a line. Of a table the first ``--mb`` of characters are taken; lines are repeated to as many.
GB/s count characters, the best of the repetitions, in which both take turns; answers are compared before anything is
timed. pyarrow works on one chunk in one thread, so it gets the column in as many chunks as there are threads, each of
them in its own. Ours is the call of a column of pandas' ``string[pyarrow]``, from the question to the Series of
answers.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import bench_cpu
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import cudf_fsst  # noqa: F401 - registers the accessor

#: What is searched, by dataset: a few rows hold the first, fewer the next; most hold the last.
PATTERNS = {
    "l_comment": ("special", "furiously", "zq", "e"),
    "urls2": ("wiki", "index.html", "zq", "h"),
    "chinese": ("的", "中国", "zq"),
}
LIKE = "%special%requests%"
COMMENT = "tpch.l_comment.sf1"


class Question(NamedTuple):
    """A question of a compressed column, the same of a chunk of pyarrow's, and what else is noted."""

    measure: str
    ours: Callable[[Any], Any]
    theirs: Callable[[Any], Any]
    more: dict[str, Any]


def lines(path: Path, mb: float) -> pa.Array:
    """The file's lines, repeated."""
    _, once = bench_cpu.read(path)
    strings = bench_cpu.repeated(once, int(-(-mb * 1e6 // once.chars.size)))
    buffers = [None, pa.py_buffer(strings.offsets.astype(np.int64)), pa.py_buffer(strings.chars)]
    return pa.Array.from_buffers(pa.large_string(), strings.rows, buffers)


def comments(folder: Path, mb: float) -> pa.Array:
    """The first comments of a table."""
    found, chars = [], 0
    with pq.ParquetFile(folder / "lineitem.parquet") as file:
        for batch in file.iter_batches(columns=["l_comment"]):
            found.append(batch.column(0).cast(pa.large_string()))
            chars += pc.sum(pc.binary_length(found[-1])).as_py()
            if chars >= mb * 1e6:
                break
    return pa.concat_arrays(found)


def questions(name: str, plain: pa.Array) -> Iterator[Question]:
    """All that is asked of a dataset."""
    for pattern in PATTERNS[name.split(".")[1]]:
        yield Question(
            "contains_gbps",
            lambda column, pattern=pattern: column.str.contains(pattern, regex=False),
            lambda chunk, pattern=pattern: pc.match_substring(chunk, pattern),
            {"pattern": pattern},
        )
    yield Question(
        "like_gbps", lambda column: column.str.like(LIKE), lambda chunk: pc.match_like(chunk, LIKE), {"pattern": LIKE}
    )
    some = plain.take(pa.array(np.linspace(0, len(plain) - 1, 30).astype(np.int64))).to_pylist()
    values = [value for value in dict.fromkeys(some) if value][:10]
    first, last = values[0][:3], values[0][-1:]
    yield Question("equals_gbps", lambda column: column == values[0], lambda chunk: pc.equal(chunk, values[0]), {})
    yield Question(
        "isin_gbps",
        lambda column: column.isin(values),
        lambda chunk: pc.is_in(chunk, pa.array(values, chunk.type)),
        {"values": len(values)},
    )
    yield Question(
        "startswith_gbps",
        lambda column: column.str.startswith(first),
        lambda chunk: pc.starts_with(chunk, first),
        {"pattern": first},
    )
    yield Question(
        "endswith_gbps",
        lambda column: column.str.endswith(last),
        lambda chunk: pc.ends_with(chunk, last),
        {"pattern": last},
    )
    yield Question("len_gbps", lambda column: column.str.len(), pc.utf8_length, {})
    yield Question("byte_count_gbps", lambda column: column.str.byte_count(), pc.binary_length, {})


def best(ours: Callable[[], Any], theirs: Callable[[], Any], repeat: int) -> tuple[float, float]:
    """Seconds of the fastest of `repeat` calls each, in turns, after one that is not timed."""
    times: tuple[list[float], list[float]] = [], []
    for turn in range(1 + repeat):
        for call, own in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            call()
            if turn:
                own.append(time.perf_counter() - start)
    return min(times[0]), min(times[1])


def measure(name: str, plain: pa.Array, threads: int, repeat: int) -> Iterator[dict[str, Any]]:
    """All questions of a dataset; `CUDF_FSST_NUM_THREADS` is set to `threads`."""
    packed = pd.Series(pd.arrays.ArrowExtensionArray(plain)).astype("string[pyarrow]").fsst.compress()
    step = -(-len(plain) // threads)
    chunks = [plain.slice(at, step) for at in range(0, len(plain), step)]
    with ThreadPoolExecutor(threads) as pool:
        for asked in questions(name, plain):

            def theirs(asked: Question = asked) -> list[Any]:
                return list(pool.map(asked.theirs, chunks))

            found = asked.ours(packed)
            if not np.array_equal(found.to_numpy(), pa.chunked_array(theirs()).to_numpy()):
                raise AssertionError(f"{name}: {asked.measure} {asked.more} did not give the same answers")
            common = {"dataset": name, "measure": asked.measure, "threads": threads, **asked.more}
            common |= {"bytes": packed.chars_nbytes, "rows": len(plain)}
            if pd.api.types.is_bool_dtype(found.dtype):
                common["found"] = int(found.sum())
            seconds = best(partial(asked.ours, packed), theirs, repeat)
            for codec, value in zip(("cudf_fsst.cpu", "pyarrow"), seconds, strict=True):
                yield {**common, "codec": codec, "value": packed.chars_nbytes / 1e9 / value}


def main() -> None:
    """Print a line for each question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpch", type=Path, help="folder with lineitem.parquet")
    parser.add_argument("--dbtext", type=Path, help="folder with the text files")
    parser.add_argument("--mb", type=float, default=128)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, os.cpu_count() or 1])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--out", type=Path, help="results file to write")
    options = parser.parse_args()
    datasets: dict[str, Callable[[], pa.Array]] = {}
    if options.tpch is not None:
        datasets[COMMENT] = partial(comments, options.tpch, options.mb)
    if options.dbtext is not None:
        datasets |= {f"dbtext.{name}": partial(lines, options.dbtext / name, options.mb) for name in PATTERNS}
    records = []
    for name, make in datasets.items():
        plain = make()
        for threads in dict.fromkeys(options.threads):
            os.environ["CUDF_FSST_NUM_THREADS"] = str(threads)
            found = list(measure(name, plain, threads, options.repeat))
            records += found
            for ours, theirs in zip(found[::2], found[1::2], strict=True):
                times = f"{ours['value'] / theirs['value']:5.2f} times"
                asked = f"{ours['measure']:16} {ours.get('pattern', ''):20}"
                values = f"{ours['value']:6.2f} {theirs['value']:6.2f} GB/s, {times}"
                print(f"{name} {asked} {threads:3} threads {values}", flush=True)
    if options.out:
        arguments = [Path(part).name if Path(part).is_absolute() else part for part in sys.argv]
        result = {
            "machine": bench_cpu.machine(),
            "date": datetime.date.today().isoformat(),
            "command": " ".join(["python", *arguments]),
            "records": [{**record, "value": round(record["value"], 4)} for record in records],
        }
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
