"""All kernels of the CPU compiled by calls on small data: ``python -m cudf_fsst.compile_ahead``.

Calls compile what they need, and it is kept on disk. Here all of it is done beforehand, as when an image is made, in
half a minute of one core. What was compiled before takes a moment.
"""

from __future__ import annotations

import base64
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from . import load, read_parquet

#: What is searched for, and rows that have it. The column that is read and asked was stored: to read it, nothing that
#: compresses need be compiled.
TEXT = ["the cat and the dog", None, "the dog saw the cat"] * 4
_STORED = (
    "eNrNU79v00AUPidO4jgNDW0WEIO5BYYMKaqQ6NSJEQZArVQV97CdHyI5W/ZZJUoNgg0JMXWoykCHDoxIBWVkYK34M2BCYmco73642InShYVT"
    "rPe9d3nf992v13cfPKybV00NyXFQklFTn67q7yd3wuP7xr5K0eNPk52f5qMbnShiPF9I+1VM+1KubMyOuX3qzzfRxSPlXFfgQ0HGw19Wsvzt"
    "bVBEeeIVlb48nlw5LZ4cpXrrep7wcG//8/MvS6iUziuwqfLriye/f3x9NzmDcQSaDVE10SVUhh4DEOfSz+sLwoKstwvSDrf6UVnbAZ43Cr+A"
    "b4wpGXp4zaLxYNCysMtGAU/H+GmfugBwxMI+7eIWR35IunwWByMShv4ur1LCC5RQnEAGTd4z0c95I0BbnHkbpkJCRfNWu2Wt3IJvO0lQFTw4"
    "sdux1QEbsALu3wDsatLnhsZ9Cmbb8QfxkArevxYls/Ai1oLb0i4JGWRtaT0AyGUBewIn3JTkswW5p2jzO9LpewPXztcCQl0S2WqvwBq7vSr0"
    "42Ewmi0PPUZcwogiyAjnFfE9n4p15DTPq1OqMe07vuvN6sKJzVMlDE7zSczEUsew/2XYX8krr2QT8TvWhP0vo4q4TQ11t7Qmj9cyb4dH7k1i"
    "PfcWZ97PEiqazVUN1XRN40p+1/UtxnoOWOp5FvwAWT3mEqfr02h3Ds/mVH5wgWb2TW9MzS2fVr/r0asq+k/HsJbPS3qltmgWjDOvotVLWr3S"
    "qF0ulP+9+ge5+eDo"
)


def _stored() -> Any:
    with tempfile.TemporaryDirectory(prefix="cudf-fsst-") as folder:
        path = Path(folder) / "column.fsst"
        path.write_bytes(zlib.decompress(base64.b64decode(_STORED)))
        return load(path)


def _search() -> None:
    column = _stored()
    column.str.contains("dog")
    column.str.contains("d.g|cat", regex=True)
    column.str.contains("DOG", case=False)
    column.str.startswith("the")
    column.str.endswith("cat")
    column.str.len()
    column.str.like("%cat%dog%")
    column.isin(TEXT[:1])
    _ = column == TEXT[0]


def _read() -> None:
    column = _stored()
    column.decompress()
    _ = column[3], column[2:5], column[column == TEXT[0]]
    column.take([3, 1])
    column.to_arrow()


def _values() -> None:
    rows = 6000
    numbers = np.arange(rows)
    frame = pd.DataFrame(
        {
            "number": numbers * 3,
            "small": numbers.astype("int32") % 7,
            "tiny": (numbers % 100).astype("int8"),
            "short": (numbers % 1000).astype("int16"),
            "real": numbers / 8,
            "single": (numbers / 8).astype("float32"),
            "flag": numbers % 3 == 0,
            "when": pd.date_range("2026", periods=rows, freq="s"),
            "missing": pd.array([None, 1] * (rows // 2), "Int64"),
            "no number": np.where(numbers % 9 == 0, np.nan, numbers),
        }
    ).fsst.compress()
    frame.decompress()
    frame.take([5, 1])
    frame.iloc[10:20]
    _ = frame["number"] < 100, frame["number"] == 5


def _dictionaries() -> None:
    column = pd.Series(["a word", "another", "a third one", None] * 2000, dtype="str").fsst.compress()
    column.decompress()
    column.value_counts()
    column.take([5, 1])
    _ = column == "another", column[10:20], column.str.contains("oth"), column.unique()
    mask = np.arange(8000) % 3 == 0
    _ = column[mask], column[np.flatnonzero(mask)[::-1]]
    many = pd.Series([f"number {number % 20_000} of many" for number in range(60_000)], dtype="str").fsst.compress()
    many.decompress()
    _ = many[np.arange(60_000) % 3 == 0], many.take(np.arange(1000) * 7), many == "number 5 of many"


def _frames() -> None:
    rows = 9000
    numbers = np.arange(rows)
    plain = pd.DataFrame(
        {
            "key": pd.array(["one", "two", "three"] * (rows // 3), dtype="str"),
            "number": numbers,
            "real": np.random.default_rng(0).random(rows),
            "cents": numbers / 4,
            "when": pd.date_range("2026", periods=rows, freq="s"),
            "text": pd.array([f"number {number}" for number in numbers], dtype="str"),
        }
    )
    frame = plain.fsst.compress()
    frame.groupby("key").agg({"number": "sum", "real": "mean", "cents": "max", "text": "count"})
    frame.sort_values("real")
    frame.nlargest(3, "cents")
    _ = frame[numbers % 3 == 0], frame.take(numbers[::-2]), frame.iloc[5:8], frame.equals(frame)
    frame.merge(plain[["number"]][:10], on="number")
    with tempfile.TemporaryDirectory(prefix="cudf-fsst-") as folder:
        plain.to_parquet(Path(folder) / "in.parquet")
        read_parquet(Path(folder) / "in.parquet", device="cpu").decompress()
        frame.save(Path(folder) / "frame.fsst")
        load(Path(folder) / "frame.fsst")


def _text() -> None:
    words = np.array(["the", "cat", "and", "a", "dog", "saw", "it", "over", "there"])
    drawn = np.random.default_rng(0).choice(words, (5000, 9))
    text = pd.Series([" ".join(words) for words in drawn], dtype="str")
    text[::7] = None
    column = text.fsst.compress()
    column.decompress()
    column[10:20]
    column.take([3, 1])
    column.str.contains("cat and")
    with tempfile.TemporaryDirectory(prefix="cudf-fsst-") as folder:
        text.to_frame("text").to_parquet(Path(folder) / "text.parquet")
        read_parquet(Path(folder) / "text.parquet", device="cpu")


#: Calls by what they work on.
PARTS: tuple[Callable[[], None], ...] = (_search, _read, _values, _dictionaries, _frames, _text)


if __name__ == "__main__":
    for part in PARTS:
        part()
