"""The toy codec of text on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cudf_fsst.codecs.jit import njit
from cudf_fsst.codecs.text.cpu_decode import decoder
from cudf_fsst.codecs.text.cpu_match_kernels import Search
from cudf_fsst.codecs.text.layout import TILE_BLOCK
from cudf_fsst.codecs.text.segment import Segment
from cudf_fsst.codecs.unaligned import load8, store8

from . import ToyTable

#: A byte below it is a code; how much more two equal ones are.
LIMIT, TWO = 127, 128


def train(chars: npt.NDArray[np.uint8], start: int, nbytes: int, level: str) -> ToyTable:
    """Nothing is learnt."""
    del chars, start, nbytes, level
    return ToyTable()


@njit()
def _encode(
    chars: Any, tile_size: int, first: int, last: int, plus: int, codes: Any, tile_lengths: Any, block_ends: Any
) -> int:
    written: Any = 0
    for tile in range(first, last):
        begin, end = tile * tile_size, min((tile + 1) * tile_size, chars.size)
        at, to = begin, written
        while at < end and to < written + end - begin:
            byte = np.int64(chars[at])
            if byte >= LIMIT:
                codes[to] = 0
                if to + 1 < written + end - begin:
                    codes[to + 1] = byte
                to += 2
            else:
                two = at + 1 < end and chars[at + 1] == byte
                codes[to] = byte + plus + (TWO if two else 0)
                at += two
                to += 1
            at += 1
        if at < end or to >= written + end - begin:  # raw
            to = written + end - begin
            codes[written:to] = chars[begin:end]
        tile_lengths[tile] = to - written - 1
        written = to
        if (tile + 1) % TILE_BLOCK == 0 or tile + 1 == last:
            block_ends[tile // TILE_BLOCK] = written
    return written


def encoder(table: ToyTable, level: str, tile_size: int) -> Callable[..., int]:
    """See `contract.HostTextCodec`."""
    del level

    def encode(chars: Any, first: int, last: int, codes: Any, tile_lengths: Any, block_ends: Any) -> int:
        return int(_encode(chars, tile_size, first, last, table.plus, codes, tile_lengths, block_ends))

    return encode


@njit()
def _decode_tile(at: int, end: int, out: int, nbytes: int, limit: int, table: Any) -> bool:
    stop = out + nbytes
    plus = load8(table[0])
    while at < end:
        code = load8(at)
        at += 1
        if code == 0:
            if at == end or out == stop:
                return False
            store8(out, load8(at))
            at += 1
            out += 1
        else:
            count = 2 if code > TWO else 1
            if stop - out < count:
                return False
            for i in range(count):
                store8(out + i, np.uint8((code & 127) - plus))
            out += count
    return out == stop


_PLUS = np.ones(1, np.uint8)


def _plus(table: ToyTable) -> tuple[npt.NDArray[Any], ...]:
    del table
    return (_PLUS,)


DECODER = decoder(_decode_tile, _plus)
SEARCH: Search | None = None


def check_codes(segment: Segment) -> None:
    """See `contract.HostTextCodec`."""
    layout = segment.layout
    ends = np.cumsum(segment.section("tile_lengths").astype(np.int64) + 1)
    for tile, end in enumerate(ends.tolist()):
        begin = int(ends[tile - 1]) if tile else 0
        nbytes = min(layout.tile_size, layout.chars - tile * layout.tile_size)
        codes = np.ascontiguousarray(segment.codes[begin:end])
        out = np.empty(nbytes, np.uint8)
        to = out.ctypes.data
        if codes.size < nbytes and not _decode_tile(
            codes.ctypes.data, codes.ctypes.data + codes.size, to, nbytes, to + nbytes, (_PLUS.ctypes.data,)
        ):
            raise ValueError(f"tile {tile} does not decode to its bytes")
