"""Automata of rows say what Python's `re` and Arrow's RE2 say, about plain strings."""

from __future__ import annotations

import itertools
import os
import re
import time
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pattern_cases as cases
from cudf_fsst import automata
from cudf_fsst.automata import ARROW, CUDF, EITHER, PYTHON, UNDECIDED, YES, RowAutomaton
from cudf_fsst.automata.portable import is_portable
from cudf_fsst.codecs.text import search

#: Random patterns of the slow tests; the quick ones take a fiftieth.
PATTERNS = int(os.environ.get("CUDF_FSST_PATTERNS", "20000"))
METHODS = {"contains": "search", "match": "match", "fullmatch": "fullmatch"}
#: Rows that all patterns are asked.
ROWS = ["", "a", "\n", "b\n", "\n\n", "ab ab", "A_0", "é", "aé", "一龥", "😀", "\x1c", "a\0b"]
ROWS += list("\u017f\u212a\u0130\u0131")


def expressions(count: int, seed: int) -> list[tuple[str, int, str, list[str]]]:
    """Patterns that Python takes, flags, method and rows."""
    random, made = Random(seed), []
    while len(made) < count:
        pattern, flags = cases.a_pattern(random), cases.some_flags(random)
        try:
            re.compile(pattern, flags)
        except re.error:
            continue
        rows = ROWS + [cases.a_row(random) for _ in range(12)]
        made.append((pattern, flags, random.choice(list(METHODS)), rows))
    return made


def check_against_re(pattern: str, flags: int, how: str, rows: list[str], counts: dict[str, int]) -> None:
    compiled = getattr(re.compile(pattern, flags), METHODS[how])
    for meaning in (PYTHON, EITHER):
        machine = automata.compile_pattern(pattern, flags, how, meaning)
        counts[f"{meaning.name} {'made' if machine else 'none'}"] += 1
        if machine is None:
            continue
        for row in rows:
            found = machine.verdict(row.encode())
            if row.isascii() and "\0" not in row:
                assert found == machine.of_plain_rows.verdict(row.encode()), (pattern, flags, how, row, meaning.name)
            if found != UNDECIDED:
                assert found == (compiled(row) is not None), (pattern, flags, how, row, meaning.name)
            elif meaning is PYTHON and row.isascii() and "\\B" not in pattern:
                assert flags & re.IGNORECASE, ("undecided", pattern, flags, how, row)
                assert not pattern.isascii(), ("undecided", pattern, flags, how, row)


def check_against_re2(pattern: str, flags: int, how: str, rows: list[str], counts: dict[str, int]) -> None:
    """As pandas asks Arrow: beginnings and ends are written into the pattern."""
    if flags & ~re.IGNORECASE or (how == "fullmatch" and ("^" in pattern or "$" in pattern)):
        return
    machines = [automata.compile_pattern(pattern, flags, how, meaning) for meaning in (ARROW, EITHER)]
    counts[f"RE2 {'made' if machines[0] else 'none'}"] += 1
    if not any(machines):
        return
    whole = {"contains": pattern, "match": f"^({pattern})", "fullmatch": f"^({pattern})$"}[how]
    wanted = pc.match_substring_regex(pa.array(rows), whole, ignore_case=bool(flags & re.IGNORECASE)).to_pylist()
    for machine, row_and_answer in itertools.product(machines, zip(rows, wanted, strict=True)):
        row, answer = row_and_answer
        if machine is not None:
            found = machine.verdict(row.encode())
            assert found in (answer, UNDECIDED), (pattern, flags, how, row, answer)
            if machine is machines[0] and not flags & re.IGNORECASE:
                assert found == answer, ("undecided", pattern, flags, how, row)


def check_many(count: int, seed: int) -> None:
    counts: dict[str, int] = {f"{name} {end}": 0 for name in ("re", "re or RE2", "RE2") for end in ("made", "none")}
    for one in expressions(count, seed):
        check_against_re(*one, counts)
        check_against_re2(*one, counts)
    assert counts["re made"] > 0.8 * count, counts
    assert counts["RE2 made"] > 0.2 * count, counts


def test_random_patterns() -> None:
    check_many(PATTERNS // 50, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 4))
def test_many_random_patterns(seed: int) -> None:
    check_many(PATTERNS // 10, seed)


def verdicts(machine: RowAutomaton | None, *rows: str) -> list[int]:
    assert machine is not None
    return [machine.verdict(row.encode("utf-8", "surrogatepass")) for row in rows]


def test_what_libraries_do_not_agree_on_is_undecided() -> None:
    end = automata.compile_pattern("a$", 0, "contains", EITHER)
    assert verdicts(end, "a", "a\n", "a\n\n", "b") == [1, 2, 0, 0]
    assert verdicts(automata.compile_pattern("a$", 0, "contains", PYTHON), "a\n") == [1]
    assert verdicts(automata.compile_pattern("a$", 0, "contains", ARROW), "a\n") == [0]
    word = automata.compile_pattern(r"\bfinal\b", 0, "contains", PYTHON)
    assert verdicts(word, "a final b", "éfinal", "é final", "final!", "xfinal") == [1, 2, 1, 1, 0]
    assert verdicts(automata.compile_pattern(r"\bfinal\b", 0, "contains", ARROW), "éfinal") == [1]
    case = automata.compile_pattern("kid", re.IGNORECASE, "contains", PYTHON)
    assert verdicts(case, "KiD", "\u212aid", "k\u0130d", "kéd") == [1, 2, 2, 0]
    not_word = automata.compile_pattern(r"\W", 0, "contains", CUDF)
    assert verdicts(not_word, "a b", "a\n", "ab", "a\0") == [1, 2, 0, 2]
    literal = automata.compile_literal("fi", EITHER)
    assert verdicts(literal, "XFI", "f\u0131", "\ufb01", "fé fi", "gi") == [1, 2, 2, 2, 0]


def test_bytes_that_are_no_utf_8_are_undecided() -> None:
    machine = automata.compile_pattern("a.c", 0, "contains", PYTHON)
    assert machine is not None
    rows = b"abc\xff", b"a\xffc", b"\x80", b"\xe4\xb8", b"a\xe4\xb8\x80c"
    assert [machine.verdict(row) for row in rows] == [1, 2, 2, 2, 1]


@pytest.mark.parametrize(
    "pattern",
    ["(?=a)b", "(a)\\1", "(?<!a)b", "(?>a)", "a*+", "(a*)*", "(" * 200 + ")" * 200, "[", "\\"],
)
def test_patterns_that_are_left_to_the_library(pattern: str) -> None:
    assert automata.compile_pattern(pattern, 0, "contains", PYTHON) is None


@pytest.mark.parametrize(
    "pattern",
    "[[a]  [a&&b]  a|  ()  \\x41  \\Z  a{,2}  (?i)a  a\0  a**  \\B  []a]  x{".split("  "),
)
def test_patterns_that_are_not_known_to_mean_the_same_everywhere(pattern: str) -> None:
    assert not is_portable(pattern)
    assert automata.compile_pattern(pattern, 0, "contains", ARROW) is None


@pytest.mark.parametrize(
    "pattern",
    [
        "(((a{30}){30}){30}){30}",
        "(a|b)*a(a|b){20}",
        "(.*)(.*)(.*)(.*)(.*)x" * 8,
        "|".join(f"{i}.*{i + 1}" for i in range(150)),
        "".join(chr(0x4E00 + 2 * i) for i in range(900)),
        "[" + "".join(chr(0x4E00 + 2 * i) for i in range(900)) + "]x{90}",
        "(a?){400}b",
        "((a{0,9}){0,9}){0,9}c",
        "(^|$|\\b|\\B|a){1,30}" * 20,
    ],
)
def test_hostile_patterns_cost_little(pattern: str) -> None:
    for meaning in (PYTHON, EITHER):
        automata.compile_pattern.cache_clear()
        start = time.process_time()
        automata.compile_pattern(pattern, 0, "contains", meaning)
        assert time.process_time() - start < 0.5  # a tenth of that, on an idle machine


def test_values_between_others() -> None:
    values = [b"", b"a", b"abc", b"b", b"\xff", "é".encode(), b"aa\0", b"x" * 99, b"x" * 120]
    rows = [*values, b"x" * 100, b"x" * 101, b"y"]
    for left, right in itertools.product([None, *values], repeat=2):
        for with_left, with_right in itertools.product((False, True), repeat=2):
            machine = automata.between(left, right, with_left=with_left, with_right=with_right)
            for row in rows:
                above = left is None or row > left or (with_left and row == left)
                below = right is None or row < right or (with_right and row == right)
                found = machine.verdict(row)
                assert found == (above and below) or (found == UNDECIDED and len(row) > 99), (left, right, row)


def test_beginnings_and_ends() -> None:
    random = Random(3)
    for _ in range(200):
        some = ["".join(random.choices("ab", k=random.randint(0, 4))).encode() for _ in range(random.randint(0, 6))]
        machine, other = automata.starts_with(tuple(some)), automata.ends_with(tuple(some))
        for row in (b"", b"a", b"ab", b"ba", b"abba", b"bbbb", b"\xff"):
            assert machine.verdict(row) == row.startswith(tuple(some))
            assert other.verdict(row) == row.endswith(tuple(some))
    with pytest.raises(automata.TooLarge):
        automata.starts_with(tuple([bytes([i]) * 50 for i in range(50)]))


def test_like() -> None:
    machine = automata.compile_like(("c", "", "refully", None), EITHER)
    assert verdicts(machine, "carefully", "carefully x", "cérefully", "crefully", "xcarefully") == [1, 1, 1, 0, 0]
    assert verdicts(automata.compile_like((None, "", None), EITHER), "", "a", "é") == [0, 1, 1]
    assert automata.compile_like(("x" * 600,), EITHER) is None


def test_rows_of_ascii_are_decided() -> None:
    patterns = ("fur.*ly", "(special|pending).*(requests|deposits)", "^[A-Z]?car", r"\bfinal\b")
    made = [automata.compile_pattern(one, 0, "contains", CUDF) for one in patterns]
    made.append(automata.compile_like(("c", "", "refully", None), CUDF))
    for machine in made:
        assert machine is not None
        assert not machine.decides
        assert machine.of_plain_rows.decides
        assert machine.of_plain_rows.states < machine.states


def test_automata_are_the_smallest() -> None:
    one = automata.compile_pattern("a|b|c", 0, "match", PYTHON)
    other = automata.compile_pattern("[a-c]", 0, "match", PYTHON)
    assert one is not None
    assert other is not None
    assert one.following.tolist() == other.following.tolist()
    assert one.states == other.states


@pytest.mark.parametrize("pattern", ["a^b", "(^a)", "a$|b", "($)[^a]", "\\b.", "\\b[^a]", "\\b\\W", "\\ba*", "\\b"])
def test_patterns_that_libcudf_may_read_in_another_way(pattern: str) -> None:
    if pattern != "\\b":
        assert automata.compile_pattern(pattern, 0, "contains", CUDF) is None
    assert automata.compile_pattern(pattern, 0, "contains", ARROW) is not None
    for known in ("^a", "a$", "\\bfinal\\b", "^(a|b)+$", "\\b[a-z]+\\b"):
        assert automata.compile_pattern(known, 0, "contains", CUDF) is not None


def test_ranges_without_case_are_left_to_libcudf_where_they_mix() -> None:
    """libcudf takes more for ``[0-B]`` than the letters of its letters."""
    for pattern, known in (("[0-B]", False), ("[A-z]", False), ("[a-f]", True), ("[A-F0-9]", True), ("[!-/]", True)):
        made = automata.compile_pattern(pattern, re.IGNORECASE, "contains", CUDF)
        assert (made is not None) == known, pattern


@pytest.mark.parametrize(
    ("pattern", "flags", "size"),
    [
        ("abc", 0, 3),
        ("[a-c]{3}", 0, 3),
        ("a(?:b)[^a]", re.IGNORECASE, 3),
        (".", 0, 1),
        ("a{2}b", 0, 3),
        ("a+", 0, 0),
        ("^a", 0, 0),
        ("a|b", 0, 1),
        ("ab|c", 0, 0),
        (r"\ba", 0, 0),
        ("a?", 0, 0),
        ("é", re.IGNORECASE, 0),
    ],
)
def test_patterns_of_one_length(pattern: str, flags: int, size: int) -> None:
    """What is found without looking at where rows end."""
    machine = automata.compile_pattern(pattern, flags, "contains", automata.CUDF)
    assert len(machine.sets if machine else ()) == size
    if machine is None or not size:
        return
    question = search.Sets(machine.sets)
    plan = search.plan(question)
    assert plan is not None
    for row in map(bytes, itertools.product(b"abcAB\n", repeat=5)):
        wanted = machine.verdict(row) == YES
        assert search.answer(question, row) == wanted
        state, found = 0, False
        for byte in row:
            state = plan.searches[0].following[state, byte]
            found |= bool(plan.searches[0].accepts[state])
        assert found == wanted
