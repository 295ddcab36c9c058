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
