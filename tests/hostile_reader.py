"""Puts hostile files through all that reads a file: ``python tests/hostile_reader.py FIRST COUNT``.

It prints a JSON object for each case that went wrong, and at the end what all did. A crash or a hang ends the process;
the file that ``CUDF_FSST_HOSTILE_CASE`` names holds the number of the case that did it. To look at one again:
``PYTHONPATH=.:tests python tests/hostile_reader.py NUMBER 1``.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import itertools
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import typer

import cudf_fsst
import hostile
import sound_files
from cudf_fsst.cli import commands, terminal

#: What a case may take: seconds of a CPU, and of a clock, for the machine may be busy.
SECONDS, WAITING_SECONDS = 30, 300
#: Bytes while it is loaded, beside 16 times the file; bytes in all.
LOAD_NBYTES = 12 << 20
READ_NBYTES = 256 << 20
#: Nothing that is larger is decompressed.
LARGE, LARGE_ROWS = 16 << 20, 1 << 20


class WrongError(Exception):
    """An error of a kind that nobody expects, or too much memory."""


def allowed(error: BaseException) -> bool:
    """Whether an error is one of the built-in kinds that say what is wrong."""
    return type(error) in (ValueError, TypeError, UnicodeDecodeError)


class Reader:
    """Reads files in a folder and counts what comes of it."""

    def __init__(self, folder: str) -> None:
        self.path, self.other = Path(folder, "c.fsst"), Path(folder, "other.fsst")
        self.parquet = Path(folder, "c.parquet")
        self.counts: Counter[str] = Counter()

    def tried(self, what: str, function: Callable[[], Any], *also: type[Exception]) -> Any:
        """What a function gives, or None after an error that is allowed."""
        try:
            found = function()
        except Exception as error:
            if not allowed(error) and not isinstance(error, also):
                raise WrongError(f"{what}: {type(error).__module__}.{type(error).__name__}: {error}") from error
            self.counts[f"{what} refused"] += 1
            return None
        self.counts[what] += 1
        return found

    def read(self, number: int, data: bytes) -> None:
        """All that a user does with a file."""
        self.path.write_bytes(data)
        limit = LOAD_NBYTES + 16 * len(data)
        before, found = self.load()
        if memory("VmHWM:") - before > limit:  # the first call of a compiled function may compile it: once more
            before, found = self.load()
            if (took := memory("VmHWM:") - before) > limit:
                raise WrongError(f"load: took {took} bytes of a file of {len(data)}")
        if found is None:
            self.counts["refused"] += 1
            return
        if found.uncompressed_nbytes > LARGE or len(found) > LARGE_ROWS:
            self.counts["large"] += 1
            return
        frame = isinstance(found, cudf_fsst.CompressedFrame)
        (self.read_frame if frame else self.read_column)(found)
        if number % 32 == 0:
            self.command_line()
        if (took := memory("VmHWM:") - before) > READ_NBYTES:
            raise WrongError(f"took {took} bytes to read {found.uncompressed_nbytes}")

    def load(self) -> tuple[int, Any]:
        """Bytes of memory before it, and what the file holds; None where it is refused."""
        forget_peak()
        before = memory("VmRSS:")
        try:
            return before, cudf_fsst.load(self.path)
        except ValueError as error:
            if not allowed(error) or not str(error).startswith(f"{self.path}: "):
                raise WrongError(f"load: {type(error).__name__}: {error}") from error
            return before, None

    def read_frame(self, found: Any) -> None:
        try:
            list(map(str, found.columns))
        except (OverflowError, NotImplementedError):  # pandas has no text for times in years that Python does not have
            self.counts["labels without a text"] += 1
            return
        any_error(lambda: repr(found))
        table = self.tried("to_arrow", found.to_arrow)
        if table is not None:
            table.validate()
            any_error(table.to_pylist)
        any_error(lambda: looked_at(self.tried("index", lambda: found.index)))
        self.tried("dtypes", lambda: found.dtypes)
        any_error(lambda: looked_at(self.tried("decompress", found.decompress)))
        missing = NotImplementedError, pa.ArrowException  # Arrow compares texts that are none
        self.tried("frame of categories", lambda: found.decompress(categories=True), *missing)
        rows, missing = len(found), NotImplementedError  # pandas takes no labels of Arrow's string_view
        if rows:
            some = [0, rows - 1, rows // 2]
            any_error(lambda: looked_at(self.tried("rows", lambda: found.take(some), missing)))
            self.tried("a range of rows", lambda: found.iloc[rows // 3 : rows // 2 + 1], missing)
            self.tried("a mask of rows", lambda: found.filter(np.arange(rows) % 7 == 0), missing)
        for place, label in enumerate(found.columns[:3]):
            if is_at(found.columns, label, place):
                any_error(lambda label=label: looked_at(self.tried("a column", lambda: found[label])))
        self.again(found)

    def read_column(self, found: Any) -> None:
        rows = len(found)
        # Python has no number for some dates and durations: pandas' own Series raises that, too.
        unsaid = () if found._is_text else (OverflowError,)
        any_error(lambda: looked_at(self.tried("index", lambda: found.index)))
        any_error(lambda: looked_at(self.tried("decompress", found.decompress)))
        if rows:
            some = [0, rows - 1, rows // 2]
            missing = NotImplementedError  # pandas takes no labels of Arrow's string_view
            self.tried("take", lambda: found.take(some), missing)
            self.tried("a row", lambda: found[rows - 1], *unsaid)
            self.tried("a slice", lambda: found[rows // 3 : rows // 2 + 1], missing)
            self.tried("a mask", lambda: found.filter(np.arange(rows) % 7 == 0), missing)
        self.tried("iteration", lambda: list(itertools.islice(found, 50)), *unsaid)
        self.tried("map_chunks", lambda: found.map_chunks(len, chunk_bytes=1000), NotImplementedError)
        self.tried("to_arrow", found.to_arrow)
        # pandas takes no labels of Arrow's string_view; values that are no strings have no methods of strings.
        missing = (NotImplementedError,) if found._is_text else (NotImplementedError, AttributeError)
        self.tried("contains", lambda: found.str.contains("e", regex=False), *missing)
        self.tried("like", lambda: found.str.like("%a%e%"), *missing)
        self.tried("len", lambda: found.str.len(), *missing)
        # To compare lists, pandas makes Python strings of the bytes in them.
        self.tried("equal", lambda: found == "a", *missing, *unsaid, *(() if found._is_text else (pa.ArrowException,)))
        self.tried("isna", found.isna, NotImplementedError)
        if found._content.node.coded:
            self.tried("categories", found.to_categorical, NotImplementedError)
            self.tried("unique", found.unique)
            self.tried("counts", lambda: found.value_counts(dropna=False))
        self.again(found)

    def again(self, found: Any) -> None:
        """What was loaded can be saved, and loaded again."""
        if self.tried("save", lambda: found.save(self.other) or True):
            assert len(cudf_fsst.load(self.other)) == len(found)

    def command_line(self) -> None:
        for command in (
            lambda: commands.inspect([self.path], symbols=True),
            lambda: commands.inspect([self.path], check=True),
            lambda: commands.decompress([self.path], output=self.parquet, force=True),
        ):
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    command()
            except typer.Exit:
                self.counts["command refused"] += 1
            else:
                self.counts["command"] += 1


def is_at(labels: Any, label: Any, place: int) -> bool:
    """Whether a label is one column's, this one's; lists and structs are nobody's."""
    try:
        return bool((labels == label).sum() == 1 and labels.get_loc(label) == place)
    except (TypeError, KeyError, ValueError, NotImplementedError, pd.errors.InvalidIndexError):
        return False


def looked_at(found: Any) -> None:
    """Take some values out of what was decompressed."""
    if found is None:
        return
    columns = [found[label] for label in found.columns] if isinstance(found, pd.DataFrame) else [found]
    for column in columns:
        list(itertools.islice(column, 20))
        str(column[-5:])


def any_error(function: Callable[[], Any]) -> None:
    """What pandas and Arrow make of odd values is theirs, but not what `Reader.tried` found; a crash is nobody's."""
    try:
        function()
    except WrongError:
        raise
    except Exception:
        pass


def memory(line: str) -> int:
    """Bytes that this process has in memory (``VmRSS:``), or at most had since `forget_peak` (``VmHWM:``)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(found.split()[1]) for found in lines if found.startswith(line))


def forget_peak() -> None:
    """From here on a new peak counts."""
    Path("/proc/self/clear_refs").write_text("5")


def main(first: int, count: int) -> int:
    warnings.simplefilter("ignore")
    faulthandler.enable()
    terminal.out.file = terminal.err.file = io.StringIO()
    note = os.environ.get("CUDF_FSST_HOSTILE_CASE")
    failures = 0
    # A hang ends the process by a signal: a thread that watches would have to be started and joined for every case.
    for number in (signal.SIGALRM, signal.SIGPROF):
        faulthandler.register(number, chain=True)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(os, "fsync"))  # waits for the disk, which is not what is tested
        place = stack.enter_context(open(note, "wb", buffering=0)) if note else None
        reader = Reader(folder)
        for name, data in sound_files.subjects():  # what is compiled and imported for them does not count
            reader.read(0, data)
            if not reader.counts:
                raise AssertionError(f"{name} is not sound")
        reader.counts.clear()
        limit = memory("VmRSS:") + (4 << 30)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        for number in range(first, first + count):
            name, data = hostile.hostile(number)
            if place is not None:
                os.pwrite(place.fileno(), f"{number:20} {name:60}".encode(), 0)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.alarm(WAITING_SECONDS)
            try:
                reader.read(number, data)
            except BaseException as error:
                failures += 1
                text = "".join(traceback.format_exception(error))
                print(json.dumps({"case": number, "of": name, "error": str(error) or repr(error), "trace": text}))
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
    print(json.dumps({"counts": reader.counts}))
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
