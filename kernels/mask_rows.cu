// Row numbers of a mask: where its bytes are not 0.
//
// A thread block has MASK_BLOCK bytes. mask_count counts those that are not 0, and its last thread block adds up what the others found;
// mask_rows writes the numbers: lanes have neighbouring words, so that what a warp writes at once lies together. The floor is the mask,
// read twice, and 8 bytes for each row that is written.
//
// Constants that host code needs too are compile options (cudf_fsst/device/mask_rows.py): MASK_THREADS, MASK_BLOCK.
#include "common.cuh"

#define WORDS_PER_LANE (MASK_BLOCK / MASK_THREADS / 4)

// A warp's part of the mask: words 32 * k + lane, a bit for every byte that is not 0, in bits 0, 8, 16 and 24.
struct Words {
  u32 bits[WORDS_PER_LANE];

  // `begin`, `end`: of the mask; `first`: the warp's first byte, counted from the word that `begin` lies in.
  __device__ __forceinline__ Words(u64 begin, u64 end, u64 first) {
    const u64 from = begin / 4 * 4 + first;
#pragma unroll
    for (u32 k = 0; k < WORDS_PER_LANE; ++k) {
      const u64 address = from + 4 * (32 * k + lane_id());
      u32 word = 0;
      if (address >= begin && address + 4 <= end) {
        word = *reinterpret_cast<const u32*>(address);
      } else {
        for (u32 i = 0; i < 4; ++i)
          if (address + i >= begin && address + i < end)
            word |= u32(*reinterpret_cast<const u8*>(address + i)) << (8 * i);
      }
      bits[k] = __vcmpne4(word, 0) & 0x01010101;
    }
  }
  __device__ __forceinline__ u32 count() const {
    u32 sum = 0;
#pragma unroll
    for (u32 k = 0; k < WORDS_PER_LANE; ++k) sum += __popc(bits[k]);
    return __shfl_sync(ALL_LANES, warp_inclusive_sum(sum), 31);
  }
};

__device__ __forceinline__ u64 warp_begin() {
  return u64(blockIdx.x) * MASK_BLOCK + threadIdx.x / 32 * (MASK_BLOCK / MASK_THREADS * 32);
}

// The sum of the warps' values before this warp's; `total`: of all.
__device__ __forceinline__ u64 warps_before(u64 value, u64* total) {
  __shared__ u64 sums[MASK_THREADS / 32];
  __syncthreads();
  if (lane_id() == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  u64 before = 0, all = 0;
#pragma unroll
  for (u32 w = 0; w < MASK_THREADS / 32; ++w) {
    if (w == threadIdx.x / 32) before = all;
    all += sums[w];
  }
  *total = all;
  return before;
}

// blocks_before[b]: bytes that are not 0 before block b. totals: their number, and thread blocks that are done, both zero at first.
extern "C" __global__ void __launch_bounds__(MASK_THREADS)
    mask_count(u64 begin, u64 end, u64* blocks_before, u64* totals) {
  __shared__ bool last;
  u64 all;
  warps_before(Words(begin, end, warp_begin()).count(), &all);
  if (threadIdx.x == 0) {
    blocks_before[blockIdx.x] = all;
    __threadfence();
    last = atomicAdd(&totals[1], 1ull) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  u64 sum = 0;
  for (u32 first = 0; first < gridDim.x; first += 4 * MASK_THREADS) {
    u64 values[4], mine = 0;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      const u32 b = first + 4 * threadIdx.x + k;
      values[k] = b < gridDim.x ? __ldcg(blocks_before + b) : 0;
      mine += values[k];
    }
    const u64 inclusive = warp_inclusive_sum(mine);
    u64 at = sum + warps_before(__shfl_sync(ALL_LANES, inclusive, 31), &all) + inclusive - mine;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      const u32 b = first + 4 * threadIdx.x + k;
      if (b < gridDim.x) blocks_before[b] = at;
      at += values[k];
    }
    sum += all;
  }
  if (threadIdx.x == 0) totals[0] = sum;
}

// The rows, in order, behind mask_count.
extern "C" __global__ void __launch_bounds__(MASK_THREADS)
    mask_rows(u64 begin, u64 end, const u64* blocks_before, u64* rows) {
  const Words words(begin, end, warp_begin());
  u64 all, at = blocks_before[blockIdx.x] + warps_before(words.count(), &all);
  const u32 below = (1u << lane_id()) - 1;
  const u64 first = warp_begin() + 4 * lane_id() - begin % 4;  // row of the lane's first byte
#pragma unroll
  for (u32 k = 0; k < WORDS_PER_LANE; ++k) {
    u32 before = 0, in_word = 0;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 lanes = __ballot_sync(ALL_LANES, words.bits[k] >> (8 * i) & 1);
      before += __popc(lanes & below);
      in_word += __popc(lanes);
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
      if (words.bits[k] >> (8 * i) & 1) rows[at + before++] = first + 128 * k + i;
    at += in_word;
  }
}
