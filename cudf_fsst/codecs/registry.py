"""All codecs there are. A new one is a folder (``contract.py`` says what is in it) and a line here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from . import bitpack, fsst, gfc, gpulz, onpair, raw
from . import dict as dictionaries
from .contract import Codec, TextCodec


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
#: Values as they are: what others are measured against, and what they get where nothing is worth decoding.
PLAIN: Codec = raw
#: Of text: the first one is taken where the user names none, and for the values of dictionaries.
_texts: tuple[TextCodec, ...] = (fsst, onpair)
#: Of strings that repeat: codes by a codec of values, distinct values by one of text.
DICTIONARIES = dictionaries


def values() -> tuple[Codec, ...]:
    """Codecs of fixed-width values, in the order in which ties are decided."""
    return _values


def texts() -> tuple[TextCodec, ...]:
    """Codecs of text, the one that is taken unless another one is named first."""
    return _texts


def string_names() -> tuple[str, ...]:
    """Names that users may give for strings."""
    return *(codec.NAME for codec in _texts), DICTIONARIES.NAME


def names() -> tuple[str, ...]:
    """Names that users may give for a column."""
    return *string_names(), *(codec.NAME for codec in _values)


def streams(version: int) -> tuple[str, ...]:
    """The codecs that a stream of a file of this version of the stored format may be of."""
    of_text = (codec.NAME for codec in _texts if codec.since() <= version)
    return *of_text, *(codec.NAME for codec in _values if codec.since() <= version)


def of_values(name: str) -> Codec:
    """A codec of fixed-width values; ValueError for a name that none has."""
    for codec in _values:
        if name == codec.NAME:
            return codec
    raise ValueError(f"no codec of fixed-width values is called {name!r}, only {tuple(side.NAME for side in _values)}")


def on_device(name: str) -> Any:
    """The GPU side of a codec of values; what only some have, they declare (`contract.DeviceCodec`)."""
    return of_values(name).device()


def of_text(name: str) -> TextCodec:
    """A codec of text; ValueError for a name that none has."""
    for codec in _texts:
        if name == codec.NAME:
            return codec
    raise ValueError(f"no codec of text is called {name!r}, only {tuple(side.NAME for side in _texts)}")


def is_text(name: str | None) -> bool:
    """Whether a codec of text is called so; None is none."""
    return name in [codec.NAME for codec in _texts]


@contextmanager
def registered(*, values: Sequence[Codec] = (), texts: Sequence[TextCodec] = ()) -> Iterator[None]:
    """Have more codecs within the block, behind all others: to try one that is not in the package."""
    global _values, _texts
    for name in (*(codec.NAME for codec in values), *(codec.NAME for codec in texts)):
        if name in names():
            raise ValueError(f"there is a codec called {name!r} already")
    before = _values, _texts
    _values, _texts = (*_values, *values), (*_texts, *texts)
    try:
        yield
    finally:
        _values, _texts = before
