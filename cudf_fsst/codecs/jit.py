"""Numba's `njit`, as all kernels use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that runs without the GIL, and keep what was compiled where there is a place for it."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(nogil=True, cache=True, **options)(function)
        except RuntimeError:  # neither the package's folder nor the user's cache can be written
            return numba.njit(nogil=True, **options)(function)

    return decorate
