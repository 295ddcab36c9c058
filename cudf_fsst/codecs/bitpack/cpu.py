"""bitpack on the host: frame of reference or differences, in blocks of 1024 values (docs/format.md, section 11).

Codes may be divided by what all differences have in common (section 18).

Decompression trusts no stored number: it stays inside the buffers and reports damage.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import units
from ..part import Packed
from ..unaligned import address
from . import cpu_kernels as kernels
from . import launch
from .cpu_kernels import KIND_DELTA, KIND_DIVIDED, WIDTH

_BLOCK = launch.BLOCK
_DELTA = launch.DELTA
_DIVIDED = launch.DIVIDED
_PLACE = launch.PLACE


def _unsigned(itemsize: int) -> np.dtype[Any]:
    return np.dtype(f"<u{itemsize}")


class _Measured(NamedTuple):
    """Layout and blocks of values, known before they are packed."""

    layout: launch.BitpackLayout
    units: int
    kinds: npt.NDArray[np.int64]
    bases: npt.NDArray[np.uint64]
    slopes: npt.NDArray[np.uint64]
    values: npt.NDArray[Any]
    stand_ins: npt.NDArray[np.uint64]


def _measured(values: npt.NDArray[Any], signed: bool, divide: int, nan: int) -> _Measured:
    if values.ndim != 1 or values.size == 0 or values.itemsize not in launch.ITEMSIZES:
        raise ValueError(f"no values to compress: an array of shape {values.shape} and dtype {values.dtype}")
    blocks = -(-values.size // _BLOCK)
    stand_ins = np.empty(blocks if nan else 0, np.uint64)
    if nan:
        values = values.copy()
        kernels.stand_in(address(values), values.itemsize, values.size, np.uint64(nan), stand_ins)
    kinds, bases, slopes = np.empty(blocks, np.int64), np.empty(blocks, np.uint64), np.empty(blocks, np.uint64)
    described = address(values), values.itemsize, values.size, bool(signed)
    divisor = int(kernels.find_divisor(*described)) if divide else 1
    kernels.measure_blocks(*described, np.uint64(divisor), kinds, bases, slopes)
    if not (kinds & KIND_DIVIDED).any():
        divisor = 1
    layout = launch.BitpackLayout(values.size, values.itemsize, bool((kinds & KIND_DELTA).any()), divisor, nan != 0)
    return _Measured(layout, int((kinds & WIDTH).sum()), kinds, bases, slopes, values, stand_ins)


def measure(values: npt.NDArray[Any], *, signed: bool = False, divide: int = 0, nan: int = 0) -> int:
    measured = _measured(values, signed, divide, nan)
    return measured.layout.nbytes + launch.UNIT_NBYTES * measured.units


def encode(values: npt.NDArray[Any], *, signed: bool = False, divide: int = 0, nan: int = 0) -> Packed:
    """Compress values.

    Parameters
    ----------
    values : ndarray, shape (rows,)
        Contiguous, at least one, of 1, 2, 4 or 8 bytes each. Their bits count, whatever the dtype.
    signed
        How the values are ordered, for their minimum.
    divide
        1: look for a divisor of the differences.
    nan
        Bits of a NaN, which gets stand-ins; 0: of none. Then the values have 4 or 8 bytes.
    """
    layout, count, kinds, bases, slopes, values, stand_ins = _measured(values, signed, divide, nan)
    meta, codes = np.zeros(layout.nbytes, np.uint8), np.empty(launch.UNIT_NBYTES * count, np.uint8)
    starts, stored_bases, stored_slopes, stored_nan, stored_stand_ins = _sections(layout, meta)
    starts[1:] = np.cumsum(kinds & WIDTH)
    starts[:-1] |= np.where(kinds & KIND_DELTA, _DELTA, 0).astype(np.uint32)
    starts[:-1] |= np.where(kinds & KIND_DIVIDED, _DIVIDED, 0).astype(np.uint32)
    unsigned = _unsigned(layout.itemsize)
    stored_bases[:] = bases.astype(unsigned)
    if layout.has_delta:
        stored_slopes[:] = slopes.astype(unsigned)
    stored_nan[:1] = nan
    stored_stand_ins[:] = stand_ins.astype(unsigned)
    divisor = np.uint64(layout.divisor)
    kernels.pack(address(values), layout.itemsize, layout.rows, divisor, kinds, bases, slopes, address(codes))
    return layout.packed(count, signed, meta, codes)


def _sections(layout: launch.BitpackLayout, meta: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[Any], ...]:
    """``starts``, ``bases``, ``slopes``, ``nan`` and ``stand_ins`` (empty where there are none) in `meta`."""
    size = layout.itemsize * layout.blocks
    unsigned = _unsigned(layout.itemsize)
    slopes = meta[layout.slopes : layout.slopes + (size if layout.has_delta else 0)]
    starts = meta[: 4 * (layout.blocks + 1)].view("<u4")
    nan = meta[layout.nan :][: launch.NAN_NBYTES * layout.has_nan].view(unsigned)
    stand_ins = meta[layout.nan + launch.NAN_NBYTES :][: size * layout.has_nan].view(unsigned)
    return starts, meta[layout.bases : layout.bases + size].view(unsigned), slopes.view(unsigned), nan, stand_ins


def _layout(packed: Packed) -> launch.BitpackLayout:
    layout = launch.layout(packed)
    for name in ("meta", "codes"):
        array = getattr(packed, name)
        if array.dtype != np.uint8 or array.ndim != 1 or not array.flags.c_contiguous:
            raise ValueError(f"damaged segment: {name} is no array of bytes, but of shape {array.shape}, {array.dtype}")
    return layout


def check(packed: Packed) -> None:
    """Check all that `decode` relies on, and that the bytes are as `encode` writes them.

    Raises
    ------
    ValueError
        The segment is damaged; the message says where.
    """
    layout = _layout(packed)
    starts, *_, nan, _ = _sections(layout, packed.meta)
    places = (starts & _PLACE).astype(np.int64)
    widths = np.diff(places)
    count = packed.codes_nbytes // launch.UNIT_NBYTES
    if places[0] != 0 or places[-1] != count or starts[-1] > _PLACE:
        raise ValueError(f"damaged segment: starts go from {places[0]} to {starts[-1]}, codes have {count} units")
    wrong = (widths < 0) | (widths > 8 * layout.itemsize)
    if wrong.any():
        block = int(wrong.argmax())
        raise ValueError(f"damaged segment: starts say {widths[block]} bits for the values of block {block}")
    has_delta, has_divisor = bool((starts >= _DELTA).any()), bool((starts & _DIVIDED).any())
    if has_delta != layout.has_delta or has_divisor != (layout.divisor != 1):
        raise ValueError(f"damaged segment: parameters {packed.parameters} do not fit the blocks' kinds")
    size = layout.itemsize * layout.blocks
    gaps = [(4 * (layout.blocks + 1), layout.bases), (layout.bases + size, layout.slopes)]
    if layout.has_delta:
        gaps.append((layout.slopes + size, layout.nan))
    if layout.has_nan:
        if not launch.is_nan(int(nan[0]), layout.itemsize):
            raise ValueError(f"damaged segment: {int(nan[0]):#x} is no NaN of {layout.itemsize} bytes")
        gaps.append((layout.nan + layout.itemsize, layout.nan + launch.NAN_NBYTES))
        gaps.append((layout.nan + launch.NAN_NBYTES + size, layout.nbytes))
    for end, start in gaps:
        if packed.meta[end:start].any():
            raise ValueError(f"damaged segment: bytes {end} to {start} of meta are not zero")


def unit(packed: Packed) -> int:
    return _BLOCK


def decode(packed: Packed, out: npt.NDArray[np.uint8], first: int = 0, last: int | None = None) -> None:
    layout = _layout(packed)
    last = layout.rows if last is None else last
    nbytes = (last - first) * layout.itemsize
    if out.dtype != np.uint8 or out.shape != (nbytes,) or not out.flags.writeable:
        raise ValueError(f"the values need {nbytes} writable bytes, not an array of shape {out.shape}")
    _decode_blocks(packed, layout, np.arange(first // _BLOCK, -(-last // _BLOCK)), last, out)


def take(packed: Packed, rows: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
    """Write values `rows` to `out`; see `contract.Host`.

    Raises
    ------
    ValueError
        The segment is damaged.
    """
    layout = _layout(packed)
    units.take(
        rows, _BLOCK, out, lambda blocks, unit_values: _decode_blocks(packed, layout, blocks, layout.rows, unit_values)
    )


def _decode_blocks(
    packed: Packed, layout: launch.BitpackLayout, blocks: npt.NDArray[np.int64], rows: int, out: npt.NDArray[Any]
) -> None:
    """Write the values of blocks, one block after another; `rows`: where the last one ends."""
    starts, bases, slopes, nan, stand_ins = _sections(layout, packed.meta)
    # One compiled version: numbers of 64 bits, in arrays of their own.
    per_block = [entries[blocks if entries.size else slice(0)].astype(np.uint64) for entries in (slopes, stand_ins)]
    begins, ends, block_bases = (
        numbers.astype(np.uint64) for numbers in (starts[blocks], starts[blocks + 1], bases[blocks])
    )
    wide = begins, ends, block_bases, per_block[0], np.uint64(nan[0] if nan.size else 0), per_block[1]
    place, count = address(packed.codes), packed.codes_nbytes // launch.UNIT_NBYTES
    bad = kernels.unpack(blocks, *wide, np.uint64(layout.divisor), layout.itemsize, rows, place, count, address(out))
    if bad >= 0:
        raise ValueError(f"damaged segment: block {bad} does not lie in codes, or has too many bits")
