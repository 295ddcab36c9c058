"""Questions about a column: answered on its codes where they can be, else by decoding it, piece by piece.

``questions.py`` has what users call, ``strings.py`` what they call by ``column.str``. Of the arguments ``asked.py``
makes a `Request`, which ``codes.py`` answers; else ``decoded.py`` answers the call. Results, dtypes, nulls and errors
are those that the library's Series has, so ``meaning.py`` asks the library itself, about a Series of two rows.

Distinct values, and how often they are there, are asked of dictionaries (``distinct.py``).

The logger ``cudf_fsst.query`` says at DEBUG which way a call went.
"""

from __future__ import annotations

from .decoded import row_by_row
from .distinct import categorical, coded, distinct_values
from .numbers import is_among
from .questions import Questions
from .strings import StringMethods
from .text import made_of_text, naming_bytes

__all__ = [
    "Questions",
    "StringMethods",
    "categorical",
    "coded",
    "distinct_values",
    "is_among",
    "made_of_text",
    "naming_bytes",
    "row_by_row",
]
