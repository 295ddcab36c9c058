"""All codecs there are. A new one is a folder (``contract.py`` says what is in it) and a line here."""

from __future__ import annotations

from . import bitpack, fsst, gfc, gpulz, raw
from . import dict as dictionaries
from .contract import Codec, StringCodec


def _registered(*codecs: Codec) -> tuple[Codec, ...]:
    """The packages, of which mypy looks here whether they are what the contract says."""
    return codecs


#: Of fixed-width values, in the order in which ties are decided.
VALUES = _registered(
    bitpack,
    gfc,
    gpulz,
    raw,
)
#: Of strings: the one that all strings can have, those of dictionaries too.
STRINGS: StringCodec = fsst
#: Of strings that repeat: codes by a codec of values, distinct values by the one of strings.
DICTIONARIES = dictionaries

_BY_NAME = {codec.NAME: codec for codec in VALUES}
#: What the streams of files are of.
STREAMS = (STRINGS.NAME, *_BY_NAME)
#: What users may name for strings, and for a column.
STRING_NAMES = (STRINGS.NAME, DICTIONARIES.NAME)
NAMES = (*STRING_NAMES, *_BY_NAME)


def of_values(name: str) -> Codec:
    """A codec of fixed-width values; ValueError for a name that none has."""
    if name not in _BY_NAME:
        raise ValueError(f"no codec of fixed-width values is called {name!r}, only {tuple(_BY_NAME)}")
    return _BY_NAME[name]
