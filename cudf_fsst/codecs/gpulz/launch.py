"""Codec ``gpulz`` (docs/format.md, section 13): its options, its sizes, constants shared with kernels/gpulz.cu.

Needs no GPU and no CuPy.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..part import Packed, align

#: Bytes of a symbol, bytes of a chunk, and symbols of the window that the format allows.
SYMBOLS = (1, 2, 4, 8)
CHUNKS = (2048, 4096, 8192, 16384)
WINDOWS = (32, 64, 128, 255)
#: Chunks with one entry in `starts`.
CHUNK_BLOCK = 32

#: Words of 32 symbols a warp searches matches for (the kernel keeps them in registers), if the chunk has so many.
SEARCH_WORDS = 16
#: Of these, words that are passed over together where an offset has no match.
GROUP = 8
#: Warps of a thread block that have a chunk each.
ENCODE_CHUNKS = 2
DECODE_WARPS = 4  # at most: see decode_warps
COMPACT_WARPS = 8
SCAN_THREADS = 1024


@dataclass(frozen=True)
class Options:
    """How to compress. `fallback`: with one-byte symbols if it takes more than `most_nbytes`."""

    symbol: int
    chunk: int
    window: int
    fallback: bool

    @property
    def bytewise(self) -> Options:
        return Options(1, self.chunk, self.window, False)


def options(
    itemsize: int,
    *,
    symbol: int | None = None,
    chunk: int = CHUNKS[0],
    window: int | None = None,
    level: int | None = None,
) -> Options:
    """Complete what a caller named.

    Parameters
    ----------
    itemsize
        Bytes of a value.
    symbol
        One of `SYMBOLS`; None: the itemsize, and one byte where that gives a ratio below 1.5.
    chunk
        One of `CHUNKS`.
    window
        One of `WINDOWS`.
    level
        1 to 4: that window of `WINDOWS`; the default is 1.

    Raises
    ------
    ValueError
        A value that is not allowed, or `window` and `level` together.
    """
    if window is not None and level is not None:
        raise ValueError("window and level name the same thing: give one of them")
    if level is not None and level not in range(1, len(WINDOWS) + 1):
        raise ValueError(f"level must be 1 to {len(WINDOWS)}, not {level!r}")
    if window is None:
        window = WINDOWS[(level or 1) - 1]
    for name, value, allowed in (("window", window, WINDOWS), ("chunk", chunk, CHUNKS)):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {allowed}, not {value!r}")
    if symbol is not None and symbol not in SYMBOLS:
        raise ValueError(f"symbol must be one of {SYMBOLS}, not {symbol!r}")
    chosen = min(itemsize & -itemsize, SYMBOLS[-1]) if symbol is None else symbol
    return Options(chosen, chunk, window, symbol is None and chosen > 1)


def most_nbytes(values_nbytes: int) -> int:
    """Largest `Packed.nbytes` with a ratio of at least 1.5: above it the fallback is taken."""
    return 2 * values_nbytes // 3


@dataclass(frozen=True)
class GpulzLayout:
    """Chunks of a segment, and the sections of its ``meta``: `starts` at 0, then `counts`."""

    values_nbytes: int
    chunk: int

    @property
    def chunks(self) -> int:
        return -(-self.values_nbytes // self.chunk)

    @property
    def blocks(self) -> int:
        return -(-self.chunks // CHUNK_BLOCK)

    @property
    def counts_at(self) -> int:
        return align(8 * (self.blocks + 1))

    @property
    def meta_nbytes(self) -> int:
        return self.counts_at + align(4 * self.chunks)

    @property
    def codes_limit(self) -> int:
        """Bytes of the codes if all chunks are raw, the most there can be."""
        return align(self.values_nbytes, 4)


def layout_of(packed: Packed) -> GpulzLayout:
    """Sizes of a stored segment.

    Raises
    ------
    ValueError
        Its parameters, or the sizes of its buffers, are none of this codec.
    """
    if len(packed.parameters) != 2:
        raise ValueError(f"gpulz has 2 parameters (symbol, chunk), not {packed.parameters}")
    symbol, chunk = packed.parameters
    if symbol not in SYMBOLS or chunk not in CHUNKS:
        raise ValueError(f"gpulz: symbols of {symbol} bytes in chunks of {chunk}; allowed are {SYMBOLS}, {CHUNKS}")
    if packed.rows < 1 or packed.itemsize < 1:
        raise ValueError(f"gpulz: {packed.rows} rows of {packed.itemsize} bytes")
    layout = GpulzLayout(packed.values_nbytes, chunk)
    if packed.meta_nbytes != layout.meta_nbytes:
        raise ValueError(f"gpulz: meta has {packed.meta_nbytes} bytes, needs {layout.meta_nbytes}")
    if packed.codes_nbytes > layout.codes_limit:
        raise ValueError(f"gpulz: {packed.codes_nbytes} bytes of codes, there cannot be more than {layout.codes_limit}")
    packed.check_buffers()
    return layout


# --- launches -------------------------------------------------------------------------------------------------------


def defines(symbol: int, chunk: int, window: int | None = None, *, warps: int = DECODE_WARPS) -> dict[str, int]:
    """Constants of gpulz.cu; with a window the file has the encoder, without it all other kernels.

    `warps`: those of a thread block of gpulz_decode.
    """
    constants = {"SYMBOL": symbol, "CHUNK": chunk, "CHUNK_BLOCK": CHUNK_BLOCK}
    if window is None:
        return {**constants, "DECODE_WARPS": warps}
    return {
        **constants,
        "WINDOW": window,
        "SEARCH_WORDS": search_words(symbol, chunk),
        "GROUP": GROUP,
        "ENCODE_CHUNKS": ENCODE_CHUNKS,
    }


def search_words(symbol: int, chunk: int) -> int:
    """Words of 32 symbols that a warp searches."""
    return min(SEARCH_WORDS, chunk // symbol // 32)


def encode_shape(symbol: int, chunk: int, window: int) -> tuple[int, int, int]:
    """Chunks of a thread block of gpulz_encode, its threads and bytes of shared memory."""
    warps = chunk // symbol // 32 // search_words(symbol, chunk)
    chunks = ENCODE_CHUNKS if warps == 1 else 1
    # A window in front that is read and does not count, the chunk, a byte for each symbol, 16 bytes for `State`.
    return chunks, 32 * warps * chunks, chunks * (align(window * symbol) + chunk + chunk // symbol + 16)


def decode_shared(chunk: int, warps: int) -> int:
    """Bytes of shared memory of a thread block of gpulz_decode: codes and values of a chunk for each warp."""
    return warps * 2 * chunk


def decode_warps(chunk: int, shared_per_block: int) -> int:
    """Warps of a thread block of gpulz_decode: as many as the GPU has shared memory for.

    Of the largest chunks 4 take 128 KiB. Every GPU has the 32 KiB for one; decoding is as fast with fewer.
    """
    return max(min(DECODE_WARPS, shared_per_block // decode_shared(chunk, 1)), 1)


def variants(shared_per_block: int) -> dict[str, list[dict[str, int]]]:
    """File -> sets of constants that it may be compiled with: each symbol, window and chunk; least and most threads."""
    every = [
        *(defines(symbol, 2048) for symbol in SYMBOLS),
        *(defines(symbol, 16384, warps=warps) for symbol in (1, 8) for warps in (4, 3, 2)),
        *(defines(symbol, 2048, 32) for symbol in SYMBOLS),
        *(defines(symbol, 16384, 255) for symbol in SYMBOLS),
        defines(1, 4096, 255),
        defines(2, 4096, 128),
        defines(4, 8192, 64),
    ]
    return {"gpulz": every}
