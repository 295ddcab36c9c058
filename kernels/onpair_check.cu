// Whether codes decode to the bytes of their tiles (docs/format.md, section 23), as fsst_check.cu for FSST.
#include "text_check.cuh"

#define CODES_MOST 4096

// `table`: how many bits a code has, a u64, then the bytes of each code's symbol.
struct CodeLengths {
  const u8* lengths;
  u32 bits;

  __device__ __forceinline__ u32 damage(TileBytes codes, u32 expected) const {
    if ((8 * codes.left / bits * bits + 7) / 8 != codes.left) return 1;
    u32 decoded = 0, waiting = 0, have = 0;
    while (codes.left != 0) {
      waiting |= codes.next() << have;
      have += 8;
      if (have < bits) continue;
      const u32 length = lengths[waiting & (1u << bits) - 1];
      if (length == 0) return 2;
      decoded += length;
      waiting >>= bits;
      have -= bits;
    }
    return waiting != 0 ? 3 : decoded != expected ? 4 : 0;
  }
};

extern "C" __global__ void __launch_bounds__(CHECK_THREADS) onpair_check(const u64* table, u32 jobs) {
  __shared__ CheckJob job;
  __shared__ u8 lengths[CODES_MOST];
  const u32 in_job = load_job(table, jobs, job);
  const u32 bits = u32(*reinterpret_cast<const u64*>(job.table));
  for (u32 code = threadIdx.x; code < 1u << bits; code += CHECK_THREADS)
    lengths[code] = reinterpret_cast<const u8*>(job.table)[sizeof(u64) + code];
  __syncthreads();
  check_tiles(job, in_job, CodeLengths{lengths, bits});
}
