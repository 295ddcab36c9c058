"""What CPU and GPU side of ``gfc`` must agree on: sizes, parameters and their limits. Needs no GPU."""

from __future__ import annotations

from collections import namedtuple
from typing import NamedTuple

from ..part import align

#: Values of a subchunk: a lane of a warp has one.
SUBCHUNK = 32
#: Bytes that a value can have.
ITEMSIZES = (4, 8)
#: Values that a chunk can have: multiples of `SUBCHUNK`.
CHUNK_LIMIT = 65536
#: Dimensionalities that are measured.
DIMS = (1, 2, 3, 4, 8)

#: Warps of a block of the kernels, each with a chunk.
WARPS = 4
SCAN_THREADS = 1024


class GfcLayout(NamedTuple):
    """Sizes of what is compressed, and how it is cut."""

    rows: int
    itemsize: int
    dim: int
    chunk: int

    @property
    def chunks(self) -> int:
        return -(-self.rows // self.chunk)

    @property
    def meta_nbytes(self) -> int:
        return align(8 * (self.chunks + 1))


def layout(rows: int, itemsize: int, dim: int = 1, chunk: int = 0) -> GfcLayout:
    """Check what a caller or a stored record says.

    Parameters
    ----------
    rows, itemsize
        Number of values, bytes of one.
    dim
        Dimensionality, 1 to 32: a value is predicted by the latest one of its dimension.
    chunk
        Values of a chunk; 0: `chunk_values`.

    Raises
    ------
    ValueError
        One of them is not possible.
    """
    if itemsize not in ITEMSIZES:
        raise ValueError(f"gfc packs values of 4 or 8 bytes, not {itemsize}")
    if rows < 1:
        raise ValueError(f"gfc packs at least one value, not {rows}")
    if not 1 <= dim <= SUBCHUNK:
        raise ValueError(f"dim must be 1 to {SUBCHUNK}, not {dim}")
    chunk = chunk or chunk_values(rows)
    if not SUBCHUNK <= chunk <= CHUNK_LIMIT or chunk % SUBCHUNK:
        raise ValueError(f"chunk must be a multiple of {SUBCHUNK} up to {CHUNK_LIMIT}, not {chunk}")
    return GfcLayout(rows, itemsize, dim, chunk)


def chunk_values(rows: int) -> int:
    """Values of a chunk, where the caller does not say.

    The first subchunk of a chunk is predicted by zeros, so short chunks cost ratio: sorted int64 keys as l_orderkey's
    5.30 at 1,024 values, 5.43, 5.50, 5.53 at 8,192, 5.56 at 65,536. 16.8 million values, a segment of 128 MiB, still
    make 4,096 chunks, as many as an H200 has warps at work at once; fewer values make shorter chunks.
    """
    return 4096 if rows >= 1 << 22 else 2048 if rows >= 1 << 21 else 1024


def defines(itemsize: int) -> dict[str, int]:
    """Constants of gfc.cu for values of so many bytes."""
    return {"ITEMSIZE": itemsize, "WARPS": WARPS, "SCAN_THREADS": SCAN_THREADS}


# Structs of the kernels: a word of 8 bytes for each field.
GfcSegment = namedtuple("GfcSegment", "starts codes codes_nbytes dim chunk")
GfcPart = namedtuple("GfcPart", "starts codes codes_nbytes dim chunk first_row rows")
DecodeJob = namedtuple("DecodeJob", "starts codes codes_nbytes dim chunk touched begin end values stride")
MeasureChunksJob = namedtuple("MeasureChunksJob", "values rows dim chunk chunks sizes")
EncodeJob = namedtuple("EncodeJob", "values rows dim chunk chunks starts out_starts codes end padding")


def variants(shared_per_block: int) -> dict[str, list[dict[str, int]]]:
    """File -> all sets of constants that it may be compiled with for a GPU."""
    return {"gfc": [defines(itemsize) for itemsize in ITEMSIZES]}
