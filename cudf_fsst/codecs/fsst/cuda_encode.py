"""What trains FSST's tables and encodes its tiles on a GPU (`text.cuda_task.TileEncoder`).

Level ``default``: ``fsst_train`` makes a scope's table, and what ``fsst_encode`` looks up of it. Level ``max``: the
kernels of fsst_train_max.cu improve such tables, in many launches for all scopes, the host makes what
``fsst_encode_max`` looks up of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from ...device.kernels import Kernel
from ...device.memory import Lane, current_device, device_attributes
from ..text.cuda_task import TileEncoder, TrainingNbytes, TrainingRoom
from ..text.launch import BUNDLE_TILES
from ..text.views import WORD, ScopeView, words
from . import kernel_tables, launch, train_max
from .cuda_kernels import choices, get_kernel
from .launch import TableSearchView
from .symbols import TILE_SIZE, SymbolTable

_u32 = np.uint32


class FsstEncoder(TileEncoder):
    """Level ``default``; see `TileEncoder`."""

    tile_size = TILE_SIZE
    whole_slots = False
    group = launch.ENCODE_GROUP

    def trains_long(self, scopes: int) -> bool:
        """Whether each table is trained by one thread block, as there are many, instead of by a cluster of them."""
        return not launch.train_in_clusters(scopes, device_attributes()["shared_per_block"])

    def training_nbytes(self, scopes: int, chars_limit: int) -> TrainingNbytes:
        cleared = room = 0
        if self.trains_long(scopes):  # clusters have room for all that training needs
            cleared = launch.TRAIN_COUNTS_NBYTES
            room = launch.train_places(device_attributes()["shared_per_block"]).scratch
        return TrainingNbytes(
            kernel_tables.ENCODE_TABLES_NBYTES, kernel_tables.TRAINED_TABLE.itemsize, cleared=cleared, room=room
        )

    def train(self, lane: Lane, room: TrainingRoom) -> None:
        self._train(lane, room, room.lookup, room.room)

    def _train(self, lane: Lane, room: TrainingRoom, lookup: int, scratch: int) -> None:
        scopes, shared = len(room.chars_limits), device_attributes()["shared_per_block"]
        results = lookup, room.exported
        if launch.train_in_clusters(scopes, shared):
            lane.launch(
                get_kernel("fsst_train_cluster", "fsst_train_cluster"),
                launch.TRAIN_CLUSTER * scopes,
                launch.TRAIN_THREADS,
                (room.scopes, *results),
                launch.TRAIN_CLUSTER_NBYTES,
            )
        else:
            lane.launch(
                get_kernel("fsst_train", "fsst_train"),
                scopes,
                launch.TRAIN_THREADS,
                (room.scopes, room.cleared, scratch, *results),
                launch.train_places(shared).shared,
            )

    def tables(self, exported: npt.NDArray[np.uint8], scopes: int) -> list[SymbolTable]:
        return kernel_tables.trained_tables(exported.view(kernel_tables.TRAINED_TABLE))

    def tables_form(self, tile_size: int) -> int:
        """Whether the pairs are mixed."""
        return int(launch.pairs_in_shared(tile_size, device_attributes()["shared_per_block"]))

    def lookup(self, table: SymbolTable, tables_form: int) -> npt.NDArray[np.uint8]:
        return kernel_tables.encode_tables(table, tables_form > 0)

    def encode(
        self, lane: Lane, tile_size: int, tables_nbytes: int, waves_at: int, groups: int, tiles: int, per_group: int
    ) -> None:
        how = choices(tile_size)
        kernel, threads, shared, most = _encoding(current_device(), tile_size, how.encode_warps, how.encode_blocks)
        grid = _grid(most, tiles, threads, groups)
        lane.launch(kernel, (grid, groups), threads, (waves_at, _u32(per_group)), shared)


@cache
def _encoding(_device: int, tile_size: int, warps: int | None, blocks: float) -> tuple[Kernel, int, int, int]:
    """The kernel that encodes on a device, its threads and shared memory, and the most thread blocks."""
    attributes = device_attributes()
    threads, shared, *_ = launch.encode_shape(tile_size, attributes["shared_per_block"], warps)
    most = max(1, round(blocks * attributes["multiprocessors"]))
    return get_kernel("fsst_encode", "fsst_encode", tile_size, warps), threads, shared, most


class FsstMaxEncoder(FsstEncoder):
    """Level ``max``."""

    whole_slots = True
    group = 1
    host_lookup = True

    def training_nbytes(self, scopes: int, chars_limit: int) -> TrainingNbytes:
        """See `TileEncoder`; with room for the tables that are improved."""
        usual = super().training_nbytes(scopes, chars_limit)
        return usual._replace(
            lookup=kernel_tables.MAX_TABLES_NBYTES,
            view=WORD * len(TableSearchView._fields),
            room=usual.room + launch.SEARCH_NBYTES + usual.lookup,
        )

    def train(self, lane: Lane, room: TrainingRoom) -> None:
        scopes = len(room.chars_limits)
        lookup = room.room + launch.SEARCH_NBYTES * scopes
        self._train(lane, room, lookup, lookup + kernel_tables.ENCODE_TABLES_NBYTES * scopes)
        views = (
            TableSearchView(
                room.scopes + WORD * len(ScopeView._fields) * number,
                room.exported + kernel_tables.TRAINED_TABLE.itemsize * number,
                room.room + launch.SEARCH_NBYTES * number,
            )
            for number in range(scopes)
        )
        lane.send(room.views, words(views))
        for step in launch.search_steps(scopes, max(room.chars_limits), train_max.ROUNDS):
            kernel = get_kernel("fsst_train_max", step.kernel)
            lane.launch(kernel, step.grid, step.threads, (room.views, *step.arguments))

    def tables(self, exported: npt.NDArray[np.uint8], scopes: int) -> list[SymbolTable]:
        return kernel_tables.searched_tables(exported.view(kernel_tables.TRAINED_TABLE))

    def lookup(self, table: SymbolTable, tables_form: int) -> npt.NDArray[np.uint8]:
        del tables_form  # of the tables that are improved nothing is looked up
        return kernel_tables.max_tables(table)

    def staged(self, tile_size: int, tables_nbytes: int) -> int:
        return launch.encode_max_shape(tile_size, device_attributes()["shared_per_block"], tables_nbytes).staged

    def encode(
        self, lane: Lane, tile_size: int, tables_nbytes: int, waves_at: int, groups: int, tiles: int, per_group: int
    ) -> None:
        attributes = device_attributes()
        kernel = get_kernel("fsst_encode_max", "fsst_encode_max", tile_size)
        threads, shared, _ = launch.encode_max_shape(tile_size, attributes["shared_per_block"], tables_nbytes)
        grid = _grid(attributes["multiprocessors"], tiles, threads, groups * per_group)
        lane.launch(kernel, (grid, groups * per_group), threads, (waves_at,), shared)


def _grid(most: int, tiles: int, threads: int, groups: int) -> int:
    """Thread blocks of a group, as few of the `most` that there are room for as have work.

    One group may have a block a bundle; of several, blocks that find no multiprocessor free would load tables in vain.
    """
    bundles = -(-tiles // BUNDLE_TILES)
    return min(most, bundles, max(-(-bundles // (threads // 32)), device_attributes()["multiprocessors"] // groups))


_ENCODERS: dict[str, Sequence[TileEncoder]] = {"default": [FsstEncoder()], "max": [FsstMaxEncoder()]}


def encoders(level: str) -> Sequence[TileEncoder]:
    return _ENCODERS[level]
