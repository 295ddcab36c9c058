"""Tables of the training kernels without running them, which took most of the time of the emulated tests.

What `fsst_train` and `fsst_train_cluster` write is a function of the characters that they read, and
`test_fsst_train_emulated` compares it with the training on the CPU. Where a test is not about training, what would run
the kernel reads those characters from the emulated GPU, trains on the CPU, and writes the tables, at the same place in
the stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from cudf_fsst.codecs.fsst import kernel_tables, launch
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.fsst.train import train_table
from cudf_fsst.codecs.text import plan
from cudf_fsst.codecs.text.views import ScopeView, count_places

from .emulator import Emulator

#: Kernel: how many blocks train a table.
KERNELS = {"fsst_train": 1, "fsst_train_cluster": launch.TRAIN_CLUSTER}

_on_host = False


def on_host() -> bool:
    """Whether tables are trained on the CPU."""
    return _on_host


@contextmanager
def training_on_host(wanted: bool) -> Iterator[None]:
    """Train tables on the CPU meanwhile, or by the kernels."""
    global _on_host
    before, _on_host = _on_host, wanted
    try:
        yield
    finally:
        _on_host = before


def table_of(chars: bytes) -> SymbolTable:
    """The table of a scope with these characters."""
    starts, length = plan.sample_positions(0, len(chars))
    chunks = [chars[start : start + length] for start in starts.tolist()]
    sizes = np.array([0, *map(len, chunks)], np.int64)
    return train_table(np.frombuffer(b"".join(chunks), np.uint8), np.cumsum(sizes)[:-1])


def train(emulator: Emulator, kernel: str, blocks: int, arguments: Sequence[np.generic]) -> None:
    """Write what a launch of `kernel` with these arguments would write of tables."""
    scopes_at, tables_at, exported_at = (int(arguments[i]) for i in (0, -2, -1))
    count = blocks // KERNELS[kernel]
    data = emulator.read(scopes_at, 8 * len(ScopeView._fields) * count)
    views = np.frombuffer(data, np.uint64).reshape(count, -1).tolist()
    for number, view in enumerate(views):
        scope = ScopeView(*view)
        table = table_of(_characters(emulator, scope))
        tables = kernel_tables.encode_tables(table, bool(scope.tables_form))
        emulator.write(tables_at + kernel_tables.ENCODE_TABLES_NBYTES * number, tables.tobytes())
        at = exported_at + kernel_tables.TRAINED_TABLE.itemsize * number
        lengths = bytes(map(len, table.symbols))
        parts = {"symbols": b"".join(one.ljust(8, b"\0") for one in table.symbols), "lengths": lengths}
        for name, part in (parts | {"count": len(lengths).to_bytes(8, "little")}).items():
            fields = kernel_tables.TRAINED_TABLE.fields
            assert fields is not None
            emulator.write(at + fields[name][1], part)


def _characters(emulator: Emulator, scope: ScopeView) -> bytes:
    """All characters of the segments with rows that the scope has."""
    places = count_places(0, scope.segments)
    numbers = np.frombuffer(emulator.read(scope.found, 8 * places.end), np.int64)
    rows, chars = (numbers[begin : begin + scope.segments + 1] for begin in (places.rows_begin, places.chars_begin))
    segments = np.flatnonzero(rows[:-1] < rows[1:])[scope.first : scope.first + scope.most]
    if segments.size == 0:
        return b""
    start, stop = int(chars[segments[0]]), int(chars[segments[-1] + 1])
    return emulator.read(int(numbers[places.first_char]) + start, stop - start)
