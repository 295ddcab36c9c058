// What training has at every level.
#pragma once

#include "text_sample.cuh"

// What the host makes a SymbolTable of: symbols and their lengths.
struct TrainedTable {
  u64 symbols[256];
  u8 lengths[256];
  u64 count;
};

// The bin of a histogram of 256 in which the `wanted`-th largest value lies, how many values are above that bin, and how many in it.
// By one warp.
__device__ __forceinline__ void find_bin(const u32* histogram, u32 wanted, u32* bin, u32* above, u32* in_bin) {
  const u32 first = 255 - 8 * lane_id();  // 8 bins a lane, from the highest
  u32 sum = 0;
  for (u32 i = 0; i < 8; ++i) sum += histogram[first - i];
  u32 larger = warp_inclusive_sum(sum) - sum;
  if (larger >= wanted || larger + sum < wanted) return;
  u32 found = first;
  for (; larger + histogram[found] < wanted; --found) larger += histogram[found];
  *bin = found;
  *above = larger;
  *in_bin = histogram[found];
}
