"""Questions about rows on an emulated GPU, against plain Python."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reference_lifted as lifted
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.text import cpu, search
from cudf_fsst.codecs.text import launch as text_launch
from cudf_fsst.codecs.text.layout import LEVELS, TILE_SIZES
from cudf_fsst.codecs.text.search import ByteCount, Count, Find, IsIn, Length, Like, Question
from cudf_fsst.codecs.text.segment import Segment, Segments
from emulation.conftest import emulator
from emulation.device import GPUS, ORDERS, failing_every_allocation
from emulation.emulator import SCHEDULES
from fsst_gpu import SEGMENT, WORDS, Gpu, column, damaged_in_many_places, forked, gpu, text
from handmade import handmade_segment

__all__ = ["emulator", "forked", "gpu"]

Rows = Sequence[bytes | None]


def ask(
    gpu: Gpu, segments: Sequence[Segment], question: Question, stream: Any = None
) -> tuple[npt.NDArray[Any], bool] | None:
    """The answers of segments in GPU memory, and whether they are exact."""
    from cudf_fsst.codecs.text import cuda_match
    from cudf_fsst.device.memory import Lane

    plan = search.plan(question)
    assert plan is not None
    with Lane(stream) as lane:
        found = cuda_match.match(segments, plan, lane=lane)
        if found is None:
            return None
        answers, exact = found
        lane.synchronize()
    return np.frombuffer(gpu.emulator.read(answers.ptr, answers.size), search.answer_dtype(question)), exact


def characters(some: bytes) -> int:
    return sum(byte & 0xC0 != 0x80 for byte in some)


def is_like(row: bytes, parts: tuple[bytes, ...]) -> bool:
    if len(parts) == 1:
        return row == parts[0]
    first, *middle, last = parts
    if not row.startswith(first):
        return False
    at = len(first)
    for part in middle:
        at = row.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(row) - at >= len(last) and row.endswith(last)


def answer(row: bytes | None, question: Question) -> int:
    """What a row's answer is."""
    if row is None:
        return 0
    match question:
        case Like(parts):
            return is_like(row, parts)
        case IsIn(values):
            return row in values
        case Count(pattern):
            return row.count(pattern)
        case Find(pattern):
            return characters(row[: row.find(pattern)]) if pattern in row else -1
        case Length():
            return characters(row)
        case ByteCount():
            return len(row)


def check(
    gpu: Gpu, rows: Rows, segments: Sequence[Segment], question: Question, stream: Any = None, *, exact: bool = False
) -> None:
    """Compare answers with those of plain Python; `exact`: they are no candidates."""
    asked = ask(gpu, segments, question, stream)
    assert asked is not None
    found, is_answer = asked
    assert is_answer or not exact
    expected = np.array([answer(row, question) for row in rows], search.answer_dtype(question))
    assert found.size == expected.size
    if is_answer:
        np.testing.assert_array_equal(found, expected, err_msg=str(question))
    else:
        assert not (expected & ~found).any(), question


def contains(pattern: bytes) -> Like:
    return Like((b"", pattern, b""))


def test_contains(gpu: Gpu, rng: np.random.Generator) -> None:
    rows = text(rng, 2 * SEGMENT)
    segments = Segments(gpu.cuda.to_device(cpu.compress(column(list(rows)))))
    for pattern in (b"deposits", b"e", b"zq", WORDS[0] + b" " + WORDS[3]):
        check(gpu, rows, segments, contains(pattern))


def questions(rows: Rows) -> list[Question]:
    """Of every kind, with patterns that are there and others."""
    there = max((row or b"" for row in rows[:50]), key=len)
    half = len(there) // 2
    word = there[half : half + 7] or b"x"
    return [
        contains(word),
        contains(word[:1]),
        contains(b"\x00"),
        contains(b"aa"),
        contains(there[:60] or b"?"),
        Like((word[:3], b"")),
        Like((b"", there[-2:])),
        Like((there,)),
        Like((b"",)),
        Like((b"", b"")),
        Like((there[:1], b"", b"", there[-1:])),
        Like((b"", word[:2], word[-2:], b"")),
        Like((b"", b"e", b"o", b"ab", b"a", b"")),
        Like((there[:2], b"e", there[-3:])),
        Like((b"abab", b"ab", b"")),
        IsIn((there,)),
        IsIn((b"", b"a", rows[0] or b"", rows[-1] or b"", b"final deposits", b"\xff" * 9)),
        IsIn((b"",)),
        IsIn(()),
        IsIn(tuple(b"value number %d" % i for i in range(9))),
        Count(b"a"),
        Count(b"aa"),
        Count(b"abab"),
        Count(word),
        Find(b"e"),
        Find(word),
        Find(b"abab"),
        Length(),
        ByteCount(),
    ]


def mixed(rng: np.random.Generator, chars: int, *, nulls: bool = False, noise: bool = True) -> list[bytes | None]:
    """Words, repetitions, characters of several bytes, random bytes, short, empty and long rows."""
    rows: list[bytes | None] = []
    total = 0
    while total < chars:
        kind = 7 if noise and rng.random() < 0.02 else rng.integers(0, 7)
        count = int(rng.integers(0, 9))
        if kind < 3:
            row = b" ".join(WORDS[i] for i in rng.integers(0, len(WORDS), count))
        elif kind == 3:
            row = bytes([97 + int(rng.integers(0, 2))]) * count
        elif kind == 4:
            row = b"ab" * (count + 300 * (rng.random() < 0.02))
        elif kind == 5:
            row = "Zürich straße 東京 final".encode() * (count % 3)
        elif kind == 6:
            row = b"final deposits" if count < 4 else b""
        else:
            row = rng.integers(0, 256, int(rng.choice([3, 40, 700])), dtype=np.uint8).tobytes()
        rows.append(None if nulls and rng.random() < 0.2 else row)
        total += len(row)
    return rows


@pytest.mark.sampled(2)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_questions(tile_size: int, level: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """Several segments and tables, nulls, raw tiles, long rows."""
    rows = mixed(rng, 3 * SEGMENT, nulls=True)
    rows[40] = b" ".join(text(rng, 6000))
    there = Segments(gpu.cuda.to_device(cpu.compress(column(rows), tile_size=tile_size, level=level)))
    assert len(there) > 2
    for question in questions(rows):
        check(gpu, rows, there, question)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("gpu", GPUS, indirect=True)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_patterns_at_every_place(tile_size: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Across tiles, bundles and segments, at rows' ends, up to the longest; on small GPUs their automata do not fit."""
    long = b"a pattern of as many bytes as a state machine takes: sixty-three"
    patterns = (b"q", b"ab", b"aba", b"final deposits", long[:40], long[:63])
    pieces = []
    for i in range(3 * SEGMENT // 60):
        pieces.append(patterns[i % len(patterns)] if i % 3 else bytes(rng.integers(97, 100, int(rng.integers(0, 40)))))
    whole = b"".join(pieces)
    cuts = np.unique(np.concatenate([[0, len(whole)], rng.integers(0, len(whole), 400)]))
    rows = [whole[begin:end] for begin, end in itertools.pairwise(cuts)]
    there = Segments(gpu.cuda.to_device(cpu.compress(column(rows), tile_size=tile_size)))
    for pattern in patterns:
        for question in (contains(pattern[:40]), Count(pattern), Find(pattern), Like((b"", pattern[:40]))):
            check(gpu, rows, there, question)
    check(gpu, rows, there, Like((b"", patterns[3], b"q", b"")))
    names = set(gpu.device.launches)
    assert {"fsst_search", "fsst_search_alone"} <= names
    if tile_size == 128:
        assert ("fsst_search_large" in names) == (gpu.device.shared_per_block < 128 << 10)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tile_size", TILE_SIZES[:3])
def test_bundles_of_raw_tiles(tile_size: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Bytes that no table makes smaller; matches at every place, across what lanes have there, up to the longest."""
    long = bytes(range(200, 240))
    whole = bytearray(rng.integers(0, 200, 3 * 32 * tile_size + 900, dtype=np.uint8).tobytes())
    for place in range(0, len(whole) - 40, tile_size + 1):
        whole[place : place + 40] = long
    cuts = np.unique(np.concatenate([[0, len(whole)], rng.integers(0, len(whole), 2 * len(whole) // tile_size)]))
    rows = [bytes(whole[begin:end]) for begin, end in itertools.pairwise(cuts)]
    there = Segments(gpu.cuda.to_device(cpu.compress(column(rows), tile_size=tile_size)))
    for question in (contains(long), contains(long[9:12]), Count(long[:1]), Like((b"", long[30:])), Find(long[:30])):
        check(gpu, rows, there, question)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
@pytest.mark.parametrize("symbols", [[], [b"a"], [b"ab", b"b", b"final de", b"fin", b"al", b"\x80\x81", b"s"]])
def test_any_parse(symbols: list[bytes], tile_size: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Not only the parse that our encoder writes; escapes, also across what is looked for; tiles of any kind."""
    table = SymbolTable.from_symbols(symbols)
    rows = mixed(rng, 12_000, nulls=True)
    segments = [
        handmade_segment(rows[begin : begin + 150], table, tile_size=tile_size, choose=rng.choice, spare=begin % 3)
        for begin in range(0, len(rows), 150)
    ]
    there = Segments(gpu.cuda.to_device(segments))
    for question in questions(rows):
        check(gpu, rows, there, question)


_pieces = st.one_of(
    st.binary(max_size=9), st.sampled_from([b"ab", b"aab", b"\xc3\xbc", b"deposits", b"ab" * 90, b"\xff"])
)
_rows = st.lists(st.one_of(st.none(), st.lists(_pieces, max_size=6).map(b"".join)), max_size=50)
_pattern = st.one_of(st.lists(_pieces, min_size=1, max_size=3).map(b"".join), st.binary(min_size=1, max_size=3))
_question = st.one_of(
    st.lists(st.one_of(st.just(b""), _pattern), min_size=1, max_size=5).map(lambda parts: Like(tuple(parts))),
    st.lists(st.one_of(st.just(b""), _pattern), max_size=9).map(lambda values: IsIn(tuple(values))),
    _pattern.filter(lambda some: 0 < len(some) < 64).map(Count),
    _pattern.filter(lambda some: 0 < len(some) < 64).map(Find),
    st.just(Length()),
    st.just(ByteCount()),
)


@given(
    rows=_rows,
    copies=st.integers(1, 9),
    asked=st.lists(_question, min_size=1, max_size=6),
    tile_size=st.sampled_from(TILE_SIZES),
    level=st.sampled_from(LEVELS),
    schedule=st.sampled_from(SCHEDULES),
    data=st.data(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows(
    rows: list[bytes | None],
    copies: int,
    asked: list[Question],
    tile_size: int,
    level: str,
    schedule: str,
    data: st.DataObject,
    gpu: Gpu,
) -> None:
    gpu.emulator.schedule = schedule
    rows = [*(rows * copies), b"end"]
    there = Segments(gpu.cuda.to_device(cpu.compress(column(rows), tile_size=tile_size, level=level)))
    some = data.draw(st.sampled_from([row or b"" for row in rows]))
    for question in (*asked, Like((some,)), IsIn((some, b"end"))):
        check(gpu, rows, there, question)


@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_automata(tile_size: int, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the GPU are those of `lift`."""
    from cudf_fsst.codecs.text.cuda_match_layout import Prepared
    from cudf_fsst.device.memory import Lane

    kept: list[Any] = []
    buffers: list[Any] = []  # so that automata stay
    image_at, allocate = Prepared.image_at, Lane.allocate
    monkeypatch.setattr(Prepared, "image_at", lambda *call: (kept.append(call), image_at(*call))[1])
    monkeypatch.setattr(Lane, "allocate", lambda *call: (buffers.append(allocate(*call)), buffers[-1])[1])
    rows = mixed(rng, 4 * SEGMENT)
    segments = cpu.compress(column(rows), tile_size=tile_size)
    tables = list(dict.fromkeys(segment.table for segment in segments))
    assert len(tables) > 1
    there = Segments(gpu.cuda.to_device(segments))
    for question in (contains(b"abab"), Find(b"e"), Like((b"", b"final", b"deposits", b"abc", b"")), Length()):
        kept.clear()
        ask(gpu, there, question)
        [(prepared, address)] = kept
        for machine, place in zip(prepared.searches, prepared.automata, strict=True):
            for number, table in enumerate(tables):
                expected = lifted.lift(machine, table)
                data = gpu.emulator.read(address + place + number * expected.nbytes, expected.nbytes)
                np.testing.assert_array_equal(np.frombuffer(data, np.uint32).reshape(expected.shape), expected)


def test_giant_rows(gpu: Gpu) -> None:
    """Sums of row lengths that need more than 31 bits are made another way; so are rows of many bytes."""
    giant = b"deposits final " * 300_000 + b"\xc3\xbcaaaaa!"
    rows = [b"final", giant, b"aa", b"", None, b"deposits final ", b"x" * 2000]
    segments = Segments(gpu.cuda.to_device(cpu.compress(column(rows))))
    for question in (
        contains(b"aaa"),
        Like((giant[-60:],)),
        Like((b"deposits", b"!")),
        Like((b"", b"!")),
        Like((b"", b"aaa", b"final", b"")),
        Count(b"final"),
        Count(b"aa"),
        Find(b"!"),
        IsIn((b"aa", b"")),
        Length(),
    ):
        check(gpu, rows, segments, question)


@pytest.mark.parametrize("nulls", [False, True])
def test_rows_of_similar_length(nulls: bool, gpu: Gpu, rng: np.random.Generator) -> None:
    """A lane has neighbouring rows; row blocks without a match, with few and with many."""
    rows: list[bytes | None] = []
    for i in range(3 * SEGMENT // 16):
        row = b" ".join(WORDS[k] for k in rng.integers(0, len(WORDS), int(rng.integers(1, 5))))
        rows.append(None if nulls and i % 9 == 4 else row + (b" rare" if 1500 < i < 1520 or i % 1024 == 255 else b""))
    segments = Segments(gpu.cuda.to_device(cpu.compress(column(rows))))
    assert len(segments) > 2
    asked = [contains(b"rare"), Like((b"", b" rare")), Like((rows[0] or b"", b"")), Like((b"", b"rare", b"e", b""))]
    for question in (*asked, *questions(rows)):
        check(gpu, rows, segments, question)


def test_long_rows_among_short_ones(gpu: Gpu) -> None:
    """What is found behind the first 64 bytes of a row; segments whose first rows are no multiples of eight."""
    parts: list[list[bytes | None]] = []
    for count in (301, 1030):
        rows: list[bytes | None] = [b"a row %d" % i + b" rare" * (i % 50 == 3) for i in range(count)]
        for i in range(5, count, 31):
            rows[i] = b"-" * 90 + (b"rare" if i % 2 else b"ra") + b"re" * (i % 3 == 0) + b"+" * (i % 5)
        parts.append(rows)
    rows = [row for part in parts for row in part]
    found = [segment for part in parts for segment in cpu.compress(column(part))]
    segments = Segments(gpu.cuda.to_device(found))
    for question in (contains(b"rare"), Like((b"", b"rare")), Like((b"-", b"")), Like((b"", b"rare", b"+", b""))):
        check(gpu, rows, segments, question, exact=True)


def launched(gpu: Gpu, rows: Rows, segments: Sequence[Segment], question: Question) -> set[str]:
    """Check a question; the kernels that answered it."""
    gpu.device.launches.clear()
    check(gpu, rows, segments, question, exact=True)
    return {name for name in gpu.device.launches if name.startswith("match_")}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_values(tile_size: int, gpu: Gpu, rng: np.random.Generator) -> None:
    """Rows as long as a value are compared, and where that is most rows, a search says which."""
    ids = [b"id %04d, of one length" % i for i in rng.integers(0, 200, 2500)]
    same = Segments(gpu.cuda.to_device(cpu.compress(column([*ids, None, *ids[:9]]), tile_size=tile_size)))
    rows: list[bytes | None] = [*mixed(rng, 2 * SEGMENT, nulls=True), b"x" * 1024, b"x" * 1025, b""]
    other = Segments(gpu.cuda.to_device(cpu.compress(column(rows), tile_size=tile_size)))
    assert launched(gpu, [*ids, None, *ids[:9]], same, IsIn((ids[7],))) == {"match_is_in"}
    assert launched(gpu, [*ids, None, *ids[:9]], same, Like((ids[7],))) == {"match_edge"}
    for values in (tuple(ids[:9]), (ids[3], ids[3][:-1])):
        assert launched(gpu, [*ids, None, *ids[:9]], same, IsIn(values)) == {"match_values_searched"}
    begins = [b"%04d" % i + b" of some lengths"[i % 9 :] for i in rng.integers(0, 200, 2500)]
    others = Segments(gpu.cuda.to_device(cpu.compress(column([*begins, None, b"1"]), tile_size=tile_size)))
    some_begins = (*dict.fromkeys(begins[:9]), b"1")
    plan = search.plan(IsIn(some_begins))
    assert plan is not None
    assert plan.beginning
    assert launched(gpu, [*begins, None, b"1"], others, IsIn(some_begins)) == {"match_values_searched"}
    many = tuple(dict.fromkeys(ids))
    assert len(many) > search.MAX_VALUES
    assert launched(gpu, [*ids, None, *ids[:9]], same, IsIn(many)) == {"match_values"}
    there = [row for row in rows[::40] if row is not None]
    for some in (tuple(there), (*there, *(row[:-1] + b"?" for row in there if row)), (b"x" * 1024,), (b"y" * 1024,)):
        assert launched(gpu, rows, other, IsIn(some)) == {"match_values"}
    found = ask(gpu, other, IsIn((b"x" * 1025,)))
    assert found is not None
    assert not found[1]  # too long to be compared: candidates
    assert found[0].tolist() == [row == b"x" * 1025 for row in rows]
    assert ask(gpu, other, IsIn(tuple(b"%d" % i * 1025 for i in range(40)))) is None


def test_values_of_one_hash(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    from cudf_fsst.codecs.fsst import cuda_kernels
    from cudf_fsst.codecs.text import values

    rows = mixed(rng, SEGMENT)
    segments = Segments(gpu.cuda.to_device(cpu.compress(column(rows))))
    some = tuple(dict.fromkeys(row for row in rows[::9] if row))
    with monkeypatch.context() as patched:
        patched.setattr(values, "MULTIPLIER", 0)
        cuda_kernels._kernel_on.cache_clear()
        values._kept.cache_clear()
        assert len(set(map(values.hash_of, some))) == 1
        for asked in (some, some[::2], some[:1]):
            assert launched(gpu, rows, segments, IsIn(asked)) == {"match_values"}
    cuda_kernels._kernel_on.cache_clear()
    values._kept.cache_clear()
    assert len(set(map(values.hash_of, some))) == len(some)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("order", ORDERS)
def test_rounds(order: str, gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call takes no more memory than it may, in any order of streams, and waits for nothing."""
    from cudf_fsst.codecs.text import cuda_match_layout

    gpu.device.order = order
    rows = mixed(rng, 8 * SEGMENT, nulls=True)
    segments = Segments(gpu.cuda.to_device(cpu.compress(column(rows))))
    rounds = set()
    for limit in (1 << 20, 220_000):
        monkeypatch.setattr(cuda_match_layout, "scratch_limit", lambda _plain, limit=limit: limit)
        segments.reading = None
        for question in (*questions(rows), Count(b"abc" * 11)):
            gpu.device.allocations.clear()
            gpu.device.launches.clear()
            check(gpu, rows, segments, question)
            result = np.dtype(search.answer_dtype(question)).itemsize * len(rows)
            assert result in gpu.device.allocations
            assert sum(gpu.device.allocations) - result <= limit
            rounds.add((limit, gpu.device.launches.count("fsst_automata")))
    assert {(1 << 20, 0), (1 << 20, 1), (220_000, 1), (220_000, 2)} <= rounds


def test_a_segment_too_large(gpu: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    from cudf_fsst.codecs.text import cuda_match_layout

    rows = [b"a", b" ".join(text(rng, 9 * SEGMENT)), b"b"]
    segments = Segments(gpu.cuda.to_device(cpu.compress(column(list(rows)))))
    monkeypatch.setattr(cuda_match_layout, "scratch_limit", lambda _plain: 9 * SEGMENT // 8)
    gpu.device.launches.clear()
    assert ask(gpu, segments, contains(b"final")) is None
    assert gpu.device.launches == []
    check(gpu, rows, segments, ByteCount())


def test_bytes_that_continue_a_character(gpu: Gpu, rng: np.random.Generator) -> None:
    """A column without any is known by its second question, and no planes are made for its lengths."""
    plain = [row.replace(b"\xff", b"") for row in text(rng, 9000)]
    for rows, more in ((plain, 0), ([*plain, "東京".encode()], 1)):
        segments = Segments(gpu.cuda.to_device(cpu.compress(column(list(rows)))))
        for first, second in ((Length(), Find(b"e")), (Find(b"e"), Length())):
            segments.reading = None
            check(gpu, rows, segments, first)
            gpu.device.launches.clear()
            check(gpu, rows, segments, second)
            name = "fsst_search_alone" if isinstance(second, Length) else "fsst_search_two"
            assert gpu.device.launches.count(name) == more
            check(gpu, rows, segments, Length())
        check(gpu, rows, list(segments), Length())


def test_launches_and_waits(gpu: Gpu, rng: np.random.Generator) -> None:
    """Three launches, and no wait, also where the column has been asked nothing before."""
    from cudf_fsst.codecs.text import cuda_match
    from cudf_fsst.device.memory import Lane

    segments = Segments(gpu.cuda.to_device(cpu.compress(column(list(text(rng, 3 * SEGMENT))))))
    for question in (contains(b"final"), Length(), Count(b"e")):
        plan = search.plan(question)
        assert plan is not None
        gpu.device.launches.clear()
        with Lane() as lane:
            waits = gpu.device.waits
            cuda_match.match(segments, plan, lane=lane)
            assert gpu.device.waits == waits
        assert len(gpu.device.launches) == 3


@pytest.mark.sampled(4)
@pytest.mark.parametrize("forked", [False, True], indirect=True, ids=["default stream", "own stream"])
@pytest.mark.parametrize("order", ORDERS)
def test_streams(order: str, forked: Any, gpu: Gpu, rng: np.random.Generator) -> None:
    gpu.device.order = order
    rows = mixed(rng, SEGMENT, nulls=True)
    segments = Segments(gpu.cuda.to_device(cpu.compress(column(rows)), stream=forked))
    for question in (contains(b"final"), Find(b"e"), Find(b"e"), Length()):
        check(gpu, rows, segments, question, stream=forked)


def test_out_of_memory(gpu: Gpu, rng: np.random.Generator) -> None:
    from cudf_fsst.codecs.text import cuda_match
    from cudf_fsst.device.memory import Lane

    rows = mixed(rng, SEGMENT, nulls=True)
    segments = Segments(gpu.cuda.to_device(cpu.compress(column(rows))))
    plan = search.plan(Find(b"final"))
    assert plan is not None

    def call() -> Any:
        with Lane() as lane:
            return cuda_match.match(segments, plan, lane=lane)

    call()  # a column keeps what it has found out
    failing_every_allocation(gpu.device, call)
    check(gpu, rows, segments, Find(b"final"))


def test_no_rows_and_no_characters(gpu: Gpu) -> None:
    for rows in ([], [b""] * 300, [None] * 40, [None, b"", None]):
        segments = Segments(gpu.cuda.to_device(cpu.compress(column(rows))))
        for question in questions([b"there", *rows]):
            check(gpu, rows, segments, question)


@pytest.mark.parametrize("nulls", [False, True])
def test_validity(nulls: bool, gpu: Gpu, rng: np.random.Generator) -> None:
    """Without decoding."""
    from cudf_fsst.codecs.text import cuda_read
    from cudf_fsst.device.memory import Lane

    rows = mixed(rng, 3 * SEGMENT, nulls=nulls)
    segments = Segments(gpu.cuda.to_device(cpu.compress(column(rows))))
    gpu.device.launches.clear()
    with Lane() as lane:
        found = cuda_read.validity(segments, lane=lane)
        none = cuda_read.validity([], lane=lane)
        lane.synchronize()
    assert none is None
    assert gpu.device.launches == (["gather_validity"] if nulls else [])
    assert (found is not None) == nulls
    if nulls:
        bits = np.unpackbits(np.frombuffer(gpu.emulator.read(found.ptr, found.size), np.uint8), bitorder="little")
        assert bits.size % 512 == 0
        np.testing.assert_array_equal(bits[: len(rows)], [row is not None for row in rows])
        assert not bits[len(rows) :].any()


# ------------------------------------------------------------------------------------------------------ damaged input


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu", ["sm_75", "sm_90"], indirect=True)
@pytest.mark.parametrize("seed", range(4))
def test_damage(seed: int, gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong answers are fine; touching other memory is not, and the sanitizers watch."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(text_launch, "decode_bundles", lambda *_: 1 << seed % 3)
    gpu.emulator.schedule = SCHEDULES[seed % 3]
    for _ in range(5):
        rows = mixed(rng, int(rng.integers(1, 30_000)), nulls=True)
        if rng.random() < 0.5:  # of similar length
            rows = [row and row[:40] for row in rows]
        (whole,) = cpu.compress(column(rows), tile_size=int(rng.choice(TILE_SIZES)))
        (other,) = cpu.compress(column(list(text(rng, 3000))), tile_size=int(rng.choice(TILE_SIZES)))
        damaged = damaged_in_many_places(whole, rng, spared=0.5)
        # Whole neighbours: what is wrong in one must not reach into another.
        segments = Segments(gpu.cuda.to_device([other, damaged, other]))
        before, count = other.rows, damaged.rows
        for question in questions(rows):
            found = ask(gpu, segments, question)
            alone = ask(gpu, segments[:1], question)
            assert found is not None
            assert alone is not None
            np.testing.assert_array_equal(found[0][:before], alone[0])
            np.testing.assert_array_equal(found[0][before + count :], alone[0])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", ["codes", "block_starts", "row_starts", "row_minima", "row_words", "tile_lengths"])
def test_sections_of_one_value(part: str, gpu: Gpu, rng: np.random.Generator) -> None:
    """The largest, the smallest, and noise."""
    rows = mixed(rng, 9000)
    (segment,) = cpu.compress(column(rows))
    for value in (0, 127, 255, None):
        damaged = dataclasses.replace(segment, meta=segment.meta.copy(), codes=segment.codes.copy())
        target = (damaged.codes if part == "codes" else damaged.section(part)).view(np.uint8)
        target[:] = rng.integers(0, 256, target.size) if value is None else value
        there = gpu.cuda.to_device([damaged, segment])
        for question in questions(rows):
            ask(gpu, there, question)


@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_codes_of_too_many_characters(tile_size: int, gpu: Gpu) -> None:
    """Each tile's codes stand for four tiles of matches: the last lanes' end behind all bits that the warp has."""
    table = SymbolTable.from_symbols([b"deposits", b"xx"])
    segment = handmade_segment([b"x" * tile_size * 40], table, tile_size=tile_size)
    assert segment.codes_nbytes == tile_size * 20
    damaged = dataclasses.replace(segment, codes=np.full_like(segment.codes, table.symbols.index(b"deposits")))
    segments = Segments(gpu.cuda.to_device([segment, damaged, segment]))
    for question in (contains(b"deposits"), Find(b"sd"), Like((b"", b"de", b"si", b""))):
        asked = ask(gpu, segments, question)
        assert asked is not None
        assert asked[0].tolist()[::2] == [answer(b"x", question)] * 2
        assert asked[0][1] != asked[0][0]


def test_truncated_buffers(gpu: Gpu, rng: np.random.Generator) -> None:
    (segment,) = cpu.compress(column(list(text(rng, 3000))))
    segments = gpu.cuda.to_device([segment, dataclasses.replace(segment, codes=segment.codes[:-1])])
    with pytest.raises(ValueError, match=r"damaged segment: (meta|codes) has \d+ bytes, not"):
        ask(gpu, segments, contains(b"final"))
    assert gpu.device.launches == []
