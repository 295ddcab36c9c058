"""Dictionaries of strings on a GPU with cuDF: the same bytes as on the host, and what cuDF answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cudf_fsst
from checker import same_parts
from cudf_fsst.codecs.node import Node

pytestmark = pytest.mark.usefixtures("automatic")

WORDS = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB", "", "x" * 70]


def same(found: Node, expected: Node) -> None:
    """The same tree, with the same bytes."""
    for name in ("rows", "null_count", "chars_nbytes", "codec"):  # pandas' strings are another Arrow type
        assert getattr(found, name) == getattr(expected, name)
    for one, other in zip(found.segments, expected.segments, strict=True):
        assert (one.codec, one.rows, one.chars) == (other.codec, other.rows, other.chars)
        for child, wanted in zip(one.children, other.children, strict=True):
            same(child, wanted)
    same_parts(found.parts, expected.parts)


@pytest.mark.gpu
class TestGpu:
    @pytest.fixture(params=["few", "nulls", "many", "different", "mixed", "long"])
    def host(self, request: pytest.FixtureRequest, rng: np.random.Generator) -> pd.Series:
        def words(count: int, values: int = len(WORDS), nulls: float = 0.0) -> list[str | None]:
            every = WORDS if values == len(WORDS) else [f"Clerk#{i:09}" for i in range(values)]
            return [None if rng.random() < nulls else every[i] for i in rng.integers(0, values, count)]

        different: list[str | None] = [f"{i:x}" for i in rng.integers(0, 1 << 40, 20_000)]
        made: dict[str, list[str | None]] = {
            "few": words(100_000),
            "nulls": words(100_003, nulls=0.2),
            "many": words(200_000, 20_000),
            "different": different,
            "mixed": [*words(60_000, nulls=0.1), *different, *words(50_000, 500)],
            "long": [text * 900 for text in ("a", "b", "c") for _ in range(700)],
        }
        if request.param == "mixed":
            request.getfixturevalue("small_segments")
            made["mixed"] = made["mixed"][59_000:81_500]
        return pd.Series(made[request.param], dtype="str", name="s")

    @pytest.fixture
    def series(self, host: pd.Series) -> Any:
        import cudf

        return cudf.from_pandas(host)

    @pytest.mark.parametrize("codec", [None, "dict", "fsst"])
    def test_same_bytes_as_on_the_host(self, host: pd.Series, series: Any, codec: str | None) -> None:
        import cudf

        column = series.fsst.compress(codec=codec)
        same(column.to_host()._content.node, host.fsst.compress(codec=codec)._content.node)
        cudf.testing.assert_series_equal(column.decompress(), series)

    def test_moves(self, host: pd.Series, series: Any, tmp_path: Path) -> None:
        import cudf

        column = series.fsst.compress()
        column.save(tmp_path / "column")
        loaded = cudf_fsst.load(tmp_path / "column")
        pd.testing.assert_series_equal(loaded.decompress(), host)
        cudf.testing.assert_series_equal(loaded.to_device().decompress(), series)
        cudf.testing.assert_series_equal(loaded.to_cudf(), series)
        several = cudf_fsst.concat([column, column.to_host().to_device()])
        cudf.testing.assert_series_equal(several.decompress(), cudf.concat([series, series]))

    def test_rows(self, series: Any, rng: np.random.Generator) -> None:
        import cudf

        column, rows = series.fsst.compress(), len(series)
        for start, stop in ((0, 1), (5, 700), (1000, rows - 7), (rows - 1, rows), (3, 3)):
            cudf.testing.assert_series_equal(column[start:stop], series.iloc[start:stop])
        for count in (1, 50, 10_000):
            numbers = rng.integers(0, rows, count)
            cudf.testing.assert_series_equal(column.take(numbers), series.take(numbers))

    def test_questions(self, series: Any) -> None:
        import cudf

        column = series.fsst.compress()
        for ask in (
            lambda one: one == "AIR",
            lambda one: one.isin(["AIR", "MAIL", ""]),
            lambda one: one.str.contains("AI"),
            lambda one: one.str.len(),
        ):
            cudf.testing.assert_series_equal(ask(column), ask(series))

    def test_categories(self, series: Any) -> None:
        import cudf

        column = series.fsst.compress()
        cudf.testing.assert_series_equal(column.to_categorical(), series.astype("category"))
        assert column.nunique() == series.nunique()
        for dropna in (True, False):
            counted = column.value_counts(dropna=dropna).sort_index()
            cudf.testing.assert_series_equal(counted, series.value_counts(dropna=dropna).sort_index())

    def test_frames(self, series: Any) -> None:
        import cudf

        plain = cudf.DataFrame({"s": series, "n": np.arange(len(series)), "c": series.astype("category")})
        frame = plain.fsst.compress()
        cudf.testing.assert_frame_equal(frame.decompress(), plain)
        assert frame.nbytes < plain.memory_usage().sum()
        cudf.testing.assert_frame_equal(frame.decompress(categories=True)[["n"]], plain[["n"]])

    @pytest.mark.parametrize("values", [7, 30_000])
    def test_memory(self, values: int, rng: np.random.Generator) -> None:
        """Beside input and result, no more than the rule says."""
        import cudf
        import rmm.statistics

        words = cudf.Series([f"{i:04}" for i in range(values)])
        large = words.take(rng.integers(0, values, 20_000_000)).reset_index(drop=True)
        limit = max(64 << 20, 20_000_000)
        large.fsst.compress()
        rmm.statistics.enable_statistics()
        rmm.statistics.push_statistics()
        column = large.fsst.compress()
        used = rmm.statistics.pop_statistics()
        assert used.peak_bytes <= column.nbytes + limit
        rmm.statistics.push_statistics()
        column.decompress()
        used = rmm.statistics.pop_statistics()
        assert used.peak_bytes <= column.uncompressed_nbytes + limit
