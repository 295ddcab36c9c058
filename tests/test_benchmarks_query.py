"""What of bench_query.py, bench_tpch.py and query_page.py runs without a GPU; pandas stands for cuDF."""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cudf_fsst

ROOT = Path(__file__).resolve().parent.parent
MACHINE = {"gpu": "Some GPU", "driver": "1", "cpu_cores": 1}
RUN = {"date": "2026-01-02", "command": "python bench.py"}
COMMENTS = "tpch.l_comment.sf10"


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        names = (
            "bench_query",
            "bench_query_cpu",
            "bench_real_text",
            "bench_tpch",
            "query_page",
            "readme_table",
            "records",
        )
        yield {name: importlib.import_module(name) for name in names}


def options(**more: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"deadline": math.inf, "scale": 10, "missing": False, **more})


def clock(call: Callable[[], Any], repeat: int) -> float:
    """Stands for both clocks: the call is made, and takes a millisecond."""
    call()
    assert repeat > 0
    return 0.001


def comments(rows: int) -> pd.Series:
    words = np.array("special requests furiously deposits quickly final sleep above the".split())
    picked = np.random.default_rng(3).integers(0, len(words), (rows, 4))
    return pd.Series([" ".join(words[row]) for row in picked], name="l_comment")


def like(self: Any, pattern: str) -> Any:
    """cuDF has it, pandas does not."""
    return self.fullmatch(pattern.replace("%", ".*").replace("_", "."))


@pytest.fixture
def plain_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods that a plain column has in cuDF."""
    methods = pd.core.strings.accessor.StringMethods
    monkeypatch.setattr(methods, "like", like, raising=False)
    monkeypatch.setattr(methods, "byte_count", lambda self: self.encode("utf-8").str.len(), raising=False)


def test_questions_on_the_cpu(modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, page = modules["bench_query_cpu"], modules["query_page"]
    (tmp_path / "l_comment").write_text("\n".join(comments(300)) + "\n")
    table = pa.table({"l_comment": pa.array(comments(900)), "l_linenumber": range(900)})
    pq.write_table(table, tmp_path / "lineitem.parquet")
    monkeypatch.setenv("CUDF_FSST_NUM_THREADS", "2")
    plain = bench.lines(tmp_path / "l_comment", 0.02)
    records = list(bench.measure("dbtext.l_comment", plain, 2, 1))
    assert {one["codec"] for one in records} == {"cudf_fsst.cpu", "pyarrow"}
    contains = [one for one in records[::2] if one["measure"] == "contains_gbps"]
    assert [one["pattern"] for one in contains] == list(bench.PATTERNS["l_comment"])
    assert all(one["bytes"] >= 20_000 and one["threads"] == 2 and one["value"] > 0 for one in records)
    wanted = sum("special" in row for row in plain.to_pylist())
    assert {one["found"] for one in records if one.get("pattern") == "special"} == {wanted}
    assert bench.comments(tmp_path, 0.001).equals(table["l_comment"].combine_chunks().cast(pa.large_string()))

    for arguments in (["--threads", "1", "2"], ["--threads", "1"]):
        out = tmp_path / "query_cpu.json"
        argv = ["bench_query_cpu.py", "--tpch", str(tmp_path), "--mb", "0.01", "--repeat", "1", "--out", str(out)]
        monkeypatch.setattr("sys.argv", [*argv, *arguments])
        bench.main()
        written = json.loads(out.read_text())
        shown = page.cpu(tmp_path)
        assert shown.count("\n| l_comment |") == len(bench.PATTERNS["l_comment"]) + 7
        assert str(tmp_path) not in written["command"]
        for one in written["records"]:
            assert f"{one['value']:.2f}" in shown
    assert page.cpu(tmp_path / "nowhere") == "Not measured yet."


def test_real_text(modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, out = modules["bench_real_text"], tmp_path / "real_text.json"
    for name in ("CUDF_FSST_NUM_THREADS", "POLARS_MAX_THREADS"):
        monkeypatch.setenv(name, "1")
    assert any("pytest" in path for path in bench.paths())
    few = {
        "source lines": lambda: bench.source_lines()[:2000],
        "docstrings": lambda: ["One.\n\nTwo."] * 9,
        "time zones": bench.time_zones,
    }
    monkeypatch.setattr(bench, "DATASETS", few)
    monkeypatch.setattr("sys.argv", ["bench_real_text.py", "--repeat", "1", "--out", str(out)])
    bench.main()
    content = json.loads(out.read_text())
    nbytes = modules["readme_table"].nbytes_of(content)
    zones = nbytes["time zones"]
    assert zones["cudf_fsst.cpu"] < zones["arrow"] / 10
    assert zones["pandas.category"] < zones["pandas"] / 10
    assert {one["dataset"] for one in content["records"] if one["measure"] == "ms"} == {"source lines"}
    shown = modules["readme_table"].render_real_text(content)
    assert f"| docstrings | 9 | {nbytes['docstrings']['pandas'] / 1e6:.2f} |" in shown
    assert modules["query_page"].real_text(tmp_path).count("\n| source lines |") == len(bench.QUESTIONS)
    assert modules["query_page"].real_text(tmp_path / "nowhere") == "Not measured yet."


@pytest.mark.filterwarnings("ignore:This pattern is interpreted")  # of groups
@pytest.mark.usefixtures("plain_methods")
def test_questions_are_compared_and_timed(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    bench, page = modules["bench_query"], modules["query_page"]
    series = comments(3000)
    frame = pd.DataFrame(
        {
            "l_comment": series,
            "l_shipmode": np.where(np.arange(len(series)) % 3, "AIR", "MAIL"),
            "l_extendedprice": np.arange(len(series)) / 4,
        }
    )
    data = {COMMENTS: series, "tpch.lineitem.sf10": frame, "generated.emails": series + "@x"}
    tools = bench.Tools(pd, clock, clock, repeat=3)
    file = modules["records"].ResultsFile(tmp_path / "query.json", MACHINE, **RUN)
    asked = options(parts=list(bench.KINDS))
    assert bench.run([COMMENTS, "generated.emails"], data.__getitem__, tools, file, asked, lambda: True) == 0
    content = json.loads(file.path.read_text())
    assert not [part for part in content["parts"].values() if "failed" in part], content["parts"]
    pairs = {}
    for record in content["records"]:
        key = record["dataset"], record["measure"], record.get("pattern"), record["bytes"]
        pairs.setdefault(key, set()).add(record["codec"])
    assert all({"cudf_fsst", "cudf"} <= codecs for codecs in pairs.values())
    assert {measure for dataset, measure, *_ in pairs if dataset == COMMENTS} == {
        *(measure for measure in page.MEASURES),
        "contains_ms",
        "equals_ms",
    }
    for part in (page.questions, page.columns, page.sizes):
        assert part(tmp_path).startswith("| ")
    assert page.draw(tmp_path, tmp_path) == [tmp_path / "questions.svg"]


@pytest.mark.usefixtures("plain_methods")
def test_wrong_answers_are_not_timed(modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    bench, series = modules["bench_query"], comments(100)
    monkeypatch.setattr(cudf_fsst.CompressedColumn, "isin", lambda self, values: series == "x")
    tools = bench.Tools(pd, clock, clock, repeat=3)
    with pytest.raises(AssertionError, match="isin_gbps did not give the same answers"):
        list(bench.measure_query(series, COMMENTS, tools))


WORDS = (
    "green blue forest azure MEDIUM POLISHED PROMO ANODIZED BRASS STEEL Customer special requests Complaints".split()
)


def tables() -> dict[str, pd.DataFrame]:
    """Tables that look like TPC-H's."""
    random = np.random.default_rng(8)
    counts = {"part": 300, "supplier": 40, "orders": 800, "lineitem": 3000, "customer": 100}

    def text(count: int) -> list[str]:
        return [" ".join(random.choice(WORDS, 3)) for _ in range(count)]

    def dates(count: int) -> Any:
        return pd.Timestamp("1993-06-01") + pd.to_timedelta(random.integers(0, 1200, count), "D")

    parts = np.arange(counts["part"])
    offered = np.repeat(parts, 4)
    part = {
        "p_partkey": parts,
        "p_name": text(parts.size),
        "p_mfgr": text(parts.size),
        "p_brand": random.choice(["Brand#45", "Brand#12"], parts.size),
        "p_type": text(parts.size),
        "p_size": random.choice([15, 49, 14, 3], parts.size),
    }
    suppliers = np.arange(counts["supplier"])
    supplier = {
        "s_suppkey": suppliers,
        "s_name": [f"Supplier#{number:09d}" for number in suppliers],
        "s_address": text(suppliers.size),
        "s_nationkey": suppliers % 4,
        "s_phone": text(suppliers.size),
        "s_acctbal": random.integers(0, 99999, suppliers.size) / 100,
        "s_comment": text(suppliers.size),
    }
    partsupp = {
        "ps_partkey": offered,
        "ps_suppkey": (offered * 7 + np.tile([0, 11, 22, 33], parts.size)) % suppliers.size,
        "ps_availqty": random.integers(1, 9999, offered.size),
        "ps_supplycost": random.integers(100, 99999, offered.size) / 100,
    }
    chosen = random.integers(0, offered.size, counts["lineitem"])
    lineitem = {
        "l_orderkey": random.integers(0, counts["orders"], counts["lineitem"]),
        "l_partkey": partsupp["ps_partkey"][chosen],
        "l_suppkey": partsupp["ps_suppkey"][chosen],
        "l_quantity": random.integers(1, 50, counts["lineitem"]).astype(float),
        "l_extendedprice": random.integers(100, 999999, counts["lineitem"]) / 100,
        "l_discount": random.integers(0, 10, counts["lineitem"]) / 100,
        "l_shipdate": dates(counts["lineitem"]),
    }
    orders = {
        "o_orderkey": np.arange(counts["orders"]),
        "o_custkey": random.integers(0, counts["customer"], counts["orders"]),
        "o_orderdate": dates(counts["orders"]),
        "o_comment": text(counts["orders"]),
    }
    nations = {"n_nationkey": range(4), "n_name": ["CANADA", "FRANCE", "GERMANY", "PERU"], "n_regionkey": [0, 1, 1, 0]}
    made = {
        "part": part,
        "supplier": supplier,
        "partsupp": partsupp,
        "lineitem": lineitem,
        "orders": orders,
        "customer": {"c_custkey": np.arange(counts["customer"])},
        "nation": nations,
        "region": {"r_regionkey": [0, 1], "r_name": ["AMERICA", "EUROPE"]},
    }
    return {name: pd.DataFrame(columns) for name, columns in made.items()}


@pytest.mark.slow
def test_tpch_queries_agree_on_both_frames(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    bench, page, plain = modules["bench_tpch"], modules["query_page"], tables()
    limits = []

    def limited(call: Callable[[], Any], more: int) -> float:
        limits.append(more)
        return 0.0

    in_use = itertools.count(0, 10)
    tools = bench.Tools(lambda call: clock(call, 1), lambda: next(in_use), lambda call: 1000, limited, repeat=3)
    file = modules["records"].ResultsFile(tmp_path / "tpch.json", MACHINE, **RUN)
    asked = options(queries=list(bench.QUERIES))

    def read(name: str, columns: list[str]) -> pd.DataFrame:
        return plain[name][columns].copy()

    assert bench.run(read, tools, file, asked, lambda: True) == 0
    content = json.loads(file.path.read_text())
    assert not [part for part in content["parts"].values() if "failed" in part], content["parts"]
    assert {record["query"] for record in content["records"]} == set(bench.QUERIES)
    assert len(content["records"]) == len(bench.QUERIES) * 2 * 4
    assert limits == [505 - 10] * len(limits)
    assert page.tpch(tmp_path).startswith("| ")
    assert page.draw(tmp_path, tmp_path) == [tmp_path / "tpch.svg"]
    # Answers that say something.
    for name, (query, columns) in bench.QUERIES.items():
        found = query({table: read(table, wanted) for table, wanted in columns.items()})
        assert math.isfinite(found) if isinstance(found, float) else len(found), name


def test_answers_are_told_apart(modules: dict[str, ModuleType]) -> None:
    same, frame = modules["bench_tpch"].same, pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]})
    assert same(frame, frame.assign(b=frame["b"] * (1 + 1e-12)))
    assert not same(frame, frame.assign(b=[1.0, 2.1]))
    assert not same(frame, frame.assign(a=["x", "z"]))
    assert not same(frame, frame.iloc[:1])
    assert same(1.0, 1.0 + 1e-12)
    assert not same(1.0, 1.1)


def test_page_shows_the_newest_results(modules: dict[str, ModuleType]) -> None:
    page = modules["query_page"]
    text = page.PAGE.read_text()
    assert page.written(text) == text
