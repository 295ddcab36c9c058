// Where the scope of a table lies, and the chunks of its samples.
#pragma once

#include "text_compress.cuh"

// The characters of the table's scope, those of its segments: `start` and `stop` in the call's characters. By one warp.
__device__ __forceinline__ void find_scope(const ScopeView& scope, u64* start, u64* stop) {
  const Found found(scope.found, scope.segments);
  const u32 segments = u32(scope.segments), first = u32(scope.first), most = u32(scope.most);
  if (lane_id() == 0) *start = *stop = 0;
  __syncwarp();
  u32 before = 0;
  for (u32 base = 0; base < segments; base += 32) {
    const u32 k = base + lane_id();
    const bool has_rows = k < segments && found.rows_begin[k] < found.rows_begin[k + 1];
    const u32 ballot = __ballot_sync(ALL_LANES, has_rows);
    const u32 number = before + __popc(ballot & ((1u << lane_id()) - 1));
    if (has_rows && number == first) *start = found.chars_begin[k];
    if (has_rows && number - first < most) atomicMax(stop, found.chars_begin[k + 1]);
    before += __popc(ballot);
  }
}

// Where chunk `i` of the sample of `chars` characters starts, of at most `chunks`: plan.py, sample_positions. `draw`: of which sample,
// 0 or 1.
__device__ __forceinline__ u64 chunk_start(u32 i, u64 chars, u32 chunks, u32 draw) {
  if (chars <= chunks * SAMPLE_CHUNK) return u64(i) * SAMPLE_CHUNK;
  u32 x = (draw * chunks + i + 1) * 0x9E3779B9u;
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  x ^= x >> 16;
  const u64 first = i * chars / chunks;
  const u64 room = (i + 1) * chars / chunks - first - SAMPLE_CHUNK + 1;
  return first + x * (room >> 32) + (x * (room & 0xffffffff) >> 32);
}

// Copies a chunk, which starts at `at` of `chars` characters, by one warp; what is behind them is zeros. `begin`: where in `to`.
template <typename Begin>
__device__ __forceinline__ void copy_sample_chunk(const u8* from, u64 at, u64 chars, u8* to, Begin begin) {
  u8 some[SAMPLE_CHUNK / 32];  // on their way together
#pragma unroll
  for (u32 k = 0; k < SAMPLE_CHUNK / 32; ++k) {
    const u64 place = at + 32 * k + lane_id();
    some[k] = place < chars ? from[place] : 0;
  }
#pragma unroll
  for (u32 k = 0; k < SAMPLE_CHUNK / 32; ++k) to[begin + 32 * k + lane_id()] = some[k];
}
