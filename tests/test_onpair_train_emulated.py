"""OnPair's training on an emulated GPU, under the sanitizers: the same tables as on the host."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from cudf_fsst.codecs.onpair import launch, plan, prefixes
from cudf_fsst.codecs.onpair.symbols import OnPairTable
from cudf_fsst.codecs.onpair.train import train_table
from cudf_fsst.codecs.text.views import ScopeView, count_places, words
from emulation.conftest import emulator
from emulation.emulator import SCHEDULES, Buffer, Emulator
from onpair_cases import KINDS, text

__all__ = ["emulator"]


def _train(
    emulator: Emulator,
    scopes: list[npt.NDArray[np.uint8]],
    bits: list[int],
    level: str,
    schedule: str,
    in_shared: bool,
) -> list[OnPairTable]:
    """Tables of scopes: each is a segment of a column that has some characters before and behind it."""
    views, exported, lookups, scope_views = [], [], [], []
    kept: list[Buffer] = []
    for chars in scopes:
        column = emulator.buffer(np.concatenate([np.full(99, 7, np.uint8), chars, np.full(50, 8, np.uint8)]), offset=5)
        kept.append(column)
        places = count_places(0, 3)
        numbers = np.zeros(places.end, np.uint64)
        numbers[places.rows_begin : places.rows_begin + 4] = 0, 3, 9, 11
        numbers[places.chars_begin : places.chars_begin + 4] = 0, 99, 99 + chars.size, 149 + chars.size
        numbers[places.first_char] = column.address
        found = emulator.buffer(numbers)
        kept.append(found)
        scope_views.append(ScopeView(found.address, 3, 1, 1, 0))
    kept.append(emulator.buffer(words(scope_views)))
    scope_at = kept[-1].address
    for i, (chars, of_scope) in enumerate(zip(scopes, bits, strict=True)):
        room = launch.train_room(chars.size, level, max(bits))
        kept.append(emulator.buffer(room.nbytes))
        at = kept[-1].address
        kept += [emulator.buffer(launch.ONPAIR_TRAINED.itemsize), emulator.buffer(launch.lookup_nbytes(of_scope))]
        exported.append(kept[-2].address)
        lookups.append(kept[-1].address)
        scope = scope_at + 8 * len(ScopeView._fields) * i
        views.append(launch.train_view(room, at, scope, of_scope, level, exported[-1], lookups[-1]))
    view = emulator.buffer(words(views))
    module = emulator.load("onpair_train.cu", launch.train_defines(max(bits), in_shared))
    grid, arguments = (3, len(scopes)), [view, *launch.TRAIN_PARTS]
    how = {"shared_mem": launch.train_shared(max(bits), in_shared), "together": True, "schedule": schedule}
    module.launch("onpair_train", grid, launch.TRAIN_THREADS, arguments, **how)
    tables = []
    for at, lookup, of_scope in zip(exported, lookups, bits, strict=True):
        data = np.frombuffer(emulator.read(at, launch.ONPAIR_TRAINED.itemsize), launch.ONPAIR_TRAINED)[0]
        tables.append(launch.trained_table(data, of_scope))
        made = np.frombuffer(emulator.read(lookup, launch.lookup_nbytes(of_scope)), np.uint8)
        _same_lookup(made, tables[-1])
    return tables


def _same_lookup(made: npt.NDArray[np.uint8], table: OnPairTable) -> None:
    """Where entries lie depends on the order of threads; so do codes, of those whose symbols begin with a prefix."""
    expected, codes = launch.lookup(table), 1 << table.bits
    buckets = 16 + 8 * prefixes.BUCKETS[table.bits]
    longest = buckets + 8 * codes
    # Of each code's symbol, whether it has a prefix of a level.
    has = (np.maximum(table.lengths, 1)[:, None].astype(int) - 1 & np.array(prefixes.STEPS)) != 0
    found = []
    for one in made, expected:
        assert (one[:16] == expected[:16]).all()
        entries, symbols = one[16:buckets].view(np.uint32), one[buckets:longest].view(np.uint16).reshape(codes, 4)
        used = entries[(entries & 4095) != 0]
        of_entries = symbols[used & 4095, used >> 13 & 3]
        found.append((sorted(zip((used >> 13).tolist(), of_entries.tolist(), strict=True)), symbols[has].tolist()))
    assert found[0] == found[1]
    end = longest + 16 * len(table)
    assert (made[longest:end] == expected[longest:end]).all()


@pytest.mark.sampled(3)
@pytest.mark.covering(1)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("in_shared", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_tables(
    kind: str, in_shared: bool, schedule: str, emulator: Emulator, rng: np.random.Generator
) -> None:
    scopes = [text(kind, size, rng) for size in (20_000, 700, 3)] + [text(kind, 30_000, rng)[:0]]
    bits = [10, 11, 12, 11]
    tables = _train(emulator, scopes, bits, "default", schedule, in_shared)
    for chars, of_scope, table in zip(scopes, bits, tables, strict=True):
        sample = plan.sample(chars, 0, chars.size, "default")
        assert table == train_table(*sample, chars.size, of_scope)


@pytest.mark.slow
def test_more_codes_than_there_will_be(emulator: Emulator, rng: np.random.Generator) -> None:
    """While a table of 12 bits is trained it has more than 4,096 symbols."""
    chars = rng.integers(97, 117, 4_000_000, dtype=np.uint8)
    (table,) = _train(emulator, [chars], [12], "default", "forward", True)
    assert len(table) > 4_000
    assert table == train_table(*plan.sample(chars, 0, chars.size, "default"), chars.size, 12)
