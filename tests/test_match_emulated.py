"""Questions about rows on an emulated GPU, against plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cudf_fsst.codecs.fsst import cpu, search
from cudf_fsst.codecs.fsst.search import ByteCount, Count, Find, IsIn, Length, Like, Question
from cudf_fsst.codecs.fsst.segment import Segment, Segments
from emulation.conftest import emulator
from test_fsst_emulated import SEGMENT, WORDS, Gpu, column, gpu, text

__all__ = ["emulator", "gpu"]

Rows = Sequence[bytes | None]


def ask(gpu: Gpu, segments: Sequence[Segment], question: Question) -> npt.NDArray[Any] | None:
    """The answers of segments in GPU memory."""
    from cudf_fsst.codecs.fsst import cuda_match
    from cudf_fsst.device.memory import Lane

    plan = search.plan(question)
    assert plan is not None
    with Lane() as lane:
        found = cuda_match.match(segments, plan, lane=lane)
        if found is None:
            return None
        lane.synchronize()
    return np.frombuffer(gpu.emulator.read(found.ptr, found.size), search.answer_dtype(question))


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


def check(gpu: Gpu, rows: Rows, segments: Sequence[Segment], question: Question) -> None:
    found = ask(gpu, segments, question)
    assert found is not None
    expected = np.array([answer(row, question) for row in rows], search.answer_dtype(question))
    assert found.size == expected.size
    plan = search.plan(question)
    assert plan is not None
    if plan.exact:
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
