"""Strings that repeat, as codes of their distinct values (docs/format.md, section 19).

Codes are packed by a codec of values, and the distinct values are compressed by one of text: a part of such rows
(``part.py``) has two columns as children. So what ``contract.py`` has for codecs of text does not fit; ``cpu.py`` and
``cuda_*.py`` have what ``codecs/host_strings.py`` and ``codecs/device_strings.py`` need of this one.
"""

from __future__ import annotations

NAME = "dict"
