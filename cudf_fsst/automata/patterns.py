"""Patterns of users -> automata, kept for the next call."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from . import determine, meanings
from .machine import NO, RowAutomaton, TooLarge
from .meanings import CUDF, Meaning, exactly
from .nfa import Nfa, Unknown, beginning_of, of_pattern, sets_of
from .portable import is_portable
from .ranges import EVERY, single

#: Characters of a pattern that is looked at.
MAX_PATTERN = 1000
#: Bytes of a text that all rows have that match.
MAX_TEXT = 8
#: Which part of a row a method wants to match.
_MODES = {"contains": determine.SEARCH, "match": determine.MATCH, "fullmatch": determine.FULL}


@lru_cache(128)
def compile_pattern(pattern: str, flags: int, method: str, meaning: Meaning) -> RowAutomaton | None:
    """The automaton of a regular expression.

    Parameters
    ----------
    pattern : str
    flags : int
        Of `re`.
    method : str
        ``"contains"``, ``"match"`` or ``"fullmatch"``.
    meaning : Meaning

    Returns
    -------
    RowAutomaton or None
        None: it is no pattern, has something that is not known here, or would be too large.
    """
    if len(pattern) > MAX_PATTERN or (meaning.portable and not is_portable(pattern, strict=meaning is CUDF)):
        return None
    try:
        pattern.encode()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what Python may come to read in another way
            nfa = of_pattern(pattern, flags, meaning)
        automaton = determine.determined(nfa, _MODES[method], meaning)
    except (Unknown, TooLarge, re.error, UnicodeEncodeError, Warning):
        return None
    if meaning is CUDF and method != "fullmatch" and automaton.verdicts[0] != NO:
        return None  # empty matches are not relied upon
    if method != "contains":
        return automaton
    return replace(automaton, sets=sets_of(nfa), text=beginning_of(nfa).encode()[:MAX_TEXT])


@lru_cache(128)
def compile_literal(text: str, meaning: Meaning) -> RowAutomaton | None:
    """Rows that have a text in them, in any case; characters beyond ASCII leave a row undecided."""
    if not text or not text.isascii() or len(text) > MAX_PATTERN or "\0" in text:
        return None
    nfa = Nfa()
    end = nfa.start
    try:
        for character in text:
            matching = meanings.folded(single(ord(character)))
            end = nfa.read(end, meanings.Set(matching.sure, matching.sure))
        nfa.stop = end
        return replace(determine.determined(nfa, determine.SEARCH, meaning, ascii_alone=True), sets=sets_of(nfa))
    except TooLarge:
        return None


@lru_cache(128)
def compile_like(parts: Sequence[str | None], meaning: Meaning) -> RowAutomaton | None:
    """Rows that are a pattern of ``LIKE``.

    Parameters
    ----------
    parts : tuple of str or None
        Texts of which one is all of a row. Of them, ``""`` stands for one character, and None for any, or none.
    meaning : Meaning
    """
    if len(parts) > MAX_PATTERN:
        return None
    nfa = Nfa()
    end = nfa.start
    try:
        for part in parts:
            if part is None:
                loop = nfa.node()
                nfa.skip(end, loop)
                begin = nfa.node()
                nfa.skip(loop, begin)
                nfa.skip(nfa.read(begin, exactly(EVERY)), loop)
                end = nfa.node()
                nfa.skip(loop, end)
            elif part:
                for character in part:
                    end = nfa.read(end, exactly(single(ord(character))))
            else:
                end = nfa.read(end, exactly(EVERY))
        nfa.stop = end
        return determine.determined(nfa, determine.FULL, meaning)
    except TooLarge:
        return None
