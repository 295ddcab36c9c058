"""Which codec of text compresses strings.

At level ``default`` it is the first one there is, unless the user names another: FSST, which the host compresses about
twice as fast as OnPair, small columns ten times, for OnPair's training takes tens of milliseconds at least. At level
``max`` it is the one whose table makes a scope smallest: all are trained, and encode a sample.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .. import choose
from ..contract import TextCodec
from ..registry import is_text, of_text, texts
from ..table import Table
from .plan import COMPARED_TILE, choice_sample, scope_nbytes


def codec_of(name: str | None = None, table: Table | None = None) -> TextCodec:
    """The codec of text for a column at level ``default``, or for the values of its dictionaries.

    Parameters
    ----------
    name : str, optional
        What the user wants, which may be no codec of text.
    table : Table, optional
        With which the user wants it compressed, by the codec whose table it is.

    Raises
    ------
    ValueError
        The table is another codec's.
    """
    if table is not None:
        if name not in (None, table.codec):
            raise ValueError(f"table is for codec {table.codec!r}, not for {name!r}")
        return of_text(table.codec)
    return of_text(name) if name is not None and is_text(name) else texts()[0]


def codecs_of(name: str | None, table: Table | None, level: str) -> tuple[TextCodec, ...]:
    """The codecs of text of which each scope of a column gets the smallest: one, or at level ``max`` all.

    See `codec_of`.
    """
    if level == "max" and table is None and not is_text(name):
        return texts()
    return (codec_of(name, table),)


def train(codecs: Sequence[TextCodec], chars: npt.NDArray[np.uint8], start: int, nbytes: int, level: str) -> Table:
    """Train the table of a scope by the codec with which it is expected to be smallest, of equal ones the first.

    See `contract.HostTextCodec.train`.
    """
    tables: list[Table] = [codec.host().train(chars, start, nbytes, level) for codec in codecs]
    return tables[0] if len(tables) == 1 else smallest(tables, choice_sample(chars, start, nbytes), nbytes, level)


def smallest(tables: Sequence[Table], sample: npt.NDArray[np.uint8], nbytes: int, level: str) -> Table:
    """The table with which a scope of `nbytes` is expected to be smallest, of equal ones the first."""
    encoders = [of_text(table.codec).host().encoder(table, level, COMPARED_TILE) for table in tables]
    sizes = [scope_nbytes(encode, table, sample, nbytes) for encode, table in zip(encoders, tables, strict=True)]
    return tables[smallest_of(tables, sizes, nbytes)]


def smallest_of(tables: Sequence[Table], sizes: Sequence[int], nbytes: int) -> int:
    """The number of the table that is smallest for a scope of `nbytes`, of equal ones the first; the log says so."""
    best: dict[str, int] = {}  # by codec
    for number, (table, size) in enumerate(zip(tables, sizes, strict=True)):
        if table.codec not in best or size < sizes[best[table.codec]]:
            best[table.codec] = number
    return best[choose.smallest([*best], [sizes[number] for number in best.values()], "scope", nbytes)]
