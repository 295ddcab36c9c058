"""What the host must know to launch kernels/mask_rows.cu, gather_buffers.cu and compare_buffers.cu. Needs no GPU."""

from __future__ import annotations

#: Threads of a block of mask_rows.cu, and bytes of the mask that it has.
MASK_THREADS, MASK_BLOCK = 256, 8192
MASK_DEFINES = {"MASK_THREADS": MASK_THREADS, "MASK_BLOCK": MASK_BLOCK}


def variants(shared_per_block: int) -> dict[str, list[dict[str, int]]]:
    """File -> all sets of constants that it may be compiled with for a GPU."""
    return {"mask_rows": [MASK_DEFINES], "gather_buffers": [{}], "compare_buffers": [{}]}
