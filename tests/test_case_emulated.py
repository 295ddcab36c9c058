"""ASCII letters in the other case: what the host's loop and the real kernel on the emulated GPU make of any bytes."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

from cudf_fsst.codecs.text import cpu_case
from emulation.conftest import emulator
from emulation.device import FakeDevice, emulated
from emulation.emulator import Emulator

__all__ = ["emulator"]

#: Which letters change, and what Python does with them.
CHANGES = {(True, False): bytes.upper, (False, True): bytes.lower, (True, True): bytes.swapcase}
EVERY = bytes(range(256))


@pytest.mark.parametrize("changes", CHANGES)
def test_on_the_host(changes: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunk by chunk."""
    monkeypatch.setattr(cpu_case, "_CHUNK_NBYTES", 100)
    for text in (b"", EVERY[:128], EVERY, EVERY[::-1]):
        chars = np.frombuffer(text, np.uint8).copy()
        assert cpu_case.change(chars, small=changes[0], large=changes[1]) == text.isascii()
        assert chars.tobytes() == CHANGES[changes](text)


@pytest.mark.parametrize("changes", CHANGES)
def test_on_the_gpu(changes: tuple[bool, bool], emulator: Emulator) -> None:
    """From any byte of the memory on, of any size; nothing outside is written."""
    with emulated(FakeDevice(emulator), "raw"):
        change = importlib.import_module("cudf_fsst.codecs.text.cuda_case").change
        from cudf_fsst.device.memory import Lane

        for offset, text in enumerate(
            [b"", b"q", EVERY[:128], EVERY[60:200], EVERY, EVERY[64:91], 70 * EVERY[:128], EVERY[97:123], b"\xc3\xa9aB"]
        ):
            buffer = emulator.buffer(np.frombuffer(text, np.uint8), offset=offset)
            strings = SimpleNamespace(chars=buffer.address, owners=(None, SimpleNamespace(size=len(text))))
            with Lane() as lane:
                assert change(strings, small=changes[0], large=changes[1], lane=lane)() == text.isascii()
            assert emulator.read(buffer.address, len(text)) == CHANGES[changes](text)
