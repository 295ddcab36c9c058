"""Warnings of the library name the line that called us."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import cudf_fsst
from cudf_fsst import callers

COLUMN = pd.Series(["a1", "b2", None] * 10, dtype="str").fsst.compress()


def warn(values: Any) -> Any:
    warnings.warn("mine", UserWarning, stacklevel=1)
    return values


@pytest.mark.parametrize(
    "call",
    [
        lambda: COLUMN.str.contains("(a)"),
        lambda: COLUMN.str.contains(r"(a|b)\d\Z"),
        lambda: COLUMN.str.contains(r"(b)(?=2)"),
    ],
)
def test_the_line_is_the_callers(call: Callable[[], Any]) -> None:
    with pytest.warns(UserWarning, match="match groups") as found:
        call()
    (one,) = {(one.filename, one.lineno) for one in found}
    assert one == (__file__, call.__code__.co_firstlineno)


def test_warnings_of_the_callers_own_functions_stay() -> None:
    with pytest.warns(UserWarning, match="mine") as found:
        COLUMN.map(warn)
    assert {(one.filename, one.lineno) for one in found} == {(__file__, warn.__code__.co_firstlineno + 1)}


def test_filters_hold() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        COLUMN.str.contains("(a|x)1")
    with pytest.raises(UserWarning, match="match groups"):
        COLUMN.str.contains("(a|y)1")


def test_what_showed_warnings_shows_them_again() -> None:
    """Also where threads are within each other, and where somebody has put another in its place."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        shown: list[Any] = []
        warnings.showwarning = before = lambda *of: shown.append(of)
        inside, leave = threading.Event(), threading.Event()

        @callers.at_caller
        def wait() -> None:
            inside.set()
            leave.wait(300)

        thread = threading.Thread(target=wait)
        thread.start()
        inside.wait(300)
        cudf_fsst.callers.at_caller(warn)(0)
        assert warnings.showwarning is callers._show
        leave.set()
        thread.join()
        assert warnings.showwarning is before
        assert [(str(one[0]), one[2]) for one in shown] == [("mine", __file__)]

        @callers.at_caller
        def replace() -> None:
            warnings.showwarning = print

        replace()
        assert warnings.showwarning is print
