"""Computing on what is compressed: the library works on the keys, and `take` decodes the rows that it finds.

``frames.py`` and ``columns.py`` have what users call. ``groups.py`` has what ``groupby`` gives, ``merging.py`` joins,
``labelled.py`` rows by label, expression or chance, ``changing.py`` frames with other columns, ``written.py`` text of
frames, and ``missing.py`` says which way there is for methods that are not here. Nothing sorts, groups or joins by
itself: pandas or cuDF does, on the columns that a call needs, which are decoded.
"""

from __future__ import annotations

from .columns import Columns
from .frames import Frames
from .missing import Refused, no_attribute

__all__ = ["Columns", "Frames", "Refused", "no_attribute"]
