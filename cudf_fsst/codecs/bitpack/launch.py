"""What both sides of bitpack must know: constants shared with the kernels, sections of ``meta``, sizes.

Needs no GPU and no CuPy, so that the emulated kernels are launched by the same rules.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import part
from ..part import Packed, align
from ..span import Span

#: Values that share a base and a width.
BLOCK = 1024
#: Bytes that one bit of each of a block's values takes; a block's place in ``codes`` is counted in these units.
UNIT_NBYTES = BLOCK // 8
#: Warps of a thread block, each with a block of values (bitpack_unpack: `group` of them).
WARPS = 8
#: Threads of the only thread block of bitpack_scan.
SCAN_THREADS = 1024
#: Set in an entry of ``starts`` whose block stores differences of neighbours.
DELTA = 1 << 31
#: Set where the block's codes were divided.
DIVIDED = 1 << 30
#: What is left of an entry is the block's place.
PLACE = DIVIDED - 1
#: Blocks of a part on which a divisor is looked for, each by a warp of bitpack_divisor.
SAMPLE_BLOCKS = 16
#: Thread blocks of bitpack_set_members, at most.
MEMBER_BLOCKS = 4096
ITEMSIZES = part.ITEMSIZES
#: Bytes of the floating point numbers that may have stand-ins for a NaN.
NAN_ITEMSIZES = 4, 8
#: Bits of the second parameter: whether there are delta blocks, and stand-ins.
HAS_DELTA, HAS_NAN = 1, 2
#: Bytes that the NaN takes in ``meta``, in front of its stand-ins.
NAN_NBYTES = 16
_LOW = 0xFFFFFFFF
#: Below this, sums of a few float64 are exact.
_EXACT = 2.0**51


def group(itemsize: int) -> int:
    """Blocks that a warp of bitpack_unpack decodes one after another: 8 KiB of values."""
    return 8 // itemsize


def defines(itemsize: int) -> dict[str, int]:
    """Constants of the codec's kernels for values of so many bytes."""
    return {
        "ITEM_NBYTES": itemsize,
        "BITPACK_BLOCK": BLOCK,
        "BITPACK_DELTA": DELTA,
        "BITPACK_DIVIDED": DIVIDED,
        "BITPACK_PLACE": PLACE,
        "BITPACK_SAMPLE": SAMPLE_BLOCKS,
        "BITPACK_WARPS": WARPS,
        "BITPACK_GROUP": group(itemsize),
        "BITPACK_SCAN_THREADS": SCAN_THREADS,
    }


def variants(shared_per_block: int) -> dict[str, list[dict[str, int]]]:
    """File -> all sets of constants that it may be compiled with for a GPU."""
    every = [defines(itemsize) for itemsize in ITEMSIZES]
    of_nan = list(map(defines, NAN_ITEMSIZES))
    return {"bitpack": every, "bitpack_read": every, "bitpack_compare": every, "bitpack_nan": of_nan}


# Structs of the kernels: a word of 8 bytes for each field.
BitpackSegment = namedtuple("BitpackSegment", "starts bases slopes codes units rows divisor")
BitpackPart = namedtuple("BitpackPart", "starts bases slopes codes units segment_rows divisor first_row rows")
UnpackJob = namedtuple("UnpackJob", "starts bases slopes codes units rows divisor begin end values stride")
CompareJob = namedtuple(
    "CompareJob", "starts bases slopes codes units rows divisor begin end values stride low span outside bits"
)
DivisorJob = namedtuple("DivisorJob", "values rows itemsize is_signed step out")
MeasureJob = namedtuple("MeasureJob", "values rows is_signed kinds bases slopes")
MeasureDividedJob = namedtuple("MeasureDividedJob", "values rows is_signed kinds bases slopes divisor")
PackJob = namedtuple("PackJob", "values rows kinds bases slopes starts out_starts out_bases out_slopes codes end")
PackDividedJob = namedtuple(
    "PackDividedJob",
    "values rows kinds bases slopes starts out_starts out_bases out_slopes codes end inverse shift",
)
FindNanJob = namedtuple("FindNanJob", "values rows least")
StandInJob = namedtuple("StandInJob", "values rows bits nan first")
PutNanJob = namedtuple("PutNanJob", "nan begin end values stride")
NanPart = namedtuple("NanPart", "nan first_row rows")


def sample_step(blocks: int) -> int:
    """Distance of the blocks on which a divisor is looked for: from the first one on, at most `SAMPLE_BLOCKS`."""
    return max(1, blocks // SAMPLE_BLOCKS)


def inverse(divisor: int) -> tuple[int, int]:
    """The inverse of a divisor's odd part modulo 2^64, and how often it can be halved."""
    shift = (divisor & -divisor).bit_length() - 1
    return pow(divisor >> shift, -1, 2**64), shift


def nan_nbytes(rows: int, itemsize: int) -> int:
    """Bytes that a NaN and its stand-ins take in ``meta``."""
    return NAN_NBYTES + align(itemsize * -(-rows // BLOCK))


class BitpackLayout(NamedTuple):
    """Sections of ``meta``: ``starts``, ``bases``, ``slopes`` if any block has differences, ``nan`` and ``stand_ins``.

    `divisor` is what the codes of some blocks were divided by, 1 if those of none were. `has_nan` says whether there
    are the last two sections.
    """

    rows: int
    itemsize: int
    has_delta: bool
    divisor: int = 1
    has_nan: bool = False

    @property
    def blocks(self) -> int:
        return -(-self.rows // BLOCK)

    @property
    def bases(self) -> int:
        """Where ``bases`` starts in ``meta``."""
        return align(4 * (self.blocks + 1))

    @property
    def slopes(self) -> int:
        """Where ``slopes`` starts in ``meta``, or would start."""
        return self.bases + align(self.itemsize * self.blocks)

    @property
    def nan(self) -> int:
        """Where ``nan`` starts in ``meta``, or ``meta`` ends."""
        return self.slopes + (align(self.itemsize * self.blocks) if self.has_delta else 0)

    @property
    def nbytes(self) -> int:
        """Bytes of ``meta``."""
        return self.nan + (nan_nbytes(self.rows, self.itemsize) if self.has_nan else 0)

    def packed(self, units: int, signed: bool, meta: object, codes: object) -> Packed:
        divisor = 0 if self.divisor == 1 else self.divisor
        flags = HAS_DELTA * self.has_delta | HAS_NAN * self.has_nan
        parameters = (int(signed), flags, divisor & _LOW, divisor >> 32)
        return Packed("bitpack", self.rows, self.itemsize, parameters, meta, codes, self.nbytes, UNIT_NBYTES * units)


def layout(packed: Packed) -> BitpackLayout:
    """The layout of a segment whose sizes fit together.

    Raises
    ------
    ValueError
        They do not; what the sections hold is not looked at.
    """
    if packed.codec != "bitpack":
        raise ValueError(f"a segment of codec {packed.codec!r} is not for bitpack")
    if packed.itemsize not in ITEMSIZES or packed.rows < 1:
        raise ValueError(f"damaged segment: {packed.rows} values of {packed.itemsize} bytes")
    if len(packed.parameters) != 4 or packed.parameters[0] > 1 or packed.parameters[1] > (HAS_DELTA | HAS_NAN):
        raise ValueError(f"damaged segment: parameters {packed.parameters}")
    has_delta, has_nan = bool(packed.parameters[1] & HAS_DELTA), bool(packed.parameters[1] & HAS_NAN)
    if has_nan and packed.itemsize not in NAN_ITEMSIZES:
        raise ValueError(f"damaged segment: a NaN among values of {packed.itemsize} bytes")
    divisor = packed.parameters[2] | packed.parameters[3] << 32
    if divisor == 1 or divisor >> 8 * packed.itemsize:
        raise ValueError(f"damaged segment: {divisor} as a divisor of values of {packed.itemsize} bytes")
    result = BitpackLayout(packed.rows, packed.itemsize, has_delta, max(divisor, 1), has_nan)
    if packed.meta_nbytes != result.nbytes:
        raise ValueError(f"damaged segment: meta has {packed.meta_nbytes} bytes, its rows need {result.nbytes}")
    most = 8 * packed.itemsize * result.blocks
    if packed.codes_nbytes % UNIT_NBYTES or packed.codes_nbytes // UNIT_NBYTES > most:
        raise ValueError(f"damaged segment: codes of {packed.codes_nbytes} bytes for {packed.rows} values")
    packed.check_buffers()
    return result


def is_nan(bits: int, itemsize: int) -> bool:
    """Whether a floating point number of so many bytes, by its bits, is a NaN."""
    mantissa = {4: 23, 8: 52}[itemsize]
    return bits & (1 << 8 * itemsize - 1) - 1 > (1 << 8 * itemsize - 1) - (1 << mantissa)


def bounds(layout: BitpackLayout, meta: npt.NDArray[np.uint8], signed: bool) -> Span:
    """Between which values those of a segment lie, by the entries of its blocks: none lies outside.

    Parameters
    ----------
    made
    meta : ndarray of uint8
        The segment's.
    signed
        How the values are ordered.

    Returns
    -------
    Span
        Of the whole type where entries mean numbers that are too large to be counted with.
    """
    count, itemsize = layout.blocks, layout.itemsize
    starts = meta[: 4 * (count + 1)].view("<u4").astype(np.int64)

    def entries(at: int, dtype: str) -> Any:
        return meta[at : at + itemsize * count].view(dtype).astype(np.float64)

    width = np.clip(np.diff(starts & PLACE), 0, 8 * itemsize)
    base, delta = entries(layout.bases, f"<{'i' if signed else 'u'}{itemsize}"), (starts[:-1] & DELTA) != 0
    reach = (2.0**width - 1) * np.where(starts[:-1] & DIVIDED, layout.divisor, 1)
    down = np.zeros(count)
    if layout.has_delta:
        slope = entries(layout.slopes, f"<i{itemsize}")[delta]
        down[delta] = (BLOCK - 1) * np.minimum(slope, 0)
        reach[delta] = (BLOCK - 1) * np.maximum(slope + reach[delta], 0)
    bits = 8 * itemsize
    type_span = Span(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else Span(0, (1 << bits) - 1)
    if max(float(np.abs(part).max()) for part in (base, down, reach)) >= _EXACT:
        return type_span
    span = Span(int((base + down).min()), int((base + reach).max()))
    # Sums that leave the type wrap around.
    return span if type_span.low <= span.low and span.high <= type_span.high else type_span
