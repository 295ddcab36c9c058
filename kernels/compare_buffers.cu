// Whether buffers have the same bytes as others: columns with the same bytes are equal, and need not be decoded to see it.
//
// jobs: {address, address, bytes} of each pair; different: a word for each, 0 before, which becomes 1 where a byte differs. One thread
// compares 16 bytes at a time where the addresses allow it.
#include "common.cuh"

// grid: (blocks that share a pair, pairs).
extern "C" __global__ void __launch_bounds__(256) compare_buffers(const u64* jobs, u32* different) {
  const u64* job = jobs + 3 * blockIdx.y;
  const u8* one = reinterpret_cast<const u8*>(job[0]);
  const u8* other = reinterpret_cast<const u8*>(job[1]);
  const u64 nbytes = job[2];
  const u64 thread = blockIdx.x * u64(blockDim.x) + threadIdx.x, threads = gridDim.x * u64(blockDim.x);
  const u64 wide = (job[0] | job[1]) % sizeof(uint4) == 0 ? nbytes / sizeof(uint4) : 0;
  u32 found = 0;
  for (u64 i = thread; i < wide; i += threads) {
    const uint4 a = reinterpret_cast<const uint4*>(one)[i], b = reinterpret_cast<const uint4*>(other)[i];
    found |= (a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w);
  }
  for (u64 i = wide * sizeof(uint4) + thread; i < nbytes; i += threads) found |= one[i] ^ other[i];
  if (found != 0) different[blockIdx.y] = 1;
}
