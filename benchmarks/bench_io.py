"""Time files of a frame on a GPU: load, save, Parquet out, the first calls of a process, spilling; and sizes with Zstd.

    python benchmarks/bench_io.py --tpch DIR --parts save load parquet read first spill --out benchmarks/results/io.json
    python benchmarks/bench_io.py --tpch DIR --parts zstd --packages FILE --out benchmarks/results/io.json

``--tpch`` names a folder with lineitem, for ``zstd`` orders, as one Parquet file (tpchgen-cli parquet -s 10). Files are
in the page cache; what is written goes to ``--scratch``. Each part takes less than 100 s, and replaces its records in
the results file. Seconds are medians of whole calls, and ``_first`` is the call before them. ``save_seconds`` with
``codec`` "write" is one write of the same bytes, and fsync: what the disk takes. ``to_parquet_gbps`` counts
Arrow's bytes, and its record with ``codec`` "cudf" is cuDF's ``to_parquet`` of the plain frame; that of
``load_to_device_seconds`` is cuDF's ``read_parquet``. First calls are those of new processes, in an
empty home where nobody keeps compiled kernels, then once more (``_cached``). The package has bytecode, as pip makes it.

``spill``: parts of lineitem leave the GPU for files, and come back. ``cudf_fsst`` is a `SpillPool` with a directory,
``arrow`` the same parts as Arrow's IPC files, uncompressed. ``_host`` is the same with all in host memory.

``zstd`` needs no GPU. ``zstd_ratio`` is a file of ``save(compression="zstd")`` over a Parquet file with Zstd: of a list
of Debian's packages (``--packages``, as apt keeps it, LZ4), of lines of source with their paths (of the packages of
this environment), and of orders.
"""

from __future__ import annotations

import argparse
import compileall
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from records import ResultsFile

_FIRST = """
import sys, time
import cudf, cupy
import cudf_fsst
series = cudf.read_parquet(sys.argv[1], columns=["l_comment"])["l_comment"]
cupy.cuda.runtime.deviceSynchronize()
what = sys.argv[2]
column = None if what == "compress" else cudf_fsst.load(sys.argv[3]).to_device()
call = {
    "compress": lambda: series.fsst.compress(),
    "contains": lambda: column.str.contains("special"),
    "row": lambda: column[5],
}[what]
cupy.cuda.runtime.deviceSynchronize()
begin = time.perf_counter()
made = call()
cupy.cuda.runtime.deviceSynchronize()
print(1e3 * (time.perf_counter() - begin))
"""


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median of whole calls, behind one that does not count."""
    import cupy

    times = []
    for number in range(repeats + 1):
        cupy.cuda.runtime.deviceSynchronize()
        begin = time.perf_counter()
        made = call()
        cupy.cuda.runtime.deviceSynchronize()
        times += [time.perf_counter() - begin] if number else []
        del made
    return statistics.median(times)


def first_calls(parquet: Path, scratch: Path, repeats: int) -> list[dict[str, Any]]:
    """Milliseconds of the first call of a process: with nothing kept by us, CuPy or the compiler, and after it."""
    import cudf_fsst

    compileall.compile_dir(Path(cudf_fsst.__file__).parent, quiet=2)
    found = []
    for what in ("compress", "contains", "row"):
        names = (f"first_{what}_ms", f"first_{what}_cached_ms")
        times: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(repeats):
            home = scratch / "home"
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            kept = {name: str(home / name) for name in ("CUPY_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME")}
            for name in names:
                command = [sys.executable, "-c", _FIRST, str(parquet), what, str(scratch / "l_comment.fsst")]
                environment = {**os.environ, "HOME": str(home), **kept}
                made = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                times[name].append(float(made.stdout.split()[-1]))
        for name, some in times.items():
            found.append(record("tpch.l_comment.sf10", "cudf_fsst", name, round(statistics.median(some), 1), "ms"))
    return found


def record(dataset: str, codec: str, measure: str, value: float, unit: str) -> dict[str, Any]:
    """A record, which is printed too."""
    print(f"{measure:32} {codec:10} {value:10.3f} {unit}", flush=True)
    return {"dataset": dataset, "codec": codec, "measure": measure, "value": value, "unit": unit}


LINEITEM = "tpch.lineitem.sf10"
TWO = ["l_orderkey", "l_shipmode"]
#: Parts of lineitem that are spilled.
SPILLED = 8
#: Lines of source.
LINES = 1_500_000


def parquet_file(folder: Path, table: str) -> Path:
    """The file of a table."""
    (found,) = folder.glob(f"**/{table}*.parquet")
    return found


def repeated(dataset: str, codec: str, measure: str, call: Callable[[], Any], repeats: int) -> list[dict[str, Any]]:
    """Records of a call: the median, and the first one."""
    import cupy

    begin = time.perf_counter()
    made = call()
    cupy.cuda.runtime.deviceSynchronize()
    first = time.perf_counter() - begin
    del made
    times = round(seconds(call, repeats), 4)
    name = f"{measure.removesuffix('_seconds')}_first_seconds"
    return [record(dataset, codec, measure, times, "s"), record(dataset, codec, name, round(first, 4), "s")]


def part_save(folder: Path, scratch: Path, repeats: int) -> Iterator[dict[str, Any]]:
    """Seconds of `save`, and of one write of the same bytes; each until they are on the disk."""
    import cudf

    frame = cudf.read_parquet(parquet_file(folder, "lineitem")).fsst.compress()
    frame.save(scratch / "first.fsst")
    content = (scratch / "first.fsst").read_bytes()

    def write() -> None:
        with open(scratch / "plain", "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    for codec, call in (("cudf_fsst", lambda: frame.save(scratch / "l.fsst")), ("write", write)):
        yield from repeated(LINEITEM, codec, "save_seconds", call, repeats)


def part_load(folder: Path, scratch: Path, repeats: int) -> Iterator[dict[str, Any]]:
    """Seconds of `load`, whole and of two columns."""
    import cudf

    import cudf_fsst

    parquet, stored = parquet_file(folder, "lineitem"), scratch / "l.fsst"
    cudf.read_parquet(parquet).fsst.compress().save(stored)
    for codec, load, some in (
        (
            "cudf_fsst",
            lambda: cudf_fsst.load(stored, device="gpu"),
            lambda: cudf_fsst.load(stored, columns=TWO, device="gpu"),
        ),
        ("cudf", lambda: cudf.read_parquet(parquet), lambda: cudf.read_parquet(parquet, columns=TWO)),
    ):
        yield from repeated(LINEITEM, codec, "load_to_device_seconds", load, repeats)
        yield from repeated(LINEITEM, codec, "load_columns_seconds", some, repeats)
    yield from repeated(LINEITEM, "cudf_fsst", "load_seconds", lambda: cudf_fsst.load(stored), repeats)


def part_parquet(folder: Path, scratch: Path, repeats: int) -> Iterator[dict[str, Any]]:
    """GB/s of `to_parquet`, and the most memory beyond the frame."""
    import cudf
    import rmm.statistics

    df = cudf.read_parquet(parquet_file(folder, "lineitem"))
    frame, out = df.fsst.compress(), scratch / "out.parquet"
    nbytes = frame.uncompressed_nbytes
    rmm.statistics.enable_statistics()
    for codec, write in (("cudf", lambda: df.to_parquet(out)), ("cudf_fsst", lambda: frame.to_parquet(out))):
        with rmm.statistics.statistics():
            taken = seconds(write, repeats)
            peak = rmm.statistics.get_statistics().peak_bytes
        yield record(LINEITEM, codec, "to_parquet_gbps", round(nbytes / taken / 1e9, 3), "GB/s")
        yield record(LINEITEM, codec, "to_parquet_peak_gb", round(peak / 1e9, 3), "GB")
        if not cudf.read_parquet(out, columns=TWO).equals(df[TWO]):
            raise AssertionError("the Parquet file holds something else")


def part_read(folder: Path, scratch: Path, repeats: int) -> Iterator[dict[str, Any]]:
    """GB/s of `read_parquet`: the file as it is, and in row groups of a million rows; in turn with cuDF's own."""
    import cudf
    import pyarrow.parquet as pq

    import cudf_fsst

    parquet, larger = parquet_file(folder, "lineitem"), scratch / "larger.parquet"
    cudf.read_parquet(parquet).to_parquet(larger, row_group_size_rows=1_000_000, index=False)
    for dataset, path in ((LINEITEM, parquet), (f"{LINEITEM}.groups1m", larger)):
        ours = partial(cudf_fsst.read_parquet, path, device="gpu")
        common = {"bytes": ours().uncompressed_nbytes, "row_groups": pq.read_metadata(path).num_row_groups}
        reads, times = {"cudf_fsst": ours, "cudf": partial(cudf.read_parquet, path)}, dict[str, list[float]]()
        for _ in range(repeats):
            for codec, read in reads.items():
                times.setdefault(codec, []).append(seconds(read, 1))
        for codec, some in times.items():
            gbps = round(common["bytes"] / statistics.median(some) / 1e9, 2)
            yield record(dataset, codec, "read_parquet_gbps", gbps, "GB/s") | common


def part_first(folder: Path, scratch: Path, repeats: int) -> Iterator[dict[str, Any]]:
    """Milliseconds of first calls."""
    import cudf

    parquet = parquet_file(folder, "lineitem")
    series = cudf.read_parquet(parquet, columns=["l_comment"])["l_comment"]
    series.fsst.compress().save(scratch / "l_comment.fsst")
    yield from first_calls(parquet, scratch, repeats)


def part_spill(folder: Path, scratch: Path, repeats: int) -> Iterator[dict[str, Any]]:
    """Seconds in which parts of lineitem go to files and come back, and to host memory and back."""
    import cudf
    import pyarrow as pa

    import cudf_fsst

    df = cudf.read_parquet(parquet_file(folder, "lineitem"))
    step = -(-len(df) // SPILLED)
    parts = [df.iloc[start : start + step].reset_index(drop=True) for start in range(0, len(df), step)]
    nbytes = int(df.memory_usage(deep=True).sum())
    expected = int(df["l_orderkey"].sum())
    del df

    def check(found: Any) -> int:
        return int(found["l_orderkey"].sum())

    def pool(host_limit: int, directory: Path | None) -> None:
        with cudf_fsst.SpillPool(device_limit=nbytes // SPILLED, host_limit=host_limit, directory=directory) as kept:
            for i, part in enumerate(parts):
                kept[i] = part
            if sum(check(kept[i]) for i in range(len(parts))) != expected:
                raise AssertionError("something else came back")

    def files() -> None:
        paths = []
        for i, part in enumerate(parts):
            paths.append(scratch / f"part-{i}.arrow")
            with open(paths[-1], "wb") as raw:
                table = part.to_arrow()
                with pa.ipc.new_file(raw, table.schema) as writer:
                    writer.write_table(table)
                raw.flush()
                os.fsync(raw.fileno())  # as `save` does
        if sum(check(cudf.DataFrame.from_arrow(pa.ipc.open_file(path).read_all())) for path in paths) != expected:
            raise AssertionError("something else came back")
        for path in paths:
            path.unlink()

    def host() -> None:
        tables = [part.to_arrow() for part in parts]
        if sum(check(cudf.DataFrame.from_arrow(table)) for table in tables) != expected:
            raise AssertionError("something else came back")

    for codec, measure, call in (
        ("cudf_fsst", "spill_disk_seconds", lambda: pool(64 << 20, scratch)),
        ("arrow", "spill_disk_seconds", files),
        ("cudf_fsst", "spill_host_seconds", lambda: pool(64 << 30, None)),
        ("arrow", "spill_host_seconds", host),
    ):
        yield record(LINEITEM, codec, measure, round(seconds(call, min(repeats, 1)), 3), "s")


def packages(path: Path) -> Any:
    """A list of Debian's packages, as apt keeps it: a column for each field."""
    import pandas as pd
    import pyarrow as pa

    with pa.input_stream(str(path), compression="lz4" if path.suffix == ".lz4" else None) as file:
        text = file.read().decode("utf-8")
    rows = []
    for block in text.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if line.startswith(" "):
                fields[name] += "\n" + line[1:]
            else:
                name, _, value = line.partition(": ")
                fields[name] = value
        if fields:
            rows.append(fields)
    return pd.DataFrame(rows)


def sources() -> Iterator[tuple[str, str]]:
    """Paths and texts of Python's and of installed packages' files."""
    for root in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")):
        for folder, folders, names in os.walk(root):
            folders.sort()
            for name in sorted(names):
                if name.endswith(".py"):
                    path = Path(folder, name)
                    try:
                        yield str(path.relative_to(root)), path.read_text("utf-8")
                    except (UnicodeDecodeError, OSError):
                        continue


def lines_of_source() -> Any:
    """Lines of sources, with path and number."""
    import pandas as pd

    lines = ((path, i, line) for path, text in sources() for i, line in enumerate(text.splitlines(), 1))
    return pd.DataFrame(islice(lines, LINES), columns=["path", "number", "line"])


def part_zstd(folder: Path, scratch: Path, repeats: int, packages_file: Path | None = None) -> Iterator[dict[str, Any]]:
    """Bytes of files with an outer codec, beside Parquet with Zstd."""
    del repeats
    import pandas as pd

    import cudf_fsst  # noqa: F401 - registers the accessor

    kinds: dict[str, Callable[[], Any]] = {
        "source.lines": lines_of_source,
        "tpch.orders": lambda: pd.read_parquet(parquet_file(folder, "orders")),
    }
    if packages_file is not None:
        kinds["debian.packages"] = lambda: packages(packages_file)
    for dataset, make in kinds.items():
        data = make()
        frame = data.fsst.compress()
        plain, small, parquet = scratch / "plain", scratch / "small", scratch / "parquet"
        frame.save(plain)
        frame.save(small, compression="zstd")
        data.to_parquet(parquet, compression="zstd", index=False)
        sizes = {path.name: path.stat().st_size for path in (plain, small, parquet)}
        for codec, name in (("cudf_fsst", "plain"), ("cudf_fsst.zstd", "small"), ("parquet.zstd", "parquet")):
            yield record(dataset, codec, "file_mb", round(sizes[name] / 1e6, 3), "MB")
        yield record(dataset, "cudf_fsst.zstd", "zstd_ratio", round(sizes["small"] / sizes["parquet"], 4), "")


PARTS: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
    "save": part_save,
    "load": part_load,
    "parquet": part_parquet,
    "read": part_read,
    "first": part_first,
    "spill": part_spill,
    "zstd": part_zstd,
}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpch", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[name for name in PARTS if name != "zstd"])
    parser.add_argument("--packages", type=Path, help="for zstd: a list of Debian's packages")
    parser.add_argument("--scratch", type=Path, help="a folder for files; default: a temporary one")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.parts == ["zstd"]:
        # Sizes are the same on every machine, and the results file is that of a GPU.
        machine = json.loads(options.out.read_text())["machine"] if options.out.exists() else {"gpu": "none"}
        command = " ".join(["python", *(Path(one).name if Path(one).is_absolute() else one for one in sys.argv)])
        run = {"date": datetime.date.today().isoformat(), "command": command}
    else:
        import timing
        from bench_column import use_pool

        use_pool()
        machine, run = timing.machine(), timing.run()
    results = ResultsFile(options.out, machine, **run)
    for part in options.parts:
        begin = time.perf_counter()
        more = {"packages_file": options.packages} if part == "zstd" else {}
        with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
            records = list(PARTS[part](options.tpch, Path(scratch), options.repeats, **more))
        results.replace(part, records, round(time.perf_counter() - begin, 1), [])


if __name__ == "__main__":
    main()
