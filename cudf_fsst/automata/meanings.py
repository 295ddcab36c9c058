r"""What libraries mean by patterns.

Where two of them, or two versions, may differ, a set of characters is two: those that match for *sure*, and those that
*may*. So an automaton finds rows that match whatever is meant, rows that do not, and rows that it leaves undecided.

============  =============================  ===============  ==========================
of a pattern  Python's ``re``                RE2 (Arrow)      cuDF
============  =============================  ===============  ==========================
``\w \d``     Unicode                        ASCII            Unicode up to U+FFFF
``\s``        Unicode, ``\x1c`` to ``\x1f``  ``[ \t\n\f\r]``  Unicode
``\W \D``     all others                     all others       all others, but not ``\n``
``$``         also before a last ``\n``      at the end       at the end
``.``         all but ``\n``                 all but ``\n``   all but ``\n``
NUL in a row  a character                    a character      not relied upon
============  =============================  ===============  ==========================

What Unicode says of characters beyond ASCII depends on its version, so these only *may* be words, digits or spaces.
"""

from __future__ import annotations

from dataclasses import dataclass

from .machine import NO, UNDECIDED, YES
from .ranges import BEYOND_ASCII, EMPTY, Ranges, complement, intersection, of_text, single, union

_DIGITS: Ranges = ((0x30, 0x39),)
_WORDS: Ranges = union(_DIGITS, ((0x41, 0x5A), (0x61, 0x7A)), single(0x5F))
_SPACES = of_text(" \t\n\r\f")
_MORE_SPACES = of_text("\v\x1c\x1d\x1e\x1f")
_NEWLINE = of_text("\n")


@dataclass(frozen=True)
class Set:
    """Characters that match for sure, and those that may, among which are these."""

    sure: Ranges
    may: Ranges

    def negated(self) -> Set:
        """All other characters."""
        return Set(complement(self.may), complement(self.sure))

    def joined(self, other: Set) -> Set:
        """Characters of both."""
        return Set(union(self.sure, other.sure), union(self.may, other.may))

    def without_surety(self, characters: Ranges) -> Set:
        """The set in which `characters` characters may match, but need not."""
        return Set(intersection(self.sure, complement(characters)), self.may)


def exactly(characters: Ranges) -> Set:
    """Characters of which all is known."""
    return Set(characters, characters)


@dataclass(frozen=True)
class Meaning:
    r"""What a library, or one of several, means by a pattern.

    Attributes
    ----------
    name : str
    words, digits, spaces : Set
        ``\w``, ``\d`` and ``\s``.
    negated_newline : bool
        Whether ``\W`` and ``\D`` match a newline for sure.
    last_newline : int
        Whether ``$`` matches before a newline that ends the row.
    portable : bool
        The library has a parser of its own: only patterns count that are known to mean the same to it.
    whole_characters : bool
        Whether a NUL is a character as any other.
    """

    name: str
    words: Set
    digits: Set
    spaces: Set
    negated_newline: bool = True
    last_newline: int = NO
    portable: bool = True
    whole_characters: bool = True


def _unicode(sure: Ranges, may: Ranges = EMPTY) -> Set:
    return Set(sure, union(sure, may, BEYOND_ASCII))


_PYTHON_SPACES = union(_SPACES, _MORE_SPACES)
#: Words, digits and spaces where a pattern has the flag `re.ASCII`.
ASCII_SETS = exactly(_WORDS), exactly(_DIGITS), exactly(union(_SPACES, of_text("\v")))

#: Python's `re`.
PYTHON = Meaning("re", _unicode(_WORDS), _unicode(_DIGITS), _unicode(_PYTHON_SPACES), last_newline=YES, portable=False)
#: RE2, which Arrow has.
ARROW = Meaning("RE2", exactly(_WORDS), exactly(_DIGITS), exactly(_SPACES))
#: One of these two: pandas chooses for dtypes of strings that Arrow keeps.
EITHER = Meaning(
    "re or RE2", _unicode(_WORDS), _unicode(_DIGITS), _unicode(_SPACES, _MORE_SPACES), last_newline=UNDECIDED
)
#: libcudf.
CUDF = Meaning(
    "libcudf",
    _unicode(_WORDS),
    _unicode(_DIGITS),
    _unicode(_SPACES, _MORE_SPACES),
    negated_newline=False,
    whole_characters=False,
)

#: Characters beyond ASCII that some library takes for a letter of ASCII where case does not matter.
LETTERS_BEYOND = Set(EMPTY, of_text("\u0130\u0131\u017f\u212a"))
_THEIR_LETTERS = of_text("ikskISK")
_LETTERS = union(((0x41, 0x5A), (0x61, 0x7A)))


def folded(characters: Ranges) -> Set:
    """Characters of a set, and those that differ from one of them by case alone.

    For sure that is known of ASCII: beyond it libraries differ.
    """
    ascii_part = intersection(characters, ((0, 0x7F),))
    lower = union((low + 32, high + 32) for low, high in intersection(ascii_part, ((0x41, 0x5A),)))
    upper = union((low - 32, high - 32) for low, high in intersection(ascii_part, ((0x61, 0x7A),)))
    sure = union(ascii_part, lower, upper)
    may = sure
    if intersection(sure, _LETTERS):
        may = union(may, LETTERS_BEYOND.may)
    if characters != ascii_part:
        may = union(may, BEYOND_ASCII, _THEIR_LETTERS)
    return Set(sure, may)


def is_plain_range(low: int, high: int) -> bool:
    """Whether a range is of letters of one case, or of other characters of ASCII."""
    span = ((low, high),)
    one_case = any(intersection(span, (letters,)) == span for letters in _LETTERS)
    return one_case or (high < 0x80 and not intersection(span, _LETTERS))


#: All but a newline.
DOT = exactly(complement(_NEWLINE))
NEWLINE = _NEWLINE
