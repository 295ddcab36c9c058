"""``.fsst``: where it is, what it refuses, and that importing the package never fails for want of cuDF."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cudf_fsst
import fresh
from cudf_fsst.interop import pandas as interop_pandas

ROOT = Path(cudf_fsst.__file__).parents[1]

STRINGS = {
    "str": pd.Series(["a", None]),
    "string[pyarrow]": pd.Series(["a", None], dtype="string[pyarrow]"),
    "string[python]": pd.Series(["a", None], dtype="string[python]"),
    "arrow_string": pd.Series(["a", None], dtype=pd.ArrowDtype(pa.string())),
    "arrow_large_string": pd.Series(["a", None], dtype=pd.ArrowDtype(pa.large_string())),
    "object": pd.Series(["a", None, np.nan, pd.NA, pd.NaT, np.str_("b")], dtype=object),
    "object_of_missing": pd.Series([None, np.nan], dtype=object),
    "object_of_nothing": pd.Series([], dtype=object),
}
OTHERS = {
    "int64": pd.Series([1]),
    "float64": pd.Series([1.5, np.nan]),
    "bool": pd.Series([True]),
    "category": pd.Series(["a"], dtype="category"),
    "datetime64": pd.Series(pd.to_datetime(["2020"])),
    "binary": pd.Series([b"a"], dtype=pd.ArrowDtype(pa.binary())),
    "Int64": pd.Series([1, None], dtype="Int64"),
    "list": pd.Series([[1, 2], None], dtype=pd.ArrowDtype(pa.list_(pa.int8()))),
    "objects of bytes": pd.Series([b"a"], dtype=object),
}
REFUSED = {"complex128": pd.Series([1j])}
MIXED = {"integers": pd.Series(["a", 1], dtype=object), "lists": pd.Series(["a", ["b"]], dtype=object)}


@pytest.mark.parametrize("series", STRINGS.values(), ids=STRINGS)
def test_strings_have_it(series: pd.Series) -> None:
    column = series.fsst.compress()
    assert isinstance(column, cudf_fsst.CompressedColumn)
    assert column.null_count == series.isna().sum()
    assert len(pd.Index(series).fsst.compress()) == len(series)


@pytest.mark.parametrize("series", OTHERS.values(), ids=OTHERS)
def test_others_have_it(series: pd.Series, tmp_path: Path) -> None:
    """What a frame takes, a column takes."""
    column = series.rename("n").fsst.compress()
    assert isinstance(column, cudf_fsst.CompressedColumn)
    pd.testing.assert_series_equal(column.decompress(), series.rename("n"))
    column.save(tmp_path / "column")
    fresh.same_series(tmp_path / "column", series.rename("n"))
    assert len(pd.Index(series).fsst.compress()) == len(series) if series.dtype.kind != "O" else True


@pytest.mark.parametrize(("shown", "series"), REFUSED.items(), ids=REFUSED)
def test_what_nothing_takes_does_not(shown: str, series: pd.Series) -> None:
    assert not hasattr(series, "fsst")
    for data in (series, pd.Index(series)):
        with pytest.raises(AttributeError, match=f"^Can only use .fsst accessor with values .*, not {shown}"):
            data.fsst  # noqa: B018


@pytest.mark.parametrize("series", MIXED.values(), ids=MIXED)
def test_values_of_several_kinds_are_refused_when_they_are_compressed(series: pd.Series) -> None:
    for data in (series, pd.Index(series)):
        assert hasattr(data, "fsst")
        with pytest.raises(TypeError, match=r"dtype object.* cannot be compressed"):
            data.fsst.compress()
        with pytest.raises((TypeError, AttributeError), match="object"):
            cudf_fsst.train(data)


def test_the_accessor_does_not_look_at_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interop_pandas, "encode_column", lambda _: pytest.fail("values were looked at"))
    series = pd.Series([[1], [2]], dtype=object)
    assert series.fsst is not None
    assert pd.Index([1.5, "a"], dtype=object).fsst is not None


def test_what_it_has_not_names_the_way() -> None:
    series = pd.Series(["a"], name="x")
    for accessor, kind in ((series.fsst, "CompressedColumn"), (series.to_frame().fsst, "CompressedFrame")):
        assert not hasattr(accessor, "_no_such")
        with pytest.raises(AttributeError, match=rf"compress\(\) gives a {kind}, which has it"):
            accessor.save("x.fsst")
        with pytest.raises(AttributeError, match="'zip'; see compress and to_host"):
            accessor.zip()


def test_multi_index_does_not() -> None:
    with pytest.raises(AttributeError, match="not MultiIndex"):
        pd.MultiIndex.from_tuples([("a", "b")]).fsst  # noqa: B018


def test_class_is_documented() -> None:
    assert pd.Series.fsst is cudf_fsst.FsstAccessor
    assert cudf_fsst.FsstAccessor.compress.__doc__


@pytest.mark.parametrize("tile_size", [0, 7, 100, 2048, 256.5, "big", None, True])
def test_unknown_tile_size(tile_size) -> None:
    with pytest.raises(ValueError, match=f"tile_size must be 'auto' or one of .*, not {tile_size!r}"):
        STRINGS["str"].fsst.compress(tile_size=tile_size)


@pytest.mark.parametrize("level", ["best", "", None, 3])
def test_unknown_level(level) -> None:
    with pytest.raises(ValueError, match=f"level must be one of .*, not {level!r}"):
        STRINGS["str"].fsst.compress(level=level)


def test_table_must_be_a_table() -> None:
    with pytest.raises(TypeError, match="table must be a SymbolTable, OnPairTable or None, not bytes"):
        STRINGS["str"].fsst.compress(table=b"")


def test_stream_needs_a_gpu() -> None:
    column = STRINGS["str"].fsst.compress()
    for call in (
        STRINGS["str"].fsst.compress,
        column.decompress,
        lambda stream: column.take([0], stream=stream),
        lambda stream: column.filter([True, False], stream=stream),
        lambda stream: column.take([], stream=stream),
        lambda stream: column.filter([False, False], stream=stream),
        lambda stream: column.to_host(stream=stream),
        lambda stream: STRINGS["str"].iloc[:0].fsst.compress().decompress(stream=stream),
        lambda stream: cudf_fsst.train(STRINGS["str"], stream=stream),
    ):
        with pytest.raises(ValueError, match=r"stream='s' needs data in GPU memory"):
            call(stream="s")


def test_public_names() -> None:
    assert sorted(cudf_fsst.__all__) == cudf_fsst.__all__
    for name in cudf_fsst.__all__:
        assert getattr(cudf_fsst, name).__doc__


# Importing ----------------------------------------------------------------------------------------------------------

USE = """
import pandas as pd, cudf_fsst
series = pd.Series(["a", None, "ccc"])
pd.testing.assert_series_equal(series.fsst.compress().decompress(), series)
"""


def run(code: str, *paths: Path, warnings: str = "error") -> None:
    """Run code in a Python of its own, where an import of cuDF finds it in `paths`."""
    prelude = f"import sys; sys.path[:0] = {[str(path) for path in (*paths, ROOT)]!r}\n"
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-c", prelude + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


BROKEN = ["ImportError('no libcudf')", "RuntimeError('no driver')", "OSError('libcuda.so')", "import rapids_is_gone"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("error", BROKEN)
def test_broken_cudf_leaves_pandas_alone(error: str, tmp_path: Path) -> None:
    """One warning says why there is no GPU."""
    (tmp_path / "cudf.py").write_text(error if error.startswith("import") else f"raise {error}\n")
    wanted = "No module named 'rapids_is_gone'" if error.startswith("import") else error.split("'")[1]
    check = f"""
import warnings
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    import cudf_fsst
(one,) = found
assert one.category is RuntimeWarning, one
assert str(one.message).startswith("cuDF is installed and cannot be imported"), one
assert {wanted!r} in str(one.message), one
"""
    run(check + USE, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("error", BROKEN)
def test_the_command_line_says_once_that_cudf_is_broken(error: str, tmp_path: Path) -> None:
    (tmp_path / "cudf.py").write_text(error if error.startswith("import") else f"raise {error}\n")
    pd.DataFrame({"text": ["a", None, "ccc"]}).to_parquet(tmp_path / "in.parquet")
    command = ["compress", "in.parquet", "-o", "out.fsst"]
    done = subprocess.run(
        [sys.executable, "-c", "from cudf_fsst.cli import app; app()", *command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("cannot be imported") == 1
    assert cudf_fsst.load(tmp_path / "out.fsst").to_pandas()["text"].iloc[2] == "ccc"


def test_no_cudf_is_no_reason_to_warn(tmp_path: Path) -> None:
    """Nor is a folder of that name, which Python takes for a package."""
    run("import sys; sys.modules['cudf'] = None\n" + USE)
    (tmp_path / "cudf").mkdir()
    run(USE, tmp_path)


def test_registers_with_cudf(tmp_path: Path) -> None:
    package = tmp_path / "cudf" / "api"
    package.mkdir(parents=True)
    (tmp_path / "cudf" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "extensions.py").write_text(
        "found = []\n"
        "def register_series_accessor(name): return lambda cls: found.append(('Series', name, cls))\n"
        "def register_index_accessor(name): return lambda cls: found.append(('Index', name, cls))\n"
        "def register_dataframe_accessor(name): return lambda cls: found.append(('DataFrame', name, cls))\n"
    )
    check = """
from cudf.api.extensions import found
one, frame = cudf_fsst.FsstAccessor, cudf_fsst.FsstFrameAccessor
assert found == [("Series", "fsst", one), ("Index", "fsst", one), ("DataFrame", "fsst", frame)], found
"""
    run(USE + check, tmp_path)


def test_import_leaves_the_gpu_codec_alone() -> None:
    run("import sys; sys.modules.update(cudf=None, cupy=None, rmm=None)\n" + USE)


# On a GPU -----------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
class TestGpu:
    def test_strings_have_it(self) -> None:
        import cudf

        for data in (cudf.Series(["a", None]), cudf.Index(["a", None])):
            column = data.fsst.compress()
            assert column.device.startswith("cuda:")
            assert column.to_arrow().to_pylist() == ["a", None]

    def test_others_have_it(self) -> None:
        import cudf

        for data in (cudf.Series([1, None]), cudf.Series([["a"], None]), cudf.Series(["a", None], dtype="category")):
            column = data.fsst.compress()
            assert column.decompress().to_arrow().equals(data.to_arrow())
            assert column[1:].to_arrow().equals(data[1:].to_arrow())
        assert len(cudf.Index([1.5]).fsst.compress()) == 1
        with pytest.raises(AttributeError, match="not MultiIndex"):
            cudf.MultiIndex.from_tuples([("a", "b")]).fsst  # noqa: B018

    def test_stream(self) -> None:
        import cudf
        import cupy

        series = cudf.Series(["a", None, "ccc"] * 1000)
        stream = cupy.cuda.Stream(non_blocking=True)
        column = series.fsst.compress(stream=stream)
        result = column.decompress(stream=stream)
        stream.synchronize()
        cudf.testing.assert_series_equal(result, series)

    @pytest.mark.parametrize(
        "index", ["", ', index=pd.period_range("2020", periods=3, freq="M")'], ids=["range", "periods"]
    )
    def test_cudf_pandas(self, index: str) -> None:
        """Under cudf.pandas, proxies go in and come out; what cuDF cannot hold is compressed on the host."""
        run(
            f"""
import cudf.pandas
cudf.pandas.install()
import pandas as pd, cudf_fsst
series = pd.Series(["a", None, "ccc"], name="n"{index})
column = series.fsst.compress()
assert column.device.startswith("cuda:") == {not index}, column.device
for result in (column.decompress(), column[:], column.take([0, 1, 2]), column.filter([True] * 3)):
    assert cudf.pandas.is_proxy_instance(result, pd.Series), type(result)
    pd.testing.assert_series_equal(result, series)
assert column[2] == "ccc"
pd.testing.assert_series_equal(column.map_chunks(lambda piece: piece.str.upper()), series.str.upper())
pd.testing.assert_series_equal(column.filter(series.notna()), series[series.notna()])
""",
            warnings="default",  # cuDF's own imports may warn
        )
