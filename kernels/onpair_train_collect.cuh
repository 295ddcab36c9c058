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

// Consecutive places of a table of which a warp looks at AHEAD a lane at once, whose loads are on their way together.
#define AHEAD 8
#define RUN (32 * AHEAD)

// Calls `use(holds, i)` by a whole warp, which holds for those of RUN places from `first` on for which `full(place, i)` does. Few do. So lanes
// share what is found. `found`: room for numbers of these in shared memory.
template <typename Place, typename Full, typename Use>
__device__ __forceinline__ void for_full_places(const Place* places, u32 first, u8* found, const Full& full,
                                                const Use& use) {
  const u32 lane = lane_id();
  Place some[AHEAD];
  u32 total = 0;
#pragma unroll
  for (u32 k = 0; k < AHEAD; ++k) some[k] = places[first + 32 * k + lane];
#pragma unroll
  for (u32 k = 0; k < AHEAD; ++k) {
    const bool own = full(some[k], first + 32 * k + lane);
    const u32 all = __ballot_sync(ALL_LANES, own);
    if (own) found[total + __popc(all & ((1u << lane) - 1))] = u8(32 * k + lane);
    total += __popc(all);
  }
  __syncwarp();
  for (u32 base = 0; base < total; base += 32) {
    const bool holds = base + lane < total;
    use(holds, first + (holds ? found[base + lane] : 0));
  }
  __syncwarp();
}

// What the blocks of collect, filter and select have in shared memory.
struct StringChoice {
  u64 costs[17];  // what strings must gain more than, by their length
  u64 finalists[FINALISTS];
  u64 last;  // see first_without_place
  u32 histogram[BINS];
  u8 found[TRAIN_THREADS / 32][RUN];  // see for_full_places
  u32 of_warps[TRAIN_THREADS / 32];
  u32 edge;                 // finalists
  u32 sources[MOST_CODES];  // what the next table's symbols are made of, from code 256 on
};
static_assert(sizeof(StringChoice) <= TRAIN_SHARED, "TRAIN_SHARED");

// The number of a warp, of all that a scope has: those of a block are far from each other.
__device__ __forceinline__ u32 warp_number() { return threadIdx.x / 32 * gridDim.x + blockIdx.x; }
__device__ __forceinline__ u32 all_warps() { return gridDim.x * (TRAIN_THREADS / 32); }

// collect; and what filter counts is 0 again. Warps share runs of places of all that is counted.
__device__ __forceinline__ void collect_strings(const TrainView& view, TrainState& state, const Growing& table,
                                                const TrainRound& round, StringChoice& shared) {
  const u32 thread = blockIdx.x * TRAIN_THREADS + threadIdx.x, threads = gridDim.x * TRAIN_THREADS;
  const u32 count = table.count, places = string_places(state, round);
  uint2* const strings = reinterpret_cast<uint2*>(view.strings);
  uint2* const pairs = reinterpret_cast<uint2*>(view.pairs);
  int* const extended = reinterpret_cast<int*>(view.extended);
  u8* const found = shared.found[threadIdx.x / 32];
  for (u32 i = thread; i < BINS; i += threads) state.histogram[i] = 0;
  if (thread == 0) state.listed = 0;
  auto twice = [&](const uint2& pair, u32 i) {
    if (pair.y == 1) pairs[i] = make_uint2(0, 0);
    return pair.y >= 2;
  };
  auto add_pair = [&](bool holds, u32 i) {
    if (!holds) return;
    const uint2 pair = pairs[i];
    pairs[i] = make_uint2(0, 0);
    add_gain(table, strings, places, 2u << 28 | (pair.x - 1), int(pair.y) * 16);
  };
  auto gains = [&](int one, u32 i) {
    if (one != 0 && one * 12 >> 4 <= 0) extended[i] = 0;
    return one * 12 >> 4 > 0;
  };
  auto add_extended = [&](bool holds, u32 i) {
    if (!holds) return;
    const int gain = extended[i] * 12 >> 4;
    extended[i] = 0;
    add_gain(table, strings, places, 3u << 28 | (i >> 8) << 14 | (i & 255), gain);
  };
  static_assert(RUN == 256, "a run of each code's extensions");
  const u32 of_codes = (count - 256 + 31) / 32, of_pairs = round.grows ? pair_places(state, round) / RUN : 0;
  const u32 of_extended = round.grows ? count : 0;
#pragma unroll 1
  for (u32 run = warp_number(); run < of_codes + of_pairs + of_extended; run += all_warps()) {
    if (run < of_codes) {
      const u32 code = 256 + 32 * run + lane_id();
      if (code < count) {
        add_gain(table, strings, places, 1u << 28 | code, state.gains[code]);
        state.gains[code] = 0;
      }
    } else if (run < of_codes + of_pairs) {
      for_full_places(pairs, RUN * (run - of_codes), found, twice, add_pair);
    } else {
      for_full_places(extended, RUN * (run - of_codes - of_pairs), found, gains, add_extended);
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
  auto list = [&](bool holds, u32 i) {
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
  };
#pragma unroll 1
  for (u32 run = warp_number(); run < places / RUN; run += all_warps())
    for_full_places(strings, RUN * run, shared.found[threadIdx.x / 32], any, list);
  __syncthreads();
  for (u32 i = threadIdx.x; i < BINS; i += TRAIN_THREADS)
    if (histogram[i] != 0) atomicAdd(&state.histogram[i], histogram[i]);
}
