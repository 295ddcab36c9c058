// Where the scopes of a column of strings begin, and how many different rows a sample of each has: whether a dictionary is tried.
//
// Work unit: a warp has a boundary of a scope, which it searches for; a thread has a row of a sample. Hashes go to a set in global memory,
// with twice as many places as rows; of long rows they have only both ends.
#include "dict_table.cuh"
#include "segments.cuh"

// Offsets of a column, and where its segments begin.
struct BeginsJob {
  u64 offsets, wide, rows;
  u64 segment_size, count;  // boundaries: segments + 1
  u64 out_rows, out_chars;  // addresses of u64[count]: the row, and its characters' place
};

// A warp has a boundary.
extern "C" __global__ void __launch_bounds__(FIND_THREADS) dict_begins(const u64* table, u32 jobs) {
  __shared__ BeginsJob job;
  const u64 k = u64(load_job(table, jobs, job)) * (FIND_THREADS / 32) + threadIdx.x / 32;
  if (k >= job.count) return;
  const bool wide = job.wide != 0;
  const u64 row = segment_begin(job.offsets, wide, job.rows, k, job.count - 1, job.segment_size);
  if (lane_id() != 0) return;
  reinterpret_cast<u64*>(job.out_rows)[k] = row;
  reinterpret_cast<u64*>(job.out_chars)[k] = offset_at(job.offsets, wide, row) - offset_at(job.offsets, wide, 0);
}

struct SampleJob {
  u64 chars, offsets, wide;
  u64 validity, validity_offset;  // 0: no nulls
  u64 begin, end;  // addresses of the scope's first row, and the one behind its last; or 0, and how many rows there are
  u64 set;         // address of u64[2 * SAMPLE_ROWS], zeros
  u64 found;       // address of u64[3], zeros: rows that are not null, different hashes, characters of the scope
};

__device__ __forceinline__ u32 hash_run(u32 i) {
  u32 x = (i + 1) * 0x9E3779B9u;
  x = (x ^ x >> 16) * 0x85EBCA6Bu;
  x = (x ^ x >> 13) * 0xC2B2AE35u;
  return x ^ x >> 16;
}

// The hash that decides (codecs/dict/plan.py): of long rows, only both ends.
__device__ __forceinline__ u64 sample_hash(const Text& text) {
  u64 hash = text.nbytes * HASH_FIRST;
  if (text.nbytes <= 2 * SAMPLE_ENDS) {
    for (u64 at = 0; at < text.nbytes; at += 8) hash = mix(hash, text.from(at));
  } else {
    for (u64 at = 0; at < SAMPLE_ENDS; at += 8) hash = mix(hash, text.from(at));
    for (u64 at = text.nbytes - SAMPLE_ENDS; at < text.nbytes; at += 8) hash = mix(hash, text.from(at));
  }
  return finish(hash);
}

// A thread has a row of the sample.
extern "C" __global__ void __launch_bounds__(FIND_THREADS) dict_sample(const u64* table, u32 jobs) {
  __shared__ SampleJob job;
  const u32 i = load_job(table, jobs, job) * FIND_THREADS + threadIdx.x;
  const u64 begin = job.begin == 0 ? 0 : *reinterpret_cast<const u64*>(job.begin);
  const u64 end = job.begin == 0 ? job.end : *reinterpret_cast<const u64*>(job.end);
  const u64 rows = end - begin;
  if (i == 0)
    reinterpret_cast<u64*>(job.found)[2] =
        offset_at(job.offsets, job.wide != 0, end) - offset_at(job.offsets, job.wide != 0, begin);
  u64 row = i;
  bool some = i < rows;
  if (rows > SAMPLE_ROWS) {
    const u64 run = i / SAMPLE_RUN, runs = SAMPLE_ROWS / SAMPLE_RUN;
    const u64 a = run * rows / runs, b = (run + 1) * rows / runs;
    row = a + (hash_run(u32(run)) * (b - a - (SAMPLE_RUN - 1)) >> 32) + i % SAMPLE_RUN;
    some = i < SAMPLE_ROWS;
  }
  row += begin;
  if (some && job.validity != 0) some = bit_at(job.validity, job.validity_offset + row);
  bool fresh = false;
  if (some) {
    const bool wide = job.wide != 0;
    const u64 low = job.chars + offset_at(job.offsets, wide, begin),
              high = job.chars + offset_at(job.offsets, wide, end);
    const u64 at = offset_at(job.offsets, wide, row);
    u64 hash = sample_hash(Text(job.chars + at, offset_at(job.offsets, wide, row + 1) - at, low, high));
    if (hash == 0) hash = 1;  // 0 is a free place
    u64* set = reinterpret_cast<u64*>(job.set);
    for (u32 slot = u32(hash) % (2 * SAMPLE_ROWS);; slot = (slot + 1) % (2 * SAMPLE_ROWS)) {
      const u64 old = atomicCAS(set + slot, u64(0), hash);
      fresh = old == 0;
      if (fresh || old == hash) break;
    }
  }
  const u32 rows_here = __popc(__ballot_sync(ALL_LANES, some)), fresh_here = __popc(__ballot_sync(ALL_LANES, fresh));
  if (lane_id() != 0 || rows_here == 0) return;
  u64* found = reinterpret_cast<u64*>(job.found);
  atomicAdd(found, u64(rows_here));
  atomicAdd(found + 1, u64(fresh_here));
}
