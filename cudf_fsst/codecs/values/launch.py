"""Constants of kernels/values.cu, and what the host writes for it and for all codecs of values (kernels/jobs.cuh)."""

from __future__ import annotations

from collections import namedtuple

#: Rows in which a null gets the value of the last row that is none (docs/format.md, section 15).
FILL_BLOCK = 1024
DEFINES = {"FILL_BLOCK": FILL_BLOCK}

# Structs of the kernels: a word of 8 bytes for each field.
OutputRows = namedtuple("OutputRows", "begin end values stride")
ScanJob = namedtuple("ScanJob", "sizes count starts totals")
TakenColumn = namedtuple("TakenColumn", "first_part parts first_high highs values stride itemsize nulls")
GatherJob = namedtuple("GatherJob", "source out rows itemsize stride blocks run_blocks step validity validity_offset")
PlacedHalf = namedtuple("PlacedHalf", "source begin end values stride")
PlainPart = namedtuple("PlainPart", "values first_row rows")


def variants(shared_per_block: int) -> dict[str, list[dict[str, int]]]:
    """File -> all sets of constants that it may be compiled with for a GPU."""
    return {"values": [DEFINES]}
