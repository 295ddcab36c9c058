"""Automata that read the bytes of a row and say whether it counts: regular expressions, order, beginnings.

A pattern becomes a tree (Python's own parser), a nondeterministic automaton of characters (``nfa.py``), and a
deterministic one of bytes (``determine.py``). ``meanings.py`` has what a library means by a pattern. Where that is not
known for sure, rows are *undecided*: `UNDECIDED` rows are decoded, and the library looks at them.

Nothing here knows how columns are stored.
"""

from __future__ import annotations

from .machine import NO, NOT_PLAIN, UNDECIDED, YES, RowAutomaton, TooLarge
from .meanings import ARROW, CUDF, EITHER, PYTHON, Meaning
from .order import between, ends_with, starts_with
from .patterns import compile_like, compile_literal, compile_pattern

__all__ = [
    "ARROW",
    "CUDF",
    "EITHER",
    "NO",
    "NOT_PLAIN",
    "PYTHON",
    "UNDECIDED",
    "YES",
    "Meaning",
    "RowAutomaton",
    "TooLarge",
    "between",
    "compile_like",
    "compile_literal",
    "compile_pattern",
    "ends_with",
    "starts_with",
]
