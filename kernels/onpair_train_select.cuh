// select: the best strings of the list. The histogram says in which bin the first that has no place is; only this bin's strings are looked at
// more closely.
#pragma once

#include "onpair_train_collect.cuh"

// The bin in which the value lies that `wanted` others are above or equal to; `wanted` becomes how many of its bin are. By a block, for all of
// whose threads the histogram is there. `of_warps`: room.
__device__ __forceinline__ u32 bin_with(const u32* histogram, u32* of_warps, u32& wanted) {
  // 64 bins a warp, from the highest: one warp's bins and those above are more than are wanted, but not those above alone. Then these
  // bins, one a lane. Without branches, which would take a stack on some GPUs.
  static_assert(BINS == 64 * 32 && TRAIN_THREADS == 32 * 32, "64 bins a warp");
  const u32 lane = lane_id(), before = wanted, own = BINS - 1 - 2 * (threadIdx.x - lane) - lane;
  const u32 of_warp = warp_inclusive_sum(histogram[own] + histogram[own - 32]);
  if (lane == 31) of_warps[threadIdx.x / 32] = of_warp;
  __syncthreads();
  const u32 sum = of_warps[lane], up_to = warp_inclusive_sum(sum);
  const u32 owner = u32(__ffs(__ballot_sync(ALL_LANES, up_to > before))) - 1;
  const u32 high = histogram[BINS - 1 - 64 * owner - lane], low = histogram[BINS - 33 - 64 * owner - lane];
  const u32 larger = __shfl_sync(ALL_LANES, up_to - sum, owner);
  const u32 highs = larger + warp_inclusive_sum(high);
  const u32 lows = __shfl_sync(ALL_LANES, highs, 31) + warp_inclusive_sum(low);
  const u32 in_high = __ballot_sync(ALL_LANES, highs > before), in_low = __ballot_sync(ALL_LANES, lows > before);
  const u32 place = in_high != 0 ? u32(__ffs(in_high)) - 1 : 31 + u32(__ffs(in_low));
  const u32 above_it = in_high != 0 ? highs - high : lows - low;
  wanted = before - __shfl_sync(ALL_LANES, above_it, place % 32);
  return BINS - 1 - 64 * owner - place;
}

// The codes of the next table at most, beside the single bytes.
__device__ __forceinline__ u32 most_kept(const TrainView& view, const TrainRound& round) {
  const u32 codes = 1u << u32(view.bits);
  return (round.spare ? codes * TRAIN_SPARE / 64 : codes) - 256;
}

// The key that `wanted` keys of the list are above or equal to: of more keys, those above it are kept. By one block.
__device__ __forceinline__ u64 first_without_place(const TrainView& view, const TrainState& state, u32 wanted,
                                                   StringChoice& shared) {
  const u64* const keys = reinterpret_cast<const u64*>(view.keys);
  const u32 listed = state.listed, lane = lane_id();
  u32* const histogram = shared.histogram;
  for (u32 i = threadIdx.x; i < BINS; i += TRAIN_THREADS) histogram[i] = state.histogram[i];
  if (threadIdx.x == 0) shared.edge = 0;
  __syncthreads();
  u32 bin = bin_with(histogram, shared.of_warps, wanted), below;
  u64 above = of_bin(bin, &below);
  const u32 edge = histogram[bin];
  if (edge <= FINALISTS) {
    // Few are in the bin: each is compared with all others, by a warp.
    for (u32 i = threadIdx.x; i < listed; i += TRAIN_THREADS) {
      const u64 key = keys[i];
      if (key >> below == above) shared.finalists[atomicAdd(&shared.edge, 1u)] = key;
    }
    __syncthreads();
    for (u32 one = threadIdx.x / 32; one < edge; one += TRAIN_THREADS / 32) {
      const u64 key = shared.finalists[one];
      u32 larger = 0, equal = 0;
      for (u32 i = lane; i < edge; i += 32) {
        larger += shared.finalists[i] > key;
        equal += shared.finalists[i] == key;
      }
      for (u32 step = 16; step > 0; step /= 2) {
        larger += __shfl_xor_sync(ALL_LANES, larger, step);
        equal += __shfl_xor_sync(ALL_LANES, equal, step);
      }
      if (lane == 0 && larger <= wanted && wanted < larger + equal) shared.last = key;
    }
    __syncthreads();
    return shared.last;
  }
  // Its bits below those of the bin, from the highest on.
  while (below > 0) {
    const u32 digit = min(below, 11u);
    __syncthreads();
    for (u32 i = threadIdx.x; i < BINS; i += TRAIN_THREADS) histogram[i] = 0;
    __syncthreads();
    for (u32 i = threadIdx.x; i < listed; i += TRAIN_THREADS) {
      const u64 key = keys[i];
      if (key >> below == above) atomicAdd(&histogram[u32(key >> (below - digit)) & ((1u << digit) - 1)], 1u);
    }
    __syncthreads();
    bin = bin_with(histogram, shared.of_warps, wanted);
    above = above << digit | bin;
    below -= digit;
  }
  return above;
}

// select: what the next table is made of, in shared.sources; returns its codes. By one block, or by each the same: the order is that of the
// list.
__device__ __forceinline__ u32 select_strings(const TrainView& view, const TrainState& state, const TrainRound& round,
                                              StringChoice& shared) {
  const u64* const keys = reinterpret_cast<const u64*>(view.keys);
  const u32* const sources = reinterpret_cast<const u32*>(view.sources);
  const u32 listed = state.listed, most = most_kept(view, round), lane = lane_id(), warp = threadIdx.x / 32;
  const u64 last = listed <= most ? 0 : first_without_place(view, state, most, shared);
  u32 made = 0;
#pragma unroll 1
  for (u32 base = threadIdx.x; base - threadIdx.x < listed; base += 4 * TRAIN_THREADS) {
    u64 some[4];  // on their way together
    u32 chosen[4], of_warp = 0;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) some[k] = base + k * TRAIN_THREADS < listed ? keys[base + k * TRAIN_THREADS] : 0;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      chosen[k] = __ballot_sync(ALL_LANES, some[k] > last);
      of_warp += u32(__popc(chosen[k]));
    }
    __syncthreads();
    if (lane == 0) shared.of_warps[warp] = of_warp;
    __syncthreads();
    const u32 of_lane = shared.of_warps[lane], up_to = warp_inclusive_sum(of_lane);
    u32 place = made + __shfl_sync(ALL_LANES, up_to - of_lane, warp);
    made += __shfl_sync(ALL_LANES, up_to, 31);
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      if (some[k] > last)
        shared.sources[place + __popc(chosen[k] & ((1u << lane) - 1))] = sources[base + k * TRAIN_THREADS];
      place += u32(__popc(chosen[k]));
    }
  }
  __syncthreads();
  return 256 + made;
}
