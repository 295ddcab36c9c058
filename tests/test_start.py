"""What importing the package imports: nothing that takes long and may not be needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Modules that take long to import.
HEAVY = ("numba", "llvmlite", "rich", "typer", "pyarrow.parquet", "pyarrow.dataset", "pyarrow.fs", "cupy", "dask")


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        ("", ()),
        ("pd.Series(['a', None]).fsst", ()),
        ("cudf_fsst.SpillPool, cudf_fsst.read_parquet, cudf_fsst.concat", ()),
        ("pd.Series(['a', None]).fsst.compress()", ("numba", "llvmlite")),
    ],
)
def test_imports(code: str, needed: tuple[str, ...]) -> None:
    script = f"""
import sys
import pandas as pd, pyarrow
there = set(sys.modules)
import cudf_fsst
{code}
print(*[name for name in {HEAVY} if name in sys.modules and name not in there])
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert tuple(done.stdout.split()) == needed


def test_what_is_imported_when_it_is_asked_for() -> None:
    script = """
import sys
import cudf_fsst
rooms = ("spill", "parquet", "engines")
print(*[room for room in rooms if f"cudf_fsst.{room}" in sys.modules], "importlib.metadata" in sys.modules)
assert set(cudf_fsst.__all__) <= set(dir(cudf_fsst))
from cudf_fsst import *
assert spilling is cudf_fsst.spilling and scan is cudf_fsst.scan
assert cudf_fsst.__version__
assert not hasattr(cudf_fsst, "nothing")
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False"]
