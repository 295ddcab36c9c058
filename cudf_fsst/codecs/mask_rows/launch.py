"""What the host must know to launch kernels/mask_rows.cu."""

from __future__ import annotations

#: Threads of a block, and bytes of the mask that it has.
MASK_THREADS, MASK_BLOCK = 256, 8192
DEFINES = {"MASK_THREADS": MASK_THREADS, "MASK_BLOCK": MASK_BLOCK}
#: What the kernels are compiled with.
VARIANTS = (DEFINES,)
