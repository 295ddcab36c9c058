"""Compression of text on the GPU: same bytes as `cpu`, many columns a call.

The five stages (ADMS 2025), each a launch for all columns of a round:

1. *tables*: those of all scopes are trained, with what the encoder reads of them, or the host makes that of what
   training has exported; a given table keeps its copy on the GPU;
2. *encode* a tile per lane, 3. *transpose* to tile order and 4. *gather* into a slot of the workspace, in one kernel;
5. *compact*: ``text_compact`` into the exact-size result.

Stages 1 to 4 are the codec's (`cuda_task.TileEncoder`).

Beside them the columns are cut into segments and their row lengths measured, then packed.

What the host hands from one stage to the next (`cuda_room`): `RoomColumn` (what is known beforehand), `Room` (columns
that go through the stages together, and their room), `TextRound` (what is launched of them before the first wait),
`ColumnTables`, `Cut` (a segment, as the GPU found it), and segments. `cuda_tables` has stage 1 and the rows,
`cuda_encode` and `cuda_long` the other stages.

A column of one segment is encoded before its size is known, into room for all that it may have. So all such columns of
a round share one wait. Where each table is trained by one thread block, or there is one column, there are two: for rows
and nulls, while tables are trained in a side stream, and for codes. A column of a few segments goes the same way, if
there is room for what its codes may be expected to take. Should they be more, it is compressed again as longer columns
are. These have two slots for the codes of a segment, each with a stream, which take turns: while the host waits for the
size of one segment's codes and the GPU compacts them, it encodes the next, be it of this column or of another. Where
codes are few, a slot serves as two. Tables are trained beside the work on row lengths, and the first segments are
encoded before the host knows the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...device import waits
from ...device.memory import Lane, SideLanes, Workspace
from ...device.transfer import Outbox
from ...device.waits import Steps
from .cuda_encode import Waves, encode_at_once, finish_at_once, waves_at_once
from .cuda_long import First, compress_long, encode_first, first_waves
from .cuda_room import (
    PARTS,
    SLOTS,
    ColumnTables,
    Cut,
    Results,
    Room,
    RoomColumn,
    make_room,
    plan_columns,
    rounds,
    with_pool,
)
from .cuda_tables import Exported, download_counts, find_cuts, launch_first_stage, place_tables
from .cuda_task import TextTask


class BesideRound(Protocol):
    """Other work, such as looking for dictionaries, that shares a round's workspace and wait."""

    def reserve(self, work: Workspace) -> None:
        """Ask for room in the round's workspace."""

    def launch(self, room: Room) -> None:
        """Launch the work."""


class TextRound:
    """Columns that share a workspace, on their way; use it as a context.

    To enter it is to launch all that needs no number of the GPU's. The attributes that begin then are there when the
    lane has been waited for: `finish` goes on.

    Parameters
    ----------
    columns : sequence of RoomColumn
    lane : Lane
    beside : BesideRound, optional
    later : sequence of sequence of RoomColumn
        Of the same call, the rounds that come later.

    Attributes
    ----------
    room : Room
    tables : list of ColumnTables
        None yet where the host looks symbols up in trained tables.
    waves : Waves or First
        What is encoded: all of columns that are encoded at once, or the first segments of a longer one.
    exported, counts : ndarray
        What training gives, and what the GPU finds of the columns, in pinned memory.
    """

    room: Room
    tables: list[ColumnTables]
    waves: Waves | First
    exported: Exported
    counts: npt.NDArray[np.int64]

    def __init__(
        self,
        columns: Sequence[RoomColumn],
        lane: Lane,
        beside: BesideRound | None = None,
        later: Sequence[Sequence[RoomColumn]] = (),
    ) -> None:
        self.columns, self.later, self._lane, self._beside = columns, later, lane, beside
        self._work, self._finished = Workspace(), False
        encoder, scopes = columns[0].encoder, sum([column.scopes for column in columns])
        self._at_once, self._searched = columns[0].at_once, scopes > 0 and encoder.host_lookup
        # What is done for the rows of one column meanwhile takes its host as long as the GPU trains.
        trained_beside = scopes > 0 and (len(columns) == 1 or encoder.trains_long(scopes))
        at_once = int(trained_beside or self._searched or columns[0].pool > 0)
        self._sides = SideLanes(lane, at_once if self._at_once else SLOTS * PARTS + 1)

    def __enter__(self) -> TextRound:
        try:
            self._launch(self._sides.lanes)
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self._sides.__exit__(None if self._finished else "side streams may be at work")
        finally:
            self._work.release()

    def _launch(self, side: Sequence[Lane]) -> None:
        beside = self._beside
        reserve = None if beside is None else beside.reserve
        room = self.room = make_room(self.columns, self._lane, side, self._work, encode=True, more=reserve)
        self.tables = [] if self._searched else place_tables(room)
        if self._at_once and not self._searched:
            if room.scopes:  # training begins as soon as it can; waves are described meanwhile
                self.exported = launch_first_stage(room)
                self.waves = waves_at_once(room, self.tables)
            else:
                self.waves = waves_at_once(room, self.tables)
                self.exported = launch_first_stage(room, self.waves.views)
            self.counts = encode_at_once(room, self.waves)
            if beside is not None:
                beside.launch(room)
            return
        self.waves = First((), []) if self._searched else first_waves(room, self.tables)
        self.exported = launch_first_stage(room, self.waves.waves)
        if beside is not None:
            beside.launch(room)
        encode_first(room, self.tables, self.waves)
        self.counts = download_counts(room, room.lane)
        if self._searched:
            room.lane.follow(side[0])

    def finish(self, results: Results, outbox: Outbox | None) -> Steps:
        """Compress them to the end; False, and nothing is kept, where codes are more than have room."""
        room = self.room
        if self._searched:
            self.tables = place_tables(room, self.exported)
            if self._at_once:
                self.waves = waves_at_once(room, self.tables)
                self.counts = encode_at_once(room, self.waves)
                yield
        if isinstance(self.waves, Waves):
            done = yield from finish_at_once(room, self.tables, self.waves, self.counts, self.exported, results, outbox)
        else:
            cuts = [_to_encode(of_column) for of_column in find_cuts(room, self.counts.tolist())]
            compress_long(room, cuts, self.tables, results, outbox, self.exported, self.waves)
            done = True
        self._finished = True
        if not done:
            self._work.release()
        return done


def _to_encode(cuts: Iterable[Cut]) -> Iterator[Cut]:
    """The segments of a column that are to be encoded."""
    return (cut for cut in cuts if cut.column.task.only is None or cut.table in cut.column.task.only)


def first_round(
    tasks: Sequence[TextTask], *, lane: Lane, outbox: Outbox | None = None, beside: BesideRound | None = None
) -> TextRound | None:
    """What `compress` does before its first wait, once it is entered; None without rows.

    Parameters
    ----------
    tasks, lane, outbox
        See `compress`. It is known how many characters they have (`TextTask.chars`).
    beside
        Looks where columns are looked at, to launch more work on the same columns before the wait for that: at their
        room, whose last side stream goes on when it is known where segments begin. The room's lane has to follow.
    """
    (columns,) = waits.run(lane, plan_columns(tasks, lane))
    every = list(rounds(columns))
    return TextRound(_pooled(every[0], outbox), lane, beside, every[1:]) if every else None


def compress(
    tasks: Sequence[TextTask], *, lane: Lane, outbox: Outbox | None = None, first: TextRound | None = None
) -> Steps:
    """Compress columns in GPU memory.

    Parameters
    ----------
    tasks
        Read in place; each has an encoder.
    lane
        Where the caller works, and waits at every yield.
    outbox
        Where every segment goes as soon as it is made; it is in host memory then, when the outbox is closed.
    first
        What `first_round` has made of these tasks, entered, and the lane has been waited for.

    Returns
    -------
    list of list of Segment
        Of every column, in GPU memory, stream-ordered; or where `outbox` brings them. Empty for zero rows.

    Raises
    ------
    ValueError
        An unknown tile size.
    CharactersUnderNulls
        Null rows have characters.
    MemoryError
        From RMM; nothing is kept.
    """
    results = Results(len(tasks))
    try:
        if first is not None and not (yield from first.finish(results, outbox)):
            yield from _compress_round([column._replace(pool=0) for column in first.columns], lane, results, outbox)
        every = rounds((yield from plan_columns(tasks, lane))) if first is None else first.later
        for together in every:
            if not (yield from _compress_round(_pooled(together, outbox), lane, results, outbox)):
                yield from _compress_round(together, lane, results, outbox)
    except BaseException:
        lane.synchronize()
        results.drop()
        raise
    return results.segments


def _pooled(together: Sequence[RoomColumn], outbox: Outbox | None) -> Sequence[RoomColumn]:
    """A column that is alone in its round, with room to be encoded at once if it may be; others as they are."""
    column, *others = together
    alone = not others and column.segments > 1 and column.task.only is None and outbox is None
    return [with_pool(column)] if alone else together


def _compress_round(columns: Sequence[RoomColumn], lane: Lane, results: Results, outbox: Outbox | None) -> Steps:
    with TextRound(columns, lane) as text_round:
        yield
        return (yield from text_round.finish(results, outbox))
