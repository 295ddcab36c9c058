"""Scopes of columns in GPU memory, and samples of their characters for the host."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...device.memory import Lane, pinned
from .cuda_room import Cut
from .plan import SAMPLE_CHUNK


class ScopeSpan(NamedTuple):
    """The characters of a scope: where they are, how many, and in how many segments."""

    address: int
    nbytes: int
    segments: int


def spans(first_char: int, cuts: Iterable[Cut]) -> list[ScopeSpan]:
    """The scopes of a column, by its segments and the address of its first character."""
    made = []
    for _, scope in groupby(cuts, key=lambda cut: cut.table):
        own = list(scope)
        made.append(ScopeSpan(first_char + own[0].chars_begin, sum(cut.chars for cut in own), len(own)))
    return made


def fetch(span: ScopeSpan, starts: npt.NDArray[np.int64], lane: Lane) -> npt.NDArray[np.uint8]:
    """Start to copy the chunks of a sample that begin there in a scope, one behind another; valid after a wait."""
    size = min(SAMPLE_CHUNK * starts.size, span.nbytes)
    if size == span.nbytes:  # the scope is its own sample
        return lane.fetch(span.address, size, np.uint8)
    chunks = pinned(size, np.uint8)
    for i, start in enumerate(starts.tolist()):
        lane.download(chunks[SAMPLE_CHUNK * i : SAMPLE_CHUNK * (i + 1)], span.address + start)
    return chunks
