"""All codecs there are. A new one is a folder (``contract.py`` says what is in it) and a line here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from . import bitpack, fsst, gfc, gpulz, raw
from . import dict as dictionaries
from .contract import Codec, StringCodec


def _checked(*codecs: Codec) -> tuple[Codec, ...]:
    """The packages, of which mypy looks here whether they are what the contract says."""
    return codecs


#: Of fixed-width values, in the order in which ties are decided.
_values = _checked(
    bitpack,
    gfc,
    gpulz,
    raw,
)
#: Of strings: the one that all strings can have, those of dictionaries too.
STRINGS: StringCodec = fsst
#: Of strings that repeat: codes by a codec of values, distinct values by the one of strings.
DICTIONARIES = dictionaries

#: What users may name for strings.
STRING_NAMES = (STRINGS.NAME, DICTIONARIES.NAME)


def values() -> tuple[Codec, ...]:
    """Codecs of fixed-width values, in the order in which ties are decided."""
    return _values


def names() -> tuple[str, ...]:
    """What users may name for a column."""
    return *STRING_NAMES, *(codec.NAME for codec in _values)


def streams(version: int) -> tuple[str, ...]:
    """The codecs that a stream of a file of this version of the stored format may be of."""
    of_strings = (STRINGS.NAME,) if STRINGS.since() <= version else ()
    return *of_strings, *(codec.NAME for codec in _values if codec.since() <= version)


def of_values(name: str) -> Codec:
    """A codec of fixed-width values; ValueError for a name that none has."""
    for codec in _values:
        if name == codec.NAME:
            return codec
    raise ValueError(f"no codec of fixed-width values is called {name!r}, only {tuple(one.NAME for one in _values)}")


@contextmanager
def registered(codec: Codec) -> Iterator[None]:
    """Have one more codec within the block, behind all others: to try one that is not in the package."""
    global _values
    if codec.NAME in names():
        raise ValueError(f"there is a codec called {codec.NAME!r} already")
    before, _values = _values, (*_values, codec)
    try:
        yield
    finally:
        _values = before
