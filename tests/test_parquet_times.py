"""Times without a zone, in files whose writer notes all times as UTC."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cudf_fsst.interop.parquet_times import make_local

STAMPS = np.arange(20, dtype="int64") * 86_400_000_001


def written(path: Path, **options: object) -> pa.Table:
    """Times in UTC among other columns, of which `local` are to become times without a zone."""
    table = pa.table(
        {
            "a": pa.array(range(20)),
            **{f"local {unit}": pa.array(STAMPS, pa.timestamp(unit, "UTC")) for unit in ("ms", "us", "ns")},
            "zone": pa.array(STAMPS, pa.timestamp("us", "UTC")),
            "list": pa.array([[1, 2]] * 20),
            "price": pa.array([1] * 20).cast(pa.decimal128(25, 2)),
            "time": pa.array(range(20), pa.time64("us")),
            "a long name " * 20: pa.array(["x"] * 20),
        }
    )
    pq.write_table(table, path, store_schema=False, **options)
    return table


@pytest.mark.parametrize("version", ["1.0", "2.4", "2.6"])
def test_times_become_local(version: str, tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "x.parquet"
    table = written(path, version=version, coerce_timestamps="us", allow_truncated_timestamps=True)
    before = path.read_bytes()
    with open(path, "r+b") as file:
        assert make_local(file, lambda name: name.startswith("local")) == 3
        assert make_local(file, lambda name: name.startswith("local")) == 0, "they are already"
    after = path.read_bytes()
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 3
    found = pq.read_table(path)
    for field in found.schema:
        if field.name.startswith("local"):
            assert field.type.tz is None, field
    assert found.schema.field("zone").type.tz == "UTC"
    assert found.column("local us").cast("int64").equals(table.column("local us").cast("int64"))
    assert found.drop(["local ms", "local us", "local ns"]).equals(
        pq.read_table(io.BytesIO(before)).drop(["local ms", "local us", "local ns"])
    )
    wanted = STAMPS.astype("M8[us]")
    assert (pd.read_parquet(path)["local us"].to_numpy() == wanted).all()
    assert (pl.read_parquet(path)["local us"].to_numpy() == wanted).all()
    assert pl.read_parquet(path).schema["local us"] == pl.Datetime("us")
    told = {name: kind for name, kind, *_ in duckdb.sql(f"describe select * from '{path}'").fetchall()}
    assert (told["local us"], told["zone"]) == ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")


def test_what_is_no_file(tmp_path: Path) -> None:
    written(tmp_path / "x.parquet")
    whole = (tmp_path / "x.parquet").read_bytes()
    for data in (b"", b"PAR1", whole[:-3], whole[:-8] + (len(whole)).to_bytes(4, "little") + b"PAR1"):
        with pytest.raises(ValueError, match="Parquet file"):
            make_local(io.BytesIO(data), lambda _: True)
    length = int.from_bytes(whole[-8:-4], "little")
    short = whole[: -8 - length + 5] + (5).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(ValueError, match="ends within"):
        make_local(io.BytesIO(short), lambda _: True)
