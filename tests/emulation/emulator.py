"""A CUDA device in a process of its own, on the host and under the sanitizers: memory, and launches of kernels."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from array import array as Words
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from . import build

#: Orders in which the blocks of a grid, and the threads of a block between barriers, may run.
SCHEDULES = ("forward", "reverse", "random")

Dim = int | Sequence[int]


class EmulatorError(Exception):
    """A launch that CUDA would refuse too: unknown kernel, wrong arguments, a block that is too big."""


class SanitizerError(AssertionError):
    """A kernel did something undefined; the message is the sanitizer's (or the shim's) report."""


class Buffer:
    """Device memory of exactly `nbytes`; what was not written is garbage."""

    def __init__(self, emulator: Emulator, address: int, nbytes: int) -> None:
        self._emulator = emulator
        self.address = address
        self.nbytes = nbytes

    def write(self, data: npt.NDArray[Any]) -> None:
        data = np.ascontiguousarray(data)
        assert data.nbytes == self.nbytes, f"{data.nbytes} bytes for a buffer of {self.nbytes}"
        self._emulator.write(self.address, data.tobytes())

    def read(self, dtype: npt.DTypeLike = np.uint8) -> npt.NDArray[Any]:
        return np.frombuffer(bytearray(self._emulator.read(self.address, self.nbytes)), dtype)

    def free(self) -> None:
        self._emulator.free(self.address)


class Module:
    """The kernels of one source file, compiled with one set of defines."""

    def __init__(self, emulator: Emulator, number: int) -> None:
        self._emulator = emulator
        self._number = number

    def launch(
        self,
        kernel: str,
        grid: Dim,
        block: Dim,
        arguments: Sequence[Any],
        *,
        shared_mem: int = 0,
        together: bool = False,
        schedule: str | None = None,
        seed: int | None = None,
    ) -> None:
        """Run a grid to its end.

        Parameters
        ----------
        arguments
            `numpy.ndarray` (C-contiguous): becomes a buffer of exactly its size for this launch and holds the
            results afterwards; `Buffer`; None (a null pointer); a numpy scalar of the parameter's size; or an int of
            64 bits.
            Addresses inside structures are those of a `Buffer`. An `array.array` of words is an array.
        together
            Whether all blocks run at the same time (a cooperative launch), else one after another.
        schedule, seed
            One of `SCHEDULES`; default: the emulator's.

        Raises
        ------
        SanitizerError
            If a thread does something undefined. The emulator has ended then, all buffers are gone.
        EmulatorError
            If the launch does not fit the kernel.
        """
        emulator = self._emulator
        buffers: dict[int, tuple[npt.NDArray[Any], Buffer]] = {}
        packed: list[bytes] = []
        try:
            for argument in arguments:
                if isinstance(argument, Words):
                    argument = np.frombuffer(argument, np.uint64)
                if isinstance(argument, np.ndarray):
                    assert argument.flags.c_contiguous, "arrays must be C-contiguous"
                    if id(argument) not in buffers:
                        buffers[id(argument)] = argument, emulator.buffer(argument)
                    argument = buffers[id(argument)][1]
                if argument is None or isinstance(argument, Buffer):
                    packed.append(b"8 p\n" + np.uint64(0 if argument is None else argument.address).tobytes())
                elif isinstance(argument, np.generic | int):
                    argument = np.uint64(argument) if isinstance(argument, int) else argument
                    packed.append(f"{argument.nbytes} s\n".encode() + argument.tobytes())
                else:
                    raise TypeError(f"not an array, a Buffer or a numpy scalar: {argument!r}")
            header = [
                *("launch", self._number, kernel, *_three(grid), *_three(block), shared_mem),
                *(
                    SCHEDULES.index(schedule or emulator.schedule),
                    emulator.seed if seed is None else seed,
                    int(together),
                    len(packed),
                ),
            ]
            emulator.command(" ".join(map(str, header)), b"".join(packed))
            for array, buffer in buffers.values():
                if array.flags.writeable:
                    array[...] = buffer.read(array.dtype).reshape(array.shape)
        finally:
            if emulator.alive:
                for _, buffer in buffers.values():
                    buffer.free()


class Emulator:
    """A process that holds device memory and runs kernels in it.

    Parameters
    ----------
    schedule, seed
        Defaults of `Module.launch`; `seed` also decides what unwritten memory holds.
    timeout
        Seconds a launch may take; a kernel that waits for memory to change may never end.
    """

    def __init__(self, *, schedule: str = "forward", seed: int = 1, timeout: float = 120) -> None:
        self.schedule = schedule
        self.seed = seed
        self.timeout = timeout
        self._allocations = 0
        self._modules: dict[Path, Module] = {}
        self._received = bytearray()  # answers, as far as nobody took them
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the emulator
        environment = dict(os.environ)
        environment["ASAN_OPTIONS"] = (
            "detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1:detect_stack_use_after_return=0"
        )
        environment["UBSAN_OPTIONS"] = "print_stacktrace=1"
        self._process = subprocess.Popen(
            [build.build_runner()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            bufsize=0,
            env=environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End the process; harmless when it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._stderr.close()

    # -- modules and memory

    def load(
        self,
        source: str | Path,
        defines: Mapping[str, object] | None = None,
        includes: Sequence[Path] = (build.KERNELS,),
    ) -> Module:
        """The kernels of `source`, a path or the name of a file in ``kernels/`` (see `build.build_module`)."""
        library = build.build_module(build.KERNELS / source, defines, includes)
        if library not in self._modules:
            self._modules[library] = Module(self, int(self.command(f"load {library}")))
        return self._modules[library]

    def buffer(self, content: npt.NDArray[Any] | Words[int] | int, *, offset: int = 0) -> Buffer:
        """Memory for an array, with its content, or for a number of bytes, with garbage.

        `offset` is the address modulo 256; 0 is what CUDA allocators give.
        """
        if isinstance(content, Words):
            content = np.frombuffer(content, np.uint64)
        nbytes = content if isinstance(content, int) else content.nbytes
        self._allocations += 1
        address = self.command(f"allocate {nbytes} {offset} {self.seed + self._allocations}")
        buffer = Buffer(self, int(address), nbytes)
        if not isinstance(content, int):
            buffer.write(content)
        return buffer

    def write(self, address: int, data: bytes) -> None:
        self.command(f"write {address} {len(data)}", data)

    def read(self, address: int, nbytes: int) -> bytes:
        self.command(f"read {address} {nbytes}")
        return self._receive(nbytes)

    def free(self, address: int) -> None:
        self.command(f"free {address}")

    # -- the pipes to the process (the commands are listed in runner.cpp)

    def command(self, line: str, payload: bytes = b"") -> str:
        """Send a command, return what follows "ok" in the answer."""
        assert self._process.stdin is not None
        data = memoryview(line.encode() + b"\n" + payload)
        try:
            while data:
                data = data[self._process.stdin.write(data) :]
        except BrokenPipeError:
            raise self._report() from None
        end = time.monotonic() + self.timeout
        while (length := self._received.find(b"\n") + 1) == 0:
            self._receive_some(end)
        word, _, rest = self._take(length)[:-1].decode().partition(" ")
        if word != "ok":
            raise EmulatorError(rest)
        return rest

    def _receive(self, nbytes: int) -> bytes:
        end = time.monotonic() + self.timeout
        while len(self._received) < nbytes:
            self._receive_some(end)
        return self._take(nbytes)

    def _take(self, nbytes: int) -> bytes:
        taken = bytes(self._received[:nbytes])
        del self._received[:nbytes]
        return taken

    def _receive_some(self, end: float) -> None:
        """Add what the process has sent to what waits to be taken."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            self._process.kill()
            raise SanitizerError(f"no answer for {self.timeout} s: an endless loop?\n{self._report()}")
        piece = self._process.stdout.read(1 << 16)
        if not piece:
            raise self._report()
        self._received += piece

    def _report(self) -> SanitizerError:
        code = self._process.wait()
        self._stderr.seek(0)
        return SanitizerError(f"exit code {code}\n{self._stderr.read().decode(errors='replace')}")


def _three(dim: Dim) -> tuple[int, int, int]:
    x, y, z = (*((dim,) if isinstance(dim, int) else dim), 1, 1)[:3]
    return int(x), int(y), int(z)
