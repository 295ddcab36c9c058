"""Work on the host, cut for threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from ..workers import map_items, num_threads

#: Rows and characters up to which work is over before threads would have started.
_FEW_ROWS, _FEW_CHARS = 2**16, 2**20

_R = TypeVar("_R")


def cut(first: int, last: int, step: int) -> list[tuple[int, int]]:
    """Cut a range at the multiples of `step`."""
    edges = [first, *range((first // step + 1) * step, last, step), last]
    return list(pairwise(edges)) if first < last else []


def run(work: Sequence[Callable[[], _R]], rows: int, chars: int) -> list[_R]:
    """Results of work, which is done in threads where it is not over before they would have started."""
    if rows <= _FEW_ROWS and chars <= _FEW_CHARS:
        return [step() for step in work]
    # Small steps, as small segments make them, go to a thread together.
    together = max(1, len(work) // (64 * num_threads()))
    parts = [work[i : i + together] for i in range(0, len(work), together)]
    return [result for part in map_items(lambda steps: [step() for step in steps], parts) for result in part]
