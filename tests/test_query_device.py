"""Questions about columns on a GPU: the answers of cuDF's own Series, by the tables that pandas is tested with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import cudf_fsst
from column_cases import DTYPES
from cudf_fsst import selection
from cudf_fsst.backend import DeviceBackend
from frame_cases import COLUMNS, ON_GPU
from query_cases import (
    COMPARISONS,
    ITEMS,
    METHODS,
    asked,
    check,
    compared,
    method,
    name_of,
    others,
    same,
    small_pieces,
    ways,
)
from test_accessor import run
from test_query import QUESTIONS, SHAPES, series_of, texts

__all__ = ["small_pieces"]

#: Methods that only cuDF has, with arguments.
OWN = {
    "like": [
        *(
            method("like", pattern)
            for pattern in ("%ea%", "", "%", "s%p", "_", "%_", "th_ %", "%é%日_%", "e%e%e", "%a%a%")
        ),
        method("like", "%!_%", "!"),
        method("like", "%!", esc="!"),
        method("like", "%a", "ab"),
        method("like", 3),
        method("like", "%a", 3),
    ],
    "filter_characters": [method("filter_characters", {"a": "e"})],
    "insert": [method("insert", 1, "-")],
    "character_ngrams": [method("character_ngrams", 2)],
    "token_count": [method("token_count", " ")],
}
#: Results that are not the same from call to call, or that need what a column of strings is not.
LEFT_OUT = {"minhash", "minhash64"}


def cudf_series(values: list[str | None], dtype: Any) -> Any:
    import cudf

    return cudf.from_pandas(series_of(values, "str")).astype(dtype)


@pytest.mark.gpu
class TestGpu:
    @pytest.fixture(params=["codes", "decoded"])
    def way(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
        if request.param == "decoded":
            monkeypatch.setattr(DeviceBackend, "match", lambda *args, **options: None)
            monkeypatch.setattr(DeviceBackend, "accept", lambda *args, **options: None)
        return str(request.param)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_methods(self, shape: str, way: str, small_pieces: None, subtests: Any) -> None:
        column = cudf_series(SHAPES[shape], "str").fsst.compress()
        public = {name for name in dir(column.decompress().str) if not name.startswith("_")} - LEFT_OUT
        for name in sorted(public):
            if way == "decoded" and name not in QUESTIONS | {"like", "byte_count"}:
                continue
            for call in METHODS.get(name) or OWN.get(name) or [method(name)]:
                if name == "translate":
                    continue  # of what cuDF makes of bytes above 127, pandas cannot make strings
                with subtests.test(name_of(call)):
                    check(column, call, name_of(call))
        for number, call in enumerate(ITEMS):
            with subtests.test(f"item {number}"):
                check(column, call)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_comparisons(self, shape: str, way: str, small_pieces: None, subtests: Any) -> None:
        column = cudf_series(SHAPES[shape], "str").fsst.compress()
        for call in COMPARISONS:
            with subtests.test(name_of(call)):
                check(column, call, name_of(call))

    @pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
    def test_dtypes(self, dtype: Any, way: str, subtests: Any) -> None:
        column = cudf_series(SHAPES["nulls"], dtype).fsst.compress()
        for call in (
            method("contains", "ea", regex=False),
            method("contains", "ea", na=True),
            method("startswith", ("the", "a")),
            method("endswith", "s"),
            method("count", "e"),
            method("find", "e"),
            method("len"),
            method("byte_count"),
            method("like", "%e%"),
            method("upper"),
            compared("==", "sleep"),
            compared("!=", "sleep"),
            asked("isin", ["sleep", "e"]),
            asked("isin", ["sleep", None]),
            asked("isna"),
            asked("notna"),
        ):
            with subtests.test(name_of(call)):
                check(column, call, name_of(call))

    @pytest.mark.parametrize("name", COLUMNS)
    def test_other_dtypes(self, name: str, monkeypatch: pytest.MonkeyPatch, subtests: Any) -> None:
        import cudf

        try:
            series = cudf.from_pandas(COLUMNS[name]().iloc[:2100].rename("n"))
        except Exception as error:  # cuDF's errors are of many types
            if name in ON_GPU:
                raise
            pytest.skip(f"cuDF does not have it: {error}")
        column = series.fsst.compress()
        monkeypatch.setattr(selection, "_PIECE_NBYTES", column.uncompressed_nbytes // 2)
        monkeypatch.setattr(selection, "_PIECES", 1 << 60)
        for number, call in enumerate(others(series)):
            with subtests.test(f"{number}: {name_of(call)}"):
                check(column, call, name_of(call))

    def test_which_way(self) -> None:
        column = cudf_series(["red apple", "green", None, "apple"] * 300, "str").fsst.compress()
        for line, call in {
            "contains: codes": method("contains", "apple"),
            "startswith: codes": method("startswith", "app"),
            "endswith: codes": method("endswith", ("n", "e")),
            "like: codes": method("like", "%e%e%"),
            "count: codes": method("count", "p"),
            "find: codes": method("find", "p"),
            "len: codes": method("len"),
            "byte_count: codes": method("byte_count"),
            "==: codes": compared("==", "green"),
            "!=: codes": compared("!=", "green"),
            "isin: codes": asked("isin", ["green"]),
            "isna: validity": asked("isna"),
            "match: codes": method("match", "[a-g]"),
            "<: codes": compared("<", "green"),
            "between: codes": asked("between", "a", "b"),
            "upper: decoded, all of it ASCII": method("upper"),
            "title: decoded in 1 piece": method("title"),
            "cat: decoded as a whole": method("cat"),
        }.items():
            with ways() as said:
                call(column)
            assert said == [line]
        for call in (
            method("contains", "gr.*n"),
            method("contains", "GREEN", flags=2),
            method("contains", "GREEN", case=False, regex=False),
            method("like", "gr_en"),
        ):
            assert check(column, call, name_of(call))[0].endswith(": codes")

    def test_candidates(self) -> None:
        long = "deposits " * 9
        values = [f"{i} {long}" if i % 90 == 1 else None if i % 7 == 0 else f"{i} row" for i in range(1000)]
        column = cudf_series(values, "str").fsst.compress()
        for call in (
            method("contains", long, regex=False),
            method("contains", long, regex=False, na=True),
            compared("==", "deposits " * 200),
            asked("isin", ["deposits " * 200, "deposits"]),
        ):
            (said,) = check(column, call, name_of(call))
            assert ": codes, " in said
            assert said.endswith(" candidates")

    def test_values(self) -> None:
        """Are compared, however many they are, and the library looks at none."""
        values = [f"{i} {'deposits ' * 9}" if i % 90 == 1 else None if i % 7 == 0 else f"{i} row" for i in range(1000)]
        for some in (values, [f"id {i % 300:05}" for i in range(5000)]):
            column = cudf_series(some, "str").fsst.compress()
            there = list(dict.fromkeys(value for value in some if value))
            for call in (
                compared("==", there[1]),
                compared("!=", there[1]),
                asked("isin", [there[1], "2 row", "3"]),
                asked("isin", [there[1], "2 row", None]),
                asked("isin", there[::3]),
                asked("isin", [f"{value}?" for value in there]),
            ):
                (said,) = check(column, call, name_of(call))
                assert said.endswith(": codes")

    @pytest.mark.parametrize("pieces", [1, 3])
    def test_values_of_dictionaries(self, pieces: int, subtests: Any) -> None:
        # cuDF's translate leaves bytes unwritten behind a NUL (26.10), so that it says other things of the same text.
        values = [text and text.replace("\0", " ") for text in (texts(300) * 4)[: 1000 - pieces]]
        parts = [cudf_series(values, "str").fsst.compress(codec="dict") for _ in range(pieces)]
        column = parts[0] if pieces == 1 else cudf_fsst.concat(parts)
        for call in [*(call for calls in METHODS.values() for call in calls), *COMPARISONS]:
            with subtests.test(name_of(call)):
                check(column, call, name_of(call))
        (said,) = check(column, method("contains", "q.*k"), "contains")
        assert said.endswith(": codes")

    def test_masks_of_frames(self) -> None:
        import cudf

        for index in (None, [f"r{i}" for i in range(2000)]):
            data = pd.DataFrame({"a": texts(2000), "b": np.arange(2000) % 9}, index=index)
            frame = cudf.from_pandas(data).fsst.compress()
            mask = frame.column("a").str.contains("ea") & (frame.column("b") > 3)
            wanted = data[data["a"].str.contains("ea").fillna(False).astype(bool) & (data["b"] > 3)]
            pd.testing.assert_frame_equal(frame[mask].to_pandas(), wanted)
            pd.testing.assert_frame_equal(frame[frame.column("a").isna()].to_pandas(), data[data["a"].isna()])

    def test_a_decoded_index_is_shared(self) -> None:
        import cudf

        data = cudf.DataFrame({"a": ["x", "yx", None] * 100}, index=cudf.Index([*"abc"] * 100, name="label"))
        column = data.fsst.compress().column("a")
        first, second = column.str.contains("x"), column.isna()
        assert len([given for _, given in column._index._shared_indexes if given() is not None]) == 2
        first.index.name = "other"
        assert second.index.name == column.index.name == (column == "x").index.name == "label"

    def test_pieces_are_whole_segments(self, small_segments: None, monkeypatch: pytest.MonkeyPatch) -> None:
        import cudf

        series = cudf.Series(texts(5000, nulls=False))
        column = series.fsst.compress()
        sizes = column.map_chunks(len, chunk_bytes=6001)
        assert sum(sizes) == 5000
        assert len(sizes) > 3
        same(column.map_chunks(lambda piece: piece.str.upper(), chunk_bytes=6001), series.str.upper())

    def test_cudf_pandas(self) -> None:
        """Under cudf.pandas results are proxies, and what cuDF refuses is pandas' business."""
        run(
            """
import cudf.pandas
cudf.pandas.install()
import pandas as pd, cudf_fsst
series = pd.Series(["red apple", "green", None, "apple"] * 300, name="n")
column = series.fsst.compress()
assert column.device.startswith("cuda:")
for call in (
    lambda data: data.str.contains("apple"),
    lambda data: data.str.contains("APPLE", case=False),
    lambda data: data.str.contains("a(?=p)"),
    lambda data: data.str.len(),
    lambda data: data.str.upper(),
    lambda data: data.str.cat(sep="-"),
    lambda data: data == "green",
    lambda data: data != "green",
    lambda data: data < "green",
    lambda data: data.isin(["green", None]),
    lambda data: data.isin(pd.Series(["green"])),
    lambda data: data.isna(),
    lambda data: data == series,
):
    found, wanted = call(column), call(column.decompress())
    if isinstance(wanted, str):
        assert found == wanted
        continue
    assert cudf.pandas.is_proxy_instance(found, pd.Series), type(found)
    pd.testing.assert_series_equal(found, wanted)
assert column.str.like("%app%").sum() == 600
assert column.str.byte_count().sum() == 300 * 19
frame = series.to_frame().fsst.compress()
assert len(frame[frame.column("n").str.contains("apple")]) == 600
""",
            warnings="default",  # cuDF's own imports may warn
        )
