"""The command line with columns: its round trips."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cudf_fsst
from cli_cases import run_bad, run_ok
from column_cases import VALUES
from cudf_fsst import batches
from cudf_fsst.index import of_pandas
from cudf_fsst.interop import dtypes


def test_round_trip(parquet: Path, tmp_path: Path) -> None:
    compressed, restored = tmp_path / "text.fsst", tmp_path / "out.parquet"
    shown = run_ok("compress", parquet, "--column", "text", "-o", compressed, "--device", "cpu")
    assert f"{len(VALUES):,} rows" in shown
    column = cudf_fsst.load(compressed)
    assert column.name == "text"
    assert column.to_arrow().to_pylist() == VALUES
    assert column.index.equals(pd.RangeIndex(len(VALUES)))

    run_ok("decompress", compressed, "-o", restored)
    table = pq.read_table(restored)
    assert table.column_names == ["text"]
    assert table["text"].to_pylist() == VALUES
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "text.fsst", "out.parquet"}


def test_compress_at_a_level(parquet: Path, tmp_path: Path) -> None:
    sizes = []
    for level in ("default", "max"):
        run_ok("compress", parquet, "-c", "text", "-o", tmp_path / level, "--level", level, "--device", "cpu")
        column = cudf_fsst.load(tmp_path / level)
        assert column.to_arrow().to_pylist() == VALUES
        sizes.append(column.codes_nbytes)
    assert sizes[1] < sizes[0]
    message = run_bad("compress", parquet, "-c", "text", "-o", tmp_path / "no", "--level", "best", "--device", "cpu")
    assert message == "error: level must be one of ('default', 'max'), not 'best'"


def test_decompress_writes_piece_by_piece(parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_ok("compress", parquet, "--column", "text", "-o", tmp_path / "text.fsst", "--device", "cpu")
    monkeypatch.setattr(batches, "PIECE_NBYTES", 40_000)
    monkeypatch.setattr(batches, "_PIECE_ROWS", 1)
    run_ok("decompress", tmp_path / "text.fsst", "-o", tmp_path / "out.parquet")
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups > 3
    assert pq.read_table(tmp_path / "out.parquet")["text"].to_pylist() == VALUES


@pytest.mark.parametrize("values", [[], [None, None], ["", ""]], ids=["no rows", "all nulls", "empty strings"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_round_trip_of_little(tmp_path: Path, values: list[str | None], kind: pa.DataType) -> None:
    pq.write_table(pa.table({"text": pa.array(values, kind)}), tmp_path / "in.parquet")
    run_ok("compress", tmp_path / "in.parquet", "-c", "text", "-o", tmp_path / "text.fsst", "--device", "cpu")
    run_ok("decompress", tmp_path / "text.fsst", "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["text"].to_pylist() == values


def test_file_without_row_groups(tmp_path: Path) -> None:
    with pq.ParquetWriter(tmp_path / "in.parquet", pa.schema({"text": pa.string()})):
        pass
    assert pq.ParquetFile(tmp_path / "in.parquet").num_row_groups == 0
    run_ok("compress", tmp_path / "in.parquet", "-c", "text", "-o", tmp_path / "text.fsst", "--device", "cpu")
    assert len(cudf_fsst.load(tmp_path / "text.fsst")) == 0


@pytest.mark.parametrize("labels", [[5, 3, 3], range(3), range(2, 8, 2)], ids=repr)
@pytest.mark.parametrize("name", ["key", None, 7, ("a", 1)], ids=repr)
def test_decompress_keeps_an_index_of_its_own(name, labels, tmp_path: Path) -> None:
    index = pd.Index(labels, name=name)
    pd.Series(["a", None, "c"], index=index, name="text").fsst.compress().save(tmp_path / "text.fsst")
    run_ok("decompress", tmp_path / "text.fsst", "-o", tmp_path / "out.parquet")
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert frame.index.equals(index)
    assert frame.index.name == (None if name is None else str(name))
    assert frame["text"].isna().tolist() == [False, True, False]


@pytest.mark.parametrize("values", [[None] * 30 + ["a"] * 30, [None] * 30], ids=["first nulls", "only nulls"])
def test_decompress_takes_types_from_the_whole_column(
    values: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = pd.Index([None] * 30 + ["key"] * (len(values) - 30), dtype=object, name="i")
    pd.Series(values, index=index, dtype=object, name="text").fsst.compress().save(tmp_path / "text.fsst")
    monkeypatch.setattr(batches, "PIECE_NBYTES", 10)
    monkeypatch.setattr(batches, "_PIECE_ROWS", 1)
    run_ok("decompress", tmp_path / "text.fsst", "-o", tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert pa.types.is_large_string(table.schema.field("text").type)
    assert table["text"].to_pylist() == values
    assert table["i"].to_pylist() == index.tolist()


ANY_BYTES = [b"ok", None, b"\xff\xfe", "é".encode()] * 50


@pytest.mark.parametrize("arguments", [("-c", "text"), ()], ids=["column", "frame"])
def test_bytes_that_are_not_utf8(arguments: tuple[str, ...], tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.array(ANY_BYTES).view(pa.string())}), tmp_path / "in.parquet")
    run_ok("compress", tmp_path / "in.parquet", *arguments, "-o", tmp_path / "text.fsst", "--device", "cpu")
    assert "text" in run_ok("inspect", tmp_path / "text.fsst", "--symbols")
    run_ok("decompress", tmp_path / "text.fsst", "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["text"].cast(pa.large_binary()).to_pylist() == ANY_BYTES


@pytest.mark.parametrize("dtype", ["object", "string[python]"])
def test_bytes_that_no_python_string_holds(dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    column = pd.Series(pd.array(pa.array(ANY_BYTES).view(pa.string()), dtype="str")).fsst.compress()
    index = pd.Index([*range(99), None, *range(100)], dtype="Int64")
    found = pd.api.types.pandas_dtype(dtype)
    content = replace(column._content, type=dtypes.arrow_type(found), stored=dtypes.encode_dtype(found))
    column = column._make(content, column._backend, "text", of_pandas(index), found)
    column.save(tmp_path / "text.fsst")
    assert "xff" in run_ok("inspect", tmp_path / "text.fsst", "--symbols")
    monkeypatch.setattr(batches, "PIECE_NBYTES", 100)
    monkeypatch.setattr(batches, "_PIECE_ROWS", 1)
    run_ok("decompress", tmp_path / "text.fsst", "-o", tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found["text"].cast(pa.large_binary()).to_pylist() == ANY_BYTES
    assert found.column(1).to_pylist() == [*range(99), None, *range(100)]


def test_categories_that_no_python_string_holds(tmp_path: Path) -> None:
    words = pa.array([b"ok", b"\xff\xfe"]).view(pa.string())
    array = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array([0, 1, 1], pa.int8()), words)])
    frame = pd.DataFrame({"kind": pd.arrays.ArrowExtensionArray(array)}).fsst.compress()
    stored = {"kind": "category", "categories": {"kind": "string", "storage": "pyarrow", "na": "nan"}}
    columns = [replace(frame._columns[0], stored=stored)]
    frame._make(frame._backend, columns, frame.columns, frame._index).save(tmp_path / "frame.fsst")
    assert re.search(r" kind +category +", run_ok("inspect", tmp_path / "frame.fsst"))
    line = run_bad("decompress", tmp_path / "frame.fsst", "-o", tmp_path / "out.parquet")
    assert "invalid start byte, column 'kind'" in line
    assert not (tmp_path / "out.parquet").exists()


def test_inspect(parquet: Path, tmp_path: Path) -> None:
    run_ok("compress", parquet, "--column", "text", "-o", tmp_path / "text.fsst", "--device", "cpu")
    column = cudf_fsst.load(tmp_path / "text.fsst")
    shown = run_ok("inspect", tmp_path / "text.fsst")
    for fact in (f"{len(VALUES):,}", f"{column.nbytes:,}", f"{column.ratio:.3f}", "text", "version"):
        assert fact in shown
    assert f"{column.chars_nbytes / column.codes_nbytes:.3f}" in shown
    symbols = run_ok("inspect", tmp_path / "text.fsst", "--symbols")
    assert len(symbols) > len(shown)
    assert "xxxxxxxx" in symbols


@pytest.mark.parametrize("values", [[], [""]], ids=repr)
def test_inspect_without_characters(tmp_path: Path, values: list[str]) -> None:
    pd.Series(values, dtype="str").fsst.compress().save(tmp_path / "text.fsst")
    shown = run_ok("inspect", tmp_path / "text.fsst")
    assert re.search(r"ratio of the characters +1\.000\b", shown)
    assert "0.000" not in shown


def test_version() -> None:
    assert run_ok("--version") == f"cudf-fsst {cudf_fsst.__version__}\n"
    assert "compress" in run_ok("--help")


@pytest.mark.gpu
def test_compress_writes_the_same_file_on_the_gpu(parquet: Path, tmp_path: Path) -> None:
    for device in ("cpu", "gpu"):
        run_ok("compress", parquet, "--column", "text", "-o", tmp_path / device, "--device", device)
    cpu, gpu = (cudf_fsst.load(tmp_path / device) for device in ("cpu", "gpu"))
    assert cpu.codes_nbytes == gpu.codes_nbytes
    assert cpu.to_arrow().to_pylist() == gpu.to_arrow().to_pylist() == VALUES
