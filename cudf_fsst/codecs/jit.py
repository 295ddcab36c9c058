"""Numba's `njit`, as all kernels use it: Numba is imported when the first of them is called.

Importing it takes as long as importing pandas. Compiled functions find those that they call here by the type that Numba
asks any object for, ``_numba_type_``.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

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

                self._made = compiled(self.__wrapped__, self._options, _told.function(self.__wrapped__))
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


class _Told:
    """What decides what is compiled of a function, beside the types of its arguments: of this, a text that tells.

    Numba's cache looks at the time and size of the file that a function is in. What other files have goes into the
    compiled code too: constants and functions that are imported, or that a function was made with. So all of these are
    told by what they are, whatever the times of files say.
    """

    def __init__(self) -> None:
        self._kept: dict[Any, str] = {}

    def function(self, one: Callable[..., Any]) -> str:
        """The hash of a function's code and of what its names mean."""
        if one not in self._kept:
            self._kept[one] = one.__qualname__  # for those that call themselves
            made_with = [self._of(cell.cell_contents) for cell in one.__closure__ or ()]
            text = repr((self._code(one.__code__, one.__globals__), made_with))
            self._kept[one] = hashlib.sha256(f"{one.__module__}.{one.__qualname__} {text}".encode()).hexdigest()
        return self._kept[one]

    def _code(self, code: CodeType, names: dict[str, Any]) -> Any:
        inner = [self._code(one, names) if isinstance(one, CodeType) else self._of(one) for one in code.co_consts]
        found = [(name, self._of(names[name], code)) for name in code.co_names if name in names]
        return code.co_code, code.co_names, code.co_varnames, inner, found

    def _of(self, value: Any, code: CodeType | None = None) -> Any:
        if isinstance(value, _Function):
            return self.function(value.__wrapped__), repr(value._options)
        if isinstance(value, Intrinsic):
            return value._name, _intrinsics_stamp()
        if isinstance(value, ModuleType) and code is not None and value.__name__.startswith(_PACKAGE):
            return [(name, self._of(vars(value)[name])) for name in code.co_names if name in vars(value)]
        if isinstance(value, np.ndarray):
            return value.dtype.str, value.shape, value.tobytes()
        if isinstance(value, tuple | frozenset):
            told = [self._of(one, code) for one in value]
            return told if isinstance(value, tuple) else sorted(map(repr, told))
        return (
            repr(value) if isinstance(value, _CONSTANTS) else getattr(value, "__qualname__", type(value).__qualname__)
        )


#: Constants that compiled code may have, told by how they are written.
_CONSTANTS = (bool, int, float, complex, str, bytes, np.generic, type(None))
_PACKAGE = f"{__name__.partition('.')[0]}."
_told = _Told()


@lru_cache(1)
def _intrinsics_stamp() -> str:
    from . import intrinsics

    return hashlib.sha256(Path(intrinsics.__file__).read_bytes()).hexdigest()
