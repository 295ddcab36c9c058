// Launches that serve many jobs: the host uploads a table (cudf_fsst/codecs/cuda_tables.py) of the first thread block of every job, then
// the jobs; or, of rows that are taken, of columns and their parts.
#pragma once

#include "common.cuh"

// What a launch decodes of a segment. Codecs have their own fields in front.
struct OutputRows {
  u64 begin, end;  // rows of the segment
  u64 values;      // address of row `begin`'s value
  u64 stride;      // bytes from one value to the next
};

// The job of a thread block: the last one that does not begin behind it. For whole warps; of one job nothing is read.
__device__ __forceinline__ u32 find_job(const u64* first_blocks, u32 count, u64 block) {
  return warp_last_that(0u, count, [&](u32 job) { return first_blocks[job] <= block; });
}

// Brings the job of this thread block to shared memory, for all of its threads: what lies there takes no registers until it is used.
// Returns the thread block's number in the job.
template <typename Job>
__device__ __forceinline__ u32 load_job(const u64* table, u32 count, Job& job, u32 block) {
  const u32 number = find_job(table, count, block);
  const u64* fields = table + count + number * u64(sizeof(Job) / 8);
  if (threadIdx.x < sizeof(Job) / 8) reinterpret_cast<u64*>(&job)[threadIdx.x] = fields[threadIdx.x];
  __syncthreads();
  return count > 1 ? u32(block - table[number]) : block;
}

template <typename Job>
__device__ __forceinline__ u32 load_job(const u64* table, u32 count, Job& job) {
  return load_job(table, count, job, blockIdx.x);
}

// Sizes that a thread block sums up: a stream's.
struct ScanJob {
  u64 sizes, count;  // address, entries
  u64 starts;        // address
  u64 totals;        // address, u64[3]
};

// A column whose rows are taken. `Part` has `first_row` and `rows`, and parts ascend.
struct TakenColumn {
  u64 first_part, parts;
  u64 first_high, highs;  // of numbers of 16 bytes, if the same launch takes both halves
  u64 values;             // address of the first value
  u64 stride;             // bytes from one value to the next
  u64 itemsize;
  u64 nulls;  // bitmaps: address of a counter of zeros
};

// Whether `row` is in one of the parts, and which.
template <typename Part>
__device__ __forceinline__ bool find_part(const Part* parts, u64 count, u64 row, const Part*& found) {
  found = parts + last_that(u64(0), count, [&](u64 part) { return parts[part].first_row <= row; });
  return row >= found->first_row && row - found->first_row < found->rows;
}

// The row that number `i` of `count` is: of `rows`, or, without these, in order; `shift` is added. 0 past the last.
__device__ __forceinline__ u64 row_of(const u64* rows, u64 shift, u64 i, u64 count) {
  return i >= count ? 0 : (rows == nullptr ? i : rows[i]) + shift;
}

// Writes the bit of row `i` of a bitmap, which lies in whole 64 bytes, and counts the rows below `count` whose bit is 0. For whole
// warps, with 32 rows in order.
__device__ __forceinline__ void put_bits(const TakenColumn& column, u64 i, u64 count, bool bit) {
  const u32 bits = __ballot_sync(ALL_LANES, bit), rows = __popc(__ballot_sync(ALL_LANES, i < count));
  if (lane_id() != 0 || i >= (count + 511) / 512 * 512) return;
  reinterpret_cast<u32*>(column.values)[i / 32] = bits;
  const u32 nulls = rows - __popc(bits);
  if (nulls != 0) atomicAdd(reinterpret_cast<u64*>(column.nulls), u64(nulls));
}
