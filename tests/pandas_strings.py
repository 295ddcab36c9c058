"""A pytest plugin: pandas' own tests of ``.str``, with each Series compressed first.

python -m pytest -p pandas_strings --pyargs pandas.tests.strings
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd

import cudf_fsst
from cudf_fsst.interop.pandas import holds_strings

_plain = pd.Series.__dict__["str"]
#: How many calls went to a compressed column, and whether one is under way: what it decodes is asked as it is.
compressed = 0
_inside = False


@contextmanager
def _as_it_is() -> Iterator[None]:
    global _inside
    before, _inside = _inside, True
    try:
        yield
    finally:
        _inside = before


class _Methods:
    """``column.str``, which asks pandas itself."""

    def __init__(self, column: Any) -> None:
        self._methods = column.str

    def __getattr__(self, name: str) -> Any:
        with _as_it_is():
            found = getattr(self._methods, name)
        if not callable(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            global compressed
            compressed += 1
            with _as_it_is():
                return found(*args, **options)

        return call

    def __iter__(self) -> Any:
        with _as_it_is():
            return iter(self._methods)

    def __getitem__(self, key: Any) -> Any:
        with _as_it_is():
            return self._methods[key]


def _is_nan(value: Any) -> bool:
    """Whether a missing value is not None, which it becomes in a compressed column of dtype ``object``."""
    return value is not None and bool(pd.isna(value) is True)


class _Str:
    """``Series.str``, but of a compressed column where that has strings and may be compressed."""

    def __get__(self, series: Any, owner: Any) -> Any:
        methods = _plain.__get__(series, owner)  # which checks the dtype
        if _inside or series is None or type(series) is not pd.Series:
            return methods
        with _as_it_is():
            if not holds_strings(series) or (series.dtype == object and any(_is_nan(value) for value in series)):
                return methods
            try:
                column = series.fsst.compress()
            except (AttributeError, TypeError, ValueError):
                return methods
            return _Methods(column) if isinstance(column, cudf_fsst.CompressedColumn) else methods


def pytest_configure(config: Any) -> None:
    pd.Series.str = _Str()  # type: ignore[assignment]


def pytest_unconfigure(config: Any) -> None:
    pd.Series.str = _plain  # type: ignore[method-assign]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"{compressed} calls of compressed columns")
