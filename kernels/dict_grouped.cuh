// Codes of dictionaries that are looked up several at once: neighbours of a block, of as few bits as the dictionary needs.
#pragma once

#include "dict_codes.cuh"

// Whether neighbouring codes are looked up together.
#define GROUPS (ITEM_NBYTES == 1 && !PLAIN_CODES)

#if GROUPS
// Bits that codes have, but for those of a few blocks.
__device__ __forceinline__ u32 codes_width(const CodesJob& job) { return 32 - __clz(u32(job.values) - 1); }

// Whether those of a job may be looked up together.
__device__ __forceinline__ bool may_be_grouped(const CodesJob& job) {
  return job.validity == 0 && job.values > 1 && job.values <= 256;
}

// Whether a warp's codes can be looked up together: all rows of its blocks are wanted, and no codes have more bits, or a base.
__device__ __forceinline__ bool are_grouped(const CodesJob& job, const Turn& turn) {
  const u32 width = codes_width(job);
  bool all = turn.first * BITPACK_BLOCK >= u32(job.begin) && turn.last <= u32(job.end) / BITPACK_BLOCK;
  for (u32 from = turn.first; all && from < turn.last; from += 31) {
    const WarpBlocks share(job.segment, from, 31, turn.last);
    const u32 next = __shfl_down_sync(ALL_LANES, share.entry, 1);
    const u32 begin = share.entry & BITPACK_PLACE, end = next & BITPACK_PLACE;
    const bool plain = share.entry == begin && share.base == 0;  // neither differences nor divided
    const bool fits = begin <= end && end <= u32(job.segment.units) && end - begin <= width;
    all = __all_sync(ALL_LANES, (plain && fits) || lane_id() >= share.count);
  }
  return all;
}

// The codes of blocks that are grouped, one block after another: a lane's words of one, and how many there are.
struct GroupedBlocks {
  u64 starts;
  const u32* words;
  u32 width;

  __device__ __forceinline__ GroupedBlocks(const CodesJob& job, u32 block)
      : starts(job.segment.starts + 4 * u64(block)),
        words(reinterpret_cast<const u32*>(job.segment.codes) + u64(load<u32>(starts) & BITPACK_PLACE) * 32 +
              lane_id()) {
    set_width();
  }
  __device__ __forceinline__ void set_width() {
    width = (load<u32>(starts + 4) & BITPACK_PLACE) - (load<u32>(starts) & BITPACK_PLACE);
  }
  __device__ __forceinline__ void go_on() {
    words += 32 * width;
    starts += 4;
  }
  // Neighbouring codes as if they had `wanted` bits each.
  __device__ __forceinline__ u32 widened(u32 codes, u32 wanted) const {
    if (width == wanted) return codes;
    const u32 mask = (1u << width) - 1;
    u32 made = 0;
#pragma unroll
    for (u32 i = 0; i < MERGED; ++i) made |= (codes >> i * width & mask) << i * wanted;
    return made;
  }
};

// Codes of `width` bits that are looked up together, and entries of a table of them.
__device__ __forceinline__ constexpr u32 grouped(u32 width) { return width <= 2 ? 4 : width <= 5 ? 2 : 1; }
#define GROUPED_ENTRIES 1024

// The sum of what a table has for the groups of a lane's codes in a block, which have `width` bits.
template <u32 width>
__device__ __forceinline__ u32 grouped_sum(const u32* words, const u16* sums) {
  constexpr u32 bits = grouped(width) * width;
  u32 own[width + 1], sum = 0;
#pragma unroll
  for (u32 k = 0; k < width; ++k) own[k] = words[32 * k];
  own[width] = 0;
#pragma unroll
  for (u32 at = 0; at < 32 * width; at += bits)
    sum += sums[__funnelshift_r(own[at / 32], own[at / 32 + 1], at % 32) & ((1u << bits) - 1)];
  return sum;
}

// The same of blocks of a warp's, of which some have fewer bits.
template <u32 width>
__device__ __forceinline__ u64 grouped_sum(const CodesJob& job, const Turn& turn, const u16* sums) {
  u64 sum = 0;
  if (turn.first >= turn.last) return sum;
  GroupedBlocks blocks(job, turn.first);
#pragma unroll 2
  for (u32 number = turn.first; number < turn.last; ++number) {
    if (number > turn.first) blocks.set_width();
    if (blocks.width == width) {
      sum += grouped_sum<width>(blocks.words, sums);
    } else {
      Number numbers[32 / MERGED];
      take_numbers<32 / MERGED, false>(blocks.words, blocks.width, 0, numbers);
#pragma unroll 1
      for (u32 n = 0; n < 32 / MERGED; ++n) {
        const u32 codes = blocks.widened(numbers[0], width);
#pragma unroll
        for (u32 i = 0; i < MERGED; i += grouped(width))
          sum += sums[codes >> i * width & ((1u << grouped(width) * width) - 1)];
#pragma unroll
        for (u32 k = 0; k + 1 < 32 / MERGED; ++k) numbers[k] = numbers[k + 1];
      }
    }
    blocks.go_on();
  }
  return sum;
}

__device__ __forceinline__ u64 grouped_sum(const CodesJob& job, const Turn& turn, const u16* sums) {
  switch (codes_width(job)) {
    case 1:
      return grouped_sum<1>(job, turn, sums);
    case 2:
      return grouped_sum<2>(job, turn, sums);
    case 3:
      return grouped_sum<3>(job, turn, sums);
    case 4:
      return grouped_sum<4>(job, turn, sums);
    case 5:
      return grouped_sum<5>(job, turn, sums);
    case 6:
      return grouped_sum<6>(job, turn, sums);
    case 7:
      return grouped_sum<7>(job, turn, sums);
    default:
      return grouped_sum<8>(job, turn, sums);
  }
}

// Fills a table of the lengths of groups of codes, for all threads. `lengths`: of values, and of rows without one.
__device__ __forceinline__ void add_lengths(const CodesJob& job, const u8* lengths, u16* sums) {
  const u32 width = codes_width(job), none = none_of(job);
  for (u32 i = threadIdx.x; i < 1u << grouped(width) * width; i += THREADS) {
    u32 sum = 0;
    for (u32 k = 0; k < grouped(width); ++k) sum += lengths[min(i >> k * width & ((1u << width) - 1), none)];
    sums[i] = u16(sum);
  }
}
#endif
