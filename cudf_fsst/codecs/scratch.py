"""How much memory a call on a GPU may take beside its input and its result."""

from __future__ import annotations

#: Scratch memory of a call: so much, or this part of the uncompressed bytes.
SCRATCH = 64 << 20
SCRATCH_PART = 8


def scratch_limit(plain: int) -> int:
    """Bytes that a call may need beside its result, for so many uncompressed bytes."""
    return max(SCRATCH, plain // SCRATCH_PART)
