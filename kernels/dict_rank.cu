// Numbers of different values by first appearance, from the table that dict_find.cu or dict_few.cu has filled.
//
// Rows that are some value's first are marked in a bitmap over all rows, and the number of a value is how many are marked before its first.
// Where slots are few, each is compared with all others instead.
#include "dict_table.cuh"

struct RankJob {
  u64 table, slots, stride;
  u64 found;
  u64 offsets, wide;
  u64 rows;
  u64 marks;   // address of u32s, zeros: a bit for each row; whole chunks
  u64 before;  // address of u32s, one for each RANK_CHUNK rows
  u64 map;     // address of u64s, one for each slot: number_of
  u64 firsts;  // address of u32s, one for each value: its first row
};

__device__ __forceinline__ bool too_many(const RankJob& job) {
  return reinterpret_cast<const u64*>(job.found)[FOUND_TOO_MANY] != 0;
}

// A thread has a slot.
extern "C" __global__ void __launch_bounds__(FIND_THREADS) dict_mark(const u64* table, u32 jobs) {
  __shared__ RankJob job;
  const u64 slot = u64(load_job(table, jobs, job)) * FIND_THREADS + threadIdx.x;
  if (slot >= job.slots || too_many(job)) return;
  const u64 entry = reinterpret_cast<const u64*>(job.table)[slot * job.stride];
  if (entry == EMPTY) return;
  const u32 row = row_of_entry(entry);
  atomicOr(reinterpret_cast<u32*>(job.marks) + row / 32, 1u << row % 32);
}

#define CHUNK_WORDS (RANK_CHUNK / 32)
static_assert(CHUNK_WORDS == 128, "a lane of dict_count_marks has four words");

__device__ __forceinline__ u32 count_bits(const uint4& words) {
  return __popc(words.x) + __popc(words.y) + __popc(words.z) + __popc(words.w);
}

// A warp has a chunk.
extern "C" __global__ void __launch_bounds__(FIND_THREADS) dict_count_marks(const u64* table, u32 jobs) {
  __shared__ RankJob job;
  const u64 chunk = u64(load_job(table, jobs, job)) * (FIND_THREADS / 32) + threadIdx.x / 32;
  if (chunk * RANK_CHUNK >= job.rows || too_many(job)) return;
  const uint4 words = reinterpret_cast<const uint4*>(job.marks)[chunk * 32 + lane_id()];
  const u32 sum = warp_inclusive_sum(count_bits(words));
  if (lane_id() == 31) reinterpret_cast<u32*>(job.before)[chunk] = sum;
}

// Sums of what stands before; a thread block has a job.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS, 1) dict_scan(const u64* table, u32 jobs) {
  __shared__ RankJob job;
  __shared__ u32 sums[SCAN_THREADS / 32];
  load_job(table, jobs, job);
  if (too_many(job)) return;
  const u64 chunks = (job.rows + RANK_CHUNK - 1) / RANK_CHUNK;
  const u64 each = (chunks + SCAN_THREADS - 1) / SCAN_THREADS, begin = min(each * threadIdx.x, chunks);
  const u64 end = min(begin + each, chunks);
  u32* before = reinterpret_cast<u32*>(job.before);
  u32 sum = 0;
  for (u64 i = begin; i < end; ++i) sum += before[i];
  const u32 inclusive = warp_inclusive_sum(sum);
  if (lane_id() == 31) sums[threadIdx.x / 32] = inclusive;
  __syncthreads();
  if (threadIdx.x < 32) {
    const u32 summed = warp_inclusive_sum(sums[threadIdx.x]);
    __syncwarp();
    sums[threadIdx.x] = summed;
  }
  __syncthreads();
  u32 at = (threadIdx.x >= 32 ? sums[threadIdx.x / 32 - 1] : 0) + inclusive - sum;
  for (u64 i = begin; i < end; ++i) {
    const u32 own = before[i];
    before[i] = at;
    at += own;
  }
}

// A slot's value has this number. For whole warps; EMPTY slots have none.
__device__ __forceinline__ void number_value(const RankJob& job, u64 slot, u64 entry, u32 number) {
  u64 nbytes = 0;
  if (slot < job.slots)
    reinterpret_cast<u64*>(job.map)[slot] = entry == EMPTY ? u64(0) : entry & ~u64(0xffffffff) | number;
  if (entry != EMPTY) {
    const u32 row = row_of_entry(entry);
    reinterpret_cast<u32*>(job.firsts)[number] = row;
    nbytes = offset_at(job.offsets, job.wide != 0, u64(row) + 1) - offset_at(job.offsets, job.wide != 0, row);
  }
  u64 longest = nbytes;
  for (u32 delta = 16; delta > 0; delta /= 2) {
    nbytes += __shfl_xor_sync(ALL_LANES, nbytes, delta);
    longest = max(longest, __shfl_xor_sync(ALL_LANES, longest, delta));
  }
  if (lane_id() != 0 || longest == 0) return;
  u64* found = reinterpret_cast<u64*>(job.found);
  atomicAdd(found + FOUND_VALUE_CHARS, nbytes);
  atomicMax(found + FOUND_LONGEST, longest);
}

// A thread has a slot.
extern "C" __global__ void __launch_bounds__(FIND_THREADS) dict_rank(const u64* table, u32 jobs) {
  __shared__ RankJob job;
  const u64 slot = u64(load_job(table, jobs, job)) * FIND_THREADS + threadIdx.x;
  if (too_many(job)) return;
  const u64 entry = slot < job.slots ? reinterpret_cast<const u64*>(job.table)[slot * job.stride] : EMPTY;
  u32 number = 0;
  if (entry != EMPTY) {
    const u32 row = row_of_entry(entry), chunk = row / RANK_CHUNK;
    const u32* marks = reinterpret_cast<const u32*>(job.marks);
    number = reinterpret_cast<const u32*>(job.before)[chunk];
    u32 word = chunk * CHUNK_WORDS;
    for (; word + 4 <= row / 32; word += 4) number += count_bits(*reinterpret_cast<const uint4*>(marks + word));
    for (; word < row / 32; ++word) number += __popc(marks[word]);
    number += __popc(marks[row / 32] & (1u << row % 32) - 1);
  }
  number_value(job, slot, entry, number);
}

// As dict_mark to dict_rank, of few slots, FIND_THREADS of them: each is compared with all. A thread block has a job.
extern "C" __global__ void __launch_bounds__(FIND_THREADS) dict_rank_few(const u64* table, u32 jobs) {
  __shared__ RankJob job;
  __shared__ u64 entries[FIND_THREADS];
  load_job(table, jobs, job);
  if (too_many(job)) return;
  const u64 entry = entries[threadIdx.x] = reinterpret_cast<const u64*>(job.table)[threadIdx.x];
  __syncthreads();
  u32 number = 0;
  for (u32 i = 0; i < FIND_THREADS; ++i)
    number += entries[i] != EMPTY && row_of_entry(entries[i]) < row_of_entry(entry);
  number_value(job, threadIdx.x, entry, number);
}

// ---- slots that were kept become numbers

struct RenumberJob {
  u64 slots, rows;  // address of bytes, which are overwritten; how many
  u64 map;
  u64 blocks;
};

// A thread has 16 slots; their address is a multiple of 16.
extern "C" __global__ void __launch_bounds__(FIND_THREADS) dict_renumber(const u64* table, u32 jobs) {
  __shared__ RenumberJob job;
  __shared__ u8 numbers[256];
  const u64 in_job = load_job(table, jobs, job), step = job.blocks * FIND_THREADS;
  for (u32 i = threadIdx.x; i < 256; i += FIND_THREADS) numbers[i] = u8(reinterpret_cast<const u64*>(job.map)[i]);
  __syncthreads();
  for (u64 i = in_job * FIND_THREADS + threadIdx.x; i < job.rows / 16; i += step) {
    const uint4 old = reinterpret_cast<const uint4*>(job.slots)[i];
    const u32 in[4] = {old.x, old.y, old.z, old.w};
    u32 made[4];
#pragma unroll
    for (u32 w = 0; w < 4; ++w) {
      made[w] = 0;
#pragma unroll
      for (u32 b = 0; b < 32; b += 8) made[w] |= u32(numbers[in[w] >> b & 255]) << b;
    }
    reinterpret_cast<uint4*>(job.slots)[i] = {made[0], made[1], made[2], made[3]};
  }
  u8* slots = reinterpret_cast<u8*>(job.slots);
  for (u64 i = job.rows / 16 * 16 + in_job * FIND_THREADS + threadIdx.x; i < job.rows; i += step)
    slots[i] = numbers[slots[i]];
}
