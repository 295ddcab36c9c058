// Fixed-width values before they are compressed and after: nulls filled in, numbers of 16 bytes cut in two.
//
// Memory-bound: every value is read once and written once.
#include "common.cuh"

#define FILL_WORDS (FILL_BLOCK / 32)

// The bits of rows 32 * word .. + 31 of a validity bitmap whose row 0 is bit `offset`; rows past the last are null.
__device__ __forceinline__ u32 validity_word(const u32* validity, u64 offset, u64 word, u64 rows) {
  const u64 first = offset + 32 * word, last = offset + rows - 1;
  if (32 * word >= rows) return 0;
  u32 bits = validity[first / 32] >> (first % 32);
  if (first % 32 != 0 && first / 32 < last / 32) bits |= validity[first / 32 + 1] << (32 - first % 32);
  const u64 left = rows - 32 * word;
  return left < 32 ? bits & ((1u << left) - 1) : bits;
}

// A null gets the value of the last row before it that is none, in each FILL_BLOCK rows by themselves; before the first such
// row, that row's; without any, 0 (docs/format.md, section 15). A warp a block of rows: lane i holds the bits of rows
// 32 * i and up, so FILL_BLOCK is 1024.
template <typename T>
__device__ __forceinline__ void fill(const T* values, const u32* validity, u64 validity_offset, u64 rows, T* out) {
  const u64 block = blockIdx.x * u64(blockDim.x / 32) + threadIdx.x / 32;
  const u64 begin = block * FILL_BLOCK;
  if (begin >= rows) return;
  const u32 lane = lane_id();
  const u32 bits = validity_word(validity, validity_offset, block * FILL_WORDS + lane, rows);
  const u32 some = __ballot_sync(ALL_LANES, bits != 0);
  const u32 count = u32(min(rows - begin, u64(FILL_BLOCK)));
  for (u32 word = 0; word < FILL_WORDS; ++word) {
    const u32 here = __shfl_sync(ALL_LANES, bits, word);
    const u32 before = some & ((1u << word) - 1);
    // The word that holds the source, for rows before the first valid one of this word.
    const u32 earlier = before ? 31 - __clz(before) : 0;
    const u32 later = some ? __ffs(some) - 1 : 0;
    const u32 earlier_bits = __shfl_sync(ALL_LANES, bits, earlier);
    const u32 later_bits = __shfl_sync(ALL_LANES, bits, later);
    const u32 row = 32 * word + lane;
    if (row >= count) continue;
    const u32 upto = here & (lane == 31 ? ALL_LANES : (2u << lane) - 1);
    u32 source = 0;
    if (upto)
      source = 32 * word + 31 - __clz(upto);
    else if (before)
      source = 32 * earlier + 31 - __clz(earlier_bits);
    else if (some)
      source = 32 * later + __ffs(later_bits) - 1;
    out[begin + row] = some ? values[begin + source] : T(0);
  }
}

// grid: covers ceil(rows / FILL_BLOCK) warps.
extern "C" __global__ void __launch_bounds__(256)
    fill_nulls(const void* values, const u32* validity, u64 validity_offset, u64 rows, u32 itemsize, void* out) {
  if (itemsize == 1)
    fill(static_cast<const u8*>(values), validity, validity_offset, rows, static_cast<u8*>(out));
  else if (itemsize == 2)
    fill(static_cast<const u16*>(values), validity, validity_offset, rows, static_cast<u16*>(out));
  else if (itemsize == 4)
    fill(static_cast<const u32*>(values), validity, validity_offset, rows, static_cast<u32*>(out));
  else
    fill(static_cast<const u64*>(values), validity, validity_offset, rows, static_cast<u64*>(out));
}

// Every second one of 64-bit words: half 0 is the low words of numbers of 16 bytes, half 1 the high ones. grid: any.
extern "C" __global__ void __launch_bounds__(256) split_wide(const u64* values, u64 rows, u32 half, u64* out) {
  for (u64 row = blockIdx.x * u64(blockDim.x) + threadIdx.x; row < rows; row += u64(gridDim.x) * blockDim.x)
    out[row] = values[2 * row + half];
}

// And back. grid: any.
extern "C" __global__ void __launch_bounds__(256) join_wide(const u64* low, const u64* high, u64 rows, u64* out) {
  for (u64 row = blockIdx.x * u64(blockDim.x) + threadIdx.x; row < rows; row += u64(gridDim.x) * blockDim.x) {
    out[2 * row] = low[row];
    out[2 * row + 1] = high[row];
  }
}

// One half alone, where the two are not cut at the same rows: split_wide's way back. Two of these write every sector twice, half of
// it each time. grid: any.
extern "C" __global__ void __launch_bounds__(256) place_wide(const u64* values, u64 rows, u32 half, u64* out) {
  for (u64 row = blockIdx.x * u64(blockDim.x) + threadIdx.x; row < rows; row += u64(gridDim.x) * blockDim.x)
    out[2 * row + half] = values[row];
}
