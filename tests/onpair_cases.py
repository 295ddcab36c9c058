"""Texts and tables for the tests of OnPair."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cudf_fsst.codecs.onpair import cpu
from cudf_fsst.codecs.onpair.symbols import OnPairTable
from cudf_fsst.codecs.onpair.train import train_table

WORDS = b"the quick brown fox jumps over lazy dogs carefully final deposits sleep above ironic requests".split()
KINDS = ("words", "bytes", "zeros", "runs", "mixed")


def text(kind: str, nbytes: int, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """So many characters of a kind of text."""
    if kind == "words":
        picked = b" ".join(WORDS[i] for i in rng.integers(0, len(WORDS), nbytes // 3 + 4))
        return np.frombuffer(picked[:nbytes], np.uint8)
    if kind == "bytes":
        return rng.integers(0, 256, nbytes, dtype=np.uint8)
    if kind == "zeros":  # strings that differ in how many zero bytes they end with
        return (rng.integers(0, 8, nbytes) == 0).astype(np.uint8)
    if kind == "runs":
        return np.repeat(rng.integers(97, 100, nbytes // 9 + 1, dtype=np.uint8), 9)[:nbytes]
    parts = [text(KINDS[i], 400, rng) for i in rng.integers(0, 4, nbytes // 400 + 1)]
    return np.concatenate(parts)[:nbytes]


def table_for(kind: str, chars: npt.NDArray[np.uint8], bits: int) -> OnPairTable:
    """A table trained on the characters."""
    sample = chars[:30_000]
    return train_table(sample, np.arange(0, sample.size, 512, dtype=np.int64), 10**6, bits)


def encoded(
    table: OnPairTable, chars: npt.NDArray[np.uint8], tile_size: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any], npt.NDArray[np.uint64]]:
    """Codes of all tiles, what is stored of their lengths, and where the codes of blocks of tiles end."""
    tiles = -(-chars.size // tile_size)
    codes, lengths = np.empty(chars.size, np.uint8), np.zeros(tiles, np.uint8 if tile_size <= 256 else np.uint16)
    ends = np.zeros(-(-tiles // 128), np.uint64)
    nbytes = cpu.encoder(table, "default", tile_size)(np.ascontiguousarray(chars), 0, tiles, codes, lengths, ends)
    return codes[:nbytes], lengths, ends
