"""Dictionaries of strings are chosen by themselves, in columns that are long enough."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cudf_fsst
from cudf_fsst.codecs.dict import plan

MODES = np.array(["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"], object)


def modes(rows: int) -> Any:
    return pd.Series(MODES[np.arange(rows) * 2654435761 % 2**32 % 1009 % 7], dtype="str", name="mode")


@pytest.fixture(scope="module")
def series() -> Any:
    return modes(plan.LEAST_ROWS)


def test_long_columns(series: Any) -> None:
    """They are smaller than with FSST alone; a table, or the codec's name, makes them FSST."""
    made = series.fsst.compress()
    assert made.codec == "dict"
    plain = series.fsst.compress(codec="fsst")
    assert 2.5 * made.nbytes < plain.nbytes
    assert made.uncompressed_nbytes == plain.uncompressed_nbytes
    assert series.fsst.compress(table=cudf_fsst.train(series[:100])).codec == "fsst"
    assert series[1:].fsst.compress().codec == "fsst"  # a row too short
    assert series[1:].fsst.compress(codec="dict").codec == "dict"
    pd.testing.assert_series_equal(made.decompress(), series)


def test_questions_and_pieces(series: Any) -> None:
    """What is done with dictionaries that are named is done with those that are chosen."""
    made = series.fsst.compress()
    np.testing.assert_array_equal(made == "RAIL", series == "RAIL")
    assert made.nunique() == 7
    assert made.to_categorical().astype("str").equals(series)
    twice = cudf_fsst.concat([made, series[:10].fsst.compress(), made])
    assert twice.decompress().tolist() == [*series, *series[:10], *series]


def test_nested(series: Any) -> None:
    """The strings in lists are counted, not the lists."""
    values = pa.array(series.tolist())
    offsets = pa.array(np.arange(0, len(series) + 1, 8), pa.int32())
    lists = pd.Series(pa.ListArray.from_arrays(offsets, values), dtype=pd.ArrowDtype(pa.list_(pa.string())))
    made = lists.fsst.compress()
    assert "dict" in made.codec
    assert made.decompress().equals(lists)


def test_frames_and_row_groups(series: Any, tmp_path: Any) -> None:
    """Row groups that are long enough have dictionaries of their own."""
    frame = pd.DataFrame({"mode": series, "row": np.arange(len(series))})
    made = frame.fsst.compress()
    assert made.codecs.to_dict() == {"mode": "dict", "row": "bitpack"}
    made.save(tmp_path / "frame.fsst")
    pd.testing.assert_frame_equal(cudf_fsst.load(tmp_path / "frame.fsst").decompress(), frame)
    pq.write_table(pa.table({"mode": series.tolist()}), tmp_path / "in.parquet", row_group_size=len(series))
    assert cudf_fsst.read_parquet(tmp_path / "in.parquet", device="cpu").codecs["mode"] == "dict"


def test_sample_that_is_wrong() -> None:
    """Rows that repeat in the sample alone, or outside of it alone: the first are found out, in a bounded time."""
    rows = 1 << 19
    starts, run = plan.sample_runs(rows)
    sampled = (starts[:, None] + np.arange(run)).ravel()
    different = np.char.zfill(np.arange(rows).astype("U"), 12).astype(object)
    misled = different.copy()
    misled[sampled] = "the same in all of them"
    missed = np.full(rows, "the same in all of them", object)
    missed[sampled] = different[sampled]
    for one in (misled, missed):
        series = pd.Series(one, dtype="str")
        seconds = []
        for codec in ("fsst", "fsst", None):  # the first one compiles
            start = time.process_time()
            made = series.fsst.compress(codec=codec)
            seconds.append(time.process_time() - start)
        assert made.codec == "fsst"
        assert seconds[2] < 10 * seconds[1] + 1
