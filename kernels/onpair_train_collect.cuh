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

// Calls `use(holds, i)` by whole warps, which holds for all places i of a table for which `full(places[i], i)` does. Few do. So a warp looks at
// AHEAD places a lane at once, whose loads are on their way together, and its lanes share what is found. `found`: room for numbers of these in
// shared memory.
#define AHEAD 8
template <typename Place, typename Full, typename Use>
__device__ __forceinline__ void for_full_places(const Place* places, u32 count, u8 (*found)[32 * AHEAD],
                                                const Full& full, const Use& use) {
  const u32 thread = blockIdx.x * TRAIN_THREADS + threadIdx.x, threads = gridDim.x * TRAIN_THREADS, lane = lane_id();
  u8* const of_warp = found[threadIdx.x / 32];
  // Places are a multiple of 32, so a warp stays together.
  for (u32 base = thread - lane; base < count; base += AHEAD * threads) {
    Place some[AHEAD];
    u32 total = 0;
#pragma unroll
    for (u32 k = 0; k < AHEAD; ++k) some[k] = base + k * threads < count ? places[base + lane + k * threads] : Place();
#pragma unroll
    for (u32 k = 0; k < AHEAD; ++k) {
      const bool own = full(some[k], base + lane + k * threads);
      const u32 all = __ballot_sync(ALL_LANES, own);
      if (own) of_warp[total + __popc(all & ((1u << lane) - 1))] = u8(k << 5 | lane);
      total += __popc(all);
    }
    __syncwarp();
    for (u32 first = 0; first < total; first += 32) {
      const u32 number = first + lane < total ? of_warp[first + lane] : 0;
      use(first + lane < total, base + (number & 31) + threads * (number >> 5));
    }
    __syncwarp();
  }
}

// What the blocks of collect, filter, divide and select have in shared memory.
struct StringChoice {
  u64 costs[17];  // what strings must gain more than, by their length
  u32 histogram[BINS];
  u8 found[TRAIN_THREADS / 32][32 * AHEAD];  // see for_full_places
  u32 bin;                                   // of the first string that has no place
  u32 prefix, wanted;
  u32 sources[MOST_CODES];  // what the next table's symbols are made of, from code 256 on
};
static_assert(8 * FINALISTS <= 4 * BINS, "finalists lie where the histogram is");
static_assert(sizeof(StringChoice) <= TRAIN_SHARED, "TRAIN_SHARED");

// collect; and what filter and divide count is 0 again.
__device__ __forceinline__ void collect_strings(const TrainView& view, TrainState& state, const Growing& table,
                                                const TrainRound& round, StringChoice& shared) {
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  const u32 count = table.count, places = string_places(state, round);
  uint2* const strings = reinterpret_cast<uint2*>(view.strings);
  for (u32 i = thread; i < BINS; i += threads) state.histogram[i] = 0;
  if (thread == 0) state.listed = state.made = state.edge = 0;
  // By the last threads; the first have the most places.
  for (u32 code = 256 + threads - 1 - thread; code < count; code += threads) {
    add_gain(table, strings, places, 1u << 28 | code, state.gains[code]);
    state.gains[code] = 0;
  }
  if (!round.grows) return;
  uint2* const pairs = reinterpret_cast<uint2*>(view.pairs);
  auto twice = [&](const uint2& pair, u32 i) {
    if (pair.y == 1) pairs[i] = make_uint2(0, 0);
    return pair.y >= 2;
  };
  for_full_places(pairs, pair_places(state, round), shared.found, twice, [&](bool holds, u32 i) {
    if (!holds) return;
    const uint2 pair = pairs[i];
    pairs[i] = make_uint2(0, 0);
    add_gain(table, strings, places, 2u << 28 | (pair.x - 1), int(pair.y) * 16);
  });
  int* const extended = reinterpret_cast<int*>(view.extended);
  auto gains = [&](int one, u32 i) {
    if (one != 0 && one * 12 >> 4 <= 0) extended[i] = 0;
    return one * 12 >> 4 > 0;
  };
  for_full_places(extended, count << 8, shared.found, gains, [&](bool holds, u32 i) {
    if (!holds) return;
    const int gain = extended[i] * 12 >> 4;
    extended[i] = 0;
    add_gain(table, strings, places, 3u << 28 | (i >> 8) << 14 | (i & 255), gain);
  });
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

// filter.
__device__ __forceinline__ void filter_strings(const TrainView& view, TrainState& state, const Growing& table,
                                               const TrainRound& round, StringChoice& shared) {
  u32* const histogram = shared.histogram;
  u64* const costs = shared.costs;
  uint2* const strings = reinterpret_cast<uint2*>(view.strings);
  const u32 places = string_places(state, round);
  const u64 part = part_nbytes(state, round), column = view.bits * max(max(state.column, part), u64(1));
  for (u32 i = threadIdx.x; i < BINS; i += TRAIN_THREADS) histogram[i] = 0;
  if (threadIdx.x < 17) costs[threadIdx.x] = (threadIdx.x + 1) * 128 * part / column;
  __syncthreads();
  auto any = [](const uint2& string, u32) { return string.x != 0; };
  for_full_places(strings, places, shared.found, any, [&](bool holds, u32 i) {
    u64 key = 0;
    u32 source = 0;
    if (holds) {
      const uint2 string = strings[i];
      strings[i] = make_uint2(0, 0);
      source = string.x;
      if (int(string.y) > 0) {
        const Spelled text = text_of_source(table, source);
        if (string.y > costs[text.length]) key = string_key(text, string.y);
      }
    }
    const u32 having = __ballot_sync(ALL_LANES, key != 0);
    if (having == 0) return;
    u32 place = 0;
    if (lane_id() == 0) place = atomicAdd(&state.listed, u32(__popc(having)));
    place = __shfl_sync(ALL_LANES, place, 0) + u32(__popc(having & ((1u << lane_id()) - 1)));
    if (key == 0) return;
    reinterpret_cast<u64*>(view.keys)[place] = key;
    reinterpret_cast<u32*>(view.sources)[place] = source;
    atomicAdd(&histogram[bin_of(key)], 1u);
  });
  __syncthreads();
  for (u32 i = threadIdx.x; i < BINS; i += TRAIN_THREADS)
    if (histogram[i] != 0) atomicAdd(&state.histogram[i], histogram[i]);
}
