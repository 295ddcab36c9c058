"""Streams of values on the host: looked at part by part."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cudf_fsst.codecs.part import Packed
from cudf_fsst.codecs.values import cpu

#: Codec, its options, itemsize.
KINDS: list[tuple[str, dict[str, int], int]] = [
    *(("bitpack", {}, itemsize) for itemsize in (1, 2, 4, 8)),
    ("gfc", {}, 4),
    ("gfc", {"dim": 3, "chunk": 65536}, 8),
    ("gpulz", {}, 1),
    ("gpulz", {"symbol": 8, "chunk": 16384}, 4),
    ("gpulz", {"symbol": 1, "chunk": 16384}, 8),
    ("raw", {}, 2),
]


def piece(codec: str, options: dict[str, int], itemsize: int, rows: int) -> tuple[Packed, Any]:
    rng = np.random.default_rng(rows)
    values = np.cumsum(rng.integers(0, 100, rows)).astype(f"<u{itemsize}")
    return cpu.side(codec).encode(values, **options), values


@pytest.mark.parametrize(("codec", "options", "itemsize"), KINDS)
def test_parts_are_the_values(codec: str, options: dict[str, int], itemsize: int) -> None:
    made = [piece(codec, options, itemsize, rows) for rows in (1, 1023, 400_000, 70_000, 5)]
    stream = [packed for packed, _ in made]
    parts = cpu.survey(stream, lambda part: part.copy())
    assert len(parts) > len(stream)
    assert max(part.nbytes for part in parts) <= 2**19
    np.testing.assert_array_equal(np.concatenate(parts), np.concatenate([values for _, values in made]))
    assert cpu.survey([], len) == []


@pytest.mark.parametrize(("codec", "options", "itemsize"), KINDS)
def test_a_part_is_read_by_itself(codec: str, options: dict[str, int], itemsize: int) -> None:
    packed, values = piece(codec, options, itemsize, 300_001)
    module = cpu.side(codec)
    unit = module.unit(packed)
    for first, last in ((0, unit), (unit, 2 * unit), (unit, 300_001), (300_000 // unit * unit, 300_001)):
        last = min(last, values.size)
        out = np.empty((last - first) * itemsize, np.uint8)
        module.decode(packed, out, first, last)
        np.testing.assert_array_equal(out.view(values.dtype), values[first:last])
    with pytest.raises(ValueError, match=f"{unit * itemsize} (writable )?bytes"):
        module.decode(packed, np.empty(unit * itemsize + 1, np.uint8), 0, unit)


@pytest.mark.parametrize(("codec", "options", "itemsize"), KINDS)
def test_parts_of_damaged_pieces(codec: str, options: dict[str, int], itemsize: int) -> None:
    """A ValueError or any values; nothing is written beside them."""
    packed, _ = piece(codec, options, itemsize, 20_000)
    module = cpu.side(codec)
    rng = np.random.default_rng(11)
    unit = module.unit(packed)
    for _ in range(300):
        changed = {name: getattr(packed, name).copy() for name in ("meta", "codes")}
        for array in changed.values():
            if array.size:
                at = rng.integers(0, array.size, rng.integers(0, 5))
                array[at] = rng.integers(0, 256, at.size)
        first = int(rng.integers(0, -(-packed.rows // unit))) * unit
        last = int(min(first + unit * rng.integers(1, 3), packed.rows))
        room = np.full((last - first) * itemsize + 256, 0xA5, np.uint8)
        with suppress(ValueError):
            module.decode(replace(packed, **changed), room[128:-128], first, last)
        assert (room[:128] == 0xA5).all()
        assert (room[-128:] == 0xA5).all()
