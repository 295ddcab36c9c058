// Many small buffers copied into one, so that one copy takes all of them to the host.
//
// jobs: `count` times {address, offset in `out`, bytes}. Offsets are multiples of 16; addresses are anything. One thread
// copies 16 bytes at a time where the address allows it.
#include "common.cuh"

// grid: (blocks that share a buffer, count).
extern "C" __global__ void __launch_bounds__(256) gather_buffers(const u64* jobs, u8* out) {
  const u64* job = jobs + 3 * blockIdx.y;
  const u8* from = reinterpret_cast<const u8*>(job[0]);
  u8* to = out + job[1];
  const u64 nbytes = job[2];
  const u64 thread = blockIdx.x * u64(blockDim.x) + threadIdx.x, threads = gridDim.x * u64(blockDim.x);
  const u64 wide = job[0] % sizeof(uint4) == 0 ? nbytes / sizeof(uint4) : 0;
  for (u64 i = thread; i < wide; i += threads)
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  for (u64 i = wide * sizeof(uint4) + thread; i < nbytes; i += threads) to[i] = from[i];
}
