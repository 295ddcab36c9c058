"""Versions of the stored format (docs/format.md): 0 was never released."""

from __future__ import annotations

#: Of a column, and of a frame.
FORMAT_VERSION = 1
FRAME_VERSION = 2
#: Of both, where the others could not say their labels, their index, their dtype or their codecs exactly.
EXACT_VERSION = 3
#: Of both, where a codec is newer. Open: what it holds may change until it is released.
NEWEST_VERSION = 4
#: Those that can be read.
VERSIONS = (FORMAT_VERSION, FRAME_VERSION, EXACT_VERSION, NEWEST_VERSION)
