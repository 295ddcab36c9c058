"""Patterns of SQL's LIKE."""

from __future__ import annotations

from typing import Any

#: Of a LIKE pattern: any characters, and one character.
ANY, ONE = object(), object()


def tokens_of(pattern: str, escape: str | None) -> list[Any]:
    """Characters of a LIKE pattern, `ANY` and `ONE`.

    Raises
    ------
    TypeError, ValueError
        As cuDF raises them.
    """
    for value in (pattern, "" if escape is None else escape):
        if not isinstance(value, str):
            raise TypeError(f"expected a string object, not {type(value).__name__}")
    if escape is not None and len(escape) > 1:
        raise ValueError("expected esc to contain less than or equal to 1 characters")
    tokens: list[Any] = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            tokens.append(next(characters, character))  # at the end it stands for itself
        else:
            tokens.append({"%": ANY, "_": ONE}.get(character, character))
    return tokens


def expression_of(pattern: str, escape: str | None) -> bytes:
    """A LIKE pattern as a regular expression of bytes."""
    expression = b""
    for token in tokens_of(pattern, escape):
        if token is ANY:
            expression += b".*"
        elif token is ONE:  # a byte that begins a character, and those that continue it
            expression += rb"[\x00-\x7F\xC0-\xFF][\x80-\xBF]*"
        else:
            expression += b"".join(rb"\x%02X" % byte for byte in token.encode())
    return rb"\A(?s:" + expression + rb")\z"
