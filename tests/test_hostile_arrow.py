"""Damaged Arrow arrays, streams and Parquet files: no crash, no hang, no odd errors; see `hostile_arrow`."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cudf_fsst
from cudf_fsst.parquet import footer

PROGRAM = Path(__file__).parent / "hostile_arrow.py"
KINDS = ("columns", "streams", "carried", "parquet")


def campaign(kind: str, first: int, count: int, note: Path) -> Counter[str]:
    """Put cases through a process of their own, which a crash ends; what they did."""
    command = [sys.executable, str(PROGRAM), kind, str(first), str(count)]
    environment = os.environ | {"CUDF_FSST_HOSTILE_CASE": str(note)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    wrong = [f"case {line['case']} of {line['of']}: {line['error']}" for line in lines if "case" in line]
    if done.returncode not in (0, 1) or not lines or "counts" not in lines[-1]:
        last = note.read_text() if note.exists() else "none"
        wrong.append(f"process ended with {done.returncode} in case {last}: {done.stderr[-5000:]}")
    assert not wrong, "\n".join(wrong)
    return Counter(lines[-1]["counts"])


def check_counts(counts: Counter[str], count: int) -> None:
    """Enough was refused that the campaign means something."""
    assert sum(counts[name] for name in ("read", "refused", "not read by pyarrow")) == count
    assert counts["refused"] > count / 4


@pytest.mark.parametrize("kind", KINDS)
def test_some(kind: str, tmp_path: Path) -> None:
    check_counts(campaign(kind, 0, 100, tmp_path / "case"), 100)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many(kind: str, tmp_path: Path) -> None:
    check_counts(campaign(kind, 100, 1000, tmp_path / "case"), 1000)


def arrow_series(array: Any) -> Any:
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array])))


def patched(array: Any, number: int, values: Any) -> Any:
    """The same array with another buffer."""
    buffers = array.buffers()
    buffers[number] = pa.py_buffer(np.asarray(values).tobytes())
    return pa.Array.from_buffers(array.type, len(array), buffers, null_count=array.null_count, offset=array.offset)


@pytest.mark.parametrize("offsets", [[0, 1 << 40, 3], [0, -9, 3], [0, 2, 1 << 62], [5, 2, 3]])
def test_offsets_of_carried_columns(offsets: list[int]) -> None:
    column = pd.Series(["a", "b", "c"] * 100).fsst.compress()
    (value,) = column.to_arrow(compressed=True).storage.to_pylist()
    twice = pa.array([value, value], pa.large_binary())
    assert len(cudf_fsst.from_arrow(twice)) == 600
    with pytest.raises(ValueError, match=r"ffset|invalid"):
        cudf_fsst.from_arrow(patched(twice, 1, np.array(offsets, np.int64)))


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
@pytest.mark.parametrize("view", [(200, 9, 1), (200, 0, 1 << 20), (1 << 30, 0, 0), (-5, 0, 0)])
def test_views_outside_their_buffers(kind: Any, view: tuple[int, int, int]) -> None:
    array = pa.array(["x" * 300, "y" * 300]).cast(kind)
    size, buffer, offset = view
    views = np.frombuffer(array.buffers()[1], np.int32).reshape(-1, 4).copy()
    views[1] = size, 0, buffer, offset
    damaged = patched(array, 1, views)
    for data in (damaged, pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), damaged)):
        with pytest.raises(ValueError, match="iew"):
            arrow_series(data).fsst.compress()


def test_a_wrong_count_of_nulls() -> None:
    array = pa.array([1, None, 3])
    wrong = pa.Array.from_buffers(array.type, 3, array.buffers(), null_count=2)
    with pytest.raises(ValueError, match="1 missing values says that it has 2"):
        arrow_series(wrong).fsst.compress()
    for first in range(9):  # of slices the bits within bytes are counted
        some = pa.array([None if i % 3 == 0 else i for i in range(40)]).slice(first, 21)
        assert arrow_series(some).fsst.compress().to_arrow().equals(some)


def test_rows_that_share_values() -> None:
    for kind in (pa.list_view(pa.int64()), pa.large_list_view(pa.string_view())):
        values = [[1, 2], None, [], [3]]
        if "string" in str(kind):
            values = [None if row is None else [str(one) * 20 for one in row] for row in values]
        series = arrow_series(pa.array(values, kind)).iloc[[0, 0, 3, 1, 3, 2, 0]]
        column = series.fsst.compress()
        assert column.to_arrow().to_pylist() == [values[i] for i in (0, 0, 3, 1, 3, 2, 0)]
        assert column.decompress().dtype == series.dtype
    many = pa.ListViewArray.from_arrays(
        pa.array(np.zeros(2200), pa.int32()),
        pa.array(np.full(2200, 10**6), pa.int32()),
        pa.array(np.zeros(10**6, "i1")),
    )
    with pytest.raises(ValueError, match="2200000000 values together"):
        arrow_series(many).fsst.compress()


def test_footers(tmp_path: Path) -> None:
    """Each byte of what a file says of its column chunks, changed: what ends the process in pyarrow is refused here."""
    sink = io.BytesIO()
    some = pa.table({"t": ["a", None, "b"] * 9, "l": [[1], None, [2, 3]] * 9, "n": range(27)})
    pq.write_table(some, sink, row_group_size=10, write_page_index=True)
    data = bytearray(sink.getvalue())
    first, path = len(data) - 8 - int.from_bytes(data[-8:-4], "little"), tmp_path / "in.parquet"
    metadata = pq.read_metadata(io.BytesIO(data))
    said = Counter[str]()
    for at in range(first, len(data) - 8):
        for value in (data[at] ^ 1, data[at] ^ 16, 0):
            path.write_bytes(data[:at] + bytes([value]) + data[at + 1 :])
            try:
                footer.check(str(path), metadata)
            except ValueError as error:
                said[str(error)] += 1
                if "do not fit" in str(error):
                    with suppress(OSError):  # which pyarrow refuses by itself
                        pq.read_metadata(path)
                        damaged = path.read_bytes()
    assert {key.partition(":")[0] for key in said} >= {"its footer is damaged", "row group 0", "row group 2"}
    assert any("sizes of column 1 do not fit the schema" in one for one in said)
    assert any("has not the 3 columns" in one for one in said)
    path.write_bytes(damaged)
    for filters in (None, [("n", ">", 3)]):
        with pytest.raises(ValueError, match=r"in\.parquet: row group \d: sizes of column \d do not fit the schema"):
            cudf_fsst.read_parquet(path, device="cpu", filters=filters)
    for cut in (b"", data[:40], data[-8:], data[-12:]):
        path.write_bytes(cut)
        with pytest.raises(ValueError, match="Parquet"):
            footer.check(str(path), metadata)


def test_damaged_notes(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    notes = {
        "columns": [{"name": "n", "field_name": "n", "pandas_type": "int64", "numpy_type": "int64", "metadata": None}]
    }
    for wrong in (
        "{", '"x"', "[]", "{}", '{"columns": 3}', '{"columns": [3]}', '{"columns": [{"name": "n"}]}',
        json.dumps(notes | {"index_columns": [3]}), json.dumps(notes | {"index_columns": [{"kind": "range"}]}),
        json.dumps(notes | {"index_columns": [{"kind": "range", "name": None, "start": 0, "stop": 3, "step": 0}]}),
        json.dumps({"columns": [notes["columns"][0] | {"numpy_type": "no such type"}]}),
    ):  # fmt: skip
        pq.write_table(pa.table({"n": [1, 2, 3]}).replace_schema_metadata({"pandas": wrong}), path)
        with pytest.raises(ValueError, match=r"in\.parquet"):
            cudf_fsst.read_parquet(path, device="cpu")


@pytest.mark.parametrize("kind", [pa.date64(), pa.time32("s"), pa.timestamp("s"), pa.timestamp("s", "Europe/Berlin")])
def test_types_that_parquet_does_not_have(kind: Any, tmp_path: Path) -> None:
    """pandas notes them, and gives them back."""
    moments = [dt.datetime(2026, 1, 2, 3, 4, 5), None, dt.datetime(1969, 5, 6, 7, 8, 9)]
    values = pa.array(moments, pa.timestamp("s", getattr(kind, "tz", None))).cast(kind)
    frame = pd.DataFrame({"d": arrow_series(values), "n": [1, 2, 3]})
    frame.to_parquet(tmp_path / "in.parquet")
    found = cudf_fsst.read_parquet(tmp_path / "in.parquet", device="cpu")
    assert found.column("d").to_arrow().type == kind
    pd.testing.assert_frame_equal(found.decompress(), pd.read_parquet(tmp_path / "in.parquet"))


@pytest.mark.parametrize("index", [pd.RangeIndex(7), pd.Index(list("abc"))])
def test_frames_without_columns_are_carried(index: pd.Index) -> None:
    table = pd.DataFrame(index=index).fsst.compress().to_arrow(compressed=True)
    with pa.BufferOutputStream() as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        found = cudf_fsst.from_arrow(reader.read_all())
    assert len(found) == len(index)
    assert list(found) == []


@pytest.mark.parametrize("rows", [-1, 2**63, 2.5, True, "3", [1], None])
def test_rows_that_are_no_number(rows: Any) -> None:
    table = pa.table({}).replace_schema_metadata({b"cudf_fsst": json.dumps({"rows": rows}).encode()})
    with pytest.raises(ValueError, match="cannot be read"):
        cudf_fsst.from_arrow(table)
