"""Compressed frames and files asked by Polars' GPU engine, whose answers are Polars' own on the plain data."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst

pl = pytest.importorskip("polars")
c = pl.col
pytestmark = pytest.mark.gpu
ROWS = 300_000


def engines() -> list[Any]:
    return [
        pl.GPUEngine(executor="streaming", raise_on_fail=True),
        pl.GPUEngine(executor="in-memory", raise_on_fail=True),
    ]


def table() -> pa.Table:
    """All types that the engine knows, with nulls."""
    rng = np.random.default_rng(5)
    hole = rng.random(ROWS) < 0.1
    numbers = rng.integers(-5, 30, ROWS)
    micro = 1_600_000_000_000_000 + numbers

    def array(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=hole)

    return pa.table(
        {
            "n": pa.array(np.arange(ROWS), pa.int64()),
            "i8": array(numbers.astype("i1"), pa.int8()),
            "u32": array(numbers.astype("u4"), pa.uint32()),
            "f": array(rng.random(ROWS), pa.float64()),
            "f4": array(rng.random(ROWS).astype("f4"), pa.float32()),
            "b": array(numbers % 2 == 0, pa.bool_()),
            "s": array([f"row {i % 977} special old requests" for i in range(ROWS)], pa.string()),
            "k": pa.array([f"k{i % 7}" for i in range(ROWS)], pa.large_string()),
            "day": array((numbers + 18_000).astype("i4"), pa.int32()).cast(pa.date32()),
            "sec": array(micro // 1_000_000, pa.int64()).cast(pa.timestamp("s")),
            "us": array(micro, pa.int64()).cast(pa.timestamp("us")),
            "zone": array(micro, pa.int64()).cast(pa.timestamp("us", "Europe/Berlin")),
            "took": array(numbers, pa.int64()).cast(pa.duration("ms")),
            "dec": array([Decimal(int(n)) / 100 for n in numbers], pa.decimal128(15, 2)),
            "list": array([[i % 99, None][: i % 3] for i in range(ROWS)], pa.list_(pa.int16())),
            "pair": array([{"a": i, "s": str(i)} for i in range(ROWS)], pa.struct({"a": pa.int32(), "s": pa.string()})),
            "all": pa.nulls(ROWS, pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def data() -> pa.Table:
    return table()


@pytest.fixture(scope="module")
def frame(data: pa.Table) -> Any:
    return data.to_pandas(types_mapper=pd.ArrowDtype).fsst.compress().to_device()


@pytest.fixture(scope="module")
def plain(data: pa.Table) -> Any:
    return pl.DataFrame(data)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = pytest.importorskip("cudf_fsst.engines.polars_gpu")
    monkeypatch.setattr(gpu, "PIECE_NBYTES", 2_000_000)


def source(frame: Any, where: Any = None) -> Any:
    from cudf_fsst.engines import polars as engine

    made = frame._engine_table()
    return engine.source_class()(engine.schema_of(made), (made,), where)


@pytest.mark.parametrize("place", ["gpu", "host", "files"])
@pytest.mark.parametrize("number", [0, 1])
def test_answers(number: int, place: str, frame: Any, plain: Any, tmp_path: Path) -> None:
    which = engines()[number]
    if place == "files":
        frame.save(tmp_path / "f")
        lazy = cudf_fsst.scan(tmp_path / "f")
        where = cudf_fsst.scan(tmp_path / "f", where=c.s.str.starts_with("row 5"))
    else:
        there = frame if place == "gpu" else frame.to_host()
        lazy, where = there.lazy(), there.lazy(where=c.s.str.starts_with("row 5"))
    for name in plain.columns:
        assert (
            lazy.select("n", name if name != "n" else "k")
            .collect(engine=which)
            .sort("n")
            .equals(plain.select("n", name if name != "n" else "k"))
        ), name
    few = plain.filter(c.s.str.starts_with("row 5"))
    assert where.select("n", "s", "dec").collect(engine=which).sort("n").equals(few.select("n", "s", "dec"))
    asked = (c.day > pl.date(2019, 5, 1)) & (c.k == "k3")
    assert lazy.filter(asked).select("n").collect(engine=which).sort("n").equals(plain.filter(asked).select("n"))
    sums = lazy.group_by("k").agg(c.i8.sum(), c.f.max(), pl.len()).sort("k").collect(engine=which)
    assert sums.equals(plain.group_by("k").agg(c.i8.sum(), c.f.max(), pl.len()).sort("k"))
    assert lazy.select(pl.len()).collect(engine=which).item() == ROWS


@pytest.mark.parametrize("where", [None, c("i8") == 3, c("n") < 0, c("n") < 1000])
def test_every_row_is_read_by_one_rank(where: Any, frame: Any, plain: Any, tmp_path: Path) -> None:
    """The engine's processes are simulated one after another."""
    from cudf_polars.containers import DataFrame
    from cudf_polars.streaming.rank_aware_source import RankAwareSource

    from cudf_fsst.engines import polars as engine

    for number in range(2):
        frame.save(tmp_path / f"f{number}")
    files = [engine.FileFrame(str(tmp_path / f"f{number}")) for number in range(2)]
    scanned = engine.source_class()(files[0].schema(), files, where)
    for one, wanted in ((source(frame, where), plain), (scanned, pl.concat([plain] * 2))):
        assert isinstance(one, RankAwareSource)
        for nranks in (1, 3):
            found = []
            for rank in range(nranks):
                pieces = one(["n", "s", "i8"], None, None, None, rank=rank, nranks=nranks)
                count = 0
                for piece in pieces:
                    count += 1
                    found.append(piece.to_polars() if isinstance(piece, DataFrame) else piece)
                assert count == len(pieces)
            every, want = pl.concat(found), wanted
            if where is not None:  # some rows come that the engine filters out
                want = wanted.filter(where)
                assert every.height <= max(4 * want.height, 1)
                every = every.filter(where)
            assert every.equals(want.select("n", "s", "i8"))


def test_one_piece_is_resident(frame: Any) -> None:
    """What GPU memory holds while pieces come and go: a few pieces' bytes."""
    import rmm.statistics

    pieces = source(frame)(["s", "us"], None, None, None, rank=0, nranks=1)
    assert len(pieces) > 5
    next(pieces)
    with rmm.statistics.statistics():
        for piece in pieces:
            assert piece.num_rows
            del piece
        peak = rmm.statistics.get_statistics().peak_bytes
    assert peak < 3 * 2_000_000, peak


def test_threads_and_processes(frame: Any, plain: Any) -> None:
    lazy, wanted = frame.lazy(), plain.filter(c.i8 == 3).select("n")
    which = engines()[0]
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(lambda: lazy.filter(c.i8 == 3).select("n").collect(engine=which)) for _ in range(8)]
        assert all(one.result().sort("n").equals(wanted) for one in asked)
    again = pickle.loads(pickle.dumps(source(frame)))
    (first, *_) = again(["n"], None, None, None, rank=0, nranks=1)
    assert first.to_polars()["n"].to_list()[:5] == [0, 1, 2, 3, 4]


def test_types_that_the_engine_does_not_know(frame: Any) -> None:
    kinds = pd.DataFrame({"c": pd.Categorical(["b", None, "a", "b"]), "n": [1, 2, 3, 4]}).fsst.compress().to_device()
    for executor in ("streaming", "in-memory"):
        found = kinds.lazy().collect(engine=pl.GPUEngine(executor=executor))
        assert found["c"].to_list() == ["b", None, "a", "b"]
        with pytest.raises(Exception, match=r"(?i)not supported|not implemented|categorical"):
            kinds.lazy().collect(engine=pl.GPUEngine(executor=executor, raise_on_fail=True))
    assert frame.lazy().select("n").head(3).collect(engine=pl.GPUEngine())["n"].to_list() == [0, 1, 2]


@pytest.mark.parametrize("number", [0, 1])
def test_no_piece_passes_through_the_host(number: int, frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to the engine that streams, nor to the one that works in memory, which does not say who asks."""
    gpu = pytest.importorskip("cudf_fsst.engines.polars_gpu")
    made = []
    piece = gpu.GpuSource._piece

    def seen(self: Any, *some: Any) -> Any:
        made.append(piece(self, *some))
        return made[-1]

    def refused(self: Any, *some: Any) -> Any:
        raise AssertionError("a piece in host memory")

    monkeypatch.setattr(gpu.GpuSource, "_piece", seen)
    monkeypatch.setattr(gpu.GpuSource, "_read", refused)
    assert frame.lazy().select(c.n.sum()).collect(engine=engines()[number]).item() == ROWS * (ROWS - 1) // 2
    assert len(made) > 1
