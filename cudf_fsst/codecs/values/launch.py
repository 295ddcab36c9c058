"""Constants of kernels/values.cu."""

from __future__ import annotations

#: Rows in which a null gets the value of the last row that is none (docs/format.md, section 15).
FILL_BLOCK = 1024
DEFINES = {"FILL_BLOCK": FILL_BLOCK}
VARIANTS = (DEFINES,)
