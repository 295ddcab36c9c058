// The toy codec of values: a thread decodes a value.
#include "jobs.cuh"

struct ToyJob {
  u64 codes;  // address
  u64 itemsize;
  OutputRows output;
};

// block: 256 threads. The table: the first thread block of every job, then the jobs.
extern "C" __global__ void toy_values(const u64* table, u32 jobs) {
  const u32 number = find_job(table, jobs, blockIdx.x);
  const ToyJob& job = reinterpret_cast<const ToyJob*>(table + jobs)[number];
  const u64 i = (blockIdx.x - table[number]) * 256 + threadIdx.x;
  if (i >= job.output.end - job.output.begin) return;
  const u8* from = reinterpret_cast<const u8*>(job.codes) + (job.output.begin + i) * job.itemsize;
  u8* to = reinterpret_cast<u8*>(job.output.values) + i * job.output.stride;
  for (u64 byte = 0; byte < job.itemsize; ++byte) to[byte] = u8(from[byte] - 1);
}
