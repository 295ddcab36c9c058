"""pandas' own tests of ``.str`` pass where each Series is compressed first."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: Tests of what is not an answer (and the file test_api.py): the class of ``series.str``, its attributes, and which
#: line a warning points at.
LEFT_OUT = (
    "test_api",
    "test_api_per_dtype",
    "test_flags_kwarg",
    "test_index_str_accessor_visibility",
    "test_str_accessor_no_new_attributes",
)


@pytest.mark.slow
def test_pandas_tests(tmp_path: Path) -> None:
    if importlib.util.find_spec("pandas.tests.strings") is None:
        pytest.skip("pandas was installed without its tests")
    paths = [str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    found = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pandas_strings", "--tb=short"),
            *("-c", os.devnull, "--rootdir", str(tmp_path), "-k", f"not ({' or '.join(LEFT_OUT)})"),
            *("--pyargs", "pandas.tests.strings"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        timeout=900,
    )
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
    calls = re.search(r"^(\d+) calls of compressed columns$", found.stdout, re.MULTILINE)
    assert calls is not None
    assert int(calls[1]) > 3000
    passed = re.search(r"(\d+) passed", found.stdout)
    assert passed is not None
    assert int(passed[1]) > 3000
