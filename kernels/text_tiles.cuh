// Tiles and their codes, for kernels that work on all tiles of segments: a warp on 32 of them at a time. TILE is the tile size.
#pragma once

#include "text.cuh"

// The segment that a thread block works on: segment k has blocks first_units[k] and up, or none where the next one begins there too.
__device__ __forceinline__ u32 find_unit(const u32* first_units, u32 segment_count, u32 unit) {
  return last_that(0u, segment_count, [&](u32 k) { return __ldg(first_units + k) <= unit; });
}

// Code lengths of the tiles of a block.
struct BlockLengths {
  u32 lengths[4];  // of tiles 4 * lane to 4 * lane + 3
  u32 before;      // sum of all earlier ones

  __device__ __forceinline__ void load(const SegmentView& s, u64 block, u64 tiles) {
    const u64 first = block * TILE_BLOCK + 4 * lane_id();
#pragma unroll
    for (u32 i = 0; i < 4; ++i) lengths[i] = 0;
    if (TILE <= 256) {
      const u8* from = reinterpret_cast<const u8*>(s.tile_lengths);
      if (first + 4 <= tiles) {
        const u32 four = __ldg(reinterpret_cast<const u32*>(from + first));
#pragma unroll
        for (u32 i = 0; i < 4; ++i) lengths[i] = (four >> (8 * i) & 255) + 1;
      } else {
        for (u32 i = 0; i < 4; ++i)
          if (first + i < tiles) lengths[i] = u32(from[first + i]) + 1;
      }
    } else {
      const u16* from = reinterpret_cast<const u16*>(s.tile_lengths);
      for (u32 i = 0; i < 4; ++i)
        if (first + i < tiles) lengths[i] = u32(from[first + i]) + 1;
    }
    const u32 sum = lengths[0] + lengths[1] + lengths[2] + lengths[3];
    before = warp_inclusive_sum(sum) - sum;
  }

  // Length of tile 32 * quarter + lane of the block, and where in the block's codes it starts.
  __device__ __forceinline__ u32 of_tile(u32 quarter, u32* start) const {
    const u32 lane = lane_id(), source = 8 * quarter + lane / 4;  // it is number lane % 4 of that lane
    u32 length = 0;
    *start = __shfl_sync(ALL_LANES, before, source);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 value = __shfl_sync(ALL_LANES, lengths[i], source);
      if (i < (lane & 3)) *start += value;
      if (i == (lane & 3)) length = value;
    }
    return length;
  }
};

// Code length of a tile, 0 behind the last one.
__device__ __forceinline__ u32 length_of_tile(const SegmentView& s, u64 tile, u64 tiles) {
  if (tile >= tiles) return 0;
  return 1u + (TILE <= 256 ? reinterpret_cast<const u8*>(s.tile_lengths)[tile]
                           : reinterpret_cast<const u16*>(s.tile_lengths)[tile]);
}

// Copies bytes [from, to) of `codes` (16-byte aligned) so that byte b lands at staged[b - from / 16 * 16].
__device__ __forceinline__ void stage_codes(uint4* staged, u64 codes, u64 codes_nbytes, u64 from, u64 to) {
  const u64 first = from / 16;
  const u32 count = u32((to + 15) / 16 - first);
  const u32 whole = u32(min(u64(count), codes_nbytes / 16 - first));  // chunks that lie in `codes` entirely
  const uint4* source = reinterpret_cast<const uint4*>(codes) + first;
#pragma unroll 4
  for (u32 i = lane_id(); i < whole; i += 32) copy_16_async(staged + i, source + i);
  u32* words = reinterpret_cast<u32*>(staged);
  for (u32 w = 4 * whole + lane_id(); w < 4 * count; w += 32)
    words[w] = load_word(codes + 16 * first + 4 * w, codes, codes + codes_nbytes);
  wait_for_copies();
}
