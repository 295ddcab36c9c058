"""Large buffers to and from files: by KvikIO, in parallel, where it is installed, else as files always are.

KvikIO uses GPUDirect Storage where the system has it. Whatever it cannot do is done the plain way, whose errors are the
built-in ones: nothing depends on it but speed.
"""

from __future__ import annotations

from functools import cache
from io import BufferedReader, BufferedWriter
from typing import Any

import numpy as np
import numpy.typing as npt

#: Buffers of fewer bytes go the plain way.
LARGE = 16 << 20


@cache
def kvikio() -> Any:
    """The KvikIO module; None where it is not installed or does not find the driver's libraries."""
    try:
        import kvikio
    except Exception:  # its shared libraries raise errors of their own kinds
        return None
    return kvikio


def _opened(path: str, flags: str) -> Any:
    library = kvikio()
    if library is None:
        return None
    try:
        return library.CuFile(path, flags)
    except Exception:  # a file system that it cannot work on
        return None


class Writer:
    """Write pieces one after another to a file that was just made; they are all written when `finish` returns.

    Pieces must not change until then.
    """

    def __init__(self, file: BufferedWriter, path: str) -> None:
        self._file, self._path = file, path
        self._parallel: Any = None
        self._waiting: list[tuple[Any, int, npt.NDArray[np.uint8]]] = []

    def write(self, piece: Any) -> None:
        """Append a piece."""
        if memoryview(piece).nbytes < LARGE or kvikio() is None:
            self._file.write(piece)
            return
        array = np.frombuffer(piece, np.uint8)
        self._file.flush()
        offset = self._file.tell()
        if self._parallel is None:
            self._parallel = _opened(self._path, "r+") or False
        try:
            future = self._parallel.pwrite(array, file_offset=offset) if self._parallel else None
        except Exception:  # without the driver's library it opens files, but neither reads nor writes them
            future = None
        if future is None:
            self._file.write(piece)
            return
        self._waiting.append((future, offset, array))
        self._file.seek(offset + array.size)

    def finish(self) -> None:
        """Wait for what is under way; what did not arrive whole is written the plain way."""
        try:
            for future, offset, array in self._waiting:
                try:
                    written = future.get()
                except Exception:  # its own kinds of errors; the plain way says what is wrong
                    written = 0
                if written != array.size:
                    self._file.seek(offset)
                    self._file.write(array)
        finally:
            self._waiting.clear()
            if self._parallel:
                self._parallel.close()


class Reader:
    """Read pieces of a file one after another into new arrays."""

    def __init__(self, file: BufferedReader, path: str) -> None:
        self._file, self._path = file, path
        self._parallel: Any = None

    def read(self, nbytes: int) -> npt.NDArray[np.uint8]:
        """The next bytes; fewer only where the file ends."""
        content = np.empty(nbytes, np.uint8)
        if nbytes >= LARGE and self._read_parallel(content):
            return content
        view = memoryview(content)
        got = 0
        while got < nbytes:
            count = self._file.readinto(view[got:])
            if not count:
                break
            got += count
        return content[:got]

    def _read_parallel(self, content: npt.NDArray[np.uint8]) -> bool:
        if self._parallel is None:
            self._parallel = _opened(self._path, "r") or False
        if not self._parallel:
            return False
        offset = self._file.tell()
        try:
            done = self._parallel.pread(content, file_offset=offset).get() == content.size
        except Exception:  # its own kinds of errors; the plain way says what is wrong
            return False
        if done:
            self._file.seek(offset + content.size)
        return bool(done)

    def close(self) -> None:
        """Let go of what `read` opened."""
        if self._parallel:
            self._parallel.close()
