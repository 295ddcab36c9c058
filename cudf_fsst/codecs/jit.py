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
    """A function that Numba compiles when it is first called."""

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

                self._made = compiled(self.__wrapped__, self._options, _fingerprints.function(self.__wrapped__))
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


class _Fingerprints:
    """Fingerprints of functions: of all that decides what is compiled of one, beside the types of its arguments.

    Numba's cache looks at the time and size of the file that a function is in. What other files have goes into the
    compiled code too: constants and functions that are imported, or that a function was made with. So all of these are
    told by what they are, whatever the times of files say.
    """

    def __init__(self) -> None:
        self._known: dict[Any, str] = {}

    def function(self, python_function: Callable[..., Any]) -> str:
        """The hash of a function's code and of what its names mean."""
        if python_function not in self._known:
            self._known[python_function] = python_function.__qualname__  # for those that call themselves
            made_with = [self._of_value(cell.cell_contents) for cell in python_function.__closure__ or ()]
            text = repr((self._code(python_function.__code__, python_function.__globals__), made_with))
            self._known[python_function] = hashlib.sha256(
                f"{python_function.__module__}.{python_function.__qualname__} {text}".encode()
            ).hexdigest()
        return self._known[python_function]

    def _code(self, code: CodeType, names: dict[str, Any]) -> Any:
        inner = [
            self._code(constant, names) if isinstance(constant, CodeType) else self._of_value(constant)
            for constant in code.co_consts
        ]
        globals_used = [(name, self._of_value(names[name], code)) for name in code.co_names if name in names]
        return code.co_code, code.co_names, code.co_varnames, inner, globals_used

    def _of_value(self, value: Any, code: CodeType | None = None) -> Any:
        if isinstance(value, _Function):
            return self.function(value.__wrapped__), repr(value._options)
        if isinstance(value, Intrinsic):
            return value._name, _intrinsics_stamp()
        if isinstance(value, ModuleType) and code is not None and value.__name__.startswith(_PACKAGE):
            return [(name, self._of_value(vars(value)[name])) for name in code.co_names if name in vars(value)]
        if isinstance(value, np.ndarray):
            return value.dtype.str, value.shape, value.tobytes()
        if isinstance(value, tuple | frozenset):
            fingerprints = [self._of_value(item, code) for item in value]
            return fingerprints if isinstance(value, tuple) else sorted(map(repr, fingerprints))
        return (
            repr(value) if isinstance(value, _CONSTANTS) else getattr(value, "__qualname__", type(value).__qualname__)
        )


#: Constants that compiled code may have, told by how they are written.
_CONSTANTS = (bool, int, float, complex, str, bytes, np.generic, type(None))
_PACKAGE = f"{__name__.partition('.')[0]}."
_fingerprints = _Fingerprints()


@lru_cache(1)
def _intrinsics_stamp() -> str:
    from . import intrinsics

    return hashlib.sha256(Path(intrinsics.__file__).read_bytes()).hexdigest()
