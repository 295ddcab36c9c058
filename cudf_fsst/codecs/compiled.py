"""What `jit.njit` makes with Numba, which takes long to import.

What was compiled is kept on disk. Numba's own files for that can be mixed up by processes that compile one function for
several types at the same time: each takes the first free number for its file, and the index of one then leads to the
code of another, which reads its arguments as what they are not. Here a file's name says what is in it.

The first call of a process that has to compile says so (`notices.tell`). All kernels together take half a minute of one
core, evenly spread over some hundred functions (`compile_ahead` compiles them all). Numba has one lock for all threads.
Other processes that compiled the kernels of later calls meanwhile lost: on two cores a job of eleven calls took 40 s
with one of them and 28 s without, as its own next call needed what that one had not reached yet.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, event, types

from ..notices import tell
from . import intrinsics

__all__ = ["compiled", "intrinsics"]

#: Seconds of compiling after which a process says so.
_LONG = 0.5


class _DataFile(caching.IndexDataCacheFile):
    """An index, and a data file for each of its keys whose name is made of all that decides what is in it."""

    def save(self, key: Any, data: Any) -> None:
        # Data first: whoever finds it in the index can read it. Of two indexes that are written at the same time one
        # is lost, and a later process compiles some of it again.
        name = self._name_of(key)
        overloads = self._load_index()
        if not overloads:  # what there is was compiled of another source
            for old in Path(self._cache_path).glob(f"{escape(self._base)}*.nbc"):
                old.unlink(missing_ok=True)
        self._save_data(name, data)
        overloads = self._load_index()
        overloads[key] = name
        self._save_index(overloads)

    def _name_of(self, key: Any) -> str:
        text = repr((self._version, self._source_stamp, key))
        return f"{self._base}{hashlib.sha256(text.encode()).hexdigest()[:16]}.nbc"

    @property
    def _base(self) -> str:
        return str(self._index_name.removesuffix("nbi"))


class _Cache(caching.FunctionCache):
    def __init__(self, function: Callable[..., Any], fingerprint: str) -> None:
        super().__init__(function)
        self._fingerprint = fingerprint
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file: Any = _DataFile(self._cache_path, self._impl.filename_base, stamp)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        # Numba would pickle what a function made in another refers to, and look at nothing that its file imports.
        # The last one tells it from what was kept before functions had a name of their own for the linker.
        return sig, codegen.magic_tuple(), self._fingerprint, "linked by what it is made of"


def compiled(function: Callable[..., Any], options: dict[str, Any], fingerprint: str) -> Any:
    """Numba's function, which is compiled when it is called; kept where there is a place for it.

    `fingerprint` says what the compiled code is made of: kept is what was compiled of the same.
    """
    cache = None
    with suppress(RuntimeError):  # neither the package's folder nor the user's cache can be written
        cache = _Cache(function, fingerprint)
    # The linker goes by names. Numba's have a number for each function of a process: two functions of one name that two
    # processes compiled may have the same, and then a third process that loads both would run one of them as both.
    function.__qualname__ += f".{fingerprint[:32]}"
    dispatcher = numba.njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
    if cache is not None:
        dispatcher._cache = cache
    of_types = dispatcher.get_call_template

    def of_no_values(args: Any, kws: Any) -> Any:
        """Numba would compile a function for each constant that it is called with, too."""
        return of_types(tuple(map(types.unliteral, args)), {name: types.unliteral(kind) for name, kind in kws.items()})

    dispatcher.get_call_template = of_no_values
    return dispatcher


class _Waiting(event.Listener):
    """Counts the time that functions of this package take to compile. Numba has a lock: one thread compiles at once."""

    def __init__(self) -> None:
        self._depth = 0
        self._start = self._seconds = 0.0
        self._notified = self._has_cache = False

    def on_start(self, compilation: Any) -> None:
        if self._depth == 0 and _is_ours(compilation):
            self._start = time.perf_counter()
            self._has_cache = isinstance(getattr(compilation.data["dispatcher"], "_cache", None), caching.Cache)
            self._depth = 1
        elif self._depth:  # functions that it calls are compiled meanwhile
            self._depth += 1

    def on_end(self, compilation: Any) -> None:
        if self._depth == 0:
            return
        self._depth -= 1
        seconds = self._seconds + time.perf_counter() - self._start
        if self._depth == 0:
            self._seconds = seconds
        if seconds > _LONG and not self._notified:
            self._notified = True
            if not self._has_cache:
                tell("compiling for the CPU, which takes some seconds in every process: see NUMBA_CACHE_DIR")
            elif _is_first():
                tell("compiling for the CPU, once: some 5 s for a first call, half a minute for all kinds of calls")
            else:
                tell("compiling for the CPU what no call needed before")


def _is_first() -> bool:
    """Whether no process has told the user of compiling before; notes it in a file beside the compiled code."""
    cache = _Cache(_is_first, "")
    with suppress(OSError):
        cache._impl.locator.ensure_cache_path()
        Path(cache.cache_path, "cudf_fsst.told").touch(exist_ok=False)
        return True
    return False


def _is_ours(compilation: Any) -> bool:
    function = getattr(compilation.data["dispatcher"], "py_func", None)
    return getattr(function, "__module__", "").startswith(f"{__package__}.")


event.register("numba:compile", _Waiting())
