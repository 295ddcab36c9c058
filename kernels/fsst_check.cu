// Whether codes decode to the bytes of their tiles (docs/format.md, section 9): asked of what a file holds, before anything is made of it.
//
// Work unit: a warp has TILE_BLOCK tiles, 32 at a time, and a lane the codes of a tile, a word at a time. The host has checked the lengths
// of tiles; whatever they are, nothing outside of the codes is read.
#include "text_check.cuh"

// `table`: the bytes of each code's symbol.
struct SymbolLengths {
  const u8* lengths;

  __device__ __forceinline__ u32 damage(TileBytes codes, u32 expected) const {
    u32 decoded = 0;
    bool escaped = false;
    while (codes.left != 0) {
      const u32 code = codes.next();
      if (escaped) {
        escaped = false;
        ++decoded;
      } else if (code == 255) {
        escaped = true;
      } else {
        if (lengths[code] == 0) return 1;
        decoded += lengths[code];
      }
    }
    return escaped ? 2 : decoded != expected ? 3 : 0;
  }
};

extern "C" __global__ void __launch_bounds__(CHECK_THREADS) fsst_check(const u64* table, u32 jobs) {
  __shared__ CheckJob job;
  __shared__ u8 lengths[256];
  const u32 in_job = load_job(table, jobs, job);
  lengths[threadIdx.x] = reinterpret_cast<const u8*>(job.table)[threadIdx.x];
  __syncthreads();
  check_tiles(job, in_job, SymbolLengths{lengths});
}
