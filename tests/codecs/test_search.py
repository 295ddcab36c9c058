"""Automata and plans of questions, by themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_lifted as lifted
from cudf_fsst.codecs.fsst import cpu_kernels
from cudf_fsst.codecs.fsst.symbols import ESCAPE, SymbolTable
from cudf_fsst.codecs.text import search
from cudf_fsst.codecs.text.search import ByteCount, Count, Find, IsIn, Length, Like
from match_cases import continuing

letters = st.binary(min_size=1, max_size=5).map(lambda data: bytes(97 + byte % 2 for byte in data))
pieces = letters | st.binary(min_size=1, max_size=5)
tables = st.lists(letters | st.binary(min_size=1, max_size=8), max_size=30).map(SymbolTable.from_symbols)


def ends_of(pattern: bytes, text: bytes) -> set[int]:
    """Places of the last bytes of a pattern's occurrences."""
    return {i + len(pattern) - 1 for i in range(len(text)) if text.startswith(pattern, i)}


def planes_of(machine: search.Automaton, text: bytes) -> list[set[int]]:
    """Places of bytes behind which a match of each plane ends, a byte at a time."""
    state, found = 0, [set(), set()]
    for i, byte in enumerate(text):
        state = int(machine.following[state, byte])
        for plane in range(2):
            if (machine.accepts[state] | machine.classes[byte]) >> plane & 1:
                found[plane].add(i)
    return found


@given(st.lists(pieces, max_size=6), st.booleans(), st.lists(pieces, max_size=20))
def test_automaton_finds_every_match(patterns: list[bytes], marks: bool, text: list[bytes]) -> None:
    joined = b"".join([*text, *patterns, *text])
    machine = search.automaton([(pattern, i % 2) for i, pattern in enumerate(patterns)], 1 if marks else -1)
    for plane, found in enumerate(planes_of(machine, joined)):
        expected = set().union(*(ends_of(pattern, joined) for pattern in patterns[plane::2]))
        if marks and plane == 1:
            expected |= {i for i in range(len(joined)) if continuing(joined[i : i + 1])}
        assert found == expected
    assert machine.states == 1 + len({pattern[: i + 1] for pattern in patterns for i in range(len(pattern))})


@given(st.lists(pieces, max_size=6), pieces, pieces, st.lists(pieces, max_size=20))
def test_what_is_searched_of_values(inner: list[bytes], begin: bytes, end: bytes, text: list[bytes]) -> None:
    """Their ends or their beginnings are found, and nothing else is, whatever they have in common there."""
    values = [begin + middle + bytes(20 + i) + middle + end for i, middle in enumerate(inner)]
    plan = search.plan(IsIn(tuple(values)))
    assert plan is not None
    for machine in plan.searches:
        joined = b"".join([*text, *values, *text])
        shown = [value[: machine.longest] if plan.beginning else value[-machine.longest :] for value in values]
        assert planes_of(machine, joined)[0] == set().union(*(ends_of(some, joined) for some in shown))
        assert plan.beginning in (0, machine.longest)


def test_beginnings_are_searched_where_they_tell_more() -> None:
    values = tuple(b"%c name" % (65 + i) + bytes(40 + i) + b"@provider.example" for i in range(10))
    plan = search.plan(IsIn(values))
    assert plan is not None
    assert plan.beginning == 3
    assert plan.searches[0].states == 31
    half = search.plan(
        IsIn(tuple(value[: -len(b"@provider.example")] + b"%d" % (i % 6) for i, value in enumerate(values)))
    )
    assert half is not None
    assert half.beginning == 0  # ends tell most of them apart
    long = search.plan(IsIn(tuple(value * 40 for value in values)))  # which rows are not compared with on a GPU
    assert long is not None
    assert long.beginning == 0


def test_ends_of_addresses() -> None:
    values = tuple(b"name" + bytes(10 + i) + b"%02d@provider.example" % (10 + i) for i in range(10))
    plan = search.plan(IsIn(values))
    assert plan is not None
    [machine] = plan.searches
    assert machine.longest == 3 + len("@provider.example")
    assert machine.states <= 30 + len("@provider.example") + 1


@given(st.lists(pieces, max_size=4), tables)
def test_lifted_automaton_reads_symbols(patterns: list[bytes], table: SymbolTable) -> None:
    machine = search.automaton([(pattern, i % 2) for i, pattern in enumerate(patterns)], 1)
    states = machine.states
    entries = lifted.lift(machine, table)
    assert entries.shape == (2 * states, 256)
    for state in range(states):
        for code in range(256):
            symbol = table.symbols[code] if code < len(table) else b""
            check_entry(machine, int(entries[state, code]), state, symbol, code == ESCAPE)
            check_entry(machine, int(entries[states + state, code]), state, bytes([code]), False)


def check_entry(machine: search.Automaton, entry: int, state: int, symbol: bytes, escape: bool) -> None:
    ends = [0, 0]
    for i, byte in enumerate(symbol):
        state = int(machine.following[state, byte])
        for plane in range(2):
            ends[plane] |= (int(machine.accepts[state] | machine.classes[byte]) >> plane & 1) << i
    state += machine.states if escape else 0
    assert entry == state | len(symbol) << lifted.LENGTH_SHIFT | (ends[0] | ends[1] << 8) << lifted.ENDS_SHIFT


@given(st.lists(pieces, max_size=4), tables)
def test_host_entries_say_the_same(patterns: list[bytes], table: SymbolTable) -> None:
    machine = search.automaton([(pattern, i % 2) for i, pattern in enumerate(patterns)], 1)
    states = machine.states
    found = np.empty((3 * states, 256), np.uint64)
    cpu_kernels.lift_codes(
        machine.following, machine.accepts, machine.classes, table.decode_symbols, table.decode_lengths, found
    )
    entries = lifted.lift(machine, table).astype(np.uint64)
    state, length = entries & np.uint64(0xFF), entries >> np.uint64(8) & np.uint64(0xFF)
    ends = entries >> np.uint64(16)

    def field(first: int, bits: int) -> np.ndarray:
        return found >> np.uint64(first) & np.uint64((1 << bits) - 1)

    for part, same in ((slice(0, 2 * states), slice(0, 2 * states)), (slice(2 * states, None), slice(states, None))):
        assert (field(0, 8)[part] == (ends & np.uint64(0xFF))[same]).all()
        assert (field(16, 8)[part] == (ends >> np.uint64(8))[same]).all()
        assert (field(34, 11)[part] == (ends > 0)[same]).all()
        assert (field(45, 19)[part] == length[same]).all()
    assert (field(8, 8)[: 2 * states] == state).all()
    assert (field(8, 8)[2 * states :] == state[states:] + np.uint64(2 * states)).all()


def test_a_plan_of_parts() -> None:
    plan = search.plan(Like((b"", b"special", b"requests", b"special", b"")))
    assert plan is not None
    assert plan.exact
    assert plan.counts == (2,)
    assert plan.planes == 2
    assert plan.test == search.RowTest((0, 1, 0), (7, 8, 7), False, False, 22, -1)
    equals = search.plan(Like((b"value",)))
    assert equals is not None
    assert equals.test == search.RowTest((0,), (5,), True, True, 5, 5)
    open_ends = search.plan(Like((b"", b"")))
    assert open_ends is not None
    assert open_ends.searches == ()
    assert open_ends.test == search.RowTest((), (), False, False, 0, -1)


def test_long_and_many_parts_give_candidates() -> None:
    long = bytes(range(100))
    for parts, shown in (((b"", long, b""), long[:40]), ((b"", long), long[-40:]), ((long,), long[-40:])):
        plan = search.plan(Like(parts))
        assert plan is not None
        assert plan.test is not None
        assert not plan.exact
        assert plan.test.least == 100
        assert plan.test.lengths == (40,)
        assert planes_of(plan.searches[0], long)[0] == ends_of(shown, long)
    many = search.plan(Like((b"begin", *(b"%03d" % i for i in range(100)), b"end")))
    assert many is not None
    assert many.test is not None
    assert many.planes == search.MAX_PARTS
    assert many.test.lengths == (5, *[3] * (search.MAX_PARTS - 2), 3)
    assert many.test.least == 8 + 300
    assert not many.exact
    again = search.plan(Like((b"", *[b"a", b"b"] * 100, b"")))
    assert again is not None
    assert again.exact
    assert again.planes == 2


@given(st.lists(st.binary(max_size=120), max_size=40))
def test_automata_have_few_states(parts: list[bytes]) -> None:
    for question in (Like(tuple(parts) or (b"",)), IsIn(tuple(parts))):
        plan = search.plan(question)
        if plan is None:
            assert len(set(parts) - {b""}) > search.MAX_VALUES
            continue
        assert len(plan.searches) == len(plan.counts)
        assert all(machine.states <= search.MAX_STATES for machine in plan.searches)
        assert all(1 <= count <= search.MAX_PLANES for count in plan.counts)


def test_plans_of_values() -> None:
    one_length = search.plan(IsIn((b"abc", b"xyz", b"", b"abc")))
    assert one_length is not None
    assert one_length.exact
    assert one_length.lengths == (0, 3)
    for values in ((b"abc", b"bc"), (b"a" * 100, b"b" * 100), (b"x" * 10**6,)):
        plan = search.plan(IsIn(values))
        assert plan is not None
        assert not plan.exact


@pytest.mark.parametrize("kind", [Count, Find])
def test_patterns_that_no_automaton_has(kind: type[Count | Find]) -> None:
    assert search.plan(kind(b"")) is None
    assert search.plan(kind(b"x" * 64)) is None
    assert search.plan(kind(b"x" * 63)) is not None


def test_answers() -> None:
    assert search.answer_dtype(Like((b"a",))) is np.bool_
    assert search.answer_dtype(IsIn(())) is np.bool_
    for question in (Count(b"a"), Find(b"a"), Length(), ByteCount()):
        assert search.answer_dtype(question) is np.int32


@pytest.mark.parametrize(("count", "kept"), [(5, 6), (10, 3), (20, 3), (21, 3), (22, None), (33, None)])
def test_ends_of_many_values(count: int, kept: int | None) -> None:
    """So much of each value is searched that few other rows end like it, or nothing is."""
    values = tuple(bytes([65 + i]) * 20 + b"x" * (i % 2) for i in range(count))
    plan = search.plan(search.IsIn(values))
    assert plan is not None
    assert [machine.longest for machine in plan.searches] == ([] if kept is None else [kept])
    assert plan.lengths == ((20,) if count == 1 else (20, 21))
    assert not plan.exact


def test_values_of_one_length_are_searched_whole() -> None:
    plan = search.plan(search.IsIn(tuple(bytes([65 + i]) * 6 for i in range(10))))
    assert plan is not None
    assert plan.exact
    assert plan.searches[0].longest == 6


def test_plans_of_long_questions_are_not_kept() -> None:
    before = search._kept_plan.cache_info().currsize
    long = b"ab" * 50_000
    for question in (Like((b"", long, b"")), IsIn((long, b"b")), Like((long,))):
        assert search.plan(question) is not None
    assert search._kept_plan.cache_info().currsize == before
    assert search.plan(Count(b"some")) is search.plan(Count(b"some"))
