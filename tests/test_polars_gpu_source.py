"""What Polars' GPU engine asks, without a GPU: stand-ins for cudf-polars, and pieces that stay in host memory."""

from __future__ import annotations

import abc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cudf_fsst
from cudf_fsst.engines import polars_source, polars_types, tables

pl = pytest.importorskip("polars")
c = pl.col
ROWS = 40_000
PIECE = 100_000


class SizedChunks:
    """As the engine has it: an iterator that says how many come."""

    def __init__(self, count: int, chunks: Any) -> None:
        self.count, self.chunks = count, iter(chunks)

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return next(self.chunks)

    def __len__(self) -> int:
        return self.count


class DataFrame:
    """A piece."""

    alive = 0

    def __init__(self, columns: Any, stream: Any, num_rows: int) -> None:
        self.data = pl.DataFrame({column.name: column.values for column in columns})
        assert self.data.height == num_rows or not columns
        assert stream == "the default stream"
        DataFrame.alive += 1

    def __del__(self) -> None:
        DataFrame.alive -= 1


class Column:
    def __init__(self, values: Any, dtype: Any, name: str) -> None:
        self.values, self.dtype, self.name = values, dtype, name


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the source, with stand-ins for the engine and the GPU."""
    names: dict[str, dict[str, Any]] = {
        "pylibcudf": {},
        "cudf_polars": {},
        "cudf_polars.containers": {"Column": Column, "DataFrame": DataFrame, "DataType": lambda dtype: dtype},
        "cudf_polars.dsl": {},
        "cudf_polars.dsl.ir": {},
        "cudf_polars.streaming": {},
        "cudf_polars.streaming.rank_aware_source": {"RankAwareSource": abc.ABC, "SizedChunks": SizedChunks},
        "cudf_fsst.device.memory": {
            "default_stream": lambda: (None, "the default stream"),
            "hand_over": lambda: None,
            "share_of_memory": lambda most: PIECE,
        },
    }
    for name, found in names.items():
        module = ModuleType(name)
        module.__dict__.update(found)
        module.__dict__.setdefault("__path__", [])
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["cudf_polars.dsl"].__dict__["ir"] = sys.modules["cudf_polars.dsl.ir"]
    monkeypatch.delitem(sys.modules, "cudf_fsst.engines.polars_gpu", raising=False)
    made = importlib.import_module("cudf_fsst.engines.polars_gpu")
    monkeypatch.setattr(made, "plain_column", lambda some, kind: tables.array(some, kind, ""))
    monkeypatch.setattr(made, "_as", lambda column, dtype: column)
    monkeypatch.setattr(tables.EngineTable, "on_gpu", lambda self: self)
    monkeypatch.setattr(tables, "PIECE_NBYTES", PIECE)
    yield made
    monkeypatch.undo()
    sys.modules.pop("cudf_fsst.engines.polars_gpu", None)
    assert DataFrame.alive == 0


@pytest.fixture(scope="module")
def plain() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "n": np.arange(ROWS),
            "s": [f"row {i % 97} of many" for i in range(ROWS)],
            "k": rng.integers(0, 50, ROWS),
        }
    )


@pytest.fixture(scope="module")
def frame(plain: pl.DataFrame) -> Any:
    return cudf_fsst.compress(plain)


WHERES = [None, c("k") == 3, c("n") < 0, c("n") < 5000, c("s") == "row 5 of many", c("k") >= 0]


@pytest.mark.parametrize("where", WHERES)
@pytest.mark.parametrize("files", [False, True])
def test_every_row_is_read_by_one_rank(
    files: bool, where: Any, gpu: Any, frame: Any, plain: pl.DataFrame, tmp_path: Path
) -> None:
    table = frame._engine_table()
    some: Any = (table,)
    if files:
        frame.save(tmp_path / "a")
        frame[["n", "s", "k"]].save(tmp_path / "b")
        some = [polars_source.FileFrame(str(tmp_path / name)) for name in "ab"]
    wanted = pl.concat([plain] * 2) if files else plain
    source = gpu.GpuSource(polars_types.schema_of(table), some, where)
    for nranks in (1, 2, 5):
        found, largest = [], 0
        for rank in range(nranks):
            pieces = source(["s", "n", "k"], None, None, None, rank=rank, nranks=nranks)
            count = 0
            for piece in pieces:
                data = piece if isinstance(piece, pl.DataFrame) else piece.data
                largest = max(largest, data.height)
                found.append(data)
                count += 1
                del piece
                assert DataFrame.alive == 0, "one piece at a time"
            assert count == len(pieces) >= 1
        every = pl.concat(found)
        assert largest <= 1.05 * ROWS * PIECE / table.nbytes + 1024
        if where is not None:
            kept = wanted.filter(where)
            assert every.height <= max(4 * kept.height, 1)
            every, want = every.filter(where), kept
        else:
            want = wanted
        assert every.equals(want.select("s", "n", "k"))


def test_few_rows_of_many_are_one_piece(gpu: Any, frame: Any) -> None:
    table = frame._engine_table()
    for where, most in ((c("n") == 12_345, 1), (c("k") == 3, 2), (None, 40)):
        source = gpu.GpuSource(polars_types.schema_of(table), (table,), where)
        pieces = source(None, None, None, None, rank=0, nranks=1)
        assert len(pieces) <= most
        assert sum(1 for _ in pieces) == len(pieces)
    assert len(source(None, None, None, None, rank=0, nranks=1)) > 10


def test_who_asks(gpu: Any, frame: Any, plain: pl.DataFrame) -> None:
    """A GPU engine that works in memory is known by its module; Polars' CPU engine gets what it knows."""
    table = frame._engine_table()
    source = gpu.GpuSource(polars_types.schema_of(table), (table,))
    assert source.lazy().filter(c.k == 3).select("n").collect().equals(plain.filter(c.k == 3).select("n"))
    pieces = source(["n"], None, None, None)
    assert all(isinstance(piece, pl.DataFrame) for piece in pieces)
    space = sys.modules["cudf_polars.dsl.ir"].__dict__
    space["wrapped"] = lambda: source(["n"], None, None, None)
    exec("def ask(): return wrapped()", space)
    pieces = space["ask"]()
    assert isinstance(pieces, SizedChunks)
    assert pl.concat([piece.data for piece in pieces]).equals(plain.select("n"))


def test_no_columns_and_no_rows(gpu: Any, frame: Any) -> None:
    table = frame._engine_table()
    pieces = gpu.GpuSource(polars_types.schema_of(table), (table,))([], None, None, None, rank=0, nranks=1)
    assert all(not piece.data.width for piece in pieces)
    empty = cudf_fsst.compress(pd.DataFrame({"a": pd.Series([], dtype="int64")}))._engine_table()
    source = gpu.GpuSource(polars_types.schema_of(empty), (empty,), c("a") > 3)
    for rank in range(2):
        (piece,) = source(None, None, None, None, rank=rank, nranks=2)
        assert (piece if isinstance(piece, pl.DataFrame) else piece.data).shape == (0, 1)
        del piece
