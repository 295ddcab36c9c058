// Case: the ASCII letters of strings in the other case, where they lie; all bytes of a column at once, whatever its rows.
//
// What limits it: memory, which it reads and writes once.
#include "common.cuh"

#define OTHER_CASE 0x20u
#define EVERY_BYTE 0x01010101u

// The highest bit of each byte of `word` that lies in first..last, of ASCII.
__device__ __forceinline__ u32 bytes_in(u32 word, u32 first, u32 last) {
  const u32 low = word & 0x7f * EVERY_BYTE;
  return ((low + (0x80 - first) * EVERY_BYTE) ^ (low + (0x7f - last) * EVERY_BYTE)) & ~word & 0x80 * EVERY_BYTE;
}

// small, large: all bits of whether small letters become large ones, and large ones small.
__device__ __forceinline__ u32 in_other_case(u32 word, u32 small, u32 large) {
  const u32 letters = (bytes_in(word, 'a', 'z') & small) | (bytes_in(word, 'A', 'Z') & large);
  return word ^ letters / (0x80 / OTHER_CASE);
}

// *seen, 0 before, becomes 1 where a byte is none of ASCII; such bytes stay as they are. grid: any; block: 256 threads.
extern "C" __global__ void __launch_bounds__(256) text_case(u8* chars, u64 nbytes, u32 small, u32 large, u32* seen) {
  const u64 thread = blockIdx.x * u64(blockDim.x) + threadIdx.x, threads = u64(gridDim.x) * blockDim.x;
  const u64 before = min(-reinterpret_cast<u64>(chars) % 16, nbytes), sixteens = (nbytes - before) / 16;
  uint4* const aligned = reinterpret_cast<uint4*>(chars + before);
  u32 found = 0;
  for (u64 i = thread; i < sixteens; i += threads) {
    uint4 some = aligned[i];
    found |= some.x | some.y | some.z | some.w;
    some.x = in_other_case(some.x, small, large), some.y = in_other_case(some.y, small, large);
    some.z = in_other_case(some.z, small, large), some.w = in_other_case(some.w, small, large);
    aligned[i] = some;
  }
  const u64 rest = nbytes - 16 * sixteens;  // before the first sixteen bytes and behind the last
  if (thread < rest) {
    u8* const one = chars + (thread < before ? thread : 16 * sixteens + thread);
    found |= *one;
    *one = u8(in_other_case(*one, small, large));
  }
  if ((found & 0x80 * EVERY_BYTE) != 0) *seen = 1;
}
