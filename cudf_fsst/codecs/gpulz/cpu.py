"""gpuLZ on the host (docs/format.md, section 13). One thread a call; callers share out segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .. import units
from ..jit import njit
from ..part import Packed
from ..unaligned import address, copy, load8, load16, load32, load64, store8, store16, store32, store64
from .launch import CHUNK_BLOCK, GpulzLayout, Options, layout_of, most_nbytes
from .launch import options as complete

#: Slots by which equal symbols are found.
_SLOT_BITS = 11
_MULTIPLIER = 0x9E3779B97F4A7C15


@njit(inline="always")
def _load(where: int, size: int) -> int:
    if size == 1:
        return np.uint64(load8(where))
    if size == 2:
        return np.uint64(load16(where))
    if size == 4:
        return np.uint64(load32(where))
    return load64(where)


@njit(inline="always")
def _store(where: int, value: int, size: int) -> None:
    if size == 1:
        store8(where, np.uint8(value))
    elif size == 2:
        store16(where, np.uint16(value))
    elif size == 4:
        store32(where, np.uint32(value))
    else:
        store64(where, value)


@njit()
def _read_symbols(source: int, nbytes: int, size: int, symbols: Any) -> int:
    """Fill `symbols` with the bytes of a chunk, the last one with zeros above; how many there are."""
    full_symbols = nbytes // size
    for i in range(full_symbols):
        symbols[i] = _load(source + i * size, size)
    count = full_symbols
    if full_symbols * size < nbytes:
        last = np.uint64(0)
        for i in range(nbytes - 1, full_symbols * size - 1, -1):
            last = last << np.uint64(8) | np.uint64(load8(source + i))
        symbols[full_symbols] = last
        count += 1
    return count


@njit(inline="always")
def _slot(symbol: int) -> int:
    return np.int64(symbol * np.uint64(_MULTIPLIER) >> np.uint64(64 - _SLOT_BITS))


@njit()
def _parse(
    symbols: Any, count: int, size: int, window: int, heads: Any, chain: Any, token_at: Any, lengths: Any, offsets: Any
) -> int:
    """Tokens of a chunk: where each starts, length (0: a literal) and offset of its match. How many there are.

    `heads` and `chain` lead from a symbol to the ones before it that are in the same slot, nearest first.
    """
    least = 2 if size <= 2 else 1
    heads[:] = -1
    tokens = 0
    position = 0
    while position < count:
        best = 0
        offset = 0
        first = symbols[position]
        remaining = count - position
        before = heads[_slot(first)]
        # A match is no longer than its offset, so that a small one cannot be better than `best`.
        while before >= 0 and position - before <= window and best < remaining:
            d = position - before
            if d > best and symbols[before] == first and symbols[position + best] == symbols[before + best]:
                most = min(d, remaining)
                length = 1
                while length < most and symbols[position + length] == symbols[before + length]:
                    length += 1
                if length > best:
                    best = length
                    offset = d
            before = chain[before]
        if best < least:
            best = 0
        token_at[tokens] = position
        lengths[tokens] = best
        offsets[tokens] = offset
        tokens += 1
        for i in range(position, position + max(best, 1)):
            slot = _slot(symbols[i])
            chain[i] = heads[slot]
            heads[slot] = i
        position += max(best, 1)
    return tokens


@njit()
def _compress(values: int, values_nbytes: int, size: int, chunk: int, window: int, counts: Any, out: int) -> int:
    """Write the codes of all chunks to `out` (0: nowhere) and fill `counts`; bytes of the codes."""
    symbols = np.zeros(chunk // size, np.uint64)
    heads = np.zeros(1 << _SLOT_BITS, np.int32)
    chain = np.zeros(chunk // size, np.int32)
    token_at = np.zeros(chunk // size, np.int64)
    lengths = np.zeros(chunk // size, np.int64)
    offsets = np.zeros(chunk // size, np.int64)
    total = 0
    for c in range(counts.size):
        source = values + c * chunk
        nbytes = min(chunk, values_nbytes - c * chunk)
        count = _read_symbols(source, nbytes, size, symbols)
        tokens = _parse(symbols, count, size, window, heads, chain, token_at, lengths, offsets)
        matches = 0
        for t in range(tokens):
            matches += lengths[t] != 0
        lengths_at = size * (tokens - matches)
        flags_at = lengths_at + 2 * matches
        end = flags_at + (tokens + 7) // 8
        code_nbytes = (end + 3) // 4 * 4
        raw_nbytes = (nbytes + 3) // 4 * 4
        to = out + total
        if code_nbytes >= raw_nbytes:
            counts[c] = 0
            total += raw_nbytes
            if out != 0:
                copy(to, source, nbytes)
                for i in range(nbytes, raw_nbytes):
                    store8(to + i, np.uint8(0))
            continue
        counts[c] = tokens | matches << 16
        total += code_nbytes
        if out == 0:
            continue
        for i in range(flags_at, code_nbytes):
            store8(to + i, np.uint8(0))
        match = 0
        for t in range(tokens):
            if lengths[t] == 0:
                _store(to + size * (t - match), symbols[token_at[t]], size)
            else:
                store8(to + lengths_at + match, np.uint8(lengths[t]))
                store8(to + lengths_at + matches + match, np.uint8(offsets[t]))
                store8(to + flags_at + t // 8, load8(to + flags_at + t // 8) | np.uint8(1 << t % 8))
                match += 1
    return total


@njit()
def _chunk_sizes(values_nbytes: int, size: int, chunk: int, counts: Any, sizes: Any) -> None:
    for c in range(counts.size):
        tokens = np.int64(counts[c]) & 0xFFFF
        matches = np.int64(counts[c]) >> 16
        nbytes = min(chunk, values_nbytes - c * chunk)
        if tokens != 0:
            nbytes = size * (tokens - matches) + 2 * matches + (tokens + 7) // 8
        sizes[c] = (nbytes + 3) // 4 * 4


@njit()
def _decode_chunk(source: int, code_nbytes: int, count: int, nbytes: int, size: int, symbols: Any, out: int) -> bool:
    """Write the `nbytes` of a chunk to `out` (0: nowhere); False where its codes are damaged.

    `count` is the chunk's entry of ``counts``, with no more matches than tokens; `code_nbytes` is what that says.
    """
    tokens = count & 0xFFFF
    matches = count >> 16
    if tokens == 0:
        for i in range(nbytes, code_nbytes):
            if load8(source + i) != 0:
                return False
        if out != 0:
            copy(out, source, nbytes)
        return True
    wanted = (nbytes + size - 1) // size
    lengths = source + size * (tokens - matches)
    offsets = lengths + matches
    flags = offsets + matches
    position = 0
    match = 0
    for t in range(tokens):
        if load8(flags + t // 8) >> (t % 8) & 1:
            if match == matches:
                return False
            length = np.int64(load8(lengths + match))
            offset = np.int64(load8(offsets + match))
            match += 1
            if length == 0 or length > offset or offset > position or length > wanted - position:
                return False
            for i in range(position, position + length):
                symbols[i] = symbols[i - offset]
            position += length
        else:
            if t - match >= tokens - matches or position >= wanted:
                return False
            symbols[position] = _load(source + size * (t - match), size)
            position += 1
    if position != wanted or match != matches:
        return False
    for i in range(tokens, 8 * (source + code_nbytes - flags)):
        if load8(flags + i // 8) >> (i % 8) & 1:
            return False
    whole = nbytes // size
    rest = nbytes - whole * size
    if rest != 0 and symbols[whole] >> np.uint64(8 * rest) != 0:
        return False
    if out != 0:
        for i in range(whole):
            _store(out + i * size, symbols[i], size)
        for i in range(rest):
            store8(out + whole * size + i, np.uint8(symbols[whole] >> np.uint64(8 * i) & np.uint64(255)))
    return True


@njit()
def _decompress(
    codes: int, codes_nbytes: int, starts: Any, counts: Any, values_nbytes: int, size: int, chunk: int, out: int
) -> int:
    """Write the values to `out` (0: nowhere) and check all there is to check; -1, or the number of a damaged chunk."""
    symbols = np.zeros(chunk // size, np.uint64)
    sizes = np.zeros(counts.size, np.int64)
    _chunk_sizes(values_nbytes, size, chunk, counts, sizes)
    at = np.int64(0)
    for c in range(counts.size):
        if c % CHUNK_BLOCK == 0 and starts[c // CHUNK_BLOCK] != np.uint64(at):
            return c
        count = np.int64(counts[c])
        if count >> 16 > count & 0xFFFF or sizes[c] > codes_nbytes - at:
            return c
        nbytes = min(chunk, values_nbytes - c * chunk)
        to = out + c * chunk if out != 0 else 0
        if not _decode_chunk(codes + at, sizes[c], count, nbytes, size, symbols, to):
            return c
        at += sizes[c]
    if at != codes_nbytes or starts[starts.size - 1] != np.uint64(at):
        return max(counts.size - 1, 0)
    return -1


@njit()
def _decode_chunks(
    chunks: Any,
    codes: int,
    codes_nbytes: int,
    starts: Any,
    counts: Any,
    values_nbytes: int,
    size: int,
    chunk: int,
    out: int,
) -> int:
    """Write the values of `chunks`, ascending, one chunk after another; -1, or a chunk that is damaged."""
    symbols = np.zeros(chunk // size, np.uint64)
    sizes = np.zeros(counts.size, np.int64)
    _chunk_sizes(values_nbytes, size, chunk, counts, sizes)
    following, at = -1, np.int64(0)
    for i in range(chunks.size):
        c = chunks[i]
        if following < c // CHUNK_BLOCK * CHUNK_BLOCK:
            following = c // CHUNK_BLOCK * CHUNK_BLOCK
            if starts[c // CHUNK_BLOCK] > np.uint64(codes_nbytes):
                return c
            at = np.int64(starts[c // CHUNK_BLOCK])
        while following <= c:
            count = np.int64(counts[following])
            if count >> 16 > count & 0xFFFF or sizes[following] > codes_nbytes - at:
                return following
            source = codes + at
            at += sizes[following]
            following += 1
        nbytes = min(chunk, values_nbytes - c * chunk)
        if not _decode_chunk(source, sizes[c], np.int64(counts[c]), nbytes, size, symbols, out + i * chunk):
            return c
    return -1


def _compressed(values: npt.NDArray[Any], options: Options, *, store: bool) -> Packed:
    """`values` with these options; without `store`, sizes alone."""
    layout = GpulzLayout(values.nbytes, options.chunk)
    meta = np.zeros(layout.meta_nbytes, np.uint8)
    starts, counts = _sections(meta, layout)
    codes = np.empty(layout.codes_limit if store else 0, np.uint8)
    to = address(codes) if store else 0
    shape = options.symbol, options.chunk
    nbytes = int(_compress(address(values), values.nbytes, *shape, options.window, counts, to))
    if store:
        sizes = np.zeros(layout.chunks, np.int64)
        _chunk_sizes(values.nbytes, *shape, counts, sizes)
        starts[1:] = np.cumsum(np.add.reduceat(sizes, np.arange(0, layout.chunks, CHUNK_BLOCK)))
        codes = codes[:nbytes].copy()
    return Packed("gpulz", values.size, values.itemsize, shape, meta, codes, meta.size, nbytes)


def _best(values: npt.NDArray[Any], chosen: Options, *, store: bool) -> Packed:
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"gpulz takes one dimension of at least one value, not shape {values.shape}")
    packed = _compressed(values, chosen, store=store)
    if chosen.fallback and packed.nbytes > most_nbytes(values.nbytes):
        return _compressed(values, chosen.bytewise, store=store)
    return packed


def _sections(
    meta: npt.NDArray[np.uint8], layout: GpulzLayout
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    """`starts` and `counts`."""
    at = layout.counts_at
    return meta[: 8 * (layout.blocks + 1)].view("<u8"), meta[at : at + 4 * layout.chunks].view("<u4")


def encode(values: npt.NDArray[Any], *, signed: bool = False, **options: Any) -> Packed:
    """Compress the bits of `values`.

    Parameters
    ----------
    values : ndarray, shape (rows,)
        Contiguous, at least one.
    signed
        Makes no difference.
    **options
        As `launch.options`.

    Raises
    ------
    ValueError
        An option that is not allowed, or no values.
    """
    return _best(values, complete(values.itemsize, **options), store=True)


def measure(values: npt.NDArray[Any], *, signed: bool = False, **options: Any) -> int:
    return _best(values, complete(values.itemsize, **options), store=False).nbytes


def _decoded(packed: Packed, first: int, last: int, out: int) -> None:
    """Decode values `first` to ``last - 1``."""
    layout = layout_of(packed)
    starts, counts = _sections(packed.meta, layout)
    gaps = packed.meta[starts.nbytes : layout.counts_at], packed.meta[layout.counts_at + counts.nbytes :]
    step = layout.chunk * CHUNK_BLOCK
    begin, end = first * packed.itemsize // step, -(-last * packed.itemsize // step)
    # Copies are aligned and writable, so that one compiled version serves all.
    starts, counts = starts[begin : end + 1].copy(), counts[begin * CHUNK_BLOCK : end * CHUNK_BLOCK].copy()
    start, stop = int(starts[0]), int(starts[-1])
    ends_right = stop == packed.codes_nbytes if end == layout.blocks else stop <= packed.codes_nbytes
    bad = 0
    if (start == 0 or begin > 0) and start <= stop and ends_right:
        starts -= starts[0]
        codes = address(packed.codes) + start, stop - start
        bad = _decompress(*codes, starts, counts, (last - first) * packed.itemsize, *packed.parameters, out)
    if bad >= 0:
        raise ValueError(f"damaged gpulz codes: chunk {begin * CHUNK_BLOCK + bad}")
    if any(gap.any() for gap in gaps):
        raise ValueError("damaged gpulz meta: bytes between sections are not 0")


def check(packed: Packed) -> None:
    """Look at everything a decoder relies on.

    Raises
    ------
    ValueError
        Saying what is wrong.
    """
    _decoded(packed, 0, packed.rows, 0)


def unit(packed: Packed) -> int:
    """Rows of chunks that share an entry in ``starts``."""
    return layout_of(packed).chunk * CHUNK_BLOCK // packed.itemsize


def decode(packed: Packed, out: npt.NDArray[np.uint8], first: int = 0, last: int | None = None) -> None:
    last = packed.rows if last is None else last
    if out.nbytes != (last - first) * packed.itemsize:
        raise ValueError(f"the values have {(last - first) * packed.itemsize} bytes, out has {out.nbytes}")
    _decoded(packed, first, last, address(out))


def take(packed: Packed, rows: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
    """Write values `rows` to `out`; see `contract.Host`. Decodes single chunks.

    Raises
    ------
    ValueError
        The codes are damaged.
    """
    layout = layout_of(packed)
    starts, counts = _sections(packed.meta, layout)
    # What lies in front of the blocks that are needed, and behind them, is not looked at.
    step = layout.chunk * CHUNK_BLOCK // packed.itemsize
    begin, end = int(rows.min()) // step, int(rows.max()) // step + 1
    starts, counts = starts[begin:end].copy(), counts[begin * CHUNK_BLOCK : end * CHUNK_BLOCK].copy()
    nbytes = packed.values_nbytes - begin * CHUNK_BLOCK * layout.chunk

    def chunks(numbers: npt.NDArray[np.int64], room: npt.NDArray[Any]) -> None:
        codes = address(packed.codes), packed.codes_nbytes
        bad = _decode_chunks(numbers, *codes, starts, counts, nbytes, *packed.parameters, address(room))
        if bad >= 0:
            raise ValueError(f"damaged gpulz codes: chunk {begin * CHUNK_BLOCK + bad}")

    units.take(rows - begin * step, layout.chunk // packed.itemsize, out, chunks)
