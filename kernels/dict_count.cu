// How often each value of a dictionary is there, from packed codes (docs/format.md, section 19).
//
// Work unit: a thread block counts in shared memory and adds what it has to the result at the end. Rows of few values meet in the same counter, so
// there are as many copies of the counters as there is room for, up to one for each lane of a warp: copies of a counter follow each other,
// and lanes with different copies are in different banks. Where there are more values than counters, the first values have one: values are
// numbered by first appearance, so those that are frequent come early. Others are counted in global memory.
//
// On an H200, by events around the call, which zeroes the result and uploads the job too: 60 M rows of l_shipmode (7 values) 0.093 ms, 15 M
// rows of o_clerk (10,000 values) 0.146.
#include "dict_codes.cuh"

// Thread blocks on a multiprocessor: so many that nothing spills.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define RESIDENT 8
#else
#define RESIDENT 6
#endif

struct CountJob : CodesJob {
  u64 out;  // address of u64s, one for each value, to which is added
};

// Dynamic shared memory: `room` u32s. Rows without a value, and codes of no value, are not counted.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) dict_count(const u64* table, u32 jobs, u32 room) {
  DYNAMIC_SHARED(u32, counters);
  __shared__ CountJob job;
  const u32 in_job = load_job(table, jobs, job);
  const u32 values = none_of(job), kept = min(values, room);
  u32 shift = 0;  // of the number of copies
  while (shift < 5 && u64(kept) << (shift + 1) <= room) ++shift;
  for (u32 i = threadIdx.x; i < kept << shift; i += THREADS) counters[i] = 0;
  __syncthreads();
  u64* out = reinterpret_cast<u64*>(job.out);
  const u32 copy = lane_id() & (1u << shift) - 1;
  read_codes(job, Turn(job, in_job), [&](u32, const Number(&codes)[VECTOR], bool) {
#pragma unroll
    for (u32 v = 0; v < VECTOR; ++v) {
      const u32 code = codes[v];
      if (code < kept)
        atomicAdd(counters + (code << shift | copy), 1u);
      else if (code < values)
        atomicAdd(out + code, u64(1));
    }
  });
  __syncthreads();
  for (u32 i = threadIdx.x; i < kept; i += THREADS) {
    u32 sum = 0;
    for (u32 c = 0; c < 1u << shift; ++c) sum += counters[i << shift | c];
    if (sum != 0) atomicAdd(out + i, u64(sum));
  }
}
