// Answers for rows, a byte each, looked at all at once.
#include "common.cuh"

// Whether an answer is `wanted`, 1 or 2: then *seen, 0 before, becomes 1. `answers` is 16-byte aligned. grid: any; block: 256 threads.
extern "C" __global__ void __launch_bounds__(256) answers_have(const u8* answers, u64 rows, u32 wanted, u32* seen) {
  const u64 thread = blockIdx.x * u64(blockDim.x) + threadIdx.x, threads = u64(gridDim.x) * blockDim.x;
  u32 found = 0;
  for (u64 i = thread; i < rows / 16; i += threads) {
    const uint4 some = __ldg(reinterpret_cast<const uint4*>(answers) + i);
    found |= some.x | some.y | some.z | some.w;
  }
  for (u64 i = rows / 16 * 16 + thread; i < rows; i += threads) found |= answers[i];
  if ((found & wanted * 0x01010101u) != 0) *seen = 1;
}
