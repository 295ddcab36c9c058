// divide and select: the best strings of the list, and the table that is made of them. The histogram says in which bin the last of them is;
// only this bin's strings are looked at more closely.
#pragma once

#include "onpair_train_collect.cuh"
#include "onpair_train_table.cuh"

// The bin in which the value lies that `wanted` others are above or equal to; `wanted` becomes how many of its bin are. By one warp.
__device__ __forceinline__ u32 bin_with(const u32* histogram, u32* wanted) {
  // 64 bins a lane, from the highest: one lane's bins and those above are more than are wanted, but not those above alone. Then these
  // bins, one a lane. Without branches, which would take a stack on some GPUs.
  const u32 lane = lane_id(), before = *wanted;
  u32 sum = 0;
  for (u32 i = 0; i < 64; ++i) sum += histogram[2047 - 64 * lane - (i + lane) % 64];  // in 32 banks
  const u32 up_to = warp_inclusive_sum(sum);
  const u32 owner = u32(__ffs(__ballot_sync(ALL_LANES, up_to > before))) - 1;
  const u32 high = histogram[2047 - 64 * owner - lane], low = histogram[2015 - 64 * owner - lane];
  const u32 larger = __shfl_sync(ALL_LANES, up_to - sum, owner);
  const u32 highs = larger + warp_inclusive_sum(high);
  const u32 lows = __shfl_sync(ALL_LANES, highs, 31) + warp_inclusive_sum(low);
  const u32 in_high = __ballot_sync(ALL_LANES, highs > before), in_low = __ballot_sync(ALL_LANES, lows > before);
  const u32 place = in_high != 0 ? u32(__ffs(in_high)) - 1 : 31 + u32(__ffs(in_low));
  const u32 above_it = in_high != 0 ? highs - high : lows - low;
  *wanted = before - __shfl_sync(ALL_LANES, above_it, place % 32);
  return 2047 - 64 * owner - place;
}

// The codes of the next table at most, beside the single bytes.
__device__ __forceinline__ u32 most_kept(const TrainView& view, const TrainRound& round) {
  const u32 codes = 1u << u32(view.bits);
  return (round.spare ? codes * TRAIN_SPARE / 64 : codes) - 256;
}

// The bin of the first listed string that has no place, in shared.bin, and in shared.wanted how many of its bin have one.
__device__ __forceinline__ void last_bin(const TrainState& state, u32 most, StringChoice& shared) {
  for (u32 i = threadIdx.x; i < BINS; i += TRAIN_THREADS) shared.histogram[i] = state.histogram[i];
  __syncthreads();
  if (threadIdx.x < 32) {
    u32 left = most;
    const u32 found = bin_with(shared.histogram, &left);
    __syncwarp();
    if (threadIdx.x == 0) shared.wanted = left, shared.bin = found;
  }
  __syncthreads();
}

// divide: the listed strings into those that are kept, those in the bin of the first that has no place, and others.
__device__ __forceinline__ void divide_list(const TrainView& view, TrainState& state, const TrainRound& round,
                                            StringChoice& shared) {
  const u64* const keys = reinterpret_cast<const u64*>(view.keys);
  const u32* const sources = reinterpret_cast<const u32*>(view.sources);
  const u32 listed = state.listed, most = most_kept(view, round);
  const bool all = listed <= most;
  if (!all) last_bin(state, most, shared);
  const u32 bin = all ? 0 : shared.bin, step = gridDim.x * TRAIN_THREADS;
  for (u32 base = blockIdx.x * TRAIN_THREADS + threadIdx.x; base < listed; base += 4 * step) {
    u64 some[4];  // on their way together
#pragma unroll
    for (u32 k = 0; k < 4; ++k) some[k] = base + k * step < listed ? keys[base + k * step] : 0;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      if (some[k] == 0) continue;
      const u32 i = base + k * step, own = all ? BINS : bin_of(some[k]);
      if (own > bin) state.kept[atomicAdd(&state.made, 1u)] = sources[i];
      if (own != bin) continue;
      const u32 number = atomicAdd(&state.edge, 1u);
      if (number < MOST_EDGES) state.edges[number] = make_uint4(u32(some[k]), u32(some[k] >> 32), sources[i], i);
    }
  }
}

// select: what the next table is made of, in shared.sources; returns its codes. By one block, or by each the same, behind `divide_list`: so the
// order follows from what that wrote, and from nothing else.
__device__ __forceinline__ u32 select_strings(const TrainView& view, const TrainState& state, const TrainRound& round,
                                              StringChoice& shared) {
  u32* const histogram = shared.histogram;
  u32 &prefix = shared.prefix, &wanted = shared.wanted;
  const u64* const keys = reinterpret_cast<const u64*>(view.keys);
  const u32* const sources = reinterpret_cast<const u32*>(view.sources);
  const u32 listed = state.listed, edge = state.edge, kept = state.made, bin = shared.bin;
  const bool all = listed <= most_kept(view, round);
  for (u32 i = threadIdx.x; i < kept; i += TRAIN_THREADS) shared.sources[i] = state.kept[i];
  u32 made = kept;
  if (!all && edge <= FINALISTS) {
    // Few are in the bin: each is compared with all others, by a warp.
    u64* const finalists = reinterpret_cast<u64*>(histogram);
    for (u32 i = threadIdx.x; i < edge; i += TRAIN_THREADS)
      finalists[i] = *reinterpret_cast<const u64*>(&state.edges[i]);
    __syncthreads();
    const u32 places = wanted;
    if (threadIdx.x == 0) prefix = 0;
    __syncthreads();
    for (u32 one = threadIdx.x / 32; one < edge; one += TRAIN_THREADS / 32) {
      const u64 key = finalists[one];
      u32 others = 0, before = 0;
      for (u32 i = lane_id(); i < edge; i += 32) {
        others += finalists[i] >= key;
        before += finalists[i] > key || (finalists[i] == key && i < one);
      }
      for (u32 step = 16; step > 0; step /= 2) {
        others += __shfl_xor_sync(ALL_LANES, others, step);
        before += __shfl_xor_sync(ALL_LANES, before, step);
      }
      if (lane_id() == 0 && others <= places) {
        shared.sources[kept + before] = state.edges[one].z;
        atomicAdd(&prefix, 1u);
      }
    }
    __syncthreads();
    made += prefix;
  } else if (!all) {
    // Within the bin: the key that `wanted` others are above or equal to, from its highest bits on.
    u32 below;
    u64 above = of_bin(bin, &below);
    const bool few = edge <= MOST_EDGES;
    const u32 count = few ? edge : listed;
    while (below > 0) {
      const u32 digit = min(below, 11u);
      for (u32 i = threadIdx.x; i < BINS; i += blockDim.x) histogram[i] = 0;
      __syncthreads();
      for (u32 i = threadIdx.x; i < count; i += TRAIN_THREADS) {
        const u64 key = keys[few ? state.edges[i].w : i];
        if (key >> below == above) atomicAdd(&histogram[u32(key >> (below - digit)) & ((1u << digit) - 1)], 1u);
      }
      __syncthreads();
      if (threadIdx.x < 32) {
        u32 left = wanted;
        const u32 found = bin_with(histogram, &left);
        __syncwarp();
        if (threadIdx.x == 0) wanted = left, prefix = found;
      }
      __syncthreads();
      above = above << digit | prefix;
      below -= digit;
    }
#pragma unroll 1
    for (u32 base = 0; base < count; base += TRAIN_THREADS) {
      const u32 i = base + threadIdx.x, number = i >= count ? 0 : few ? state.edges[i].w : i;
      const bool chosen = i < count && keys[number] > above && bin_of(keys[number]) == bin;
      const u32 of_warp = __ballot_sync(ALL_LANES, chosen);
      if (lane_id() == 0) histogram[threadIdx.x / 32] = __popc(of_warp);
      __syncthreads();
      u32 place = made + __popc(of_warp & ((1u << lane_id()) - 1));
      for (u32 warp = 0; warp < TRAIN_THREADS / 32; ++warp) {
        if (warp < threadIdx.x / 32) place += histogram[warp];
        made += histogram[warp];
      }
      if (chosen) shared.sources[place] = sources[number];
      __syncthreads();
    }
  }
  __syncthreads();
  return 256 + made;
}
