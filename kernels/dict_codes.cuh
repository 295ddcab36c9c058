// How kernels read the packed codes of a dictionary, without writing them anywhere: dict_packed.cu and dict_count.cu.
// Compiled for codes of ITEM_NBYTES = 1, 2 or 4 bytes.
#pragma once

#include "bitpack.cuh"
#include "dict.cuh"

// Codes of consecutive rows, and how many thread blocks share them.
struct CodesJob {
  BitpackSegment segment;
  u64 begin, end;                 // rows of it, fewer than 2^32
  u64 validity, validity_offset;  // bitmap, 0: no nulls; the bit of row `begin`
  u64 values;                     // codes are below
  u64 blocks;
};

// A field in shared memory, read where it is used: registers are scarce.
__device__ __forceinline__ u64 again(const u64& field) { return *const_cast<const volatile u64*>(&field); }

// The blocks of values that a warp has: `first` to `last` - 1.
struct Turn {
  u32 first, last;

  // `parts` thread blocks share what one has in dict_spell.
  __device__ __forceinline__ Turn(const CodesJob& job, u32 in_job, u32 parts = 1) {
    const u32 begin = u32(job.begin) / BITPACK_BLOCK, end = (u32(job.end) + BITPACK_BLOCK - 1) / BITPACK_BLOCK;
    const u32 warps = u32(job.blocks) * BITPACK_WARPS, warp = in_job / parts * BITPACK_WARPS + threadIdx.x / 32;
    const u32 each = (end - begin) / warps, more = (end - begin) % warps;  // so many warps have one more
    first = begin + warp * each + min(warp, more);
    const u32 count = each + (warp < more), part = in_job % parts;
    last = first + count * (part + 1) / parts;
    first += count * part / parts;
  }
};

// The code of rows without a value. Shared memory has room for entries up to it where codes have a byte.
__device__ __forceinline__ u32 none_of(const CodesJob& job) {
  const u64 most = ITEM_NBYTES == 1 ? 256 : 0xffffffff;
  return u32(min(job.values, most));
}

// Which of a lane's rows, from `row` of the segment on, are not null: a bit each. All of them are wanted.
__device__ __forceinline__ u32 valid_bits(const CodesJob& job, u32 row) {
  const u64 bit = again(job.validity_offset) + (row - u32(again(job.begin))), validity = again(job.validity);
  u32 bits = 0;
#pragma unroll
  for (u32 k = 0; k < VECTOR / 8 + 2; ++k)
    if (8 * k < bit % 8 + VECTOR) bits |= u32(load<u8>(validity + bit / 8 + k)) << 8 * k;
  return bits >> bit % 8;
}

// Calls `use` for each ROW rows with the lane's first row of the segment, its codes, and whether all rows are wanted. Rows that are not,
// nulls, and codes of no value have the number of values, or what is above all codes: tables have one entry more for them.
template <typename Use>
__device__ __forceinline__ void read_codes(const CodesJob& job, const Turn& turn, const Use& use) {
  const u32 none = none_of(job);
#if PLAIN_CODES
  // Not packed: the codes of rows from 0 on, one after another, at a multiple of 16 bytes, with room for the last block's.
#pragma unroll 1
  for (u32 number = turn.first; number < turn.last; ++number) {
    const u32 begin = number * BITPACK_BLOCK;
#pragma unroll 1
    for (u32 row = 0; row < ROWS; ++row) {
      const u32 end = u32(again(job.end)), at = begin + row * ROW;
      if (at >= end) break;
      const u32 own = at + lane_id() * VECTOR;
      const uint4 raw = *reinterpret_cast<const uint4*>(again(job.segment.codes) + u64(own) * ITEM_NBYTES);
      const u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
      Number codes[VECTOR];
#pragma unroll
      for (u32 v = 0; v < VECTOR; ++v)
        codes[v] = min(words[v * ITEM_NBYTES / 4] >> v * ITEM_NBYTES % 4 * 8 & LOW_BITS, none);
      const bool whole = end - at >= ROW;
      if (!whole || again(job.validity) != 0) {
        u32 bits = 0;
        if (whole) {
          bits = valid_bits(job, own);
        } else {
#pragma unroll 1
          for (u32 v = 0; v < VECTOR; ++v)
            if (own + v < end && (job.validity == 0 || bit_at(job.validity, job.validity_offset + own + v)))
              bits |= 1u << v;
        }
#pragma unroll
        for (u32 v = 0; v < VECTOR; ++v)
          if ((bits >> v & 1) == 0) codes[v] = none;
      }
      use(own, codes, whole);
    }
  }
#else
#pragma unroll 1
  for (u32 from = turn.first; from < turn.last; from += 31) {
    const WarpBlocks share(job.segment, from, 31, turn.last);
#pragma unroll 1
    for (u32 g = 0; g < share.count; ++g) {
      const Block block = share.block(job.segment, g);
      const u32 begin = (share.first + g) * BITPACK_BLOCK;
      Number carry = block.first_carry();
#pragma unroll 1
      for (u32 row = 0; row < ROWS; ++row) {
        const u32 wanted = u32(again(job.begin)), end = u32(again(job.end)), at = begin + row * ROW;
        if (at >= end) break;
        Number codes[1][VECTOR];
        if (block.delta)
          block.rows<u32, true, false>(row, carry, codes);
        else
          block.rows<u32, false, false>(row, carry, codes);
        const u32 own = at + lane_id() * VECTOR;
        const bool whole = at >= wanted && end - at >= ROW;
#pragma unroll
        for (u32 v = 0; v < VECTOR; ++v) codes[0][v] = min(codes[0][v] & LOW_BITS, none);
        if (!whole || again(job.validity) != 0) {
          u32 bits = 0;
          if (whole) {
            bits = valid_bits(job, own);
          } else {
#pragma unroll 1
            for (u32 v = 0; v < VECTOR; ++v)
              if (own + v >= wanted && own + v < end &&
                  (job.validity == 0 || bit_at(job.validity, job.validity_offset + (own + v - wanted))))
                bits |= 1u << v;
          }
#pragma unroll
          for (u32 v = 0; v < VECTOR; ++v)
            if ((bits >> v & 1) == 0) codes[0][v] = none;
        }
        use(own, codes[0], whole);
      }
    }
  }
#endif
}
