"""A column of text on its way to be compressed on a GPU, and what a codec's kernels do for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...buffers import DeviceStrings
from ...device.memory import Lane, pinned
from ...device.waits import Steps
from . import plan

# Characters of a call whose eighth has room for the slots of long columns and for 16 MiB of others.
_ROOM_FOR_OTHERS = 8 * (80 << 20)


class TrainingNbytes(NamedTuple):
    """Bytes that the training of a scope's table takes.

    Attributes
    ----------
    lookup, exported : int
        What the encoder reads of the table, and what the host makes it of.
    view : int
        What is uploaded of the scope, beside its ScopeView.
    cleared, room : int
        Counts, which are 0 when training begins, and other room.
    in_turns : int
        Room that scopes take turns in, as many at a time as there is.
    """

    lookup: int = 0
    exported: int = 0
    view: int = 0
    cleared: int = 0
    room: int = 0
    in_turns: int = 0


class TrainingRoom(NamedTuple):
    """Where the tables of scopes are trained: addresses. What is of each scope lies one behind another's.

    Attributes
    ----------
    chars_limits : list of int
        Characters of each scope, or more.
    each : TrainingNbytes
        Of each scope, but for `in_turns`.
    scopes : int
        Their ScopeViews.
    in_turns, in_turns_nbytes : int
        Room for those that are trained at a time.
    multiprocessors : int
        How many it may take for long; others are at work beside it.
    """

    chars_limits: Sequence[int]
    each: TrainingNbytes
    scopes: int
    lookup: int
    exported: int
    views: int
    cleared: int
    room: int
    in_turns: int
    in_turns_nbytes: int
    multiprocessors: int


class TileEncoder(ABC):
    """What trains tables and encodes tiles on a GPU, at a level of a codec of text. It has no state.

    All columns that share a workspace have the same. Kernels find scopes and tiles as `ScopeView` and `WaveView` of
    kernels/text_compress.cuh say.

    Attributes
    ----------
    tile_size : int
        Bytes of a tile unless the user says how many.
    whole_slots : bool
        Whether a segment needs as much room while it is encoded as its characters take.
    group : int
        Segments that a launch encodes at most as if they were one.
    host_lookup : bool
        Whether the host makes what is read of trained tables (`lookup`); else training does.
    trains_everywhere : bool
        Whether training takes all multiprocessors, so that whatever comes later waits for it.
    """

    tile_size: int
    whole_slots = True
    group = 1
    host_lookup = False
    trains_everywhere = False

    def trains_long(self, scopes: int) -> bool:
        """Whether it takes as long to train so many tables as the host takes for a column's rows."""
        return True

    @abstractmethod
    def training_nbytes(self, scopes: int, chars_limit: int) -> TrainingNbytes:
        """What training takes for a scope of at most so many characters, of so many scopes."""

    @abstractmethod
    def train(self, lane: Lane, room: TrainingRoom) -> None:
        """Train the tables of scopes."""

    @abstractmethod
    def tables(self, exported: npt.NDArray[np.uint8], scopes: int) -> list[Any]:
        """The tables that training has exported."""

    def tables_form(self, tile_size: int) -> int:
        """What training and `lookup` have to know of a tile size: `ScopeView::tables_form`."""
        return 0

    @abstractmethod
    def lookup(self, table: Any, tables_form: int) -> npt.NDArray[np.uint8]:
        """The bytes that the encoder's kernel reads of a table."""

    def staged(self, tile_size: int, tables_nbytes: int) -> int:
        """`WaveView::staged`, of a table of so many bytes."""
        return 0

    @abstractmethod
    def encode(
        self, lane: Lane, tile_size: int, tables_nbytes: int, waves_at: int, groups: int, tiles: int, per_group: int
    ) -> None:
        """Encode groups of waves, the longest of at most so many tiles, by tables of at most so many bytes."""


class TextTask(NamedTuple):
    """A column to compress, and how: see `contract.DeviceTextCodec`.

    `only`: numbers of the scopes that are wanted, None: all. `chars`: what `chars_of` has found. `tables`: of a column
    whose tables are there, one for each scope. `lookups`: buffers with what the encoder reads of these; None, or none
    at all, where the host makes that. `encoder`: what ``text.cuda.steps`` has chosen for it.
    """

    strings: DeviceStrings
    table: Any = None
    tile_size: int | str = "auto"
    level: str = "default"
    only: frozenset[int] | None = None
    chars: int | None = None
    tables: Sequence[Any] = ()
    lookups: Sequence[Any] = ()
    encoder: TileEncoder | None = None


def chars_of(columns: Sequence[DeviceStrings], lane: Lane) -> Steps:
    """Characters of columns, or a limit that says as much of how they are cut; waits where there is no such limit.

    Of a column without rows it may be None.
    """
    limits = [column.chars_limit for column in columns]
    # Sizes up to a limit share a plan where they share the size of a segment: then there are just fewer segments.
    unknown = [
        i for i, limit in enumerate(limits) if (limit is None or limit > plan.SEGMENT_MIN_CHARS) and columns[i].rows
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
