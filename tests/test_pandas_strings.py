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
#: Modules of pandas' tests, each with how many calls of compressed columns it makes at least.
MODULES = {"test_find_replace": 1000, "test_strings": 500, "test_extract": 100, "test_split_partition": 100}


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_pandas_tests(module: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("pandas.tests.strings") is None:
        pytest.skip("pandas was installed without its tests")
    paths = [str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(tmp_path)]
        + ["-p", "pandas_strings", "--tb=short", "--pyargs", f"pandas.tests.strings.{module}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        timeout=900,
    )
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
    calls = re.search(r"^(\d+) calls of compressed columns$", found.stdout, re.MULTILINE)
    assert calls is not None
    assert int(calls[1]) >= MODULES[module]
