"""Fixtures of the tests that run kernels without a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from . import build
from .emulator import Emulator


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    """A fresh emulated device; without a host compiler the test skips, in CI it fails."""
    if build.find_compiler() is None:
        message = "no C++ compiler on this machine: emulated kernels cannot be built (set CXX, or install g++)"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    with Emulator() as device:
        yield device
