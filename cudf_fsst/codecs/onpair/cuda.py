"""OnPair on a GPU: what differs from other codecs of text (`contract.DeviceTextCodec`).

At level ``max`` the numbers of bits that codes may have compete, each with an encoder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ...device.kernels import Kernel
from ...device.memory import Lane, current_device, device_attributes
from ..cuda_kernels import blocks, get_kernel
from ..text import launch as text_launch
from ..text.cuda_task import TileEncoder, TrainingNbytes, TrainingRoom
from ..text.launch import BUNDLE_TILES, SearchShape
from ..text.views import WORD, ScopeView, words
from . import launch, plan
from .cuda_match import answer as answer
from .cuda_match import match as match
from .launch import decode_table as decode_table
from .symbols import BITS, TILE_SIZE, OnPairTable

#: onpair_take.cu decodes the tiles of single rows.
TAKES = True
#: onpair_search.cu and onpair_rows.cu.
MATCHES = True


def kernels(step: str) -> tuple[Callable[[], Kernel], ...]:
    """See `contract.DeviceTextCodec`; it is only taken where it is named."""
    del step
    return ()


def take_kernel(name: str) -> Any:
    own = name if name == "take_measure" else f"onpair_{name}"
    return get_kernel("onpair_take", own, text_launch.TAKE_DEFINES)


def check_kernel() -> Kernel:
    return get_kernel("onpair_check", "onpair_check", text_launch.CHECK_DEFINES)


def check_table(table: OnPairTable) -> npt.NDArray[np.uint8]:
    return np.concatenate([np.array([table.bits], "<u8").view(np.uint8), table.lengths])


class OnPairEncoder(TileEncoder):
    """What trains tables and encodes tiles (`text.cuda_task.TileEncoder`)."""

    tile_size = TILE_SIZE
    trains_everywhere = True

    def __init__(self, bits: int, level: str) -> None:
        self._bits, self._level = bits, level

    def tables(self, exported: npt.NDArray[np.uint8], scopes: int) -> list[OnPairTable]:
        return launch.trained_tables(exported, scopes, self._bits)

    def lookup(self, table: OnPairTable, tables_form: int) -> npt.NDArray[np.uint8]:
        del tables_form
        return launch.lookup(table)

    def training_nbytes(self, scopes: int, chars_limit: int) -> TrainingNbytes:
        del scopes
        room = launch.train_room(chars_limit, self._level, self._bits).nbytes
        lookup, view = launch.lookup_nbytes(self._bits), WORD * len(launch.TrainView._fields)
        return TrainingNbytes(lookup, launch.ONPAIR_TRAINED.itemsize, view, in_turns=room)

    def train(self, lane: Lane, room: TrainingRoom) -> None:
        views: list[launch.TrainView] = []
        batches: list[tuple[int, int]] = []  # first scope, chunks of the longest sample
        end, multiprocessors = room.in_turns_nbytes, room.multiprocessors
        for number, chars_limit in enumerate(room.chars_limits):
            own = launch.train_room(chars_limit, self._level, self._bits)
            # All blocks of a launch have to run at the same time.
            if end + own.nbytes > room.in_turns_nbytes or number - batches[-1][0] == multiprocessors:
                batches.append((number, 0))
                end = 0
            batches[-1] = batches[-1][0], max(batches[-1][1], own.most_chunks)
            scope = room.scopes + WORD * len(ScopeView._fields) * number
            to = room.exported + room.each.exported * number, room.lookup + room.each.lookup * number
            views.append(launch.train_view(own, room.in_turns + end, scope, self._bits, self._level, *to))
            end += own.nbytes
        lane.send(room.views, words(views))
        kernel, shared = _training(current_device(), self._bits)
        for i, (first, chunks) in enumerate(batches):
            count = (batches[i + 1][0] if i + 1 < len(batches) else len(views)) - first
            views_of = np.uint64(room.views + room.each.view * first)
            grid = max(1, min(multiprocessors // count, chunks // launch.BLOCK_CHUNKS))
            arguments = views_of, *launch.TRAIN_PARTS
            lane.launch(kernel, (grid, count), launch.TRAIN_THREADS, arguments, shared, together=True)

    def encode(
        self, lane: Lane, tile_size: int, tables_nbytes: int, waves_at: int, groups: int, tiles: int, per_group: int
    ) -> None:
        """See `TileEncoder`. Tables of a launch have one size."""
        waves, bundles = groups * per_group, blocks(tiles, BUNDLE_TILES)
        multiprocessors = device_attributes()["multiprocessors"]
        few = groups * bundles <= multiprocessors * launch.FEW_BUNDLES
        kernel, shape = _encoding(current_device(), tile_size, tables_nbytes, few)
        if few and shape.table:
            grid = min(blocks(bundles, per_group), max(1, multiprocessors // waves))
            arguments = np.uint64(waves_at), np.uint32(shape.table)
            lane.launch(kernel, (grid, waves), shape.threads, arguments, shape.shared)
            return
        if bundles > multiprocessors * shape.threads // 32:  # segments take turns
            multiprocessors -= multiprocessors * launch.COMPACT_SHARE // 128
        grid = min(multiprocessors, bundles, max(blocks(bundles, shape.threads // 32), multiprocessors // waves))
        lane.launch(kernel, (grid, waves), shape.threads, (np.uint64(waves_at), np.uint32(shape.table)), shape.shared)


@cache
def _training(_device: int, bits: int) -> tuple[Kernel, int]:
    """The kernel that trains tables of so many bits on a device, and its shared memory."""
    in_shared = launch.train_in_shared(bits, device_attributes()["shared_per_block"])
    kernel = get_kernel("onpair_train", "onpair_train", launch.train_defines(bits, in_shared), shared=in_shared)
    return kernel, launch.train_shared(bits, in_shared)


@cache
def _encoding(_device: int, tile_size: int, tables_nbytes: int, few: bool) -> tuple[Kernel, launch.OnPairShape]:
    """The kernel that encodes (few) bundles by tables of so many bytes on a device, and its shape."""
    bits = next(bits for bits in BITS if launch.lookup_nbytes(bits) >= tables_nbytes)
    of_few = launch.encode_few_shape(tile_size, device_attributes()["shared_per_block"], bits) if few else None
    if of_few:
        defines = launch.defines(tile_size)
        return get_kernel("onpair_encode", "onpair_encode_few", defines, shared=True), of_few
    shape = launch.encode_shape(tile_size, device_attributes()["shared_per_block"], bits)
    return get_kernel("onpair_encode", "onpair_encode", launch.defines(tile_size, shape.table > 0), shared=True), shape


_ENCODERS: dict[str, Sequence[TileEncoder]] = {
    "default": [OnPairEncoder(plan.BITS, "default")],
    "max": [OnPairEncoder(bits, "max") for bits in BITS],
}


def encoders(level: str) -> Sequence[TileEncoder]:
    return _ENCODERS[level]


def choices(tile_size: int) -> None:
    """Nothing decides but the device."""
    del tile_size


def decode_shape(tile_size: int, codes_nbytes: int, tiles: int, table_nbytes: int) -> SearchShape:
    staged = table_nbytes if _staged(tile_size) else 0
    capacity = text_launch.decode_codes_capacity(tile_size, codes_nbytes, tiles)
    return launch.decode_shape(tile_size, capacity, staged, *_limits())


def _limits() -> tuple[int, int]:
    attributes = device_attributes()
    return attributes["shared_per_block"], attributes["shared_per_multiprocessor"]


def _staged(tile_size: int) -> bool:
    """Whether tables lie in shared memory."""
    return launch.decode_staged(tile_size, *_limits())


def decode_kernel(tile_size: int) -> Any:
    return get_kernel("onpair_decode", "onpair_decode", launch.defines(tile_size, _staged(tile_size)), shared=True)
