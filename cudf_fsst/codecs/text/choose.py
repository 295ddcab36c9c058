"""Which codec of text compresses strings."""

from __future__ import annotations

from ..contract import Table, TextCodec
from ..registry import is_text, of_text, texts


def codec_of(name: str | None = None, table: Table | None = None) -> TextCodec:
    """The codec of text for a column, or for the values of its dictionaries.

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
