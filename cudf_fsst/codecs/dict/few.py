"""The few short values of a dictionary, decoded and kept in host memory.

What reads rows on a GPU, and what answers questions about them, begins with these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ...automata import RowAutomaton
from ...buffers import HostStrings
from ...lazy import lazy
from ..part import align
from ..text import search

#: How many values, and bytes of the longest.
MOST, SHORT = 256, 64
#: Questions whose answers are cached.
_CACHED = 8


def may_be(values: int, chars: int) -> bool:
    """Whether so many values of a dictionary, of so many bytes, may be a few short ones."""
    return 0 < values <= MOST and chars <= MOST * SHORT


class Few:
    """Values of a dictionary.

    Parameters
    ----------
    rows : iterable of bytes
        At least one, at most `MOST`.

    Attributes
    ----------
    rows : tuple of bytes
    """

    def __init__(self, rows: Iterable[bytes]) -> None:
        self.rows = tuple(rows)
        self._answers: dict[search.Question, npt.NDArray[np.generic]] = {}

    @classmethod
    def of_strings(cls, strings: HostStrings) -> Few:
        """The rows of a column of strings."""
        places, chars = strings.offsets.tolist(), strings.chars
        return cls(chars[a:b].tobytes() for a, b in pairwise(places))

    @lazy
    def image(self) -> npt.NDArray[np.uint8]:
        """The values as kernels/dict_packed.cu reads them (`image_of`); the longest value has 1 to `SHORT` bytes."""
        return image_of(self.rows)

    def answers(self, question: search.Question | RowAutomaton) -> npt.NDArray[np.generic]:
        """The answer for each value, of `search.answer_dtype`; or what an automaton says of it, a byte."""
        if isinstance(question, RowAutomaton):
            return np.array([question.verdict(row) for row in self.rows], np.uint8)
        answered = self._answers.get(question)
        if answered is None:
            answered = np.array([search.answer(question, row) for row in self.rows], search.answer_dtype(question))
            if search.is_small(question):
                if len(self._answers) >= _CACHED:
                    self._answers.clear()
                self._answers[question] = answered
        return answered


def image_of(rows: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    """Values, each filled up with zeros, an empty one more, and the sizes of all these."""
    rows = [*rows, b""]
    stride = align(max(map(len, rows)), 8)
    return np.frombuffer(b"".join(row.ljust(stride, b"\0") for row in rows) + bytes(map(len, rows)), np.uint8)
