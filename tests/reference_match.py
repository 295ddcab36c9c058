"""Answers to questions about rows by their definition, in plain Python; the package's own are checked against them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cudf_fsst.codecs.text.search import ByteCount, Count, Find, IsIn, Length, Like, Question, answer_dtype


def answers(rows: Sequence[bytes | None], question: Question) -> np.ndarray:
    """One for each row; 0 for nulls."""
    return np.array([0 if row is None else _answer(row, question) for row in rows], answer_dtype(question))


def _answer(row: bytes, question: Question) -> Any:
    if isinstance(question, Like):
        return _like(row, question.parts)
    if isinstance(question, IsIn):
        return row in question.values
    if isinstance(question, Count):
        return row.count(question.pattern)
    if isinstance(question, Find):
        at = row.find(question.pattern)
        return at if at < 0 else characters(row[:at])
    if isinstance(question, Length):
        return characters(row)
    assert isinstance(question, ByteCount)
    return len(row)


def characters(text: bytes) -> int:
    return sum(byte & 0xC0 != 0x80 for byte in text)


def _like(row: bytes, parts: tuple[bytes, ...]) -> bool:
    if len(parts) == 1:
        return row == parts[0]
    first, *inner, last = parts
    if len(row) < len(first) + len(last) or not row.startswith(first) or not row.endswith(last):
        return False
    at, end = len(first), len(row) - len(last)
    for part in inner:
        at = row.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def is_like(text: str, pattern: str, escape: str | None = None) -> bool:
    """Whether SQL's LIKE takes a text; an escape at the end stands for itself."""
    states = {0}  # places in the pattern, behind what was read
    for character in [*text, None]:
        waiting, states = list(states), set()
        seen = set()
        while waiting:
            at = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            if at == len(pattern):
                if character is None:
                    return True
                continue
            wanted, after = pattern[at], at + 1
            literal = wanted == escape
            if literal and after < len(pattern):
                wanted, after = pattern[after], after + 1
            if wanted == "%" and not literal:
                waiting.append(after)
                states.add(at)
            elif character is not None and (character == wanted or (wanted == "_" and not literal)):
                states.add(after)
    return False
