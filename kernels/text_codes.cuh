// Single tiles of any codec of text: where their codes lie.
#pragma once

#include "text.cuh"

// The sum of `count` bytes, each times the byte of `weights` that stands at its place in its word. 16-byte aligned, and readable as far
// as that goes; four loads are under way at once.
template <u32 weights>
__device__ __forceinline__ u32 sum_of_bytes(const u8* bytes, u32 count) {
  const uint4* chunks = reinterpret_cast<const uint4*>(bytes);
  u32 sum = 0;
  for (u32 first = 0; 16 * first < count; first += 4) {
    uint4 found[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
      found[i] = 16 * (first + i) < count ? __ldg(chunks + first + i) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 here = 16 * (first + i), inside = count > here ? min(count - here, 16u) : 0;
      const u64 low = shift_right(~0ull, 64 - 8 * min(inside, 8u)),
                high = shift_right(~0ull, 64 - 8 * (max(inside, 8u) - 8));
      sum = __dp4a(found[i].x & u32(low), weights, __dp4a(found[i].y & u32(low >> 32), weights, sum));
      sum = __dp4a(found[i].z & u32(high), weights, __dp4a(found[i].w & u32(high >> 32), weights, sum));
    }
  }
  return sum;
}

// Where the codes of a tile lie, counted from the segment's first, and how many they are; false: damaged.
__device__ __forceinline__ bool find_codes(const SegmentView& s, u64 tile, u64* begin, u32* count) {
  const u64 block = tile / TILE_BLOCK;
  const u32 in_block = u32(tile % TILE_BLOCK);
  u64 at = reinterpret_cast<const u64*>(s.block_starts)[block] + in_block;
  if (s.tile_shift <= 8) {
    const u8* lengths = reinterpret_cast<const u8*>(s.tile_lengths) + block * TILE_BLOCK;
    *count = u32(lengths[in_block]) + 1;
    at += sum_of_bytes<0x01010101u>(lengths, in_block);
  } else {
    const u16* lengths = reinterpret_cast<const u16*>(s.tile_lengths) + block * TILE_BLOCK;
    *count = u32(lengths[in_block]) + 1;
    const u8* bytes = reinterpret_cast<const u8*>(lengths);
    at += sum_of_bytes<0x00010001u>(bytes, 2 * in_block) + (sum_of_bytes<0x01000100u>(bytes, 2 * in_block) << 8);
  }
  *begin = at;
  return at <= s.codes_nbytes && *count <= s.codes_nbytes - at;
}
