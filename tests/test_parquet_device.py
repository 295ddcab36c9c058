"""read_parquet on a GPU: cuDF's labels, dtypes and index, bytes as of the CPU, bounded memory."""

from __future__ import annotations

import datetime as dt
import decimal
import importlib.util
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cudf_fsst
from cudf_fsst.parquet import device, reads, sources

pytestmark = pytest.mark.gpu


def table(rows: int) -> pa.Table:
    numbers = np.arange(rows)
    return pa.table(
        {
            "n": pa.array(numbers, mask=numbers % 7 == 0),
            "text": [f"row {i % 50} of many" if i % 11 else None for i in range(rows)],
            "day": pa.array([dt.date(2026, 1, 1 + i % 28) for i in range(rows)]),
            "price": pa.array([Decimal(i) / 100 for i in range(rows)], pa.decimal128(12, 2)),
            "when": pa.array(numbers * 10**6, pa.timestamp("ms")),
            "parts": [[i, None][: i % 3] for i in range(rows)],
            "point": [{"x": i, "y": str(i % 5)} for i in range(rows)],
            "flag": pa.array(numbers % 2 == 0),
        }
    )


def same(found: Any, wanted: Any) -> None:
    """The frame is what cuDF reads."""
    made = found.decompress()
    assert list(made.columns) == list(wanted.columns)
    assert list(map(str, made.dtypes)) == list(map(str, wanted.dtypes))
    assert list(made.index.names) == list(wanted.index.names)
    assert made.index.equals(wanted.index)
    assert type(made.index) is type(wanted.index)
    assert made.to_arrow().equals(wanted.to_arrow())


@pytest.mark.parametrize("columns", [None, ["text"], ["flag", "n", "parts"]], ids=str)
def test_as_cudf_reads(columns: list[str] | None, tmp_path: Path) -> None:
    import cudf

    path = tmp_path / "in.parquet"
    pq.write_table(table(5300), path, row_group_size=1000)
    same(cudf_fsst.read_parquet(path, columns=columns, device="gpu"), cudf.read_parquet(path, columns=columns))


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(3000),
        pd.RangeIndex(10, 6010, 2, name="r"),
        pd.Index(np.arange(3000)[::-1], name="key"),
        pd.Index([f"k{i % 9}" for i in range(3000)], name="text"),
        pd.date_range("2026", periods=3000, freq="h", name="when"),
        pd.MultiIndex.from_arrays([np.arange(3000) // 7, [f"b{i}" for i in range(3000)]], names=["k", "l"]),
    ],
    ids=lambda index: f"{type(index).__name__}-{index.names[0]}",
)
def test_index(index: pd.Index, tmp_path: Path) -> None:
    import cudf

    frame = pd.DataFrame({"n": np.arange(3000), "s": [str(i % 100) for i in range(3000)]}, index=index)
    frame.to_parquet(tmp_path / "in.parquet", row_group_size=700)
    same(cudf_fsst.read_parquet(tmp_path / "in.parquet", device="gpu"), cudf.read_parquet(tmp_path / "in.parquet"))


@pytest.mark.parametrize("together", [True, False])
def test_bytes_of_row_groups(together: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if small ones that follow each other were compressed in one call, on either device; others each by itself."""
    import cudf

    path = tmp_path / "in.parquet"
    pq.write_table(table(5300), path, row_group_size=1000)
    if not together:
        monkeypatch.setattr(sources, "_FEW_ROWS", 1)
    found = cudf_fsst.read_parquet(path, device="gpu")
    groups = [list(range(6))] if together else [[i] for i in range(6)]
    pieces = [cudf.read_parquet(path, row_groups=[some]).reset_index(drop=True).fsst.compress() for some in groups]
    wanted = cudf_fsst.concat(pieces)
    for label in found:
        parts = [[bytes(buffer.get()) for buffer in parts_of(one.column(label))] for one in (found, wanted)]
        assert parts[0] == parts[1], label
    for label in ("n", "text", "flag", "parts", "point"):
        found.column(label).to_host().save(tmp_path / "gpu.fsst")
        cudf_fsst.read_parquet(path, device="cpu").column(label).save(tmp_path / "cpu.fsst")
        one, other = (cudf_fsst.load(tmp_path / f"{name}.fsst") for name in ("gpu", "cpu"))
        assert [bytes(memoryview(part.codes)) for part in one._content.node.parts] == [
            bytes(memoryview(part.codes)) for part in other._content.node.parts
        ], label


def parts_of(column: Any) -> list[Any]:
    import cupy

    parts = list(column._content.node.parts)
    return [cupy.asarray(buffer) for part in parts for buffer in (part.codes, part.meta) if buffer is not None]


def test_filters(tmp_path: Path) -> None:
    import cudf

    path = tmp_path / "in.parquet"
    pq.write_table(table(5300), path, row_group_size=1000)
    filters = [("n", ">", 1500), ("n", "<", 3500)]
    found = cudf_fsst.read_parquet(path, filters=filters, columns=["n", "text"], device="gpu")
    same(found, cudf.read_parquet(path, filters=filters, columns=["n", "text"]))


def test_folders_and_several_files(tmp_path: Path) -> None:
    import cudf

    some = table(3000).select(["n", "text"]).append_column("kind", pa.array(["a", "b", "b"] * 1000))
    pq.write_to_dataset(some, tmp_path / "parts", partition_cols=["kind"])
    same(cudf_fsst.read_parquet(tmp_path / "parts", device="gpu"), cudf.read_parquet(tmp_path / "parts"))
    paths = []
    for i in range(3):
        paths.append(tmp_path / f"{i}.parquet")
        pq.write_table(table(500 + i), paths[-1], row_group_size=200)
    same(cudf_fsst.read_parquet(tmp_path / "?.parquet", device="gpu"), cudf.read_parquet(paths))


def test_no_rows(tmp_path: Path) -> None:
    import cudf

    for number, some in enumerate((table(10)[:0], table(10)[:0].select([]))):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(some, path)
        same(cudf_fsst.read_parquet(path, device="gpu"), cudf.read_parquet(path))


def test_round_trip(tmp_path: Path) -> None:
    pq.write_table(table(5300), tmp_path / "in.parquet", row_group_size=1000)
    frame = cudf_fsst.read_parquet(tmp_path / "in.parquet", device="gpu")
    frame.to_parquet(tmp_path / "out.parquet")
    again = cudf_fsst.read_parquet(tmp_path / "out.parquet", device="gpu")
    found, wanted = again.decompress(), frame.decompress()
    found["day"] = found["day"].astype(wanted["day"].dtype)  # Parquet has no seconds
    assert found.to_arrow().equals(wanted.to_arrow())


DECIMAL = pd.ArrowDtype(pa.decimal128(15, 2))


@pytest.mark.parametrize("compression", ["snappy", "zstd", None])
@pytest.mark.parametrize("rows", [1, 5300])
def test_written_by_libcudf(
    rows: int, compression: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schema and the notes that the host writes, in several pieces and row groups; every reader has the values."""
    import cudf

    from cudf_fsst import batches

    rng = np.random.default_rng(3)
    gone = rng.random(rows) < 0.2
    stamps = rng.integers(0, 2**50, rows)
    df = pd.DataFrame(
        {
            "n": rng.integers(-(2**62), 2**62, rows),
            "small": rng.integers(0, 200, rows).astype("u1"),
            "f": np.where(gone, np.nan, rng.random(rows)),
            "yes": rng.random(rows) < 0.5,
            "text": pd.Series([f"row {i % 97}" for i in range(rows)]).where(~gone),
            **{unit: pd.Series(stamps.astype(f"M8[{unit}]")).where(~gone) for unit in ("ms", "us", "ns")},
            "s": pd.Series((stamps // 10**6).astype("M8[s]")),
            "nulls": pd.Series(pd.array(rng.integers(0, 9, rows), "Int32")).where(~gone),
            "price": pd.array([decimal.Decimal(i * 7919 % 10**6) / 100 for i in range(rows)], DECIMAL),
        },
        index=pd.Index(rng.integers(0, 50, rows), name="label"),
    )
    frame = cudf.from_pandas(df).fsst.compress()
    monkeypatch.setattr(batches, "PIECE_NBYTES", 20_000)
    monkeypatch.setattr(batches, "_GPU_PIECE_NBYTES", 50_000)
    written: list[int] = []
    plain = batches.write_parquet_on_gpu
    monkeypatch.setattr(batches, "write_parquet_on_gpu", lambda *a: written.append(1) or plain(*a))
    frame.to_parquet(tmp_path / "ours.parquet", compression=compression)
    assert written
    frame.to_host().to_parquet(tmp_path / "host.parquet", compression=compression)
    ours, host = (pq.ParquetFile(tmp_path / f"{name}.parquet") for name in ("ours", "host"))
    assert ours.schema_arrow.equals(host.schema_arrow, check_metadata=True)
    assert ours.metadata.num_row_groups >= min(rows // 1024, 3)
    assert ours.read().equals(host.read())
    names = [tmp_path / f"{name}.parquet" for name in ("ours", "host")]
    pd.testing.assert_frame_equal(*map(pd.read_parquet, names))
    assert cudf.read_parquet(names[0]).to_arrow().equals(cudf.read_parquet(names[1]).to_arrow())
    if importlib.util.find_spec("polars"):
        import polars as pl

        assert pl.read_parquet(names[0]).equals(pl.read_parquet(names[1]))
    if importlib.util.find_spec("duckdb"):
        import duckdb

        one, other = (duckdb.sql(f"select * from '{name}'").fetchall() for name in names)
        assert repr(one) == repr(other)
    again = cudf_fsst.read_parquet(names[0], device="gpu")
    assert again.decompress().to_arrow().equals(cudf_fsst.read_parquet(names[1], device="gpu").decompress().to_arrow())


def test_more_types(tmp_path: Path) -> None:
    import cudf

    numbers = np.arange(5300)
    some = pa.table(
        {
            "lasted": pa.array(numbers, pa.duration("ms"), mask=numbers % 5 == 0),
            "small": pa.array(numbers % 200, pa.uint8()),
            "real": pa.array(numbers / 7, pa.float32(), mask=numbers % 3 == 0),
            "kind": pa.array([f"kind {i % 4}" for i in range(5300)]).dictionary_encode(),
            "flag": pa.array(numbers % 3 == 0, mask=numbers % 4 == 0),
            "points": [[{"x": i, "y": None}] * (i % 3) for i in range(5300)],
            "lists": [[[i], []] for i in range(5300)],
            "exact": pa.array([Decimal(i) / 100 for i in range(5300)], pa.decimal128(30, 2)),
            "nanos": pa.array(numbers, pa.timestamp("ns")),
        }
    )
    path = tmp_path / "in.parquet"
    pq.write_table(some, path, row_group_size=1000, compression="zstd", data_page_version="2.0")
    same(cudf_fsst.read_parquet(path, device="gpu"), cudf.read_parquet(path))
    columns = ["nanos", "points"]
    same(cudf_fsst.read_parquet(path, columns=columns, device="gpu"), cudf.read_parquet(path, columns=columns))


@pytest.mark.parametrize("nbytes", [1, 100_000, 10**9])
def test_columns_are_read_apart(nbytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many columns are read together, and however much at the same time."""
    import cudf

    monkeypatch.setattr(reads, "_SHARE_NBYTES", nbytes)
    monkeypatch.setattr(sources, "_FEW_ROWS", 1)
    monkeypatch.setattr(device.DeviceReader, "ahead", reads.Ahead(3, 2 * nbytes, 2))
    path = tmp_path / "in.parquet"
    some = table(30_000)
    pq.write_table(some, path, row_group_size=7000, data_page_size=2000)
    found = cudf_fsst.read_parquet(path, device="gpu")
    same(found, cudf.read_parquet(path))
    parts = found.column("flag")._content.node.values[0]
    assert [part.rows for part in parts] == [7000, 7000, 7000, 7000, 2000]
    twice = cudf_fsst.read_parquet([path, path], device="gpu")
    assert len(twice) == 60_000
    labels = pd.MultiIndex.from_arrays([np.arange(3000) // 7, [f"b{i}" for i in range(3000)]], names=["k", "l"])
    pd.DataFrame({"n": np.arange(3000), "a.b": 1.5}, index=labels).to_parquet(path, row_group_size=700)
    same(cudf_fsst.read_parquet(path, device="gpu"), cudf.read_parquet(path))
    same(cudf_fsst.read_parquet(path, columns=["a.b"], device="gpu"), cudf.read_parquet(path, columns=["a.b"]))


def test_a_footer_that_names_bytes_outside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(table(3000), path, row_group_size=1000)
    whole = path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    path.write_bytes(whole[:1000] + whole[-8 - length :])
    with pytest.raises((ValueError, OSError), match=r"in\.parquet"):
        cudf_fsst.read_parquet(path, device="gpu")


def test_memory_is_not_used_again_too_early(tmp_path: Path) -> None:
    """Reads take turns in the same memory, in streams of their own."""
    path = tmp_path / "in.parquet"
    rows = np.random.default_rng(1).integers(0, 10**9, 4_000_000)
    pq.write_table(pa.table({"n": rows, "s": rows[::-1].astype(str)}), path, row_group_size=200_000)
    for _ in range(3):
        found = cudf_fsst.read_parquet(path, device="gpu").decompress()
        assert (found["n"].to_numpy() == rows).all()
        assert (found["s"].astype("int64").to_numpy() == rows[::-1]).all()


def test_damaged_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(table(3000), path, row_group_size=1000)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :])
    with pytest.raises((ValueError, OSError), match=r"in\.parquet"):
        cudf_fsst.read_parquet(path, device="gpu")


def test_urls_and_file_objects(tmp_path: Path) -> None:
    """Ranges of columns pass through host memory; equal to the file read from the disk."""
    import io

    fsspec = pytest.importorskip("fsspec")
    rows = 30_000
    frame = pd.DataFrame(
        {
            "n": np.arange(rows) ** 2,
            "t": [f"word {i % 997} x" for i in range(rows)],
            "m": ["AIR", None, "x"] * (rows // 3),
        }
    )
    path = tmp_path / "f.parquet"
    frame.to_parquet(path, row_group_size=9000)
    with fsspec.open("memory://device.parquet", "wb") as file:
        file.write(path.read_bytes())
    for source in ("memory://device.parquet", io.BytesIO(path.read_bytes())):
        for options in ({}, {"columns": ["m", "n"]}, {"filters": [("m", "==", "AIR")]}):
            found = cudf_fsst.read_parquet(source, device="gpu", **options)
            assert found.device.startswith("cuda")
            assert found.equals(cudf_fsst.read_parquet(path, device="gpu", **options))
    cudf_fsst.read_parquet(path, device="gpu").to_parquet(tmp_path / "parts", partition_cols=["m"])
    assert len(cudf_fsst.read_parquet(tmp_path / "parts", device="gpu")) == rows, "with a folder of nulls"
    fsspec.filesystem("memory").rm("/device.parquet")


def test_memory_of_writing(tmp_path: Path) -> None:
    """An eighth of the frame or 64 MiB, within a fifth: what libcudf takes for a piece depends on its values."""
    cudf, statistics = pytest.importorskip("cudf"), pytest.importorskip("rmm.statistics")
    rng = np.random.default_rng(5)
    rows = 12_000_000
    names = np.array([f"name of something {i}" for i in range(5000)], object)
    frame = cudf.DataFrame(
        {"n": rng.integers(0, 1 << 40, rows), "x": rng.normal(size=rows), "name": names[rng.integers(0, 5000, rows)]}
    ).fsst.compress()
    frame.to_parquet(tmp_path / "first.parquet")
    statistics.enable_statistics()
    statistics.push_statistics()
    frame.to_parquet(tmp_path / "out.parquet")
    peak = statistics.pop_statistics().peak_bytes
    assert peak < max(64 << 20, frame.uncompressed_nbytes // 8) * 1.2
    assert pq.ParquetFile(tmp_path / "out.parquet").metadata.num_rows == rows
