"""Questions about rows, and their answers in plain Python, for all sides that answer them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cudf_fsst.buffers import HostStrings
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.text.search import ByteCount, Count, Find, IsIn, Length, Like, Question

Rows = list[bytes | None]

#: Trained on other data than most rows here, so that there are escapes and raw tiles.
FOREIGN = SymbolTable.from_symbols([b"abc", b"de", b"f", b"abcde", b"gh", b"aa", b"hgfedcba", b"\0\0", b"\0", b"a"])
TABLES = {"trained": None, "foreign": FOREIGN, "no_symbols": SymbolTable(())}


def column(rows: Rows) -> HostStrings:
    """Rows as buffers."""
    offsets = np.cumsum([0] + [len(row or b"") for row in rows]).astype(np.int64)
    chars = np.frombuffer(b"".join(row or b"" for row in rows), np.uint8)
    nulls = rows.count(None)
    validity = np.packbits([row is not None for row in rows], bitorder="little") if nulls else None
    return HostStrings(len(rows), chars, offsets, validity, 0, nulls)


def continuing(text: bytes) -> int:
    """Bytes that continue a character of UTF-8."""
    return sum(0x80 <= byte < 0xC0 for byte in text)


def is_like(parts: Sequence[bytes], row: bytes) -> bool:
    """What `Like` asks."""
    if len(parts) == 1:
        return row == parts[0]
    if not row.startswith(parts[0]):
        return False
    at = len(parts[0])
    for part in parts[1:-1]:
        at = row.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return row.endswith(parts[-1]) and len(row) - len(parts[-1]) >= at


def answer(question: Question, row: bytes | None) -> int:
    """The answer for a row; 0 for a null."""
    if row is None:
        return 0
    match question:
        case Like(parts, more):
            return is_like(parts, row) and (len(parts) == 1 or len(row) >= sum(map(len, parts)) + more)
        case IsIn(values):
            return row in values
        case Count(pattern):
            return row.count(pattern)
        case Find(pattern):
            at = row.find(pattern)
            return at if at < 0 else at - continuing(row[:at])
        case Length():
            return len(row) - continuing(row)
        case ByteCount():
            return len(row)
    raise TypeError(f"no question: {question!r}")


def questions(patterns: Sequence[bytes], values: Sequence[bytes]) -> list[Question]:
    """Questions of every kind with these patterns, of at least a byte each."""
    some: list[Question] = [Length(), ByteCount(), Like((b"", b"")), Like((b"",)), Like((b"", b"", b"", b""))]
    for i, one in enumerate(patterns):
        two = patterns[(i + 1) % len(patterns)]
        some += [
            Like((b"", one, b"")),
            Like((one, b"")),
            Like((b"", one)),
            Like((one,)),
            Like((b"", one, two, b"")),
            Like((b"", one, one, b"")),
            Like((one, two)),
            Like((one, two, one)),
            Like((b"", one, b"", two)),
            Count(one),
            Find(one),
        ]
    some += [Like((b"", *patterns, b"")), Like((*patterns,)), IsIn(()), IsIn((b"",))]
    some += [IsIn(tuple(values[:1])), IsIn((b"", *values[:2])), IsIn(tuple(values)), IsIn(tuple(patterns))]
    return some


def mixed_rows(count: int = 1500, seed: int = 0) -> Rows:
    """Words of a few letters, random bytes, characters of several bytes, nulls and empty rows."""
    source = np.random.default_rng(seed)
    words = [bytes(source.integers(97, 105, source.integers(1, 12), np.uint8)) for _ in range(50)]
    words += ["é€😀"[i:j].encode() for i in range(3) for j in range(i + 1, 4)]
    rows: Rows = []
    for _ in range(count):
        kind = source.random()
        if kind < 0.1:
            rows.append(None)
        elif kind < 0.2:
            rows.append(b"")
        elif kind < 0.25:
            rows.append(source.bytes(int(source.integers(1, 400))))
        else:
            rows.append(b" ".join(words[i] for i in source.integers(0, len(words), source.integers(1, 12))))
    return rows


def patterns_of(rows: Rows, seed: int = 0) -> list[bytes]:
    """Pieces of rows: their beginnings, ends and insides, and pieces across two rows, which are none."""
    source = np.random.default_rng(seed)
    good = [row for row in rows if row and len(row) > 4] or [b"abcdefgh"]
    found = []
    for size in (1, 2, 3, 5, 9, 17, 33):
        row = good[source.integers(len(good))]
        at = int(source.integers(len(row)))
        found += [row[:size], row[-size:], row[at : at + size]]
    joined = b"".join(row or b"" for row in rows)
    at = len(joined) // 2
    return [*dict.fromkeys([*found, joined[at : at + 12], b"no such piece"])]
