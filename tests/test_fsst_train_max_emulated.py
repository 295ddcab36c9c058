"""The kernels of fsst_train_max.cu, emulated under the sanitizers, against what the CPU trains for ``level="max"``."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from cudf_fsst.codecs.fsst import kernel_tables, launch, train_max
from cudf_fsst.codecs.fsst.launch import TableSearchView
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.fsst.train import train_table
from cudf_fsst.codecs.fsst.train_max import in_order, train_table_max
from cudf_fsst.codecs.text import plan
from cudf_fsst.codecs.text.views import WORD, ScopeView
from cudf_fsst.codecs.text.views import words as view_words
from emulation.conftest import emulator
from emulation.emulator import SCHEDULES, Emulator
from fsst_gpu import found_segments
from handmade import noise, words

__all__ = ["emulator"]

WHOLE = plan.SAMPLE_CHUNK * plan.SAMPLE_CHUNKS["max"]


def sample(chars: bytes, level: str, draw: int = 0) -> tuple[np.ndarray, np.ndarray]:
    starts, length = plan.sample_positions(0, len(chars), level, draw)
    chunks = [chars[start : start + length] for start in starts.tolist()]
    sizes = np.array([0, *map(len, chunks)], np.int64)
    return np.frombuffer(b"".join(chunks), np.uint8), np.cumsum(sizes)[:-1]


def on_cpu(chars: bytes, first: SymbolTable) -> SymbolTable:
    return train_table_max(*sample(chars, "max"), first, sample(chars, "max", 1) if len(chars) > WHOLE else None)


def same_tables(emulator: Emulator, scopes: Sequence[bytes], *, per_table: int = 1, offset: int = 0) -> None:
    """Search a table for every `per_table` of `scopes`, on both sides."""
    kept = [scope for scope in scopes if scope]
    joined = [b"".join(kept[i : i + per_table]) for i in range(0, len(kept), per_table)]
    tables = max(1, -(-len(scopes) // per_table))
    joined += [b""] * (tables - len(joined))
    firsts = [train_table(*sample(chars, "default")) for chars in joined]
    chars, found = found_segments(emulator, scopes, offset)
    trained = np.zeros(tables, kernel_tables.TRAINED_TABLE)
    for table, first in zip(trained, firsts, strict=True):
        table["symbols"], table["lengths"], table["count"] = first.decode_symbols, first.decode_lengths, len(first)
    exported = emulator.buffer(trained)
    room = emulator.buffer(tables * launch.SEARCH_NBYTES)
    scope_views = emulator.buffer(
        view_words(ScopeView(found.address, len(scopes), per_table * i, per_table, 0) for i in range(tables))
    )
    views = view_words(
        TableSearchView(
            scope_views.address + WORD * len(ScopeView._fields) * i,
            exported.address + kernel_tables.TRAINED_TABLE.itemsize * i,
            room.address + launch.SEARCH_NBYTES * i,
        )
        for i in range(tables)
    )
    module = emulator.load("fsst_train_max.cu", {k: f"{value}u" for k, value in launch.train_max_defines().items()})
    for step in launch.search_steps(tables, max(map(len, joined)), train_max.ROUNDS):
        module.launch(step.kernel, step.grid, step.threads, (views, *step.arguments))
    result = exported.read(np.uint8).view(kernel_tables.TRAINED_TABLE)
    for table, text, first in zip(result, joined, firsts, strict=True):
        count = int(table["count"])
        found_table = in_order(table["symbols"][:count], table["lengths"][:count])
        assert found_table == on_cpu(text, first)
        assert SymbolTable.from_symbols(found_table.symbols) == found_table
    for buffer in (chars, found, exported, room, scope_views):
        buffer.free()


CASES = {
    "no characters": b"",
    "one byte": b"x",
    "two bytes": b"\0\0",
    "text": words(1, 9000),
    "a stretch and a byte": words(4, train_max.STRETCH + 1),
    "noise": noise(6000),
    "noise of 16 values": noise(6000, 16),
    "zeros": bytes(5000),
    "zeros and ones": noise(4097, 2),
    "0x00 and 0xff": bytes(255 * b for b in noise(3000, 2)),
    "ties": "".join(
        random.Random(3).sample(["".join(word) for word in itertools.product("abcd", repeat=4)], 256)
    ).encode(),
    "every byte in turn": bytes(range(256)) * 24,
    "numbers": "".join(map(str, range(2000))).encode(),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str, emulator: Emulator) -> None:
    same_tables(emulator, [CASES[name]])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_scopes_and_schedules(schedule: str, emulator: Emulator) -> None:
    """Several scopes in one launch, some of several segments or of none; the order of threads changes nothing."""
    emulator.schedule = schedule
    scopes = [b"", words(5, 3001), b"", noise(777, 3), b"ab", words(6, 500), words(7, 700)]
    same_tables(emulator, scopes, per_table=2, offset=3)


def test_drawn_samples(emulator: Emulator) -> None:
    """Of more characters than a sample has; a part is a quarter of it then."""
    same_tables(emulator, [words(8, WHOLE + 20_000)], offset=1)


def test_too_many_strings(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then none joins; they are counted, whatever the order."""
    text = words(9, 4000)
    with_all = on_cpu(text, SymbolTable(()))
    monkeypatch.setattr(train_max, "MOST_STRINGS", 300)
    assert on_cpu(text, SymbolTable(())) != with_all
    same_tables(emulator, [text])
