"""What ``df.fsst.compress()`` refuses, and that errors name the column."""

from __future__ import annotations

import datetime
import decimal
import operator
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
from frame_cases import (
    ROWS,
    arrow,
    saved_and_loaded,
    whole,
)


def test_a_file_replaces_no_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match=r"not a regular file.*pipe"):
        pd.DataFrame({"a": [1]}).fsst.compress().save(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([1, "a"], "could not convert|Could not convert"),
        ([1, 2.5], "mixed-integer-float"),
        ([1j, 2j], "complex128"),
        (pd.arrays.SparseArray([0, 1]), "Sparse"),
        ([object(), None], "object"),
        ([{"a": 1}, {"a": 1, "b": 2}], "as struct<.*> they would change"),
        ([[1, 2.5]], "as list<.*> they would change"),
        ([[float("nan")]], "they would change"),
        ([datetime.time(1, tzinfo=datetime.UTC)], "holding time values"),
        ([datetime.time(1, fold=1)], "would change; the first is .*fold=1"),
        ([None, datetime.datetime(2020, 1, 1, fold=1)], "would change; the first is .*fold=1"),
        ([[datetime.time(1)], [datetime.time(1, fold=1)]], "would change; the first is .*fold=1"),
        ([datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)], "would change"),
        (arrow([(1, 2, 3)], pa.month_day_nano_interval()), "month_day_nano"),
    ],
    ids=("mixed numbers complex sparse objects dicts list nan time fold datetime folds zones months".split()),
)
def test_what_arrow_cannot_hold_is_named(values: Any, why: str) -> None:
    series = pd.Series(values, dtype=object if isinstance(values, list) and why != "complex128" else None)
    with pytest.raises(TypeError, match=f"column 'odd': .*({why})"):
        series.to_frame("odd").assign(fine=1)[["fine", "odd"]].fsst.compress()


DECIMALS = [
    # values, and the first that Arrow would change
    (["-0.0", "1.5"], "-0.0"),
    (["1.25", "1.250", "1.2500"], "1.25"),
    (["1.5", None, "0E+1"], "0E+1"),
    (["1E+3", "2E+3"], "1E+3"),
    (["1.5", "Infinity"], "Infinity"),
    (["1.5", "-Infinity"], "-Infinity"),
    (["sNaN", "1.5"], "sNaN"),
    (["-sNaN12"], "-sNaN12"),
]


@pytest.mark.parametrize(("texts", "first"), DECIMALS, ids=lambda value: str(value))
@pytest.mark.parametrize("inside", [lambda value: value, lambda value: [value], lambda value: {"a": value}])
def test_decimals_that_would_change(texts: list[str | None], first: str, inside: Callable[[Any], Any]) -> None:
    values = [None if text is None else inside(decimal.Decimal(text)) for text in texts]
    data = pd.DataFrame({"fine": 1, "odd": pd.Series(values, dtype=object)})
    with pytest.raises(TypeError, match=r"^column 'odd': dtype object.* cannot be compressed: ") as error:
        data.fsst.compress()
    if not isinstance(values[0], list | dict) or "n" not in first:
        assert repr(inside(decimal.Decimal(first))) in str(error.value)


@pytest.mark.parametrize(
    "texts",
    [["-1.50", "0.00", None, "99999999999999.99"], ["0E-10", "-1E-10"], ["0", "-7"], ["1.5", "NaN"], ["NaN"]],
    ids=str,
)
def test_decimals_that_arrow_holds(texts: list[str | None], tmp_path: Path) -> None:
    values = [None if text is None else decimal.Decimal(text) for text in texts]
    frame = pd.DataFrame({"a": pd.Series(values, dtype=object)}).fsst.compress()
    wanted = [None if text in (None, "NaN") else decimal.Decimal(text).as_tuple() for text in texts]
    for one in (frame, saved_and_loaded(frame, tmp_path)):
        assert [value if value is None else value.as_tuple() for value in one["a"]] == wanted


@pytest.mark.parametrize(
    "values",
    [
        [decimal.Decimal("1.250"), decimal.Decimal("2.5")],
        [decimal.Decimal("-0"), decimal.Decimal(1)],
        [datetime.time(1, fold=1)],
    ],
    ids=str,
)
def test_categories_that_would_change(values: list[Any]) -> None:
    """Their dtype is equal to the one that would come back."""
    data = pd.DataFrame({"odd": pd.Categorical(values)})
    with pytest.raises(TypeError, match=r"column 'odd': dtype category holding .*; the first is .*(2\.5|-0|fold=1)"):
        data.fsst.compress()


def test_types_of_too_many_levels(tmp_path: Path) -> None:
    """Arrow writes their schema, and does not read it: nothing is stored that could not be loaded."""
    kind: Any = pa.int8()
    for _ in range(150):
        kind = pa.struct([("a", kind)])
    frame = cudf_fsst.concat(
        [pd.DataFrame({"a": pd.Series([None] * 2, dtype=pd.ArrowDtype(kind))}).fsst.compress()] * 2
    )
    with pytest.raises(TypeError, match="cannot be stored"):
        frame.save(tmp_path / "frame")
    assert not list(tmp_path.iterdir())


def test_bad_arguments() -> None:
    data = pd.DataFrame({"a": [1, 2], "s": ["x", "y"], "f": np.array([1, 2], "f2")})
    with pytest.raises(KeyError, match="'b'"):
        data.fsst.compress(codecs={"b": "raw"})
    with pytest.raises(TypeError, match=r"codecs must be a dict .*, not str"):
        data.fsst.compress(codecs="gfc")
    with pytest.raises(KeyError, match="'s'"):  # a part of the labels
        data.set_axis(pd.MultiIndex.from_product([["s"], list("xyz")]), axis=1).fsst.compress(codecs={"s": "raw"})
    with pytest.raises(ValueError, match=r"'a' must be one of .*not 'zip'"):
        data.fsst.compress(codecs={"a": "zip"})
    with pytest.raises(ValueError, match="column 's': codec 'gfc' does not take strings"):
        data.fsst.compress(codecs={"s": "gfc"})
    with pytest.raises(ValueError, match="column 'a': codec 'fsst' takes strings, not int64"):
        data.fsst.compress(codecs={"a": "fsst"})
    with pytest.raises(ValueError, match="column 'f': codec 'gfc' takes values of 4 or 8 bytes, not 2"):
        data.fsst.compress(codecs={"f": "gfc"})
    with pytest.raises(ValueError, match="level"):
        data.fsst.compress(level="best")
    with pytest.raises(ValueError, match="stream"):
        data.fsst.compress(stream="s")
    with pytest.raises(TypeError, match="make a CompressedFrame"):
        cudf_fsst.CompressedFrame()


def test_errors_name_the_column(monkeypatch: pytest.MonkeyPatch) -> None:
    data = whole()[["int8", "str"]].set_axis(["only label"] * ROWS)
    frame = data.fsst.compress()

    def fails(*_: Any, **__: Any) -> Any:
        raise MemoryError("no memory")

    monkeypatch.setattr("cudf_fsst.interop.pandas.build", fails)
    for call in (frame.decompress, lambda: frame["int8"]):
        with pytest.raises(MemoryError, match=r"^column 'int8': no memory$"):
            call()
    monkeypatch.setattr("cudf_fsst.interop.pandas.build_index", fails)
    monkeypatch.setattr("cudf_fsst.interop.pandas.describe_index", fails)
    for call in (frame.decompress, data.fsst.compress):
        with pytest.raises(MemoryError, match=r"^the index: no memory$"):
            call()


def test_a_stream_needs_a_gpu() -> None:
    data = whole()[["int8", "str"]]
    frame = data.fsst.compress()
    for call in (
        data.fsst.compress,
        data.fsst.to_host,
        data.iloc[:0, :0].fsst.compress,
        frame.decompress,
        frame.to_host,
        data.iloc[:0, :0].fsst.compress().to_host,
        frame.column("str").to_host,
    ):
        with pytest.raises(ValueError, match=r"stream='s' needs data in GPU memory"):
            call(stream="s")
    compressor = cudf_fsst.Compressor(stream="s")
    with pytest.raises(ValueError, match=r"stream='s' needs data in GPU memory"):
        compressor.append(data["str"])


def test_operators_and_changes_say_what_to_write() -> None:
    plain = pd.DataFrame({"flag": [True, False, True], "n": [1, 2, 3]})
    f, mask = plain.fsst.compress(), pd.Series([True, True, False])
    c, unnamed = f.column("flag"), plain["n"].rename(None).fsst.compress()
    for other in (mask, mask.to_numpy()):
        with pytest.raises(TypeError, match=r"no operator &; write c\.decompress\(\) & \.\.\., or f\['flag'\] &"):
            c & other
        with pytest.raises(TypeError, match=r"\| c\.decompress\(\), or \.\.\. \| f\['flag'\] for a column of a frame$"):
            other | c
    assert f[f["flag"] & mask].equals(plain[plain["flag"] & mask])
    for compute in (lambda x: x + 1, lambda x: 1 - x, lambda x: x // 2, lambda x: 2**x, lambda x: x @ x):
        for one, kind in ((unnamed, "CompressedColumn"), (f, "CompressedFrame")):
            with pytest.raises(TypeError, match=f"^a {kind} has no operator"):
                compute(one)
    with pytest.raises(TypeError, match=r"write ~c\.decompress\(\)"):
        operator.invert(c)
    with pytest.raises(TypeError, match=r"write -f\.decompress\(\), or f\.map_chunks\(lambda df: -df\), piece"):
        operator.neg(f)
    for label, way in (
        ("x", r"f\.assign\(x=\.\.\.\) gives a new frame"),
        ("a b", r"f\.assign\(\*\*\{'a b': \.\.\.\}\)"),
        (3, r"f\.decompress\(\) is a DataFrame that changes"),
    ):
        with pytest.raises(TypeError, match=f"a CompressedFrame does not change; .*{way}"):
            f[label] = 1
    with pytest.raises(TypeError, match=r"f\.drop\(columns=\['n'\]\) gives a new frame"):
        del f["n"]
    with pytest.raises(TypeError, match=r"c\.decompress\(\) is a Series that changes"):
        c[0] = False
    with pytest.raises(TypeError, match=r"does not change; f\.assign"):
        f.loc[0, "n"] = 1
    for one in (f, c):
        with pytest.raises(TypeError, match=r"what is compressed does not change; decompress\(\) gives"):
            one.iloc[0] = 1
    for rows in ({"labels": [0]}, {"index": 0}):
        with pytest.raises(TypeError, match=r"no rows; f\.decompress\(\)\.drop"):
            f.drop(**rows)
    with pytest.raises(ValueError, match="Cannot specify both 'labels' and 'index'/'columns'"):
        f.drop("n", axis=1, columns="flag")
    assert f.drop("n", axis=1).decompress().equals(plain.drop("n", axis=1))
    assert f.groupby(level=0).size().equals(plain.groupby(level=0).size())
