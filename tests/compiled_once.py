"""Kernels of the CPU, compiled once by all processes of a test run: one compiles, the others wait for it."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from numba.core.compiler_lock import global_compiler_lock

from cudf_fsst import compile_ahead
from cudf_fsst.codecs import compiled


@contextmanager
def compiled_once(folder: Path) -> Iterator[None]:
    """Meanwhile; `folder` is one for all processes, which begin with a share of all kernels each."""
    make, held = compiled.compiled, set()

    def shared(function: Callable[..., Any], options: dict[str, Any], told: str) -> Any:
        made = make(function, options, told)
        compile_one = made.compile

        def once(signature: Any) -> Any:
            # One thread at a time, in the order of calls: kernels that wait for each other call none in a circle.
            with global_compiler_lock, open(folder / told, "w") as lock:
                if told in held:
                    return compile_one(signature)
                fcntl.flock(lock, fcntl.LOCK_EX)
                held.add(told)
                try:
                    return compile_one(signature)
                finally:
                    held.discard(told)

        made.compile = once
        return made

    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "compiled", shared)
        for part in compile_ahead.PARTS:
            try:
                (folder / part.__name__).touch(exist_ok=False)
            except FileExistsError:
                continue  # another process has it
            part()
        yield
