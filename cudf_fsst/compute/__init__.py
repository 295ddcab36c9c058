"""Computing on a compressed frame: the library works on the keys, and `take` decodes the rows that it finds.

``frames.py`` has what users call, ``groups.py`` what ``groupby`` gives, ``missing.py`` what says which way there is for
methods that are not here. Nothing sorts, groups or joins by itself: pandas or cuDF does, on the columns that a call
needs, which are decoded.
"""

from __future__ import annotations

from .frames import Frames
from .missing import no_attribute

__all__ = ["Frames", "no_attribute"]
