// collect and filter: strings that may be symbols of the next table, with the sum of what they gain however they are made; of these a list of
// those that pay for their place, and a histogram of their keys.
#pragma once

#include "onpair_train.cuh"

// Adds a gain to a string.
__device__ __forceinline__ void add_gain(const Growing& table, uint2* strings, u32 places, u32 source, int gain) {
  const Spelled text = text_of_source(table, source);
  for (u32 at = place_of(u32(text.hash() >> 32), places);; at = place_after(at, places)) {
    const u32 found = atomicCAS(&strings[at].x, 0u, source);
    if (found == 0 || text_of_source(table, found) == text) {
      atomicAdd(reinterpret_cast<int*>(&strings[at].y), gain);
      return;
    }
  }
}

// Which of AHEAD places of a hash table, `step` apart, have something. Few do: a thread that looked at one after another would wait for
// each, and most lanes of a warp for one that has something to do.
#define AHEAD 8
__device__ __forceinline__ u32 full_places(const uint2* places, u32 first, u32 step, u32 count) {
  u32 full = 0;
#pragma unroll
  for (u32 k = 0; k < AHEAD; ++k)
    if (first + k * step < count) full |= u32(places[first + k * step].x != 0) << k;
  return full;
}

// collect; and what the next table's symbols are found in is cleared.
__device__ __forceinline__ void collect_strings(const TrainView& view, TrainState& state, const TrainRound& round) {
  const Growing& table = state.tables[round.from];
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  const u32 count = state.counts[round.from], places = string_places(state, round);
  uint2* const strings = reinterpret_cast<uint2*>(view.strings);
  for (u32 i = thread; i < SLOTS; i += threads) state.slots[i] = 0;
  for (u32 i = thread; i < 32768; i += threads) state.lengths_of[i] = 0;
  for (u32 i = thread; i < LENGTHS_OF / 2; i += threads) state.lengths_of_4[i] = state.lengths_of_8[i] = 0;
  for (u32 code = 256 + thread; code < count; code += threads) {
    add_gain(table, strings, places, 1u << 28 | code, state.gains[code]);
    state.gains[code] = 0;
  }
  if (!round.grows) return;
  uint2* const pairs = reinterpret_cast<uint2*>(view.pairs);
  const u32 of_pairs = pair_places(state, round);
  for (u32 base = thread; base < of_pairs; base += AHEAD * threads) {
    u32 full = full_places(pairs, base, threads, of_pairs);
    for (; full != 0; full &= full - 1) {
      const u32 i = base + threads * (u32(__ffs(int(full))) - 1);
      const uint2 pair = pairs[i];
      pairs[i] = make_uint2(0, 0);
      if (pair.y >= 2) add_gain(table, strings, places, 2u << 28 | (pair.x - 1), int(pair.y) * 16);
    }
  }
  int* const extended = reinterpret_cast<int*>(view.extended);
  for (u32 i = 4 * thread; i < count << 8; i += 4 * threads) {
    const int4 some = *reinterpret_cast<const int4*>(extended + i);
    if ((some.x | some.y | some.z | some.w) == 0) continue;
    *reinterpret_cast<int4*>(extended + i) = make_int4(0, 0, 0, 0);
    const int found[4] = {some.x, some.y, some.z, some.w};
#pragma unroll 1
    for (u32 k = 0; k < 4; ++k) {
      const int one = k == 0 ? found[0] : k == 1 ? found[1] : k == 2 ? found[2] : found[3], gain = one * 12 >> 4;
      if (gain > 0) add_gain(table, strings, places, 3u << 28 | ((i + k) >> 8) << 14 | ((i + k) & 255), gain);
    }
  }
}

// By what strings are kept: gain, length, and 8 bits of a hash; 12 to 44 bits, the lower 12 of them beside the gain.
__device__ __forceinline__ u64 string_key(const Spelled& text, u32 gain) {
  u64 mixed = text.low * u64(TRAIN_HASH_LOW) ^ text.high * u64(TRAIN_HASH_HIGH);
  mixed = (mixed ^ mixed >> 32) * u64(TRAIN_HASH_LOW) >> 56;
  return u64(gain) << 12 | (text.length - 1) << 8 | mixed;
}

// The bits of a key below its highest one and 6 more.
__device__ __forceinline__ u32 bits_below(u64 key) { return 57 - u32(__clzll((long long)key)); }
// One of BINS for each of these seven bits, in the order of the keys, and what keys of a bin have in common.
__device__ __forceinline__ u32 bin_of(u64 key) {
  const u32 below = bits_below(key);
  return (below - 6) * 64 + (u32(key >> below) & 63);
}
__device__ __forceinline__ u64 of_bin(u32 bin, u32* below) {
  *below = bin / 64 + 6;
  return 64 | bin % 64;
}

// What the blocks of filter and select have in shared memory.
struct StringChoice {
  u64 costs[17];  // what strings must gain more than, by their length
  u32 histogram[BINS];
  u32 bin;  // of the first string that has no place
  u32 prefix, wanted, made, edge;
};
static_assert(8 * FINALISTS <= 4 * BINS, "finalists lie where the histogram is");
static_assert(sizeof(StringChoice) <= TRAIN_SHARED, "TRAIN_SHARED");

// filter.
__device__ __forceinline__ void filter_strings(const TrainView& view, TrainState& state, const TrainRound& round,
                                               StringChoice& shared) {
  u32* const histogram = shared.histogram;
  u64* const costs = shared.costs;
  const Growing& table = state.tables[round.from];
  uint2* const strings = reinterpret_cast<uint2*>(view.strings);
  const u32 places = string_places(state, round);
  const u64 part = part_nbytes(state, round), column = view.bits * max(max(state.column, part), u64(1));
  for (u32 i = threadIdx.x; i < BINS; i += TRAIN_THREADS) histogram[i] = 0;
  if (threadIdx.x < 17) costs[threadIdx.x] = (threadIdx.x + 1) * 128 * part / column;
  __syncthreads();
  // Places are a multiple of 32, so a warp stays together.
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  for (u32 base = thread; base < places; base += AHEAD * threads)
    for (u32 full = full_places(strings, base, threads, places); __any_sync(ALL_LANES, full != 0); full &= full - 1) {
      u64 key = 0;
      u32 source = 0;
      if (full != 0) {
        const u32 i = base + threads * (u32(__ffs(int(full))) - 1);
        const uint2 string = strings[i];
        strings[i] = make_uint2(0, 0);
        source = string.x;
        if (int(string.y) > 0) {
          const Spelled text = text_of_source(table, source);
          if (string.y > costs[text.length]) key = string_key(text, string.y);
        }
      }
      const u32 having = __ballot_sync(ALL_LANES, key != 0);
      if (having == 0) continue;
      u32 place = 0;
      if (lane_id() == 0) place = atomicAdd(&state.listed, u32(__popc(having)));
      place = __shfl_sync(ALL_LANES, place, 0) + u32(__popc(having & ((1u << lane_id()) - 1)));
      if (key == 0) continue;
      reinterpret_cast<u64*>(view.keys)[place] = key;
      reinterpret_cast<u32*>(view.sources)[place] = source;
      atomicAdd(&histogram[bin_of(key)], 1u);
    }
  __syncthreads();
  for (u32 i = threadIdx.x; i < BINS; i += TRAIN_THREADS)
    if (histogram[i] != 0) atomicAdd(&state.histogram[i], histogram[i]);
}
