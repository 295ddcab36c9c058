"""Which patterns mean the same to parsers other than Python's: RE2's and libcudf's.

What is not listed here is not known to be the same.
"""

from __future__ import annotations

import re

_PUNCTUATION = r"""[.\-+*\\?^$|{}()\[\]"'`_@=;:!#%&,/ <>~]"""
_CHARACTER = r"[^\\.^$*+?{}\[\]|()\x00]"
_ESCAPED = rf"\\(?:{_PUNCTUATION}|[ntrfdwsDWS])"
_LETTER_ESCAPES = {"\\_", "\\<", "\\>"}  # which RE2 or Python refuse or may come to mean something
_IN_SET = rf"(?:[^\\\[\]\-\x00&|~^]|\\(?:{_PUNCTUATION}|[ntrfdws]))"
_SET = rf"\[\^?{_IN_SET}(?:-{_IN_SET})?(?:{_IN_SET}(?:-{_IN_SET})?|[&|~^](?![&|~]))*-?\]"
_REPEAT = r"(?:[*+?]|\{\d{1,3}(?:,(?:\d{1,3})?)?\})\??"
_TOKEN = re.compile(
    rf"(?P<item>{_CHARACTER}|{_ESCAPED}|\.|{_SET})(?P<repeat>{_REPEAT})?"
    rf"|(?P<edge>\^|\$|\\b)"
    rf"|(?P<open>\((?:\?:|\?P<[A-Za-z]\w*>)?)"
    rf"|(?P<close>\))(?P<again>{_REPEAT})?"
    rf"|(?P<or>\|)"
)

#: What matches a character that is there, once or more.
_IS_THERE = re.compile(rf"(?:{_CHARACTER}|\\(?:{_PUNCTUATION}|[ntrfdws])|\[[^^].*\])\+?")


def is_portable(pattern: str, *, strict: bool = False) -> bool:
    r"""Whether a pattern that Python's parser takes is known to be read in the same way by the others.

    Empty groups and alternatives are not, nor two repetitions behind each other, nor ``\B``, which RE2 finds inside of
    characters, too.

    Parameters
    ----------
    pattern : str
    strict : bool
        Nor ``^`` and ``$`` but at the ends of the whole pattern, nor ``\b`` before what may match at the row's end:
        libcudf reads a character there.
    """
    position, before, depth, edge = 0, "open", 0, ""
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None or token.group("item") in _LETTER_ESCAPES:
            return False
        kind = str(next(name for name in ("item", "edge", "open", "close", "or") if token.group(name)))
        if kind in ("close", "or") and before in ("open", "or"):
            return False
        if strict and edge == "\\b" and not (kind == "item" and _IS_THERE.fullmatch(token[0])):
            return False
        edge = token[0] if kind == "edge" else ""
        depth += (kind == "open") - (kind == "close")
        position, before = token.end(), kind
        if position < len(pattern) and kind in ("item", "close", "edge") and pattern[position] in "*+?{":
            return False
        if strict and edge == "^" and token.start() > 0:
            return False
        if strict and edge == "$" and position < len(pattern):
            return False
    return before != "or"
