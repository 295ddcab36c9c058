"""Chosen rows, in an order in which nothing is decoded twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudf_fsst.codecs.chosen import chosen, parts_of, shares_of
from cudf_fsst.codecs.part import edges_of
from cudf_fsst.codecs.raw import cpu

COUNT = 1 << 40
ROWS = st.lists(st.one_of(st.integers(0, 9), st.integers(0, COUNT - 1)), max_size=40)


@given(rows=ROWS)
def test_sorted(rows: list[int]) -> None:
    for given_rows in (rows, sorted(rows), sorted(rows)[::-1]):
        wanted = chosen(np.array(given_rows, np.int64), COUNT)
        found, places = wanted.sorted()
        assert found.tolist() == sorted(rows)
        if places.size:
            assert [given_rows[place] for place in places] == sorted(rows)
            assert sorted(places.tolist()) == list(range(len(rows)))
        else:
            assert given_rows == sorted(rows)
        assert wanted.ascending == (given_rows == sorted(rows))
        assert wanted.descending == (given_rows == sorted(rows)[::-1])


@given(rows=st.lists(st.integers(0, 5000), min_size=1, max_size=60), shift=st.integers(0, 14))
def test_grouped(rows: list[int], shift: int) -> None:
    found, places, ends = chosen(np.array(rows, np.int64), 5001).grouped(shift)
    order = sorted(range(len(rows)), key=lambda place: rows[place] >> shift)
    assert places.tolist() == order
    assert found.tolist() == [rows[place] for place in order]
    assert ends[-1] == len(rows)
    assert all(int(end) == sum(row >> shift <= group for row in rows) for group, end in enumerate(ends))


def test_ranges_and_rows_that_are_not_there() -> None:
    assert chosen(np.array([3, 4, 5]), 6).a_range
    assert not chosen(np.array([3, 5]), 6).a_range
    assert not chosen(np.array([4, 3]), 6).a_range
    assert not chosen(np.empty(0, np.int64), 0).a_range
    for wrong in ([6], [-1, 3], [0]):
        with pytest.raises(IndexError, match=r"rows .* to .* of"):
            chosen(np.array(wrong), 6 if wrong != [0] else 0)


def test_shares() -> None:
    parts = [cpu.encode(np.zeros(rows, "u1")) for rows in (5, 1, 300, 7)]
    edges = edges_of(parts)
    assert edges.tolist() == [0, 5, 6, 306, 313]
    for rows in ([0, 4, 6, 6, 305, 312], [5, 5], [312]):
        found = [(number, rows[a:b]) for number, a, b in shares_of(np.array(rows), edges)]
        wanted = [[row for row in rows if edges[k] <= row < edges[k + 1]] for k in range(4)]
        assert found == [(k, some) for k, some in enumerate(wanted) if some]
    for start, stop, expected in ((0, 313, (0, 4)), (4, 6, (0, 2)), (6, 7, (2, 3)), (306, 306, (0, 0))):
        assert parts_of(edges, start, stop) == expected
