// bitpack: how kernels read its blocks. Shared by bitpack.cu, which says how values are laid out, bitpack_read.cu,
// bitpack_compare.cu and dict_codes.cuh.
// Compiled for values of ITEM_NBYTES = 1, 2, 4 or 8 bytes.
#pragma once

#include "jobs.cuh"

#if ITEM_NBYTES == 8
typedef u64 Value;
typedef u64 Number;  // what values are computed in
#else
#if ITEM_NBYTES == 4
typedef u32 Value;
#elif ITEM_NBYTES == 2
typedef u16 Value;
#else
typedef u8 Value;
#endif
typedef u32 Number;
#endif

#define BITS (8 * ITEM_NBYTES)
#define VECTOR (16 / ITEM_NBYTES)
#define ROW (32 * VECTOR)
#define ROWS (BITPACK_BLOCK / ROW)
#define THREADS (32 * BITPACK_WARPS)
#define SIGN (Number(1) << (BITS - 1))
#define LOW_BITS (Number(~Number(0)) >> (8 * sizeof(Number) - BITS))
// Rows whose codes are read before any is used.
#define UNPACK_ROWS (VECTOR < 8 ? 8 / VECTOR : 1)
// Rows whose codes are read before any is used, where there is more to keep in registers.
#define FEW_ROWS (UNPACK_ROWS > 2 ? 2 : UNPACK_ROWS)
// Neighbouring codes of a lane that are put or taken as one number: to put one takes a dozen instructions, however narrow it is.
#define MERGED (ITEM_NBYTES < 4 ? 4 / ITEM_NBYTES : 1)
// Thread blocks of bitpack_unpack on a multiprocessor.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 1000
#define UNPACK_BLOCKS 3
#else
#define UNPACK_BLOCKS 4
#endif

static_assert(BITPACK_BLOCK == 32 * 32, "a lane's codes fill whole words at every width");

// Numbers `first` to `first` + N - 1 of the lane whose words begin at `words`, each MERGED codes of `width` bits. Where a
// number goes on in the word after its first, that is the first word of the number after it: one load a number, and no branch.
template <u32 N, bool wide>
__device__ __forceinline__ void take_numbers(const u32* words, u32 width, u32 first, Number (&numbers)[N]) {
  const u32 bits = MERGED * width;
  u32 low[N + 1], middle[N];
#pragma unroll
  for (u32 n = 0; n <= N; ++n) {
    const u32 word = (first + n) * bits / 32;
    low[n] = width == 0 ? 0 : words[(n < N ? word : min(word, width - 1)) * 32];
    if (wide && n < N) middle[n] = words[(word + 1) * 32];
  }
#pragma unroll
  for (u32 n = 0; n < N; ++n) {
    const u32 shift = (first + n) * bits % 32;
    if (!wide)
      numbers[n] = __funnelshift_r(low[n], low[n + 1], shift);
    else
      numbers[n] =
          Number(__funnelshift_r(low[n], middle[n], shift) | u64(__funnelshift_r(middle[n], low[n + 1], shift)) << 32);
  }
}

// A block of a segment, as a warp decodes it.
struct Block {
  const u32* words;
  Number base, slope;
  Number factor;  // of codes: the divisor, or 1
  u32 width;
  bool delta;

  // `entry` and `next`: two of `starts`; `units`: what codes has; `divisor`: the segment's, or 1. Blocks that lie outside codes, or have
  // too many bits, are damaged: they are read as if their width were 0.
  __device__ __forceinline__ Block(u64 codes, u32 units, u64 divisor, u32 entry, u32 next, Number base, Number slope)
      : base(base), slope(slope), factor(entry & BITPACK_DIVIDED ? Number(divisor) : 1), delta(entry >= BITPACK_DELTA) {
    const u32 begin = entry & BITPACK_PLACE, end = next & BITPACK_PLACE;
    width = begin <= end && end <= units && end - begin <= BITS ? end - begin : 0;
    words = reinterpret_cast<const u32*>(codes) + u64(begin) * 32;
  }

  // The lane's values of R rows from `row` on. `carry`: what the row begins with, `first_carry` at first. `Sum` holds the sum of a row's
  // codes.
  template <typename Sum, bool delta, bool wide, u32 R>
  __device__ __forceinline__ void rows(u32 row, Number& carry, Number (&x)[R][VECTOR]) const {
    const Number mask = width == 0 ? 0 : Number(~Number(0)) >> (8 * sizeof(Number) - width);
    Sum inclusive[R];
    Number numbers[R * VECTOR / MERGED];
    take_numbers<R * VECTOR / MERGED, wide>(words + lane_id(), width, row * VECTOR / MERGED, numbers);
#pragma unroll
    for (u32 r = 0; r < R; ++r)
#pragma unroll
      for (u32 v = 0; v < VECTOR; ++v) x[r][v] = numbers[(r * VECTOR + v) / MERGED] >> v % MERGED * width & mask;
    if (factor != 1) {
#pragma unroll
      for (u32 r = 0; r < R; ++r)
#pragma unroll
        for (u32 v = 0; v < VECTOR; ++v) x[r][v] *= factor;
    }
#pragma unroll
    for (u32 r = 0; r < R; ++r) {
      if (delta) {
#pragma unroll
        for (u32 v = 1; v < VECTOR; ++v) x[r][v] += x[r][v - 1];
        inclusive[r] = warp_inclusive_sum(Sum(x[r][VECTOR - 1]));
      }
    }
#pragma unroll
    for (u32 r = 0; r < R; ++r) {
      const Number before = delta ? carry + Number(inclusive[r] - Sum(x[r][VECTOR - 1])) : carry;
#pragma unroll
      for (u32 v = 0; v < VECTOR; ++v) x[r][v] += before + (delta ? slope * v : 0);
      if (delta) carry += slope * ROW + Number(__shfl_sync(ALL_LANES, inclusive[r], 31));
    }
  }

  __device__ __forceinline__ Number first_carry() const { return delta ? base + slope * (lane_id() * VECTOR) : base; }

  // Calls `use` with each R rows until `count` values are decoded.
  template <typename Sum, bool delta, bool wide, u32 R, typename Use>
  __device__ __forceinline__ void decode_as(u32 count, Use use) const {
    Number carry = first_carry();
#pragma unroll 1
    for (u32 row = 0; row < ROWS && row * ROW < count; row += R) {
      Number x[R][VECTOR];
      rows<Sum, delta, wide>(row, carry, x);
      use(row, x);
    }
  }

  template <u32 R, typename Use>
  __device__ __forceinline__ void decode(u32 count, Use use) const {
    if (!delta) {
      if (ITEM_NBYTES < 8 || width <= 32)
        decode_as<u32, false, false, R>(count, use);
      else
        decode_as<u32, false, true, R>(count, use);
    } else if (ITEM_NBYTES < 8 || (width <= 26 && factor == 1)) {
      decode_as<u32, true, false, R>(count, use);
    } else if (width <= 32) {
      decode_as<Number, true, false, R>(count, use);
    } else {
      decode_as<Number, true, true, R>(count, use);
    }
  }
};

// A segment.
struct BitpackSegment {
  u64 starts, bases, slopes, codes;  // addresses; slopes 0: none
  u64 units, rows;
  u64 divisor;  // 1: none
};

struct UnpackJob {
  BitpackSegment segment;
  OutputRows output;
};

// A job's blocks, a warp's share of them.
struct WarpBlocks {
  u32 first;  // block
  u32 count;
  u32 entry;  // of block `first` + lane
  Number base, slope;

  __device__ __forceinline__ WarpBlocks(const BitpackSegment& segment, u32 first, u32 most, u32 end) : first(first) {
    count = first < end ? min(end - first, most) : 0;
    entry = 0;
    base = slope = 0;
    if (lane_id() > count || count == 0) return;
    entry = reinterpret_cast<const u32*>(segment.starts)[first + lane_id()];
    if (lane_id() == count) return;
    base = reinterpret_cast<const Value*>(segment.bases)[first + lane_id()];
    if (segment.slopes != 0) slope = reinterpret_cast<const Value*>(segment.slopes)[first + lane_id()];
  }

  __device__ __forceinline__ Block block(const BitpackSegment& segment, u32 g) const {
    const u32 kind = __shfl_sync(ALL_LANES, entry, g), next = __shfl_sync(ALL_LANES, entry, g + 1);
    return Block(segment.codes, u32(segment.units), segment.divisor, kind, next, __shfl_sync(ALL_LANES, base, g),
                 __shfl_sync(ALL_LANES, slope, g));
  }
};
