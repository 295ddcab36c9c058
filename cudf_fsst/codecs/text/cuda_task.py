"""A column of text on its way to be compressed on a GPU, and what a codec's kernels do for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ...buffers import DeviceStrings
from ...device.memory import Lane, pinned
from ...device.waits import Steps
from . import plan
from .layout import LEVELS

# Characters of a call whose eighth has room for the slots of long columns and for 16 MiB of others.
_ROOM_FOR_OTHERS = 8 * (80 << 20)


class TrainingNbytes(NamedTuple):
    """Bytes that the training of a scope takes: what the encoder reads, what the host makes a table of, and room."""

    lookup: int
    exported: int
    room: int


class TrainingScope(NamedTuple):
    """A scope whose table is trained: addresses of its ScopeView, of what is made for the encoder and for the host.

    `chars_limit`: characters, or more.
    """

    view: int
    lookup: int
    exported: int
    chars_limit: int


class TileEncoder(Protocol):
    """What encodes tiles of other codecs into the same slots: see `WaveView` of kernels/text_compress.cuh.

    All columns of a round have the same.
    """

    def training_nbytes(self, chars_limit: int) -> TrainingNbytes:
        """What training takes for a scope of at most so many characters, at level ``default``."""

    #: Bytes of what is uploaded of a scope whose table is trained.
    training_view_nbytes: int

    def train(self, lane: Lane, scopes: Sequence[TrainingScope], views_at: int, room_at: int, room_nbytes: int) -> None:
        """Train the tables of scopes, as many at a time as the room has place for."""

    def tables(self, exported: npt.NDArray[np.uint8], scopes: int) -> list[Any]:
        """The tables that training has exported."""

    def lookup(self, table: Any) -> npt.NDArray[np.uint8]:
        """The bytes that the encoder's kernel reads of a table."""

    def encode(self, lane: Lane, tile_size: int, tables_nbytes: int, waves_at: int, waves: int, tiles: int) -> None:
        """Encode so many waves, the longest of which has at most so many tiles, by tables of at most so many bytes."""


class TextTask(NamedTuple):
    """A column to compress, and how: see `contract.DeviceTextCodec`.

    `only`: numbers of the scopes that are wanted, None: all. `chars`: what `chars_of` has found. `tables`: of a column
    whose tables are there, one for each scope. `encoder`: what encodes instead of FSST's kernels.
    """

    strings: DeviceStrings
    table: Any = None
    tile_size: int | str = "auto"
    level: str = "default"
    only: frozenset[int] | None = None
    chars: int | None = None
    tables: Sequence[Any] = ()
    encoder: TileEncoder | None = None


def chars_of(columns: Sequence[DeviceStrings], lane: Lane) -> Steps:
    """Characters of columns, or a limit that says as much of how they are cut; waits where there is no such limit.

    Of a column without rows it may be None.
    """
    limits = [column.chars_limit for column in columns]
    # Sizes up to a limit share a plan where they share the size of a segment: then there are just fewer segments.
    unknown = [
        i
        for i, (column, limit) in enumerate(zip(columns, limits, strict=True))
        if column.rows and (limit is None or plan.segment_size(limit) != plan.segment_size(0))
    ]
    if unknown:
        ends = pinned(2 * len(unknown), np.uint64)
        ends[:] = 0
        for place, i in enumerate(unknown):
            strings = columns[i]
            for k, row in ((2 * place, 0), (2 * place + 1, strings.rows)):
                itemsize = strings.offsets_itemsize
                lane.download(ends[k : k + 1].view(np.uint8)[:itemsize], strings.offsets + row * itemsize)
        yield
        for place, i in enumerate(unknown):
            limits[i] = int(ends[2 * place + 1]) - int(ends[2 * place])
    return limits


def takes_all(tasks: Sequence[TextTask]) -> bool:
    """Whether compression of columns takes all the workspace that the memory rule allows, beside what others do.

    A column of several segments has two slots of a segment's size at least, which only larger calls have room for.
    """
    limits = [task.strings.chars_limit for task in tasks if task.strings.rows]
    known = [limit for limit in limits if limit is not None]
    short = len(known) == len(limits) and all(plan.segment_count(limit) == 1 for limit in known)
    return not short and sum(known) < _ROOM_FOR_OTHERS


def check_level(level: str) -> None:
    """Raise ValueError for an unknown level."""
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, not {level!r}")
