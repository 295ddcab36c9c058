"""TPC-H's questions about text, on compressed frames and on plain ones: Q2, Q9, Q13, Q14, Q16 and Q20.

    tpchgen-cli parquet -s 10 -o tpch
    python benchmarks/bench_tpch.py --tpch tpch --out benchmarks/results/tpch.json

Each query is whole and runs in cuDF. Both ways have the columns resident that the query needs, and no others. The
compressed frames answer filters of text, numbers and dates on their codes, and give the rows that the query goes on
with. Both ways run the same query, written to need little memory: what is not needed any more is deleted, Q13 drops the
labels of rows, and counts customers by numbers of 32 bits. Answers are compared before anything is timed.

``seconds`` are medians of the host's clock, from a synchronised device to a synchronised device; both ways take turns.
``resident_bytes`` are what a way's frames take in GPU memory, ``peak_bytes`` that and the most that the query needs, as
RMM counts. ``limited_seconds`` is one run with a limit of half of the plain query's peak; 0 where memory did not
suffice.
"""

from __future__ import annotations

import argparse
import gc
import math
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import compare
import numpy as np
import pandas as pd
from records import Record, ResultsFile

from cudf_fsst import CompressedFrame

Tables = Mapping[str, Any]
Found = tuple[str, Record]


def column(table: Any, name: str) -> Any:
    """What a filter asks: a Series, or a compressed column."""
    return table.column(name) if isinstance(table, CompressedFrame) else table[name]


def rows(table: Any, names: list[str], mask: Any = None) -> Any:
    """Columns of a table as a DataFrame, all rows or those of a mask."""
    if isinstance(table, CompressedFrame):
        some = table[names]
        return some.decompress() if mask is None else some[mask]
    return table[names] if mask is None else table.loc[mask, names]


def like(values: Any, pattern: str) -> Any:
    """SQL's LIKE. pandas, which stands for cuDF in tests, has none."""
    if hasattr(values.str, "like"):
        return values.str.like(pattern)
    return values.str.fullmatch(".*".join(map(re.escape, pattern.split("%"))), flags=re.DOTALL)


def number(values: Any) -> Any:
    """Decimals as floats."""
    return values.astype("float64")


def europe(tables: Tables) -> Any:
    """Suppliers in Europe, with the name of their nation."""
    region = rows(tables["region"], ["r_regionkey", "r_name"])
    nation = rows(tables["nation"], ["n_nationkey", "n_name", "n_regionkey"])
    nation = nation.merge(region[region["r_name"] == "EUROPE"], left_on="n_regionkey", right_on="r_regionkey")
    return nation[["n_nationkey", "n_name"]]


def q2(tables: Tables) -> Any:
    """The cheapest suppliers in Europe of brass parts."""
    part = tables["part"]
    mask = like(column(part, "p_type"), "%BRASS") & (column(part, "p_size") == 15)
    parts = rows(part, ["p_partkey", "p_mfgr"], mask)
    offers = tables["partsupp"]
    mask = column(offers, "ps_partkey").isin(parts["p_partkey"])
    offers = rows(offers, ["ps_partkey", "ps_suppkey", "ps_supplycost"], mask)
    supplier = rows(tables["supplier"], ["s_suppkey", "s_nationkey", "s_acctbal", "s_name"])
    supplier = supplier.merge(europe(tables), left_on="s_nationkey", right_on="n_nationkey")
    offers = offers.merge(supplier, left_on="ps_suppkey", right_on="s_suppkey")
    offers["ps_supplycost"] = number(offers["ps_supplycost"])
    least = offers.groupby("ps_partkey", as_index=False).agg({"ps_supplycost": "min"})
    offers = offers.merge(least, on=["ps_partkey", "ps_supplycost"])
    offers = offers.merge(parts, left_on="ps_partkey", right_on="p_partkey")
    offers["s_acctbal"] = number(offers["s_acctbal"])
    offers = offers.sort_values(["s_acctbal", "n_name", "s_name", "p_partkey"], ascending=[False, True, True, True])
    offers = offers.head(100)
    # Addresses, phones and comments of the suppliers that are shown.
    more = tables["supplier"]
    mask = column(more, "s_suppkey").isin(offers["s_suppkey"])
    more = rows(more, ["s_suppkey", "s_address", "s_phone", "s_comment"], mask)
    offers = offers.merge(more, on="s_suppkey")
    shown = ["s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment"]
    order = ["s_acctbal", "n_name", "s_name", "p_partkey"]
    return offers[shown].sort_values(order, ascending=[False, True, True, True])


def q9(tables: Tables) -> Any:
    """Profit by nation and year of parts whose name says green."""
    part, lineitem = tables["part"], tables["lineitem"]
    parts = rows(part, ["p_partkey"], like(column(part, "p_name"), "%green%"))["p_partkey"]
    wanted = ["l_partkey", "l_suppkey", "l_orderkey", "l_quantity", "l_extendedprice", "l_discount"]
    lines = rows(lineitem, wanted, column(lineitem, "l_partkey").isin(parts))
    offers = tables["partsupp"]
    offers = rows(offers, ["ps_partkey", "ps_suppkey", "ps_supplycost"], column(offers, "ps_partkey").isin(parts))
    lines = lines.merge(offers, left_on=["l_partkey", "l_suppkey"], right_on=["ps_partkey", "ps_suppkey"])
    amount = number(lines["l_extendedprice"]) * (1 - number(lines["l_discount"]))
    lines["amount"] = amount - number(lines["ps_supplycost"]) * number(lines["l_quantity"])
    lines = lines[["l_orderkey", "l_suppkey", "amount"]]
    orders = tables["orders"]
    mask = column(orders, "o_orderkey").isin(lines["l_orderkey"])
    orders = rows(orders, ["o_orderkey", "o_orderdate"], mask)
    lines = lines.merge(orders, left_on="l_orderkey", right_on="o_orderkey")
    supplier = rows(tables["supplier"], ["s_suppkey", "s_nationkey"])
    lines = lines.merge(supplier, left_on="l_suppkey", right_on="s_suppkey")
    lines = lines.merge(
        rows(tables["nation"], ["n_nationkey", "n_name"]), left_on="s_nationkey", right_on="n_nationkey"
    )
    lines["year"] = lines["o_orderdate"].dt.year
    found = lines.groupby(["n_name", "year"], as_index=False).agg({"amount": "sum"})
    return found.sort_values(["n_name", "year"], ascending=[True, False])


def q13(tables: Tables) -> Any:
    """How many customers have how many orders, special requests aside."""
    orders = tables["orders"]
    mask = ~like(column(orders, "o_comment"), "%special%requests%")
    kept = rows(orders, ["o_custkey"], mask).reset_index(drop=True)  # the labels take as much as the keys
    del mask
    kept = kept.astype("int32")
    counts = kept.groupby("o_custkey").agg({"o_custkey": "count"})  # `size` would copy the keys
    del kept
    counts.columns = ["c_count"]
    counts = counts.reset_index().astype("int64")
    counts.columns = ["c_custkey", "c_count"]
    customer = rows(tables["customer"], ["c_custkey"]).merge(counts, on="c_custkey", how="left")
    customer["c_count"] = customer["c_count"].fillna(0).astype("int64")
    found = customer.groupby("c_count", as_index=False).size()
    found.columns = ["c_count", "custdist"]
    return found.sort_values(["custdist", "c_count"], ascending=[False, False])


def q14(tables: Tables) -> Any:
    """The share of the revenue of a month that promoted parts made, in percent."""
    lineitem, part = tables["lineitem"], tables["part"]
    month = pd.Timestamp("1995-09-01"), pd.Timestamp("1995-10-01")
    mask = column(lineitem, "l_shipdate").between(*month, inclusive="left")
    lines = rows(lineitem, ["l_partkey", "l_extendedprice", "l_discount"], mask)
    lines["revenue"] = number(lines["l_extendedprice"]) * (1 - number(lines["l_discount"]))
    promoted = rows(part, ["p_partkey"], column(part, "p_type").str.startswith("PROMO"))
    chosen = lines["l_partkey"].isin(promoted["p_partkey"])
    return 100 * float(lines["revenue"][chosen].sum()) / float(lines["revenue"].sum())


def q16(tables: Tables) -> Any:
    """How many suppliers of whom nobody complained offer parts of a kind."""
    part, supplier, offers = tables["part"], tables["supplier"], tables["partsupp"]
    mask = (column(part, "p_brand") != "Brand#45") & ~column(part, "p_type").str.startswith("MEDIUM POLISHED")
    mask &= column(part, "p_size").isin([49, 14, 23, 45, 19, 3, 36, 9])
    parts = rows(part, ["p_partkey", "p_brand", "p_type", "p_size"], mask)
    mask = like(column(supplier, "s_comment"), "%Customer%Complaints%")
    complained = rows(supplier, ["s_suppkey"], mask)["s_suppkey"]
    mask = column(offers, "ps_partkey").isin(parts["p_partkey"]) & ~column(offers, "ps_suppkey").isin(complained)
    kept = rows(offers, ["ps_partkey", "ps_suppkey"], mask)
    del mask
    kept = kept.merge(parts, left_on="ps_partkey", right_on="p_partkey")
    del parts
    kind = ["p_brand", "p_type", "p_size"]
    kept = kept[[*kind, "ps_suppkey"]]
    kept = kept.drop_duplicates(ignore_index=True)
    found = kept.groupby(kind, as_index=False).agg({"ps_suppkey": "count"})
    found.columns = [*kind, "supplier_cnt"]
    return found.sort_values(["supplier_cnt", *kind], ascending=[False, True, True, True])


def q20(tables: Tables) -> Any:
    """Suppliers in Canada that have more of some forest part than half of what was shipped in 1994."""
    part, offers, lineitem = tables["part"], tables["partsupp"], tables["lineitem"]
    parts = rows(part, ["p_partkey"], column(part, "p_name").str.startswith("forest"))["p_partkey"]
    offers = rows(offers, ["ps_partkey", "ps_suppkey", "ps_availqty"], column(offers, "ps_partkey").isin(parts))
    year = pd.Timestamp("1994-01-01"), pd.Timestamp("1995-01-01")
    mask = column(lineitem, "l_shipdate").between(*year, inclusive="left")
    mask &= column(lineitem, "l_partkey").isin(parts)
    lines = rows(lineitem, ["l_partkey", "l_suppkey", "l_quantity"], mask)
    lines["l_quantity"] = number(lines["l_quantity"])
    keys = ["l_partkey", "l_suppkey"]
    lines = lines.groupby(keys, as_index=False).agg({"l_quantity": "sum"})
    offers = offers.merge(lines, left_on=["ps_partkey", "ps_suppkey"], right_on=keys)
    wanted = offers["ps_suppkey"][offers["ps_availqty"] > 0.5 * offers["l_quantity"]]
    nation = rows(tables["nation"], ["n_nationkey", "n_name"])
    canada = nation["n_nationkey"][nation["n_name"] == "CANADA"]
    supplier = tables["supplier"]
    mask = column(supplier, "s_suppkey").isin(wanted) & column(supplier, "s_nationkey").isin(canada)
    return rows(supplier, ["s_name", "s_address"], mask).sort_values("s_name")


#: Query -> the function, and the columns that it needs.
QUERIES: dict[str, tuple[Callable[[Tables], Any], dict[str, list[str]]]] = {
    "q2": (
        q2,
        {
            "part": ["p_partkey", "p_mfgr", "p_size", "p_type"],
            "supplier": ["s_suppkey", "s_nationkey", "s_acctbal", "s_name", "s_address", "s_phone", "s_comment"],
            "partsupp": ["ps_partkey", "ps_suppkey", "ps_supplycost"],
            "nation": ["n_nationkey", "n_name", "n_regionkey"],
            "region": ["r_regionkey", "r_name"],
        },
    ),
    "q9": (
        q9,
        {
            "part": ["p_partkey", "p_name"],
            "lineitem": ["l_partkey", "l_suppkey", "l_orderkey", "l_quantity", "l_extendedprice", "l_discount"],
            "partsupp": ["ps_partkey", "ps_suppkey", "ps_supplycost"],
            "orders": ["o_orderkey", "o_orderdate"],
            "supplier": ["s_suppkey", "s_nationkey"],
            "nation": ["n_nationkey", "n_name"],
        },
    ),
    "q13": (q13, {"orders": ["o_custkey", "o_comment"], "customer": ["c_custkey"]}),
    "q14": (
        q14,
        {
            "lineitem": ["l_partkey", "l_extendedprice", "l_discount", "l_shipdate"],
            "part": ["p_partkey", "p_type"],
        },
    ),
    "q16": (
        q16,
        {
            "part": ["p_partkey", "p_brand", "p_type", "p_size"],
            "partsupp": ["ps_partkey", "ps_suppkey"],
            "supplier": ["s_suppkey", "s_comment"],
        },
    ),
    "q20": (
        q20,
        {
            "part": ["p_partkey", "p_name"],
            "partsupp": ["ps_partkey", "ps_suppkey", "ps_availqty"],
            "lineitem": ["l_partkey", "l_suppkey", "l_quantity", "l_shipdate"],
            "supplier": ["s_suppkey", "s_name", "s_address", "s_nationkey"],
            "nation": ["n_nationkey", "n_name"],
        },
    ),
}


#: Turns that are not timed.
_WARMUP = 3


@dataclass(frozen=True)
class Tools:
    """What measures: seconds of a call, bytes in use now, bytes at the peak of a call, and a call within a limit."""

    wall: Callable[[Callable[[], Any]], float]
    in_use: Callable[[], int]
    peak: Callable[[Callable[[], Any]], int]
    limited: Callable[[Callable[[], Any], int], float]
    repeat: int


def same(found: Any, wanted: Any) -> bool:
    """Whether two answers are equal; sums of floats may be added up in another order."""
    if isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=1e-9)
    found, wanted = (one.to_pandas() if hasattr(one, "to_pandas") else one for one in (found, wanted))
    if list(found.columns) != list(wanted.columns) or len(found) != len(wanted):
        return False
    for name in wanted.columns:
        ours, theirs = found[name].to_numpy(), wanted[name].to_numpy()
        close = np.allclose(ours, theirs, rtol=1e-9) if theirs.dtype.kind == "f" else (ours == theirs).all()
        if not close:
            return False
    return True


def measure(read: Callable[[str, list[str]], Any], query: str, tools: Tools) -> Iterator[Found]:
    """A query, both ways."""
    function, columns = QUERIES[query]
    resident: dict[str, int] = {}
    calls: dict[str, Callable[[], Any]] = {}
    for codec in ("cudf", "cudf_fsst"):
        gc.collect()
        before = tools.in_use()
        tables = {}
        for name, wanted in columns.items():
            table = read(name, wanted)
            tables[name] = table.fsst.compress() if codec == "cudf_fsst" else table
            del table
        gc.collect()
        resident[codec] = tools.in_use() - before
        calls[codec] = partial(function, tables)
    if not same(calls["cudf_fsst"](), calls["cudf"]()):
        raise AssertionError(f"{query} on compressed frames gave another answer")
    times: dict[str, list[float]] = {codec: [] for codec in calls}
    for turn in range(_WARMUP + tools.repeat):
        for codec, call in calls.items():
            seconds = tools.wall(call)
            if turn >= _WARMUP:
                times[codec].append(seconds)
    peaks = {codec: resident[codec] + tools.peak(call) for codec, call in calls.items()}
    limit = peaks["cudf"] // 2
    for codec, call in calls.items():
        yield codec, {"measure": "seconds", "value": statistics.median(times[codec])}
        yield codec, {"measure": "resident_bytes", "value": resident[codec]}
        yield codec, {"measure": "peak_bytes", "value": peaks[codec]}
        within = tools.limited(call, limit - resident[codec]) if resident[codec] < limit else 0.0
        yield codec, {"measure": "limited_seconds", "value": within, "limit_bytes": limit}


def run(
    read: Callable[[str, list[str]], Any],
    tools: Tools,
    file: ResultsFile,
    options: argparse.Namespace,
    alive: Callable[[], bool],
) -> int:
    """Measure all queries, or those that are missing; an exit status."""
    wanted = [f"{query}:tpch.sf{options.scale}" for query in options.queries]
    wanted = [part for part in wanted if not options.missing or file.missing(part)]
    found = {
        query: lambda data, options, failed, query=query: (
            (codec, {"query": query, **record}) for codec, record in measure(read, query, tools)
        )
        for query in QUERIES
    }
    return compare.run(wanted, lambda dataset: None, found, file, options, alive)


def main() -> None:
    started = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tpch", type=Path, required=True, help="folder with the tables' Parquet files")
    parser.add_argument("--scale", type=int, default=10, help="their scale factor, for the names")
    parser.add_argument("--queries", nargs="*", choices=QUERIES, default=list(QUERIES), help="default: all")
    options = compare.parsed(parser, started, repeat=15)

    import bench_column
    import cudf
    import timing

    bench_column.use_pool()
    memory = timing.CountedMemory()

    def peak(call: Callable[[], Any]) -> int:
        return memory.peak(call) if memory.in_use() else 0

    limited = partial(memory.limited_seconds, repeat=3)

    def read(name: str, columns: list[str]) -> Any:
        return cudf.read_parquet(options.tpch / f"{name}.parquet", columns=columns)

    tools = Tools(
        partial(timing.wall_seconds, repeat=1, warmup=0, threads=True), memory.in_use, peak, limited, options.repeat
    )
    sys.exit(run(read, tools, ResultsFile(options.out, timing.machine(), **timing.run()), options, timing.alive))


if __name__ == "__main__":
    main()
