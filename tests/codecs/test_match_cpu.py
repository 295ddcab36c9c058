"""Questions about rows on the CPU, against plain Python."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudf_fsst import automata, workers
from cudf_fsst.codecs import onpair
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.onpair import OnPairTable
from cudf_fsst.codecs.text import cpu, cpu_compare, cpu_match, cpu_rows, row_lengths, search
from cudf_fsst.codecs.text.layout import LEVELS, TILE_SIZES, SegmentLayout
from cudf_fsst.codecs.text.search import ByteCount, Count, Find, IsIn, Length, Like, Question
from cudf_fsst.codecs.text.segment import Segment, Segments
from match_cases import FOREIGN, TABLES, Rows, answer, column, mixed_rows, patterns_of, questions

#: Codes of every number of bits, some with symbols of as many bytes as there can be, and raw tiles.
LONG = [b"abc", b"de", b"abcde", b"hgfedcbaabcdefgh", b"\0\0", b"aa", b"abababababababab", b"aaaaaaaaaaaaaaaa"]
ONPAIR = {
    "onpair10": OnPairTable(10, ()),
    "onpair11": OnPairTable.from_symbols(11, [b"ab", b"e f", *LONG]),
    "onpair12": OnPairTable.from_symbols(12, LONG),
}


def check(rows: Rows, segments: list[Segment], asked: list[Question]) -> None:
    """Ask, and compare with the rows."""
    kept = Segments(segments)
    for question in asked:
        planned = search.plan(question)
        if planned is None:
            continue
        found = cpu_match.match(kept, planned)
        assert found.dtype == search.answer_dtype(question)
        expected = np.array([answer(question, row) for row in rows], found.dtype)
        exact = planned.exact or search.values_of(question) is not None
        wrong = found != expected if exact else expected & ~found
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            pytest.fail(f"{question}: row {row} {rows[row]!r} gives {found[row]}, not {expected[row]}")


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and matches that go on from window to window, and rows answered in many chunks."""
    monkeypatch.setattr(cpu_match, "_WINDOW_BITS", 2**11)
    monkeypatch.setattr(cpu_match, "_WINDOW_CHARS", 2**11)
    monkeypatch.setattr(cpu_match, "_CHUNK_CHARS", 2**12)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
@pytest.mark.parametrize("table", [*TABLES, *ONPAIR])
@pytest.mark.parametrize("level", LEVELS)
def test_questions(level: str, table: str, tile_size: int) -> None:
    rows = mixed_rows(700, seed=tile_size)
    segments = cpu.compress(column(rows), table=(TABLES | ONPAIR)[table], tile_size=tile_size, level=level)
    some = [row for row in rows if row]
    check(rows, segments, questions(patterns_of(rows, seed=tile_size), [*some[:3], *some[-9:], b"none"]))


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("codec", [(), (onpair,)], ids=["fsst", "onpair"])
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_small_windows(tile_size: int, codec: tuple[Any, ...]) -> None:
    rows = [*mixed_rows(600), b"abcde fgh " * 3000, None, b"", b"gh", "é€".encode() * 2000 + b"x", *mixed_rows(300, 1)]
    segments = cpu.compress(column(rows), *codec, tile_size=tile_size)
    asked = questions([b"h a", b"abcde fgh ", "€".encode(), b"x", b"\x82\xac\xc3", b"h"], [b"gh", b"", rows[600]])
    check(rows, segments, asked)


def test_dense_and_overlapping_matches() -> None:
    rows: Rows = [b"a" * i for i in range(150)] + [b"ab" * i + b"a" for i in range(70)] + [b"b" * 40_000]
    for table in (None, FOREIGN, *ONPAIR.values()):
        segments = cpu.compress(column(rows), table=table)
        check(rows, segments, questions([b"a", b"aa", b"aaa", b"aba", b"bb", b"a" * 30], [b"a" * 7, b"aba", b"ababa"]))


@given(st.data())
def test_any_rows(data: st.DataObject) -> None:
    alphabet = data.draw(st.sampled_from([b"ab", b"abcdefgh", bytes(range(256)), "aé€😀".encode()]))
    text = st.lists(st.sampled_from(list(alphabet)), max_size=40).map(bytes)
    rows = data.draw(st.lists(st.none() | text, min_size=1, max_size=40)) * data.draw(st.integers(1, 30))
    options = {
        "table": data.draw(st.sampled_from([*TABLES.values(), *ONPAIR.values()])),
        "tile_size": data.draw(st.sampled_from(TILE_SIZES)),
        "level": data.draw(st.sampled_from(LEVELS)),
    }
    segments = cpu.compress(column(rows), **options)
    joined = b"".join(row or b"" for row in rows) or b"a"
    places = st.tuples(st.integers(0, len(joined) - 1), st.integers(1, 20))
    patterns = [joined[at : at + size] for at, size in data.draw(st.lists(places, min_size=1, max_size=3))]
    check(
        rows, segments, questions(patterns, data.draw(st.lists(st.sampled_from(rows), max_size=5).map(_without_nulls)))
    )


def _without_nulls(rows: Rows) -> list[bytes]:
    return [row for row in rows if row is not None]


@pytest.mark.parametrize("codec", [(), (onpair,)], ids=["fsst", "onpair"])
@pytest.mark.parametrize("size", [39, 40, 41, 62, 63, 64, 200])
def test_long_patterns(size: int, codec: tuple[Any, ...]) -> None:
    text = b"".join(b"%d, " % (i * i) for i in range(400))
    rows: Rows = [text[i : i + 150 + i] for i in range(150)] + [text, text[5:], b"", None]
    segments = cpu.compress(column(rows), *codec)
    pattern = text[300 : 300 + size]
    check(rows, segments, questions([pattern, pattern[-50:], b"1"], [text[:size], text]))
    planned = search.plan(Like((b"", pattern, b"")))
    assert planned is not None
    assert planned.exact == (size <= search.MAX_PATTERN)
    assert not cpu_match.match(segments, planned).all()


@pytest.mark.parametrize("together", [64, 2**20])
def test_values(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sizes near each other and far apart, alike in their first words or in all but the last byte."""
    monkeypatch.setattr(cpu_compare, "_ROOM_CHARS", together)
    rng = np.random.default_rng(3)
    words = [b"abcdefgh", b"abcdefgi", b"\xff" * 8, bytes(8)]
    rows: Rows = [
        b"".join(words[i] for i in rng.integers(0, 4, rng.integers(0, 5))) + b"xyz"[: rng.integers(0, 4)]
        for _ in range(2000)
    ]
    rows[::7] = [None] * len(rows[::7])
    long = b"long row " * 130_000
    rows += [long, long[:-1] + b"?", long[:5000], b"", b"\x00", b"\x00\x00"] * 3
    segments = cpu.compress(column(rows))
    there = list(dict.fromkeys(row for row in rows if row is not None))
    missing = [row[:-1] + b"!" for row in there[:40] if row]
    for some in (there[:1], there[:40], missing, [*there[:40], *missing], there, [long], [long[:-1]], [b""], []):
        check(rows, segments, [IsIn(tuple(some)), *(Like((value,)) for value in some[:3])])


def test_values_of_a_length_in_several_groups_of_rows() -> None:
    """Few rows are decoded between groups, whose tiles lie in one block: what is known of the next tile stays."""
    rng = np.random.default_rng(5)
    digits = list(b"0123456789abcdef")
    rows: Rows = [bytes(rng.choice(digits, 4 if i % 16 == 0 else 3).tolist()) for i in range(16_000)]
    segments = cpu.compress(column(rows))
    for first in range(0, 4000, 800):
        check(rows, segments, [IsIn(tuple(row for row in rows[first : first + 800 : 16] if row))])


@pytest.mark.parametrize("codec", [(), (onpair,)], ids=["fsst", "onpair"])
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("tile_size", [128, 256, 1024])
@pytest.mark.parametrize("kind", ["digits", "addresses", "names", "alike", "bytes"])
def test_values_of_lengths_that_rows_have(kind: str, tile_size: int, level: str, codec: tuple[Any, ...]) -> None:
    """Rows are looked at as they lie; of one value, tiles that cannot have it are left out."""
    rng = np.random.default_rng(6)
    numbers = rng.integers(0, 10**9, 9000).tolist()
    many: dict[str, list[bytes]] = {
        "digits": [b"%09d" % number for number in numbers],
        "addresses": [b"http://www.example.org/%d/%d" % (number % 50, number) for number in numbers],
        "names": [b"Customer#%09d" % (number % 3000) for number in numbers],
        "alike": [b"ab" * (number % 4) + b"a" * (number % 3) for number in numbers],
        "bytes": [rng.bytes(12 + number % 2) for number in numbers],
    }
    rows: Rows = [*many[kind]]
    rows[::50] = [None] * len(rows[::50])
    rows[100:110] = [b"", b"x" * 700, b"", b"y" * 3000, b"", b"", b"z", many[kind][0], many[kind][0][:-1], b""]
    segments = cpu.compress(column(rows), *codec, tile_size=tile_size, level=level)
    some = list(dict.fromkeys(row for row in [*many[kind][:12], rows[6000], rows[-1]] if row))
    changed = [row[:at] + b"!" + row[at + 1 :] for row in some[:2] for at in range(0, len(row), 3)]
    asked: list[Question] = [Like((value,)) for value in (*some, *changed)]
    check(rows, segments, [*asked, IsIn(tuple(some)), IsIn((*some[:4], *changed)), IsIn((*some[:3], b""))])


@pytest.mark.parametrize("room", [64, 1000, 2**18])
def test_beginnings_and_ends(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of words, of more, and of rows that are not decoded with their neighbours."""
    monkeypatch.setattr(cpu_compare, "_ROOM_CHARS", room)
    rng = np.random.default_rng(4)
    rows: Rows = [bytes(rng.choice(list(b"ab"), rng.integers(0, 30)).tolist()) for _ in range(3000)]
    rows[::5] = [None] * len(rows[::5])
    long = b"abbab" * 70_000
    rows += [long, long[:-1], b"b" + long, b"", b"\xff\0"]
    for table in (None, FOREIGN, SymbolTable(()), *ONPAIR.values()):
        segments = cpu.compress(column(rows), table=table)
        for first in (b"", b"a", b"abbab" * 3, long[:-1], b"\xff"):
            lasts = (b"", b"b", b"bababb", b"abbab" * 2, b"\0")
            asked = [Like((first, last), more) for last in lasts for more in (0, 5)]
            check(rows, segments, asked)


@pytest.mark.parametrize("section", ["codes", "tile_lengths", "row_bits", "row_starts", "block_starts"])
def test_damage_where_few_rows_are_compared(section: str) -> None:
    """Nothing is read outside, and what is found is what is there, or an error."""
    rng = np.random.default_rng(5)
    rows: Rows = [b"%d of some rows" % 10 ** rng.integers(0, 60) for _ in range(4000)]
    (segment,) = cpu.compress(column(rows))
    value = rows[7]
    assert value is not None
    for _ in range(60):
        damaged = dataclasses.replace(segment, meta=segment.meta.copy(), codes=segment.codes.copy())
        body = damaged.codes if section == "codes" else damaged.section(section).view(np.uint8)
        body[rng.integers(0, body.size)] = rng.integers(0, 256)
        for question in (IsIn((value, value[1:])), Like((value,)), Like((b"1", b"rows")), Like((b"10", b""))):
            planned = search.plan(question)
            assert planned is not None
            try:
                assert cpu_match.match([damaged], planned).size == 4000
            except ValueError as error:
                assert "damaged segment: " in str(error)  # noqa: PT017 - damage need not be noticed


@pytest.mark.parametrize("table", [FOREIGN, *ONPAIR.values()])
def test_matches_across_tiles_and_lanes(table: Any) -> None:
    """One pattern at every place, so that it straddles every kind of end there is."""
    filler = b"abcdefghijklmnop" * 4096
    for tile_size in (128, 1024):
        for shift in range(0, 1024, 37):
            row = bytearray(filler)
            places = range(shift, len(row) - 9, 1021)
            for at in places:
                row[at : at + 9] = b"<special>"
            (segment,) = cpu.compress(column([bytes(row)]), tile_size=tile_size, table=table)
            planned = search.plan(Count(b"<special>"))
            assert planned is not None
            assert cpu_match.match([segment], planned).tolist() == [len(places)]


@pytest.mark.usefixtures("small_segments")
@pytest.mark.parametrize("codec", [(), (onpair,)], ids=["fsst", "onpair"])
def test_several_segments_and_tables(codec: tuple[Any, ...]) -> None:
    rows = mixed_rows(1500)
    segments = cpu.compress(column(rows), *codec)
    assert len({segment.table for segment in segments}) > 1
    check(rows, segments, questions(patterns_of(rows)[:6], [row for row in rows if row][:8]))
    others = [*segments, *cpu.compress(column([b"x", None, b"y"])), *segments]
    check([*rows, b"x", None, b"y", *rows], others, [Like((b"", b"x")), Length(), Find(b"a"), IsIn((b"y", b""))])


def test_no_rows() -> None:
    for question in questions([b"a"], [b"b"]):
        planned = search.plan(question)
        assert planned is not None
        assert cpu_match.match([], planned).shape == (0,)


@pytest.mark.parametrize("rows", [[b""] * 300, [None] * 300, [None, b""] * 300, [b"x"]])
def test_rows_without_characters(rows: Rows) -> None:
    check(rows, cpu.compress(column(rows)), questions([b"x", b"xy"], [b"x", b""]))


def test_threads_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [*mixed_rows(2000) * 40, b"abc de fgh" * 200_000]
    segments = cpu.compress(column(rows))
    for question in (Like((b"", b"ab", b"c", b"")), Count(b"a"), Find("€".encode()), Length()):
        planned = search.plan(question)
        assert planned is not None
        found = []
        for threads in ("1", "3"):
            monkeypatch.setenv("CUDF_FSST_NUM_THREADS", threads)
            found.append(cpu_match.match(segments, planned).tolist())
        assert found[0] == found[1] == [answer(question, row) for row in rows]


def test_what_continues_a_character_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ascii_rows, other_rows = [b"abc", b"", b"defg"] * 100, ["aé".encode(), None, "€".encode() * 300] * 100
    rows: Rows = [*ascii_rows, *other_rows, *ascii_rows]
    segments = Segments(part for some in (ascii_rows, other_rows, ascii_rows) for part in cpu.compress(column(some)))
    assert segments.continued is None
    planned = search.plan(Find(b"e"))
    assert planned is not None
    cpu_match.match(segments, planned)
    assert segments.continued is None
    check(rows, segments, [Length(), Find(b"e"), Find("€".encode())])
    length = search.plan(Length())
    assert length is not None
    cpu_match.match(segments, length)
    assert segments.continued == (False, True, False)
    planes = []
    made = cpu_match._Automata._make
    monkeypatch.setattr(cpu_match._Automata, "_make", lambda self, one: planes.append(one) or made(self, one))
    for question in (Length(), Find(b"e"), Find("€".encode()), Find(b"\x82"), Count(b"c")):
        again = search.plan(question)
        assert again is not None
        assert cpu_match.match(segments, again).tolist() == [answer(question, row) for row in rows]
    assert sum(machine.classes.any() for machine in planes) == 4  # a question about characters each
    assert len(planes) == 1 + 3 * 3 + 3  # of one segment, then of all
    assert Segments(segments).continued is None


@pytest.mark.parametrize("parts", [0, 1, 3])
def test_validity(parts: int) -> None:
    rows = mixed_rows(301)
    segments = [*cpu.compress(column(rows)), *cpu.compress(column([b"a"] * 5))] * parts
    everything = [*rows, *[b"a"] * 5] * parts
    bitmap, nulls = cpu_match.validity(segments)
    assert nulls == everything.count(None)
    if not parts:
        assert bitmap is None
        return
    assert bitmap is not None
    assert bitmap.tolist() == np.packbits([row is not None for row in everything], bitorder="little").tolist()
    assert cpu_match.validity(cpu.compress(column([b"a"]))) == (None, 0)


def test_little_memory() -> None:
    """Windows, not planes of the whole segment."""
    rows: Rows = [b"abcdefgh" * 4] * 2**19  # 16 MiB
    segments = cpu.compress(column(rows))
    planned = search.plan(Like((b"", *(b"%c" % (97 + i) for i in range(8)), b"")))
    assert planned is not None
    assert planned.planes == 8
    cpu_match.match(cpu.compress(column([b"a"])), planned)
    tracemalloc.start()
    found = cpu_match.match(segments, planned)
    peak = tracemalloc.get_traced_memory()[1] - found.nbytes
    tracemalloc.stop()
    assert found.all()
    assert peak < 2**20 * (1 + workers.num_threads())


# --- damage ---------------------------------------------------------------------------------------------------------


ASKED = [Like((b"", b"ab", b"")), Like((b"", b"a", b"h", b"c", b"")), IsIn((b"", b"ab")), Count(b"a"), Find(b"a")]
ASKED += [Length(), ByteCount(), Like((b"x", b""))]


@given(st.data())
def test_damaged_segments(data: st.DataObject) -> None:
    """Any bytes: a ValueError or some answers, and nothing outside the buffers (the guards around them hold)."""
    rows = mixed_rows(300)
    codec = data.draw(st.sampled_from([(), (onpair,)]))
    (segment,) = cpu.compress(column(rows), *codec, tile_size=data.draw(st.sampled_from(TILE_SIZES)))
    guarded = {}
    for name in ("meta", "codes"):
        array = getattr(segment, name)
        guarded[name] = np.full(array.size + 256, 0xA5, np.uint8)
        guarded[name][128:-128] = array
    body = guarded[data.draw(st.sampled_from(["meta", "codes"]))][128:-128]
    for _ in range(data.draw(st.integers(1, 8))):
        body[data.draw(st.integers(0, body.size - 1))] = data.draw(st.integers(0, 255))
    damaged = dataclasses.replace(segment, **{name: room[128:-128] for name, room in guarded.items()})
    for question in ASKED:
        planned = search.plan(question)
        assert planned is not None
        try:
            assert cpu_match.match([damaged], planned).size == 300
        except ValueError as error:
            assert "damaged segment: " in str(error)  # noqa: PT017 - damage need not be noticed, so no pytest.raises
    machine = automata.compile_pattern("a.*h|c$", 0, "contains", automata.PYTHON)
    assert machine is not None
    try:
        assert cpu_rows.answer([damaged], machine).size == 300
    except ValueError as error:
        assert "damaged segment: " in str(error)  # noqa: PT017 - likewise
    for room in guarded.values():
        assert (room[:128] == 0xA5).all()
        assert (room[-128:] == 0xA5).all()


@pytest.mark.parametrize(
    ("section", "place", "value", "message"),
    [
        ("tile_lengths", 3, 255, "codes of tile"),
        ("tile_lengths", 0, 0, "codes of tile"),
        ("block_starts", 0, 2**40, "codes of tile 0"),
        ("block_starts", 1, 5, "codes of tile 127"),
        ("row_starts", 1, 2**63, "row block 0"),
        ("row_starts", 0, 2**40, "row block 0"),
        ("row_starts", 2, 7, "row block 1"),
        ("row_minima", 0, 2**31, "row block 0"),
        ("row_words", 1, 2**31, "row block 0"),
    ],
)
@pytest.mark.parametrize("codec", [(), (onpair,)], ids=["fsst", "onpair"])
def test_damaged_meta(section: str, place: int, value: int, message: str, codec: tuple[Any, ...]) -> None:
    rows: Rows = [b"row %d of some" % (i * 7919 % 1000) for i in range(4000)]
    (segment,) = cpu.compress(column(rows), *codec, tile_size=256)
    damaged = dataclasses.replace(segment, meta=segment.meta.copy())
    damaged.section(section)[place] = value
    for question in (Like((b"", b"row", b"")), Count(b"o"), Length()):
        planned = search.plan(question)
        assert planned is not None
        with pytest.raises(ValueError, match=f"damaged segment: .*{message}"):
            cpu_match.match([damaged], planned)


def test_codes_that_do_not_fit_their_tile() -> None:
    (segment,) = cpu.compress(column([b"abcdefgh" * 100]), table=FOREIGN)
    shorter = SymbolTable.from_symbols([symbol[:2] if len(symbol) > 2 else symbol for symbol in FOREIGN.symbols])
    for table in (SymbolTable(()), shorter):
        for question in ASKED:
            planned = search.plan(question)
            if planned is None or question in (ByteCount(), ASKED[2]):
                continue
            with pytest.raises(ValueError, match="damaged segment: the codes of tile 0"):
                cpu_match.match([dataclasses.replace(segment, table=table)], planned)


def test_codes_of_onpair_that_do_not_fit_their_tile() -> None:
    """Symbols of fewer bytes, codes that the table lacks, of other bits; and tiles that have no code at all."""
    table = ONPAIR["onpair12"]
    (segment,) = cpu.compress(column([b"abcde" * 300, b"h" * 90]), table=table)
    shorter = OnPairTable.from_symbols(12, [symbol[:2] for symbol in table.symbols])
    damaged = [dataclasses.replace(segment, table=one) for one in (OnPairTable(12, ()), OnPairTable(10, ()), shorter)]
    lengths = segment.section("tile_lengths")
    none = dataclasses.replace(segment, meta=segment.meta.copy())
    none.section("tile_lengths")[0], none.section("tile_lengths")[1] = 0, lengths[1] + lengths[0]
    for one in (*damaged, none):
        for question in ASKED:
            planned = search.plan(question)
            if planned is None or question in (ByteCount(), ASKED[2]):
                continue
            with pytest.raises(ValueError, match=r"damaged segment: the codes of tile [01]"):
                cpu_match.match([one], planned)
        machine = automata.compile_pattern("a.*h", 0, "contains", automata.PYTHON)
        assert machine is not None
        with pytest.raises(ValueError, match=r"damaged segment: the codes of tile [01]"):
            cpu_rows.answer([one], machine)


def test_an_escape_at_the_end_of_a_tile() -> None:
    """What it escapes would be the next tile's first code."""
    (segment,) = cpu.compress(column([b"a" * 2000]), table=SymbolTable.from_symbols([b"a" * 8, b"a"]), tile_size=128)
    codes = segment.codes.copy()
    assert (segment.section("tile_lengths")[:-1] == 15).all()
    codes[14:16] = [0, 255]
    planned = search.plan(Count(b"aa"))
    assert planned is not None
    with pytest.raises(ValueError, match="damaged segment: the codes of tile 0"):
        cpu_match.match([dataclasses.replace(segment, codes=codes)], planned)


def test_buffers_of_the_wrong_size() -> None:
    (segment,) = cpu.compress(column([b"abcdefgh" * 100]))
    planned = search.plan(ByteCount())
    assert planned is not None
    for name in ("meta", "codes"):
        cut = dataclasses.replace(segment, **{name: getattr(segment, name)[:-1]})
        with pytest.raises(ValueError, match="bytes, not"):
            cpu_match.match([cut], planned)
        with pytest.raises(ValueError, match="bytes, not"):
            cpu_match.validity([cut])


def test_answers_that_no_int32_holds() -> None:
    offsets = np.array([0, 5, 2**31 + 5])
    lengths = row_lengths.measure(offsets)
    layout = SegmentLayout(2, int(offsets[-1]), 1024, False, lengths.words)
    segment = Segment(layout, 0, FOREIGN, np.zeros(layout.meta_nbytes, np.uint8), np.empty(0, np.uint8), 0)
    for name in ("row_starts", "row_minima", "row_words"):
        segment.section(name)[:] = getattr(lengths, name)
    row_lengths.pack(offsets, lengths, segment.section("row_bits"))
    planned = search.plan(ByteCount())
    assert planned is not None
    with pytest.raises(OverflowError, match="row 1 of a segment"):
        cpu_match.match([segment], planned)
