"""Time `contains` on the codes in host memory, beside pyarrow's on the plain column, with the same threads.

    python benchmarks/bench_query_cpu.py --dbtext DIR --out RESULTS.json [--mb 256] [--threads 1 2] [FILE ...]

DIR has the text files of the FSST paper, one string a line; each is repeated to `--mb`. GB/s count characters, the best
of the repetitions; answers are compared before anything is timed. pyarrow searches one chunk in one thread, so it gets
the column in as many chunks as there are threads, each of them in its own. Ours is the call of a column of pandas'
``string[pyarrow]``, from the question to the Series of answers.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import bench_cpu
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

import cudf_fsst  # noqa: F401 - registers the accessor

#: What is searched, by file.
PATTERNS = {
    "l_comment": ("special", "furiously", "zq", "e"),
    "urls2": ("wiki", "index.html", "zq", "h"),
    "chinese": ("的", "中国", "zq"),
}


def column(path: Path, mb: float) -> pa.Array:
    """The file's lines, repeated."""
    _, once = bench_cpu.read(path)
    strings = bench_cpu.repeated(once, int(-(-mb * 1e6 // once.chars.size)))
    buffers = [None, pa.py_buffer(strings.offsets.astype(np.int64)), pa.py_buffer(strings.chars)]
    return pa.Array.from_buffers(pa.large_string(), strings.rows, buffers)


def measure(name: str, plain: pa.Array, threads: int, repeat: int) -> Iterator[dict[str, Any]]:
    """All patterns of a file; `CUDF_FSST_NUM_THREADS` is set to `threads`."""
    packed = pd.Series(pd.arrays.ArrowExtensionArray(plain)).astype("string[pyarrow]").fsst.compress()
    step = -(-len(plain) // threads)
    chunks = [plain.slice(at, step) for at in range(0, len(plain), step)]
    with ThreadPoolExecutor(threads) as pool:
        for pattern in PATTERNS[name]:
            search = partial(pc.match_substring, pattern=pattern)
            theirs = pa.chunked_array(pool.map(search, chunks))
            ours = packed.str.contains(pattern, regex=False)
            if not np.array_equal(ours.to_numpy(bool), theirs.to_numpy()):
                raise AssertionError(f"{name}: contains {pattern!r} did not give the same answers")
            common = {"dataset": f"dbtext.{name}", "measure": "contains_gbps", "pattern": pattern, "threads": threads}
            common |= {"bytes": packed.chars_nbytes, "rows": len(plain), "found": int(ours.sum())}
            for codec, call in (
                ("cudf_fsst.cpu", partial(packed.str.contains, pattern, regex=False)),
                ("pyarrow.match_substring", lambda search=search: list(pool.map(search, chunks))),
            ):
                yield {**common, "codec": codec, "value": packed.chars_nbytes / 1e9 / bench_cpu.best(call, repeat)}


def main() -> None:
    """Print a line for each pattern."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=list(PATTERNS), help="names of files; all that are known if none")
    parser.add_argument("--dbtext", type=Path, required=True, help="folder with the text files")
    parser.add_argument("--mb", type=float, default=256)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, os.cpu_count() or 1])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path, help="results file to write")
    options = parser.parse_args()
    records = []
    for name in options.files:
        plain = column(options.dbtext / name, options.mb)
        for threads in dict.fromkeys(options.threads):
            os.environ["CUDF_FSST_NUM_THREADS"] = str(threads)
            found = list(measure(name, plain, threads, options.repeat))
            records += found
            for ours, theirs in zip(found[::2], found[1::2], strict=True):
                values = (
                    f"{ours['value']:6.2f} {theirs['value']:6.2f} GB/s, {ours['value'] / theirs['value']:5.2f} times"
                )
                print(f"{name:10} {ours['pattern']:12} {threads:3} threads {values}", flush=True)
    if options.out:
        result = {
            "machine": bench_cpu.machine(),
            "date": datetime.date.today().isoformat(),
            "command": " ".join(["python", "benchmarks/bench_query_cpu.py", *sys.argv[1:]]),
            "records": records,
        }
        options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
