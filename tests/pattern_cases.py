"""Random regular expressions, from a grammar, and rows that they may match."""

from __future__ import annotations

import re
from random import Random

#: Characters of patterns and rows: letters whose case is not plain, spaces of several kinds, all lengths of UTF-8.
LETTERS = "abAB01_ .-\nkKsSiI"
OTHERS = "éÉßſ\u212a\u0130\u0131à龥一😀\u00a0\u0660\x0b\x1c\r\t"
_ESCAPED = ".^$*+?{}[]\\|()-"


def a_pattern(random: Random, *, depth: int = 3, beyond: float = 0.15) -> str:
    """A pattern; `beyond`: how often its characters are not ASCII."""

    def letter() -> str:
        some = OTHERS if random.random() < beyond else LETTERS
        one = random.choice(some)
        return "\\" + one if one in _ESCAPED else one

    def a_set() -> str:
        parts = []
        for _ in range(random.randint(1, 3)):
            kind = random.random()
            if kind < 0.35:
                low, high = sorted((random.choice("abcxyzABCXYZ0129"), random.choice("abcxyzABCXYZ0129")))
                parts.append(f"{low}-{high}")
            elif kind < 0.4:
                parts.append(random.choice(("à-ü", "一-龥")))
            elif kind < 0.6:
                parts.append(random.choice(("\\d", "\\w", "\\s")))
            else:
                parts.append(letter())
        return "[" + random.choice(("", "", "^")) + "".join(parts) + "]"

    def atom(depth: int) -> str:
        kind = random.random()
        if kind < 0.5:
            return letter()
        if kind < 0.6:
            return "."
        if kind < 0.72:
            return a_set()
        if kind < 0.82:
            return random.choice(("\\d", "\\w", "\\s", "\\D", "\\W", "\\S"))
        if kind < 0.9:
            return random.choice(("^", "$", "\\b", "\\B"))
        return random.choice(("(", "(?:")) + alternatives(depth - 1) + ")" if depth else letter()

    def sequence(depth: int) -> str:
        made = []
        for _ in range(random.randint(1, 4)):
            one = atom(depth)
            if one not in ("^", "$", "\\b", "\\B") and random.random() < 0.3:
                one += random.choice(("*", "+", "?", "{2}", "{1,2}", "{1,}", "{0,2}"))
                one += random.choice(("", "", "?"))
            made.append(one)
        return "".join(made)

    def alternatives(depth: int) -> str:
        return "|".join(sequence(depth) for _ in range(random.choice((1, 1, 1, 2, 3))))

    return alternatives(depth)


def some_flags(random: Random) -> int:
    """Flags of `re`; most often none."""
    made = 0
    for flag in (re.IGNORECASE, re.MULTILINE, re.DOTALL):
        if random.random() < 0.15:
            made |= flag
    return int(made)


def a_row(random: Random, *, beyond: float = 0.15, most: int = 12) -> str:
    letters = (OTHERS if random.random() < beyond else LETTERS for _ in range(random.randint(0, most)))
    return "".join(map(random.choice, letters))
