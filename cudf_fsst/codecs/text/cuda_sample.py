"""Scopes of columns in GPU memory, and samples of their characters for the host."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...device.memory import Lane, SideLanes, Workspace, pinned
from ...device.waits import Steps
from .cuda_room import make_room, plan_columns, rounds
from .cuda_tables import download_found, find_cuts, look
from .cuda_task import TextTask
from .plan import SAMPLE_CHUNK


class ScopeSpan(NamedTuple):
    """The characters of a scope: where they are, how many, and in how many segments."""

    address: int
    nbytes: int
    segments: int


def spans(tasks: Sequence[TextTask], *, lane: Lane, one_scope: bool = False) -> Steps:
    """The scopes of columns, a list for each; CharactersUnderNulls where null rows have characters."""
    found: list[list[ScopeSpan]] = [[] for _ in tasks]
    untrained = [task._replace(table=None, tables=(None,)) for task in tasks]
    columns = yield from plan_columns(untrained, lane, one_scope=one_scope)
    for together in rounds(columns):
        with Workspace() as work, SideLanes(lane, 1) as side:
            room = make_room(together, lane, side, work, encode=False)
            look(room)
            numbers = download_found(room)
            lane.follow(side[0])
            yield
            listed = numbers.tolist()
            for column, places, cuts in zip(together, room.found, find_cuts(room, listed), strict=True):
                for _, scope in groupby(cuts, key=lambda cut: cut.table):
                    own = list(scope)
                    nbytes = sum(cut.chars for cut in own)
                    first = listed[places.first_char] + own[0].chars_begin
                    found[column.number].append(ScopeSpan(first, nbytes, len(own)))
    return found


def fetch(span: ScopeSpan, starts: npt.NDArray[np.int64], lane: Lane) -> npt.NDArray[np.uint8]:
    """Start to copy the chunks of a sample that begin there in a scope, one behind another; valid after a wait."""
    size = min(SAMPLE_CHUNK * starts.size, span.nbytes)
    if size == span.nbytes:  # the scope is its own sample
        return lane.fetch(span.address, size, np.uint8)
    chunks = pinned(size, np.uint8)
    for i, start in enumerate(starts.tolist()):
        lane.download(chunks[SAMPLE_CHUNK * i : SAMPLE_CHUNK * (i + 1)], span.address + start)
    return chunks
