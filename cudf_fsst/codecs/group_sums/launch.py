"""What the host must know to launch kernels/group_sums.cu."""

from __future__ import annotations

#: Threads of a block.
GROUP_THREADS = 128
#: How values are read; anything else: floats.
SIGNED, UNSIGNED, FLOAT = 0, 1, 2
DEFINES = {"GROUP_THREADS": GROUP_THREADS, "GROUP_SIGNED": SIGNED, "GROUP_UNSIGNED": UNSIGNED}
#: Most groups. The shared memory of a block of the smallest GPUs, 64 KiB, has room for 42.
MOST_GROUPS = 40
#: Most blocks.
BLOCKS = 132 * 16


def shared_nbytes(groups: int) -> int:
    """Shared memory of a block: each thread has 12 bytes for every group, and each group has a mean."""
    return (12 * GROUP_THREADS + 8) * groups


def variants(shared_per_block: int) -> dict[str, list[dict[str, int]]]:
    """File -> all sets of constants that it may be compiled with for a GPU."""
    return {"group_sums": [DEFINES]}
