"""Time questions that a compressed column answers without being unpacked, beside cuDF's on the plain column.

    python benchmarks/bench_query.py --tpch DIR --dbtext DIR --generated --out benchmarks/results/query.json

``--tpch`` names a folder with lineitem.parquet (tpchgen-cli parquet -s 10), ``--dbtext`` one with the FSST paper's text
files. GB/s count the characters of the column, by CUDA events around whole calls; answers are compared before anything
is timed. ``codec: cudf`` is the same question of the plain column. ``codec: decompress`` is decompressing, then cuDF.
The file is written part by part; `--budget` and `--missing` are those of compare.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import compare
import datasets
from measured import DATASET
from records import Record, ResultsFile

Found = tuple[str, Record]
Call = Callable[[], Any]

LINEITEM = "tpch.lineitem.sf{}"
EMAILS, RANDOM = "generated.emails", "generated.random"
#: Kinds of parts, each with the datasets it is measured on; None: all columns of strings.
KINDS: dict[str, tuple[str, ...] | None] = {
    "query": None,
    "patterns": (DATASET,),
    "pieces": (DATASET,),
    "sizes": (DATASET,),
    "price": (LINEITEM,),
    "dictionary": (LINEITEM,),
}
#: What is searched, by dataset: a few rows hold the first, fewer the next, and the last is a phrase.
PATTERNS = {
    DATASET: ("special", "furiously", "zq", "quickly final deposits"),
    "dbtext.chinese": ("的", "中国", "zq"),
    "dbtext.urls2": ("wiki", "index.html", "zq"),
    EMAILS: ("gmail", "@yahoo", "zq"),
    RANDOM: ("ab", "abc", "zq"),
    "generated.log_lines": ("ERROR", "timeout", "zq"),
}
#: What rows begin and end with; of other datasets as the first row does.
EDGES = {DATASET: ("fur", ".")}
#: In most rows.
DENSE = {DATASET: "e", "dbtext.chinese": "国", "dbtext.urls2": "h", EMAILS: "@", RANDOM: "a"}
LIKE = "%special%requests%"
#: Regular expressions, and a pattern of LIKE.
EXPRESSIONS = (
    "fur.*ly",
    "(special|pending).*(requests|deposits)",
    "[aeiou]{3}",
    "^[A-Z]?car",
    r"\bfinal\b",
)
LIKE_ANY = "c_refully%"
SIZES = (10**6, 10**7, 10**8)


@dataclass(frozen=True)
class Tools:
    """What measures: cuDF, and seconds of a call by the GPU's clock and by the host's, each of so many calls."""

    library: Any
    events: Callable[[Call, int], float]
    wall: Callable[[Call, int], float]
    repeat: int


def check(found: Any, wanted: Any, what: str) -> None:
    """Nothing is timed that gives another answer."""
    if not found.equals(wanted):
        raise AssertionError(f"{what} did not give the same answers")


def questions(series: Any, dataset: str) -> Iterator[tuple[str, Callable[[Any], Any], dict[str, Any]]]:
    """Measure, question of a plain or a compressed column, and what else is noted."""
    for pattern in PATTERNS.get(dataset, ("a", "zq")):
        yield "contains_gbps", partial(_contains, pattern=pattern), {"pattern": pattern}
    pattern = DENSE.get(dataset, "e")
    yield "contains_dense_gbps", partial(_contains, pattern=pattern), {"pattern": pattern}
    if dataset != RANDOM:  # cuDF's call does not return where bytes are not UTF-8
        yield "like_gbps", lambda column: column.str.like(LIKE), {"pattern": LIKE}
    yield "byte_count_gbps", lambda column: column.str.byte_count(), {}
    try:
        some = series.iloc[:: max(len(series) // 11, 1)]
        known = some.to_arrow().to_pylist() if hasattr(some, "to_arrow") else some.tolist()
    except UnicodeDecodeError:
        return  # random bytes have no values that Python could name
    values = list(dict.fromkeys(value for value in known if value))[:10]
    yield "equals_gbps", lambda column: column == values[0], {}
    yield "isin_gbps", lambda column: column.isin(values), {"values": len(values)}
    first, last = EDGES.get(dataset, (values[0][:3], values[0][-1:]))
    yield "startswith_gbps", lambda column: column.str.startswith(first), {"pattern": first}
    yield "endswith_gbps", lambda column: column.str.endswith(last), {"pattern": last}
    yield "len_gbps", lambda column: column.str.len(), {}


def row_questions(series: Any, dataset: str) -> Iterator[tuple[str, Callable[[Any], Any], dict[str, Any]]]:
    """The same of questions that an automaton of rows answers."""
    del series, dataset
    for pattern in EXPRESSIONS:
        yield "regex_gbps", lambda column, pattern=pattern: column.str.contains(pattern), {"pattern": pattern}
    nocase = {"pattern": "SPECIAL"}
    yield "contains_nocase_gbps", lambda column: column.str.contains("SPECIAL", case=False, regex=False), nocase
    yield "like_any_gbps", lambda column: column.str.like(LIKE_ANY), {"pattern": LIKE_ANY}
    yield "less_gbps", lambda column: column < "furiously", {"pattern": "furiously"}
    yield "between_gbps", lambda column: column.between("c", "furiously"), {"pattern": "c, furiously"}


def _contains(column: Any, pattern: str) -> Any:
    return column.str.contains(pattern, regex=False)


def measure_query(
    series: Any,
    dataset: str,
    tools: Tools,
    compressed: Any = None,
    asked_of: Callable[[Any, str], Iterator[tuple[str, Callable[[Any], Any], dict[str, Any]]]] = questions,
) -> Iterator[Found]:
    """All questions of one column."""
    column = series.fsst.compress(codec="fsst") if compressed is None else compressed
    common = {"bytes": column.chars_nbytes, "rows": len(series)}
    for measure, ask, more in asked_of(series, dataset):
        found = ask(column)
        check(found, ask(series), measure)
        more = {**common, **more}
        if found.dtype.kind == "b":
            more["found"] = int(found.sum())
        del found
        for codec, asked in (("cudf_fsst", column), ("cudf", series)):
            seconds = tools.events(partial(ask, asked), tools.repeat)
            yield codec, {"measure": measure, "value": column.chars_nbytes / 1e9 / seconds, **more}


def measure_pieces(series: Any, dataset: str, tools: Tools) -> Iterator[Found]:
    """A method that goes piece by piece, and through `map_chunks`."""
    column = series.fsst.compress(codec="fsst")
    common = {"bytes": column.chars_nbytes, "rows": len(series)}

    def upper(piece: Any) -> Any:
        return piece.str.upper()

    check(column.str.upper(), upper(series), "upper()")
    check(column.map_chunks(upper), upper(series), "map_chunks()")
    for measure, codec, call in (
        ("upper_gbps", "cudf_fsst", column.str.upper),
        ("upper_gbps", "decompress", lambda: upper(column.decompress())),
        ("upper_gbps", "cudf", lambda: upper(series)),
        ("map_chunks_upper_gbps", "cudf_fsst", lambda: column.map_chunks(upper)),
        ("map_chunks_upper_gbps", "decompress", lambda: upper(column.decompress())),
        ("map_chunks_upper_gbps", "cudf", lambda: upper(series)),
        ("map_chunks_contains_gbps", "cudf_fsst", lambda: column.map_chunks(partial(_contains, pattern="special"))),
        ("map_chunks_contains_gbps", "decompress", lambda: _contains(column.decompress(), "special")),
        ("map_chunks_contains_gbps", "cudf", lambda: _contains(series, "special")),
    ):
        seconds = tools.events(call, -(-tools.repeat // 2))
        yield codec, {"measure": measure, "value": column.chars_nbytes / 1e9 / seconds, **common}


def measure_sizes(series: Any, dataset: str, tools: Tools) -> Iterator[Found]:
    """Milliseconds of a question of small columns, by the host's clock."""
    whole = series.fsst.compress(codec="fsst")
    per_row = whole.chars_nbytes / len(series)
    del whole
    for nbytes in SIZES:
        small = series.iloc[: int(nbytes / per_row)].copy(deep=True)
        column = small.fsst.compress(codec="fsst")
        common = {"bytes": column.chars_nbytes, "rows": len(small)}
        for measure, ask in (
            ("contains_ms", partial(_contains, pattern="special")),
            ("equals_ms", lambda one, value=small.iloc[0]: one == value),
        ):
            check(ask(column), ask(small), measure)
            for codec, asked in (("cudf_fsst", column), ("cudf", small)):
                milliseconds = 1e3 * tools.wall(partial(ask, asked), 5 * tools.repeat)
                yield codec, {"measure": measure, "value": milliseconds, **common}


def measure_price(frame: Any, dataset: str, tools: Tools) -> Iterator[Found]:
    """The price of what goes by air and has a special comment: a filter on two columns, the sum of a third."""
    frame = frame[["l_comment", "l_shipmode", "l_extendedprice"]]
    compressed = frame.fsst.compress()
    common = {"bytes": compressed.uncompressed_nbytes, "rows": len(frame)}

    def ours() -> Any:
        comment, mode = compressed.column("l_comment"), compressed.column("l_shipmode")
        mask = comment.str.contains("special", regex=False) & (mode == "AIR")
        return compressed.column("l_extendedprice")[mask].sum()

    def plain() -> Any:
        mask = frame["l_comment"].str.contains("special", regex=False) & (frame["l_shipmode"] == "AIR")
        return frame["l_extendedprice"][mask].sum()

    if ours() != plain():
        raise AssertionError("the sums differ")
    for codec, call in (("cudf_fsst", ours), ("cudf", plain)):
        yield codec, {"measure": "filter_sum_ms", "value": 1e3 * tools.wall(call, tools.repeat), **common}


def measure_dictionary(frame: Any, dataset: str, tools: Tools) -> Iterator[Found]:
    """What makes strings of a column of a few values."""
    series = frame["l_shipmode"]
    column = series.fsst.compress()
    common = {"bytes": column.chars_nbytes, "rows": len(series), "column": "l_shipmode"}
    check(column.str.upper(), series.str.upper(), "upper()")
    for codec, call in (("cudf_fsst", column.str.upper), ("cudf", series.str.upper)):
        seconds = tools.events(call, -(-tools.repeat // 2))
        yield codec, {"measure": "upper_gbps", "value": column.chars_nbytes / 1e9 / seconds, **common}


def measure_patterns(series: Any, dataset: str, tools: Tools) -> Iterator[Found]:
    """Regular expressions, and what else takes an automaton of rows."""
    yield from measure_query(series, dataset, tools, asked_of=row_questions)


MEASURES = {
    "query": measure_query,
    "patterns": measure_patterns,
    "pieces": measure_pieces,
    "sizes": measure_sizes,
    "price": measure_price,
    "dictionary": measure_dictionary,
}


def parts(names: list[str], scale: int) -> list[str]:
    """Parts in the order in which they are wanted: the compared column first, and the table that it is of."""
    wanted = [
        f"{kind}:{name.format(scale)}"
        for kind, own in KINDS.items()
        for name in (names if own is None else own)
        if own != (DATASET,) or DATASET in names
    ]
    return sorted(wanted, key=lambda part: not part.endswith(DATASET) and not part.startswith("price:"))


def run(
    names: list[str],
    data: Callable[[str], Any],
    tools: Tools,
    file: ResultsFile,
    options: argparse.Namespace,
    alive: Callable[[], bool],
) -> int:
    """Measure all parts, or those that are missing; an exit status."""
    wanted = [part for part in parts(names, options.scale) if part.partition(":")[0] in options.parts]
    wanted = [part for part in wanted if not options.missing or file.missing(part)]
    found = {
        kind: lambda made, options, failed, measure=measure: measure(made[1], made[0], tools)
        for kind, measure in MEASURES.items()
    }
    return compare.run(wanted, lambda name: (name, data(name)), found, file, options, alive)


def main() -> None:
    started = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    datasets.add_options(parser)
    parser.add_argument("--parts", nargs="*", choices=KINDS, default=list(KINDS), help="kinds of parts (default: all)")
    options = compare.parsed(parser, started, repeat=15)

    import bench_column
    import cudf
    import timing

    import cudf_fsst  # noqa: F401 - registers the accessor

    bench_column.use_pool()
    makers = dict(datasets.wanted(options))
    if options.generated:
        makers[EMAILS] = lambda: datasets.repeated(cudf.Series(datasets.email_addresses(10**6)), options.min_chars)
    makers = {name: make for name, make in makers.items() if name == DATASET or name in PATTERNS}

    @cache
    def data(name: str) -> Any:
        if name == LINEITEM.format(options.scale):
            wanted = ["l_comment", "l_shipmode", "l_extendedprice"]
            return cudf.read_parquet(Path(options.tpch) / "lineitem.parquet", columns=wanted)
        return makers[name]()

    tools = Tools(cudf, timing.event_seconds, timing.wall_seconds, options.repeat)
    file = ResultsFile(Path(options.out), timing.machine(), **timing.run())
    sys.exit(run(list(makers), data, tools, file, options, timing.alive))


if __name__ == "__main__":
    main()
