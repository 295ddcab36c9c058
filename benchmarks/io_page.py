"""Write the tables that pages have of io.json: python benchmarks/io_page.py.

A test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from spill_page import ROOT, read, table

#: A marker, what stands there, the end.
_BEGIN, _END = r"(<!-- measured: (\w+), by benchmarks/io_page.py -->\n)", r"(<!-- measured: end -->)"
_PART = re.compile(_BEGIN + r"(?:.*?\n)??" + _END, re.DOTALL)
PAGES = ("files", "parquet", "spilling", "tuning")
LINEITEM = "tpch.lineitem.sf10"


class Results:
    """The records of a results file.

    Parameters
    ----------
    content : dict
    """

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self._values = {(one["dataset"], one["codec"], one["measure"]): one["value"] for one in content["records"]}

    def show(self, dataset: str, codec: str, measure: str, form: str) -> str:
        """A value as text, or nothing where it was not measured."""
        value = self._values.get((dataset, codec, measure))
        return "" if value is None else format(value, form)

    def source(self, part: str) -> str:
        """Where the figures of a part come from."""
        run = self.content["parts"][part]
        machine = self.content["machine"] | run.get("machine", {})
        where = f"One {machine['gpu']} ({machine['cpu_cores']} CPU cores), " if part != "zstd" else ""
        return f"{where}{run['date']}: [`io.json`](../benchmarks/results/io.json), `{run['command']}`."


def files(results: Results) -> str:
    """Saving and loading."""
    rows = [
        ("`save`, until it is on the disk", "save_seconds"),
        ('`load(device="gpu")`; `cudf.read_parquet`', "load_to_device_seconds"),
        ("the same of 2 of 16 columns", "load_columns_seconds"),
        ("`load` into host memory", "load_seconds"),
    ]
    lines = []
    for what, measure in rows:
        lines.append([what, *(results.show(LINEITEM, codec, measure, ".3f") for codec in ("cudf_fsst", "cudf"))])
    head = ["lineitem of scale factor 10, in the page cache, seconds", "cudf_fsst", "cuDF, Parquet"]
    plain = results.show(LINEITEM, "write", "save_seconds", ".3f")
    beside = f"One `write` of the saved bytes, and `fsync`, took {plain} s beside `save`. " if plain else ""
    return f"{table(head, lines)}\n\n{beside}{results.source('load')}"


def first(results: Results) -> str:
    """First calls."""
    lines = []
    for what, name in (("`compress()`", "compress"), ('`str.contains("special")`', "contains"), ("`c[5]`", "row")):
        measures = (f"first_{name}_ms", f"first_{name}_cached_ms")
        lines.append([what, *(results.show("tpch.l_comment.sf10", "cudf_fsst", one, ".0f") for one in measures)])
    head = ["l_comment of scale factor 10, first call of a process, ms", "nothing compiled yet", "kernels on disk"]
    return f"{table(head, lines)}\n\n{results.source('first')}"


def zstd(results: Results) -> str:
    """Sizes with an outer codec."""
    names = {
        "debian.packages": "Debian's list of packages, a column for each field",
        "source.lines": "1.5 million lines of Python, with path and number",
        "tpch.orders": "TPC-H's orders, scale factor 1",
    }
    codecs = ("cudf_fsst", "cudf_fsst.zstd", "parquet.zstd")
    lines = [[text, *(results.show(name, codec, "file_mb", ".1f") for codec in codecs)] for name, text in names.items()]
    head = ["MB", "as it is", '`compression="zstd"`', "Parquet with Zstd"]
    return f"{table(head, lines)}\n\n{results.source('zstd')}"


def written(results: Results) -> str:
    """Parquet files from a GPU."""
    ways = {"cudf_fsst": "`to_parquet` of the compressed frame", "cudf": "`cudf.DataFrame.to_parquet`"}
    measures = ("to_parquet_gbps", "to_parquet_peak_gb")
    lines = [[what, *(results.show(LINEITEM, codec, one, ".1f") for one in measures)] for codec, what in ways.items()]
    head = ["lineitem of scale factor 10", "GB/s, as Arrow counts", "most memory besides, GB"]
    return f"{table(head, lines)}\n\n{results.source('parquet')}"


def disk(results: Results) -> str:
    """Spilling to files."""
    ways = {"disk": "to files and back", "host": "to host memory and back"}
    codecs = ("cudf_fsst", "arrow")
    lines = [
        [what, *(results.show(LINEITEM, codec, f"spill_{where}_seconds", ".2f") for codec in codecs)]
        for where, what in ways.items()
    ]
    head = ["8 parts of lineitem of scale factor 10, seconds", "`SpillPool`", "`to_arrow`, uncompressed"]
    return f"{table(head, lines)}\n\n{results.source('spill')}"


#: What stands between markers, and the part of the results that it shows.
MAKERS: dict[str, tuple[Callable[[Results], str], str]] = {
    "io": (files, "load"),
    "first": (first, "first"),
    "zstd": (zstd, "zstd"),
    "written": (written, "parquet"),
    "disk": (disk, "spill"),
}


def filled(text: str, results: Results) -> str:
    """A page with its tables."""

    def made(found: re.Match[str]) -> str:
        maker, part = MAKERS[found[2]]
        there = part in results.content["parts"]
        return f"{found[1]}{maker(results) if there else 'Not measured yet.'}\n{found[3]}"

    return _PART.sub(made, text)


def main() -> None:
    """Write the pages."""
    content = read("io")
    if content is None:
        raise SystemExit("benchmarks/results/io.json is not there")
    for name in PAGES:
        path = ROOT / "docs" / f"{name}.md"
        path.write_text(filled(path.read_text(), Results(content)))


if __name__ == "__main__":
    main()
