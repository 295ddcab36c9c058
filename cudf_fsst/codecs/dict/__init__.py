"""Strings that repeat, as codes of their distinct values (docs/format.md, section 19).

Codes are packed by a codec of values, and the distinct values are compressed by the one of strings: a tree of nodes, as
of categories. So this is no codec as ``contract.py`` has them; ``codecs/host.py`` and ``codecs/device.py`` call it.
"""

from __future__ import annotations

NAME = "dict"
