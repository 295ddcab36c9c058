"""OnPair on a GPU: what differs from other codecs of text (`contract.DeviceTextCodec`).

Tables are trained and tiles encoded there, in the pipeline of all codecs of text. At level ``max`` the host chooses how
many bits codes have, on samples that it fetches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...buffers import DeviceStrings
from ...device import waits
from ...device.memory import Lane, device_attributes
from ...device.transfer import Outbox
from ...device.waits import Steps
from ...workers import map_items
from ..cuda_kernels import blocks, get_kernel
from ..text import cuda_compress as pipeline
from ..text import cuda_sample
from ..text import launch as text_launch
from ..text.cuda_task import TextTask, TrainingNbytes, TrainingScope, check_level
from ..text.launch import PIECE_TILES
from ..text.plan import choice_positions
from ..text.views import words
from . import TILE_SIZE, cpu, launch, plan
from .cuda_match import answer as answer
from .cuda_match import match as match
from .launch import decode_table as decode_table
from .symbols import BITS, OnPairTable

#: onpair_take.cu decodes the tiles of single rows.
TAKES = True
#: onpair_search.cu; for automata of rows, columns are decoded.
MATCHES = True
#: There is a kernel; compression is FSST's with this kernel in the place of its own.
ENCODES = True


def kernels(step: str) -> tuple[Callable[[], object], ...]:
    """See `contract.DeviceTextCodec`; it is only taken where it is named."""
    del step
    return ()


def take_kernel(name: str) -> Any:
    """See `contract.DeviceTextCodec`."""
    own = name if name == "take_measure" else f"onpair_{name}"
    return get_kernel("onpair_take", own, text_launch.TAKE_DEFINES)


class DecodeLaunch(NamedTuple):
    """See `contract.DeviceTextCodec`; `codes_capacity` is what of the shared memory is for the table."""

    threads: int
    shared: int
    codes_capacity: int
    resident: int


class OnPairEncoder:
    """What encodes tiles (`text.cuda_task.TileEncoder`)."""

    lookup = staticmethod(launch.lookup)
    training_view_nbytes = 8 * len(launch.TrainView._fields)

    def __init__(self, bits: int, level: str) -> None:
        self._bits, self._level = bits, level

    def tables(self, exported: npt.NDArray[np.uint8], scopes: int) -> list[OnPairTable]:
        """See `text.cuda_task.TileEncoder`."""
        return launch.trained_tables(exported, scopes, self._bits)

    def training_nbytes(self, chars_limit: int) -> TrainingNbytes:
        """See `text.cuda_task.TileEncoder`."""
        room = launch.train_room(chars_limit, self._level, self._bits).nbytes
        return TrainingNbytes(launch.lookup_nbytes(self._bits), launch.ONPAIR_TRAINED.itemsize, room)

    def train(self, lane: Lane, scopes: Sequence[TrainingScope], views_at: int, room_at: int, room_nbytes: int) -> None:
        """See `text.cuda_task.TileEncoder`."""
        views: list[launch.TrainView] = []
        batches: list[tuple[int, int]] = []  # first scope, chunks of the longest sample
        end = room_nbytes
        for number, scope in enumerate(scopes):
            room = launch.train_room(scope.chars_limit, self._level, self._bits)
            if end + room.nbytes > room_nbytes:
                batches.append((number, 0))
                end = 0
            batches[-1] = batches[-1][0], max(batches[-1][1], room.most_chunks)
            at = room_at + end
            to = scope.exported, scope.lookup
            views.append(launch.train_view(room, at, scope.view, self._bits, self._level, *to))
            end += room.nbytes
        lane.send(views_at, words(views))
        defines = launch.train_defines()
        kernels = {name: get_kernel("onpair_train", name, defines) for name in launch.TRAIN_KERNELS}
        multiprocessors = device_attributes()["multiprocessors"]
        for i, (first, chunks) in enumerate(batches):
            count = (batches[i + 1][0] if i + 1 < len(batches) else len(scopes)) - first
            views_of = np.uint64(views_at + self.training_view_nbytes * first)
            grid = max(1, min(2 * multiprocessors, max(multiprocessors, chunks // 4)) // min(count, 2))
            for name, of_scope, threads, arguments in launch.train_steps(grid):
                lane.launch(kernels[name], (of_scope, count), threads, (views_of, *arguments))

    def encode(self, lane: Lane, tile_size: int, tables_nbytes: int, waves_at: int, waves: int, tiles: int) -> None:
        """See `text.cuda_task.TileEncoder`. Tables of a launch have one size."""
        attributes = device_attributes()
        bits = next(bits for bits in BITS if launch.lookup_nbytes(bits) >= tables_nbytes)
        shape = launch.encode_shape(tile_size, attributes["shared_per_block"], bits)
        kernel = get_kernel("onpair_encode", "onpair_encode", launch.defines(tile_size, shape.table > 0), shared=True)
        pieces, multiprocessors = blocks(tiles, PIECE_TILES), attributes["multiprocessors"]
        grid = min(multiprocessors, pieces, max(blocks(pieces, shape.threads // 32), multiprocessors // waves))
        lane.launch(kernel, (grid, waves), shape.threads, (np.uint64(waves_at), np.uint32(shape.table)), shape.shared)


_ENCODER = OnPairEncoder(plan.BITS, "default")
_AT_MAX = [OnPairEncoder(bits, "max") for bits in BITS]


def tables(tasks: Sequence[TextTask], *, lane: Lane) -> Steps:
    """The tables of all scopes of columns, a list for each; see `contract.DeviceTextCodec`."""
    return _tables(tasks, lane)


def _tables(tasks: Sequence[TextTask], lane: Lane, *, one_scope: bool = False) -> Steps:
    """A list of tables for each column, one a scope: of `plan.BITS` bits, at ``max`` of as many as is smallest."""
    for task in tasks:
        check_level(task.level)
    searched = [i for i, task in enumerate(tasks) if task.level == "max"]
    others = [i for i, task in enumerate(tasks) if task.level != "max"]
    made: list[Any] = [None] * len(tasks)
    if searched:
        found = yield from _smallest_tables([tasks[i] for i in searched], lane, one_scope)
        for i, own in zip(searched, found, strict=True):
            made[i] = own
    if others:
        wanted = [tasks[i]._replace(encoder=_ENCODER) for i in others]
        found = yield from pipeline.tables(wanted, lane=lane, one_scope=one_scope)
        for i, own in zip(others, found, strict=True):
            made[i] = own
    return made


def _smallest_tables(tasks: Sequence[TextTask], lane: Lane, one_scope: bool) -> Steps:
    """Train tables of all numbers of bits; the host compares them, on samples that it fetches."""
    of_bits = []
    for encoder in _AT_MAX:
        wanted = [task._replace(encoder=encoder, table=None, tables=()) for task in tasks]
        of_bits.append((yield from pipeline.tables(wanted, lane=lane, one_scope=one_scope)))
    found = yield from cuda_sample.spans(tasks, lane=lane, one_scope=one_scope)
    choices = []
    for i, scopes in enumerate(found):
        for k, span in enumerate(scopes):
            sample = cuda_sample.fetch(span, choice_positions(0, span.nbytes), lane)
            choices.append(([own[i][k] for own in of_bits], sample, span.nbytes))
    yield
    chosen = iter(map_items(lambda one: cpu.smallest(*one), choices))
    return [[next(chosen) for _ in scopes] for scopes in found]


def compress(tasks: Sequence[TextTask], *, lane: Lane, outbox: Outbox | None = None) -> Steps:
    """Compress columns; see `contract.DeviceTextCodec`."""
    wanted = [
        task._replace(tile_size=TILE_SIZE if task.tile_size == "auto" else task.tile_size, encoder=_ENCODER)
        for task in tasks
    ]
    for task in tasks:
        check_level(task.level)
    searched = [task.level == "max" and task.table is None and not task.tables for task in wanted]
    untrained = [i for i, search in enumerate(searched) if search]
    made = yield from tables([wanted[i] for i in untrained], lane=lane)
    for i, own in zip(untrained, made, strict=True):
        wanted[i] = wanted[i]._replace(tables=tuple(own))
    return (yield from pipeline.compress(wanted, lane=lane, outbox=outbox))


def train(strings: DeviceStrings, *, level: str = "default", stream: Any = None) -> OnPairTable:
    """Train one table on a whole column; see `contract.DeviceTextCodec`."""
    check_level(level)
    if strings.rows == 0:  # such a column may have no offsets
        return cpu.train(np.empty(0, np.uint8), 0, 0, level)
    with Lane(stream) as lane:
        (((table,),),) = waits.run(lane, _tables([TextTask(strings, level=level)], lane, one_scope=True))
        made: OnPairTable = table
        return made


def choices(tile_size: int) -> None:
    """Nothing decides but the device."""
    del tile_size


def decode_shape(tile_size: int, codes_nbytes: int, tiles: int, tables_nbytes: int) -> DecodeLaunch:
    """See `contract.DeviceTextCodec`. No table is larger than all of them together."""
    del tile_size, codes_nbytes, tiles
    attributes = device_attributes()
    bits = next((bits for bits in BITS if launch.table_nbytes(bits) >= tables_nbytes), BITS[-1])
    shape = launch.decode_shape(attributes["shared_per_block"], bits if _staged() else BITS[-1])
    most = 2 * launch.DECODE_THREADS // shape.threads
    blocks = min(most, attributes["shared_per_multiprocessor"] // (shape.shared + 1024))
    return DecodeLaunch(shape.threads, shape.shared, shape.table, max(1, blocks) * shape.threads // 32)


def _staged() -> bool:
    """Whether tables lie in shared memory: where those of the most bits fit."""
    return launch.decode_shape(device_attributes()["shared_per_block"], BITS[-1]).table > 0


def decode_kernel(tile_size: int) -> Any:
    """See `contract.DeviceTextCodec`."""
    return get_kernel("onpair_decode", "onpair_decode", launch.defines(tile_size, _staged()), shared=True)
