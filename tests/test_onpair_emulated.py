"""OnPair's kernels on an emulated GPU, under the sanitizers: the same codes as on the host, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from cudf_fsst.codecs.onpair import launch, prefixes
from cudf_fsst.codecs.onpair.symbols import OnPairTable
from cudf_fsst.codecs.text.launch import SEGMENT_VIEW, decode_codes_capacity
from cudf_fsst.codecs.text.views import WaveView, words
from emulation.conftest import emulator
from emulation.emulator import Emulator
from onpair_cases import KINDS, encoded, table_for, text

__all__ = ["emulator"]


def _encode(
    emulator: Emulator,
    table: OnPairTable,
    chars: npt.NDArray[np.uint8],
    tile_size: int,
    offset: int,
    shape: launch.OnPairShape,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.integer]]:
    """Codes and tile lengths that a kernel makes of characters at an address so many bytes off an aligned one.

    `shape`: of onpair_encode, or with ENCODE_FEW_THREADS of onpair_encode_few.
    """
    tiles = -(-chars.size // tile_size)
    bundles = -(-tiles // 32)
    text_at = emulator.buffer(chars, offset=offset)
    first_char = emulator.buffer(np.array([text_at.address - 100], np.uint64))
    bounds = emulator.buffer(np.array([100, 100 + chars.size], np.uint64))
    looked_up = emulator.buffer(launch.lookup(table))
    slot = emulator.buffer(bundles * 32 * tile_size)
    bundle_lengths = emulator.buffer(np.zeros(2 * bundles, np.uint32))
    tile_lengths = emulator.buffer(np.zeros(tiles, np.uint8 if tile_size <= 256 else np.uint16))
    total = emulator.buffer(np.zeros(1, np.uint64))
    taken = emulator.buffer(np.zeros(1, np.uint64))
    wave = WaveView(
        *(first_char.address, bounds.address, looked_up.address, 0, 0, tiles, slot.address),
        *(bundle_lengths.address, tile_lengths.address, total.address, 0, 0, taken.address),
    )
    module = emulator.load("onpair_encode.cu", launch.defines(tile_size, shape.table > 0))
    few, threads = shape.threads == launch.ENCODE_FEW_THREADS, min(shape.threads, 64)
    module.launch(
        *("onpair_encode_few" if few else "onpair_encode", (2, 1), threads),
        [emulator.buffer(words([wave])), np.uint32(shape.table)],
        shared_mem=shape.shared if few else shape.table + 4 * (tile_size // 8 + 1) * threads,
    )
    lengths = bundle_lengths.read(np.uint32)[:bundles]
    slots = slot.read().reshape(bundles, 32 * tile_size)
    codes = np.concatenate([slots[i, :n] for i, n in enumerate(lengths)])
    assert int(total.read(np.uint64)[0]) == codes.size
    return codes, tile_lengths.read(np.uint8 if tile_size <= 256 else np.uint16)


def _decode(
    emulator: Emulator,
    tables: Sequence[OnPairTable],
    codes: Sequence[npt.NDArray[np.uint8]],
    tile_lengths: Sequence[npt.NDArray[np.integer]],
    chars: Sequence[int],
    tile_size: int,
    spans: Sequence[tuple[int, int]],
    offset: int,
    bundles: int = 1,
    shared_per_block: int = 232448,
    share: float = 7 / 6,
) -> npt.NDArray[np.uint8]:
    """What onpair_decode makes of spans of the characters of segments, one behind another."""
    views, units = np.zeros(len(tables), SEGMENT_VIEW), [0]
    out = emulator.buffer(max(sum(b - a for a, b in spans), 1), offset=offset)
    limits = shared_per_block, shared_per_block + 1024
    staged = launch.decode_staged(tile_size, *limits)
    most = max(launch.decode_table(table).size for table in tables) if staged else 0
    tiles = sum(one.size for one in tile_lengths)
    capacity = decode_codes_capacity(tile_size, sum(one.size for one in codes), tiles, share)
    shape = launch.decode_shape(tile_size, capacity, most, *limits)
    threads = min(shape.threads, 64)
    position = 0
    for view, table, own, lengths, size, (a, b) in zip(views, tables, codes, tile_lengths, chars, spans, strict=True):
        ends = np.cumsum([0, *(lengths.astype(np.int64) + 1)])
        starts = np.append(ends[:-1][::128], own.size).astype(np.uint64)
        padded = np.zeros(-(-lengths.nbytes // 16) * 16, np.uint8)
        padded[: lengths.nbytes] = lengths.view(np.uint8)
        for name, value in {
            "codes": emulator.buffer(own).address,
            "codes_nbytes": own.size,
            "chars": size,
            "block_starts": emulator.buffer(starts).address,
            "tile_lengths": emulator.buffer(padded).address,
            "table": emulator.buffer(launch.decode_table(table)).address,
            "char_begin": a,
            "char_end": b,
            "out_char": position,
            "chars_to": out.address,
        }.items():
            view[name] = value
        position += b - a
        first = a // tile_size // 128 * 128
        covered = max(0, -(-b // tile_size) - first) if b > a else 0
        units.append(units[-1] + -(-covered // (threads * bundles)))
    module = emulator.load("onpair_decode.cu", launch.defines(tile_size, staged))
    module.launch(
        "onpair_decode",
        *(units[-1], threads),
        [
            *(views.view(np.uint64), np.array(units[:-1], np.uint32)),
            *(np.uint32(len(tables)), np.uint32(shape.codes_capacity), np.uint32(bundles)),
        ],
        shared_mem=most + (shape.shared - most) // (shape.threads // 32) * (threads // 32),
    )
    return out.read()[:position]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("bits", [10, 11, 12])
@pytest.mark.parametrize("tile_size", [128, 256, 512, 1024])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_codes_as_on_the_host(
    kind: str, tile_size: int, bits: int, emulator: Emulator, rng: np.random.Generator
) -> None:
    chars = text(kind, 70 * tile_size + int(rng.integers(1, tile_size)), rng)
    table = table_for(kind, chars, bits)
    expected, lengths, _ = encoded(table, chars, tile_size)
    offset = int(rng.integers(0, 32))
    shared = int(rng.choice([232448, 65536]))
    few = launch.encode_few_shape(tile_size, 232448, bits)
    assert few or (bits, tile_size) == (12, 1024)
    for shape in [launch.encode_shape(tile_size, shared, bits), *([few] if few else [])]:
        codes, found = _encode(emulator, table, chars, tile_size, offset, shape)
        np.testing.assert_array_equal(found, lengths)
        np.testing.assert_array_equal(codes, expected)


def test_strings_with_the_hash_of_a_symbol(emulator: Emulator) -> None:
    """They are found in the symbol's place, and not taken for it."""
    _, first, second, *_ = prefixes.MULTIPLIERS
    symbol = b"abcdefghi"
    low, high = (int.from_bytes(symbol[i : i + 4], "little") for i in (1, 5))
    low = (low - second * pow(first, -1, 1 << 32)) % (1 << 32)
    other = b"a" + low.to_bytes(4, "little") + (high + 1).to_bytes(4, "little")
    table = OnPairTable.from_symbols(11, [symbol, other[:3], other[:6], b"bc", symbol + b"jklmnop"])
    words_of = (int.from_bytes(one + bytes(7), "little") for one in (symbol, other))
    made = {int(prefixes._hash_of(*map(np.uint64, divmod(word, 1 << 64)[::-1]), 9)) for word in words_of}
    assert len(made) == 1
    chars = np.frombuffer((other + symbol + other[:5] + symbol + b"jklmnop" + other) * 40, np.uint8)
    expected, lengths, _ = encoded(table, chars, 256)
    codes, found = _encode(emulator, table, chars, 256, 3, launch.encode_shape(256, 232448, 11))
    np.testing.assert_array_equal(found, lengths)
    np.testing.assert_array_equal(codes, expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("bits", [10, 11, 12])
@pytest.mark.parametrize("tile_size", [128, 256, 512, 1024])
@pytest.mark.parametrize("kind", KINDS)
def test_decode(kind: str, tile_size: int, bits: int, emulator: Emulator, rng: np.random.Generator) -> None:
    parts = [text(kind, n, rng) for n in (150 * tile_size + 77, 1, 33 * tile_size)]
    tables = [table_for(kind, parts[0], bits), table_for("words", parts[1], 10), table_for(kind, parts[2], 11)]
    made = [encoded(table, part, tile_size) for table, part in zip(tables, parts, strict=True)]
    codes, lengths = [one[0] for one in made], [one[1] for one in made]
    whole = [(0, part.size) for part in parts]
    some = [(5, parts[0].size - 3), (0, 1), (3 * tile_size, 3 * tile_size + 40)]
    for spans, bundles, shared, share in ((whole, 1, 232448, 1), (whole, 2, 65536, 0.5), (some, 1, 232448, 7 / 6)):
        offset = int(rng.integers(0, 32))
        sizes = [part.size for part in parts]
        found = _decode(emulator, tables, codes, lengths, sizes, tile_size, spans, offset, bundles, shared, share)
        expected = np.concatenate([part[a:b] for part, (a, b) in zip(parts, spans, strict=True)])
        np.testing.assert_array_equal(found, expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_damaged_codes_stay_inside(seed: int, emulator: Emulator) -> None:
    rng = np.random.default_rng(seed)
    chars = text("words", 9_000, rng)
    table = table_for("words", chars, (10, 11, 12)[seed % 3])
    codes, lengths, _ = encoded(table, chars, 256)
    for _ in range(4):
        bad, wrong = codes.copy(), lengths.copy()
        bad[rng.integers(0, bad.size, 200)] = rng.integers(0, 256, 200)
        if rng.integers(2):
            wrong[rng.integers(0, wrong.size, 5)] = rng.integers(0, 256, 5)
        found = _decode(emulator, [table], [bad], [wrong], [chars.size], 256, [(0, chars.size)], 3)
        assert found.size == chars.size
