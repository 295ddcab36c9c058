"""Warnings of the library that name the line of whoever called us."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import pandas as pd

_P = ParamSpec("_P")
_T = TypeVar("_T")
_OURS, _LIBRARY = (os.path.join(os.path.dirname(file), "") for file in (__file__, pd.__file__))
#: Entries of `_Pointing` that have not been left, of all threads; what shows warnings without us.
_lock, _inside, _before = threading.Lock(), 0, warnings.showwarning


def at_caller(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Have the warnings of a function, which calls the library, name the line that called the package.

    pandas looks for the first line that is not its own, which would be one of ours. Filters stay as they are, and so
    do warnings that other threads are given meanwhile, unless they name one of our files.
    """

    @wraps(function)
    def call(*args: _P.args, **options: _P.kwargs) -> _T:
        with _POINTING:
            return function(*args, **options)

    return call


class _Pointing:
    """A context in which `_show` shows warnings. It may be entered by several threads and within itself."""

    def __enter__(self) -> None:
        global _inside, _before
        with _lock:
            if _inside == 0 and warnings.showwarning is not _show:
                _before = warnings.showwarning
                warnings.showwarning = _show
            _inside += 1

    def __exit__(self, *_: object) -> None:
        global _inside
        with _lock:
            _inside -= 1
            if _inside == 0 and warnings.showwarning is _show:  # else somebody else's is there now
                warnings.showwarning = _before


_POINTING = _Pointing()


def _show(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: Any = None,
    line: str | None = None,
) -> None:
    if filename.startswith(_OURS):
        frame: Any = sys._getframe(1)
        while frame is not None and not frame.f_code.co_filename.startswith(_OURS):
            frame = frame.f_back  # of the library, and of the module `warnings`
        while frame is not None and frame.f_code.co_filename.startswith((_OURS, _LIBRARY)):
            frame = frame.f_back
        if frame is not None:  # else this is a thread of ours
            filename, lineno = frame.f_code.co_filename, frame.f_lineno
    _before(message, category, filename, lineno, file, line)
