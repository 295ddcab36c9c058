"""Stages of calls as a profiler shows them: NVTX ranges in the domain ``cudf_fsst``.

The package `nvtx`, which comes with cuDF, is used where it can be imported. A stage takes 0.3 us where no profiler
looks. Ranges of a thread have to end in the order in which they are nested, so none may be open where a generator
yields.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


@cache
def _domain() -> Any:
    """The domain of ranges in `nvtx`; None without that package, or without a profiler."""
    try:
        import nvtx
    except ImportError:
        return None
    domain = nvtx.get_domain("cudf_fsst")
    return None if type(domain).__name__ == "DummyDomain" else domain


class Stage:
    """A stage by its name: a context, or what makes a function one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._attributes: Any = None

    def __enter__(self) -> None:
        domain = _domain()
        if domain is not None:
            if self._attributes is None:
                self._attributes = domain.get_event_attributes(message=self._name)
            domain.push_range(self._attributes)

    def __exit__(self, *_: object) -> None:
        domain = _domain()
        if domain is not None:
            domain.pop_range()

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Make a function a stage."""

        @wraps(function)
        def inner(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if _domain() is None:
                return function(*args, **kwargs)
            with self:
                return function(*args, **kwargs)

        return inner


#: Buffers of what is to be compressed are found.
DESCRIBE = Stage("describe")
#: Codecs are tried on a sample, rows are counted, symbol tables are trained.
MEASURE = Stage("measure")
ENCODE = Stage("encode")
#: Codes go to their place in the result.
COMPACT = Stage("compact")
DECODE = Stage("decode")
#: A question is answered on the codes.
MATCH = Stage("match")
