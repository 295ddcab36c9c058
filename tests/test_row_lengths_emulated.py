"""Lengths of rows on an emulated GPU: packed as the CPU packs them, and read again."""

from __future__ import annotations

import numpy as np
import pytest

from cudf_fsst.codecs.fsst import launch
from cudf_fsst.codecs.part import align
from cudf_fsst.codecs.text import launch as text
from cudf_fsst.codecs.text import row_lengths
from cudf_fsst.codecs.text.views import ColumnView, PackView
from cudf_fsst.codecs.text.views import count_places as places_from
from cudf_fsst.codecs.text.views import words as view_words
from emulation.conftest import emulator
from fsst_gpu import Gpu, gpu

__all__ = ["emulator", "gpu"]

_gigabytes = [
    {3: 2**33 + 7, 300: 2**32 - 1, 301: 2**31},
    dict.fromkeys(range(256), 2**33 + 5),
    {i: 2**22 - 3 + i % 6 for i in range(257)},
    {i: 2**32 - 3 + i % 6 for i in range(600)},
]


@pytest.mark.parametrize("wide", [False, True])
def test_row_lengths(wide: bool, gpu: Gpu, rng: np.random.Generator) -> None:
    """Of any number of bits; the characters are never touched."""
    module = gpu.emulator.load("row_lengths.cu", {name: f"{value}u" for name, value in text.DEFINES.items()})
    take = gpu.emulator.load("fsst_take.cu", {name: f"{value}u" for name, value in launch.DEFINES.items()})
    buffer, u32, u64 = gpu.emulator.buffer, np.uint32, np.uint64
    cases = [rng.integers(0, 2**bits, int(rng.choice([1, 255, 256, 257, 5000]))) + bits for bits in range(20)]
    cases += [rng.integers(0, 2**bits, 256 + int(rng.integers(256))) + 7 for bits in range(1, 10)]
    mixed = np.repeat(rng.permutation(40) % 10, 256)  # the bits of a row block's rows
    cases.append(rng.integers(0, 2**mixed))
    if wide:
        for special in _gigabytes:
            lengths = rng.integers(0, 5000, max(len(special), 302))
            lengths[list(special)] = list(special.values())
            cases.append(lengths)
    for lengths in cases:
        rows, units, begin = lengths.size, lengths.size // 256 + 1, 13
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        strings = buffer((offsets + begin).astype(np.int64 if wide else np.int32))
        view = np.zeros(1, text.SEGMENT_VIEW)
        view["rows"], view["chars"], view["tile_shift"] = rows, offsets[-1], 8
        places, words = places_from(0, 1), buffer(4 * units)
        found_at = buffer(8 * places.end)
        one = ColumnView(0, strings.address, wide, rows, 0, 0, 2**60, 1, found_at.address, words.address, 0)
        one_column = buffer(view_words([one]))
        there = (buffer(view.view(np.uint8)), u32(1))
        module.launch("segment_begins", 1, 128, (one_column, None, np.uint64(0)))
        module.launch("row_lengths_measure", 1, 256, (one_column, u32(1), u64(units)))
        module.launch("row_lengths_scan", 1, 1024, (one_column,))
        numbers = found_at.read(np.int64).tolist()
        assert numbers[: places.nulls] == [0, rows, 0, offsets[-1]]
        assert (numbers[places.null_chars], numbers[places.first_char]) == (0, begin)
        row_blocks = -(-rows // 256)
        scanned = words.read(np.uint32)[:row_blocks].tolist()
        module.launch("row_lengths_look", 1, 1024, (one_column,))  # all three at once
        assert found_at.read(np.int64).tolist() == numbers
        assert words.read(np.uint32)[:row_blocks].tolist() == scanned
        view["row_bits_words"] = numbers[places.words]
        sizes = {"row_starts": 8 * (row_blocks + 1), "row_minima": 4 * row_blocks, "row_words": 4 * (row_blocks + 1)}
        sizes["row_bits"] = 4 * int(view["row_bits_words"][0])
        stored = {name: buffer(align(nbytes)) for name, nbytes in sizes.items()}
        for name, section in stored.items():
            view[name] = section.address
        pack = PackView(
            offsets=strings.address,
            wide=wide,
            rows=rows,
            chars=int(offsets[-1]),
            words=words.address,
            first_row_block=0,
            validity=0,
            validity_offset=0,
            tile_shift=62,  # of the codes' sections there is hardly anything
            row_bits_words=numbers[places.words],
            block_starts=buffer(16).address,
            tile_lengths=buffer(16).address,
            stored_validity=0,
            **{name: int(view[name][0]) for name in sizes},
        )
        module.launch("row_lengths_pack", 1, 256, (buffer(view_words([pack])), u32(1), u64(row_blocks)))
        packed = row_lengths.measure(offsets)
        row_bits = np.empty(packed.words, np.uint32)
        row_lengths.pack(offsets, packed, row_bits)
        for name in sizes:
            expected = row_bits if name == "row_bits" else getattr(packed, name)
            found = stored[name].read(expected.dtype)[: expected.size]
            np.testing.assert_array_equal(found, expected, name)
        for first, last in ((0, rows), (rows // 3, rows - rows // 5)):
            view["row_begin"], view["row_end"] = first, last
            view["char_begin"], view["char_end"] = offsets[first], offsets[last]
            expected = (offsets[first : last + 1] - offsets[first]).astype(np.int64 if wide else np.int32)
            found, touched = buffer(expected.nbytes), -(-last // 256) - first // 256
            view["offsets_to"], view["wide_offsets"], view["last"] = found.address, wide, 1
            there[0].write(view.view(np.uint8))
            module.launch("row_lengths_unpack", 1, 256, (*there, u64(touched)))
            np.testing.assert_array_equal(found.read(expected.dtype), expected)
            edges, begins = buffer(np.array([[0, first], [0, last]], np.uint64)), buffer(16)
            module.launch("locate_edges", 1, 256, (there[0], edges, u64(2), begins))
            np.testing.assert_array_equal(begins.read(np.int64), offsets[[first, last]])
        # Chosen rows: where they lie, and offsets, by take_measure and by take_many, which has no characters to decode.
        groups = -(-rows // text.TAKE_ROWS)
        places, sums, totals = buffer(8 * rows), buffer(8 * groups), buffer(np.zeros(5, np.uint64))
        view["row_begin"], view["row_end"], view["char_begin"], view["char_end"] = 0, rows, 0, offsets[-1]
        there[0].write(view.view(np.uint8))
        chosen = np.zeros(1, text.TAKE_COLUMN)
        chosen["segments"], chosen["segment_count"] = there[0].address, 1
        chosen["groups"], chosen["totals"] = sums.address, totals.address
        near = offsets[-1] < 1 << text.PLACE_BITS
        chosen["places"] = places.address if near else 0
        numbers = buffer(np.arange(rows, dtype=np.uint64))
        columns = buffer(chosen.view(np.uint8))
        take.launch("take_measure", (groups, 1), text.TAKE_THREADS, (columns, numbers, u64(rows)))
        if near:
            found_places, long = places.read(np.uint64), (1 << 64 - text.PLACE_BITS) - 1
            np.testing.assert_array_equal(found_places & u64((1 << text.PLACE_BITS) - 1), offsets[:-1])
            np.testing.assert_array_equal(found_places >> u64(text.PLACE_BITS), np.minimum(lengths, long))
        np.testing.assert_array_equal(sums.read(np.int64), offsets[:-1][:: text.TAKE_ROWS])
        chars, nulls, tiles, most, done = totals.read(np.int64)
        assert (chars, nulls, done) == (offsets[-1], 0, groups)
        assert offsets[-1] // 256 <= tiles <= offsets[-1] // 256 + rows
        assert tiles // groups <= most <= tiles
