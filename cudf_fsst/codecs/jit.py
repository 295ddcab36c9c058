"""Numba's `njit`, as all kernels use it: Numba is imported when the first of them is called.

Importing it takes as long as importing pandas. Compiled functions find those that they call here by the type that Numba
asks any object for, ``_numba_type_``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_lock = threading.RLock()


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that runs without the GIL, and keep what was compiled where there is a place for it."""
    return lambda function: _Function(function, options)


class _Function:
    """What Numba makes of a function, which is made when it is wanted."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.__doc__, self.__name__, self.__module__ = function.__doc__, function.__name__, function.__module__
        self.__wrapped__ = function
        self._options = options
        self._made: Any = None

    def __call__(self, *args: Any) -> Any:
        return (self._made or self._make())(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._make(), name)

    @property
    def _numba_type_(self) -> Any:
        return self._make()._numba_type_

    def _make(self) -> Any:
        with _lock:
            if self._made is None:
                from .compiled import compiled

                self._made = compiled(self.__wrapped__, self._options)
            return self._made


class Intrinsic:
    """One of `intrinsics`, for functions that Numba compiles."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self._name} is for functions that Numba compiles")

    @property
    def _numba_type_(self) -> Any:
        from numba.core.registry import cpu_target

        from . import intrinsics

        return cpu_target.typing_context.resolve_value_type(getattr(intrinsics, self._name))
