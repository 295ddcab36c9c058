"""CUDA C++ sources and their compilation (NVRTC through CuPy, cached on disk by CuPy)."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

#: Options every kernel is compiled with, beside the constants of its codec.
OPTIONS = ("-std=c++17",)

_INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)
_lock = threading.Lock()
_modules: dict[tuple[str, tuple[str, ...]], Any] = {}


@cache
def folder() -> Path:
    """Where the sources lie: inside the package when installed, beside it in a source tree."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "kernels"
    return installed if installed.is_dir() else package.parent / "kernels"


@cache
def source(name: str) -> str:
    """Full text of ``kernels/<name>.cu``, own headers inlined (CuPy's cache does not look into included files)."""
    text = (folder() / f"{name}.cu").read_text()
    return _INCLUDE.sub(lambda match: (folder() / match[1]).read_text(), text)


def options(defines: Mapping[str, int]) -> tuple[str, ...]:
    """Compiler options with the constants that host and device share."""
    return (*OPTIONS, *(f"-D{name}={value}u" for name, value in sorted(defines.items())))


def kernel(file: str, name: str, defines: Mapping[str, int]) -> Any:
    """A `cupy.RawKernel`, compiled for the current device on first launch.

    Parameters
    ----------
    file
        Name of the source in ``kernels/``, without its ending.
    name
        The kernel's name.
    defines
        Constants shared with the host.
    """
    key = (file, options(defines))
    module = _modules.get(key)
    if module is None:
        with _lock:
            module = _modules.get(key)
            if module is None:
                import cupy

                module = _modules[key] = cupy.RawModule(code=source(file), options=key[1])
    return module.get_function(name)
