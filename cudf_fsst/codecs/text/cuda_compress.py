"""Compression of text on the GPU: same bytes as `cpu`, many columns a call.

The five stages (ADMS 2025), each a launch for all columns of a round:

1. *tables*: those of all scopes are trained, with what the encoder reads of them, or the host makes that of what
   training has exported; a given table keeps its copy on the GPU;
2. *encode* a tile per lane, 3. *transpose* to tile order and 4. *gather* into a slot of the workspace, in one kernel;
5. *compact*: ``text_compact`` into the exact-size result.

Stages 1 to 4 are the codec's (`cuda_task.TileEncoder`).

Beside them the columns are cut into segments and their row lengths measured, then packed.

What the host hands from one stage to the next (`cuda_room`): `RoomColumn` (what is known beforehand), `Room` (columns
that go through the stages together, and their room), `ColumnTables`, `Cut` (a segment, as the GPU found it), and
segments. `cuda_tables` has stage 1 and the rows, `cuda_encode` and `cuda_long` the other stages.

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

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Protocol

from ...device.memory import Lane, SideLanes, Workspace
from ...device.transfer import Outbox
from ...device.waits import Steps
from .cuda_encode import compress_at_once, waves_at_once
from .cuda_long import First, compress_long, encode_first, first_waves
from .cuda_room import (
    PARTS,
    SLOTS,
    Cut,
    Results,
    Room,
    RoomColumn,
    make_room,
    plan_columns,
    rounds,
    with_pool,
)
from .cuda_sample import ScopeSpan
from .cuda_sample import spans as spans_of
from .cuda_tables import download_found, find_cuts, look, place_tables
from .cuda_task import TextTask
from .segment import Segment
from .views import words


class BesideRound(Protocol):
    """Other work, such as looking for dictionaries, that shares a round's workspace and wait."""

    def reserve(self, work: Workspace) -> None:
        """Ask for room in the round's workspace."""

    def look(self, room: Room) -> None:
        """Launch the work."""


def _compress_round(
    columns: Sequence[RoomColumn], lane: Lane, results: Results, outbox: Outbox | None, beside: BesideRound | None
) -> Steps:
    """Compress columns that share a workspace; False, and nothing is done, where codes are more than have room."""
    at_once, encoder, scopes = columns[0].at_once, columns[0].encoder, sum(column.scopes for column in columns)
    searched = scopes > 0 and encoder.host_lookup
    # What is done for the rows of one column meanwhile takes its host as long as the GPU trains.
    trained_beside = scopes > 0 and (len(columns) == 1 or encoder.trains_long(scopes))
    side_count = int(trained_beside or searched or columns[0].pool > 0) if at_once else SLOTS * PARTS + 1
    with Workspace() as work, SideLanes(lane, side_count) as side:
        if beside is not None:
            beside.reserve(work)
        room = make_room(columns, lane, side, work, encode=True)
        if at_once and not searched:
            early = bool(side) and scopes > 0
            exported = look(room) if early else None  # training begins as soon as it can
            tables = place_tables(room)
            waves = waves_at_once(room, tables)
            if early:
                side[0].send(room.waves_at, words(waves.views))
            else:
                exported = look(room, waves.views)
            if beside is not None:
                beside.look(room)
            return (yield from compress_at_once(room, tables, waves, results, outbox, exported))
        tables = [] if searched else place_tables(room)
        first = First((), []) if searched else first_waves(room, tables)
        exported = look(room, first.waves)
        if beside is not None:
            beside.look(room)
        encode_first(room, tables, first)
        found = download_found(room)
        if searched:
            lane.follow(side[0])
        yield
        cuts = find_cuts(room, found.tolist())
        if searched:
            tables = place_tables(room, exported)
        if at_once:
            waves = waves_at_once(room, tables)
            lane.send(room.waves_at, words(waves.views))
            return (yield from compress_at_once(room, tables, waves, results, outbox, exported))
        compress_long(room, [_to_encode(of_column) for of_column in cuts], tables, results, outbox, exported, first)
        return True


def _to_encode(cuts: Iterable[Cut]) -> Iterator[Cut]:
    """The segments of a column that are to be encoded."""
    return (cut for cut in cuts if cut.column.task.only is None or cut.table in cut.column.task.only)


def compress(
    tasks: Sequence[TextTask], *, lane: Lane, outbox: Outbox | None = None, beside: BesideRound | None = None
) -> Generator[None, None, list[list[Segment]]]:
    """Compress columns in GPU memory.

    Parameters
    ----------
    tasks
        Read in place; each has an encoder.
    lane
        Where the caller works, and waits at every yield.
    outbox
        Where every segment goes as soon as it is made; it is in host memory then, when the outbox is closed.
    beside
        Looks where columns are looked at, before the wait for that, to launch more work on the same columns: at their
        room, whose last side stream goes on when it is known where segments begin. The room's lane has to follow.

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
        columns = yield from plan_columns(tasks, lane)
        for together in rounds(columns):
            alone = len(together) == 1 and together[0].task.only is None and outbox is None
            some = [with_pool(together[0])] if alone else together
            if not (yield from _compress_round(some, lane, results, outbox, beside)):
                yield from _compress_round(together, lane, results, outbox, beside)
    except BaseException:
        lane.synchronize()
        results.drop()
        raise
    return results.segments


def tables(tasks: Sequence[TextTask], *, lane: Lane, one_scope: bool = False) -> Steps:
    """Stage 1 alone: the tables of all scopes of columns, a list for each, and their spans; see `compress`.

    With `one_scope` a column is one scope, however large it is.
    """
    made: list[list[Any]] = [[] for _ in tasks]
    spans: list[list[ScopeSpan]] = [[] for _ in tasks]
    columns = yield from plan_columns(tasks, lane, one_scope=one_scope)
    for together in rounds(columns):
        with Workspace() as work, SideLanes(lane, 1) as side:
            room = make_room(together, lane, side, work, encode=False)
            exported = look(room)
            found = download_found(room)
            lane.follow(side[0])
            yield
            numbers = found.tolist()
            cuts = find_cuts(room, numbers)
            assert exported is not None
            trained = room.encoder.tables(exported, room.scopes)
            for column, first, places, own in zip(together, room.first_scope, room.found, cuts, strict=True):
                made[column.number] = trained[first : first + column.scopes]
                spans[column.number] = spans_of(numbers[places.first_char], own)
    return made, spans
