"""Columns of a few segments, which are encoded at once into room that all of them share: the CPU codec's bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from cudf_fsst.buffers import HostStrings
from cudf_fsst.codecs.fsst import launch
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.text import cpu, plan
from cudf_fsst.codecs.text.choose import codec_of
from cudf_fsst.codecs.text.launch import BUNDLE_TILES
from cudf_fsst.codecs.text.layout import TILE_SIZES
from cudf_fsst.codecs.text.segment import Segment
from emulation.conftest import emulator
from emulation.device import ORDERS
from fsst_gpu import CASES, SEGMENT, WORDS, Gpu, column, columns, gpu, same_segments, text

if TYPE_CHECKING:
    from cudf_fsst.codecs.text.cuda_room import RoomColumn

__all__ = ["emulator", "gpu"]

#: What a column looks like that is encoded at once, and one that is not; of the first only the beginning.
LOOKED = ["segment_begins", "fsst_train_cluster", "row_lengths_measure", "row_lengths_scan"]
AT_ONCE = [*LOOKED, "fsst_encode", "row_lengths_pack", "text_compact"]


@pytest.fixture
def one_table(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """All segments of a column share a table."""
    monkeypatch.setattr(plan, "TABLE_SCOPE", 100 * SEGMENT)
    return gpu


def pool(monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
    """Give columns of several segments so many bytes for their codes."""
    from cudf_fsst.codecs.text import cuda_compress

    planned = cuda_compress.with_pool

    def with_pool(one: RoomColumn) -> RoomColumn:
        return one if planned(one) is one else one._replace(pool=nbytes)

    monkeypatch.setattr(cuda_compress, "with_pool", with_pool)


def room_for(segments: list[Segment]) -> int:
    """Bytes that codes take where bundles lie one behind another, none of whose lanes needed more room."""
    total = 0
    for segment in segments:
        lengths = segment.section("tile_lengths").astype(np.int64) + 1
        total += sum(
            -(-int(lengths[first : first + BUNDLE_TILES].sum()) // 16) * 16
            for first in range(0, lengths.size, BUNDLE_TILES)
        )
    return total


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_cases(case: str, one_table: Gpu) -> None:
    """Whatever fits, and whatever does not."""
    strings = columns(np.random.default_rng(1))[case]
    expected = cpu.compress(strings)
    same_segments(one_table.cuda.to_host(one_table.cuda.compress(one_table.upload(strings, offset=5))), expected)


@pytest.mark.parametrize("given", [False, True])
def test_one_launch_for_all_segments(given: bool, one_table: Gpu, rng: np.random.Generator) -> None:
    """And two waits: for the rows, which are packed beside the encoder, and for the codes."""
    strings = column(list(text(rng, 2 * SEGMENT + 999)))
    table = cpu.train(strings) if given else None
    uploaded = one_table.upload(strings)
    one_table.cuda.compress(uploaded, table=table)  # a given table's copy stays there
    one_table.device.launches.clear()
    one_table.device.waits = 0
    segments = one_table.cuda.compress(uploaded, table=table)
    assert len(segments) == 3
    assert one_table.device.launches == [name for name in AT_ONCE if not (given and "train" in name)]
    assert one_table.device.waits == 2
    same_segments(one_table.cuda.to_host(segments), cpu.compress(strings, table=table))


@pytest.mark.parametrize("order", ORDERS)
def test_a_given_table_is_there_before_it_is_used(order: str, one_table: Gpu, rng: np.random.Generator) -> None:
    """Its first use uploads it in another stream than that in which columns are encoded."""
    one_table.device.order = order
    strings = column(list(text(rng, SEGMENT + 999)))
    table = cpu.train(strings)
    segments = one_table.cuda.compress(one_table.upload(strings), table=table)
    same_segments(one_table.cuda.to_host(segments), cpu.compress(strings, table=table))


def test_columns_of_about_the_same_size_have_one_layout(
    one_table: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a device: what a GPU's kernels need depends on the GPU."""
    from cudf_fsst.codecs.text import cuda_room

    layouts = cuda_room._layout.cache_info
    for rows, device, misses in ((900, 0, 1), (1000, 0, 1), (9000, 0, 2), (901, 0, 2), (900, 1, 3)):
        monkeypatch.setattr(cuda_room, "current_device", lambda device=device: device)
        strings = column([b"%040d" % i for i in rng.integers(0, 1 << 60, rows)])
        same_segments(one_table.cuda.to_host(one_table.cuda.compress(one_table.upload(strings))), cpu.compress(strings))
        assert layouts().misses == misses


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tile_size", TILE_SIZES)
def test_just_as_much_room_as_is_needed(
    tile_size: int, one_table: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 16 bytes less the codes are not kept, and the column goes another way."""
    strings = column(list(text(rng, SEGMENT + 999)))
    expected = cpu.compress(strings, tile_size=tile_size)
    needed = room_for(expected)
    for nbytes, launches in ((needed, 1), (needed - 16, 1 + len(expected))):
        pool(monkeypatch, nbytes)
        one_table.device.launches.clear()
        live = len(one_table.device.live)
        segments = one_table.cuda.compress(one_table.upload(strings), tile_size=tile_size)
        assert one_table.device.launches.count("fsst_encode") == launches
        same_segments(one_table.cuda.to_host(segments), expected)
        assert len(one_table.device.live) == live + 2 * len(expected), "nothing else is kept"
        del segments


def escapes_first(rng: np.random.Generator, tiles: int) -> HostStrings:
    """Tiles whose first codes are escapes, so that they outgrow what a lane has read; then they become short."""
    rows: list[bytes | None] = []
    for _ in range(tiles):
        rows.append(rng.integers(128, 256, 60, dtype=np.uint8).tobytes() + (b"deposits" * 25)[:196])
    return column(rows)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("nbytes", [16, 4096, 1 << 16, 1 << 18])
def test_lanes_that_need_more_room(
    nbytes: int, one_table: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take it from what all share, and count their codes where there is none."""
    strings = escapes_first(rng, 2 * SEGMENT // 256)
    table = SymbolTable.from_symbols([b"deposits", b"de", b"ts"])
    pool(monkeypatch, nbytes)
    one_table.device.launches.clear()
    segments = one_table.cuda.compress(one_table.upload(strings, offset=1), table=table)
    assert (one_table.device.launches.count("fsst_encode") == 1) == (nbytes == 1 << 18)
    expected = cpu.compress(strings, table=table)
    assert sum(segment.codes_nbytes for segment in expected) < strings.chars.size, "some tiles are not raw"
    same_segments(one_table.cuda.to_host(segments), expected)


def test_random_characters(one_table: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tile is raw."""
    whole = rng.integers(0, 256, SEGMENT + 999, dtype=np.uint8).tobytes()
    strings = column([whole[i : i + 61] for i in range(0, len(whole), 61)])
    for nbytes in (len(whole) // 2, 2 * len(whole)):
        pool(monkeypatch, nbytes // 16 * 16)
        segments = one_table.cuda.compress(one_table.upload(strings))
        same_segments(one_table.cuda.to_host(segments), cpu.compress(strings))


@pytest.mark.parametrize("giant", [False, True])
def test_segments_without_rows(giant: bool, one_table: Gpu, rng: np.random.Generator) -> None:
    """A row of several segments leaves some without rows; it is longer than a slot, if it is `giant`."""
    long = b" ".join(text(rng, 3 * SEGMENT if giant else SEGMENT + SEGMENT // 64))
    strings = column([b"a", long, *text(rng, SEGMENT), b"b"])
    one_table.device.launches.clear()
    segments = one_table.cuda.compress(one_table.upload(strings))
    assert (one_table.device.launches == AT_ONCE) == (not giant)
    same_segments(one_table.cuda.to_host(segments), cpu.compress(strings))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("fits", [False, True])
def test_order(
    fits: bool, order: str, own: bool, one_table: Gpu, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but what is waited for is sure to have happened."""
    strings = column([None if i % 7 == 3 else row for i, row in enumerate(text(rng, SEGMENT + 999))])
    uploaded = one_table.upload(strings)
    if not fits:
        pool(monkeypatch, 4096)
    one_table.device.order = order
    segments = one_table.cuda.compress(uploaded, stream=one_table.device.stream() if own else None)
    same_segments(one_table.cuda.to_host(segments), cpu.compress(strings))


def test_memory_runs_out(one_table: Gpu, rng: np.random.Generator) -> None:
    """Wherever it does, nothing is kept."""
    strings = column([rng.choice(WORDS) * int(rng.integers(1, 9)) for _ in range(SEGMENT // 15)])
    uploaded, device = one_table.upload(strings), one_table.device
    device.allocations.clear()
    segments = one_table.cuda.compress(uploaded)
    every = len(device.allocations)
    assert every > 2 * len(segments)
    del segments
    for number in (1, every // 2, every - 5, every - 1, every):
        before = set(device.live)
        device.allocations.clear()
        device.fail_at = number
        with pytest.raises(MemoryError):
            one_table.cuda.compress(uploaded)
        assert device.live == before
    device.fail_at = 0


def test_which_columns(one_table: Gpu) -> None:
    """Those whose codes have room if they take half of the characters; with all else that rule is kept to 64 MiB."""
    from cudf_fsst.codecs.text import cuda_room

    def planned(chars: int, **options: object) -> object:
        strings = one_table.upload(column([b"x"]))
        level = str(options.get("level", "default"))
        task = cuda_room.TextTask(strings, **options, encoder=codec_of().device().encoders(level)[0])
        return cuda_room.with_pool(cuda_room._plan(0, task, chars, one_scope=False))

    assert planned(SEGMENT).pool == 0, "it has room for all that it may have"
    some = planned(5 * SEGMENT)
    assert some.pool > 0
    _, bundles, tiles = some.slot_nbytes
    whole = some.pool + some.nbytes + some.segments * (bundles + tiles)
    assert (64 << 20) - (2 << 20) < whole < 64 << 20
    assert planned(5 * SEGMENT, level="max").pool == 0
    assert planned(launch.ENCODE_GROUP * SEGMENT).pool > 0
    assert planned(launch.ENCODE_GROUP * SEGMENT + 1).pool == 0
    assert planned(5 * SEGMENT, table=SymbolTable.from_symbols([b"a"])).pool > some.pool, "no table is trained"
