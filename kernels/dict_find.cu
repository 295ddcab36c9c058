// Different values of strings, where they may be many: a table of them is filled, then each row's value has a number.
//
// Work unit: a lane has a row; 32 rows that follow each other are read coalesced. A slot has the bytes of its value beside its entry, as far
// as there is room, so most rows read nothing else. Rows of more than FIND_LONG bytes are left to dict_find_long, a thread block each.
// Between the two kernels dict_rank.cu numbers the values.
//
// What lost: docs/kernels.md.
#include "dict_table.cuh"

#define PROBES 4
// Thread blocks on a multiprocessor: code for other GPUs spills with the registers that are left then.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define RESIDENT FIND_BLOCKS
#define RESIDENT_NUMBER NUMBER_BLOCKS
#else
#define RESIDENT 3
#define RESIDENT_NUMBER 4
#endif

// Looks for a row's value in slots with keys, without waiting for anybody. Whether it is there; else find_slot has to look.
template <u32 count>
__device__ __forceinline__ bool in_table(const FindJob& job, const Text& text, u32 row) {
  u64 key[count];
  text.all(key);
  const u64 hash = hash_words(key, u32(text.nbytes));
  if (!make_key(key, u32(text.nbytes))) return false;
  const u32 mask = u32(job.slots) - 1;
  u32 slot = u32(hash) & mask;
#pragma unroll 1
  for (u32 probe = 0; probe < PROBES; ++probe) {
    u64* const at = reinterpret_cast<u64*>(job.table) + u64(slot) * SLOT_WORDS;
    u64 there[count + 1];
#pragma unroll
    for (u32 w = 0; w <= count; w += 2) {
      const ulonglong2 two = *reinterpret_cast<const ulonglong2*>(at + w);
      there[w] = two.x, there[w + 1] = two.y;
    }
    bool same = there[0] != EMPTY && there[0] >> 32 == hash >> 32;
#pragma unroll
    for (u32 w = 0; w < count; ++w) same = same && there[w + 1] == key[w];
    if (same) {
      if (row < row_of_entry(there[0])) atomicMax(at, make_entry(hash, row));
      return true;
    }
    if (there[0] == EMPTY) return false;
    slot = slot + 1 & mask;
  }
  return false;
}

// `Offset`: u32 or u64. `job` and `bounds`, which are what rows' words may be read from, stay in shared memory: registers are scarce.
template <typename Offset>
__device__ __forceinline__ void find_rows(const FindJob& job, u32 in_job, const u64* bounds) {
  constexpr bool wide = sizeof(Offset) == 8;
  const u64 chars = job.chars, offsets = job.offsets;
  const u32 rows = u32(job.rows), step = u32(job.blocks) * FIND_THREADS;
  u32 row = in_job * FIND_THREADS + threadIdx.x, turn = 0, nulls = 0;
  Offset ahead = 0, ahead_end = 0;  // the next row's, on their way while there is work on this one
  if (row < rows) {
    ahead = load<Offset>(offsets + u64(row) * sizeof(Offset));
    ahead_end = load<Offset>(offsets + u64(row + 1) * sizeof(Offset));
  }
#pragma unroll 1
  for (; row < rows; row += step) {
    if (turn++ % 16 == 0 && load_volatile(job.found + 8 * FOUND_TOO_MANY) != 0) break;
    const Text text(chars + ahead, ahead_end - ahead, bounds[0], bounds[1]);
    if (row + step < rows) {
      ahead = load<Offset>(offsets + u64(row + step) * sizeof(Offset));
      ahead_end = load<Offset>(offsets + u64(row + step + 1) * sizeof(Offset));
    }
    if (job.validity != 0 && !bit_at(job.validity, job.validity_offset + row)) {
      ++nulls;
      if (text.nbytes != 0) atomicAdd(found_at(job, FOUND_NULL_CHARS), text.nbytes);
      continue;
    }
    if (text.nbytes > FIND_LONG) {
      reinterpret_cast<u32*>(job.long_rows)[atomicAdd(found_at(job, FOUND_LONG), u64(1))] = row;
      continue;
    }
    if (job.stride == SLOT_WORDS && text.inside) {
      if (text.nbytes <= SHORT_NBYTES) {
        if (in_table<SHORT_WORDS>(job, text, row)) continue;
      } else if (text.nbytes <= KEY_NBYTES) {
        if (in_table<KEY_WORDS>(job, text, row)) continue;
      }
    }
    find_slot(
        job, hash_text(text), row, [&](u32 other) { return equal_rows(job, wide, bounds, text, other); },
        [&](u64* at) {
          if (job.stride == 1 || text.nbytes > KEY_NBYTES) return;
          const u32 count = text.nbytes <= SHORT_NBYTES ? SHORT_WORDS : KEY_WORDS;
#pragma unroll 1
          for (u32 w = 0; w < count; ++w) {
            u64 word = 8 * w < text.nbytes ? text.from(8 * w) : 0;
            if (w + 1 == count) word |= (text.nbytes + 1) << 56;
            at[w + 1] = word ^ HASH_FIRST;
          }
        });
  }
  if (nulls != 0) atomicAdd(found_at(job, FOUND_NULLS), u64(nulls));
}

// Fills the table with the values of all rows of a scope.
extern "C" __global__ void __launch_bounds__(FIND_THREADS, RESIDENT) dict_find(const u64* table, u32 jobs) {
  __shared__ FindJob job;
  __shared__ u64 bounds[2];
  const u32 in_job = load_job(table, jobs, job);
  if (threadIdx.x < 2)
    bounds[threadIdx.x] = job.chars + offset_at(job.offsets, job.wide != 0, threadIdx.x == 0 ? 0 : job.scope_rows);
  __syncthreads();
  if (job.wide != 0)
    find_rows<u64>(job, in_job, bounds);
  else
    find_rows<u32>(job, in_job, bounds);
}

// ---- numbers of rows, where there are many values

// A row's number, by the numbers of slots: each has the upper bits of its value's hash and, below, the value's number. The value is in
// the table. So where no two values have met that have these bits in common, nothing is compared.
__device__ __forceinline__ u32 number_of(const FindJob& job, u64 hash) {
  const u32 mask = u32(job.slots) - 1;
  u32 slot = u32(hash) & mask;
  u64 there = load<u64>(job.map + 8 * u64(slot));
#pragma unroll 1
  for (u32 steps = 0; there >> 32 != hash >> 32 && steps < mask; ++steps) {
    slot = slot + 1 & mask;
    there = load<u64>(job.map + 8 * u64(slot));
  }
  return u32(there);
}

// A row's number where two values have met that have these bits in common: they are compared.
__device__ __forceinline__ u32 number_of_row(const FindJob& job, bool wide, const u64* bounds, const Text& text) {
  const u64 hash = hash_text(text);
  const u32 mask = u32(job.slots) - 1;
  u32 slot = u32(hash) & mask;
#pragma unroll 1
  for (u32 steps = 0; steps < mask; ++steps) {
    const u64 entry = reinterpret_cast<const u64*>(job.table)[u64(slot) * u32(job.stride)];
    if (entry == EMPTY) break;
    if (entry >> 32 == hash >> 32 && equal_rows(job, wide, bounds, text, row_of_entry(entry)))
      return u32(reinterpret_cast<const u64*>(job.map)[slot]);
    slot = slot + 1 & mask;
  }
  return 0;
}

template <typename Offset>
__device__ __forceinline__ void number_rows(const FindJob& job, u32 in_job, const u64* bounds) {
  constexpr bool wide = sizeof(Offset) == 8;
  const u64 chars = job.chars, offsets = job.offsets + job.first * sizeof(Offset);
  const u32 rows = u32(job.rows), step = u32(job.blocks) * FIND_THREADS * NUMBER_ROWS;
  const bool clashes = *found_at(job, FOUND_CLASHES) != 0;
#pragma unroll 1
  for (u32 start = in_job * FIND_THREADS * NUMBER_ROWS; start < rows; start += step) {
    const u32 i = start + threadIdx.x / 32 * (32 * NUMBER_ROWS) + lane_id();
    Offset begin[NUMBER_ROWS], end[NUMBER_ROWS];
    bool known = !clashes;
#pragma unroll
    for (u32 j = 0; j < NUMBER_ROWS; ++j) {
      const u64 place = offsets + u64(min(i + 32 * j, rows - 1)) * sizeof(Offset);
      begin[j] = load<Offset>(place);
      end[j] = load<Offset>(place + sizeof(Offset));
    }
#pragma unroll
    for (u32 j = 0; j < NUMBER_ROWS; ++j) {
      const Text text(chars + begin[j], end[j] - begin[j], bounds[0], bounds[1]);
      known = known && text.nbytes <= SHORT_NBYTES && text.inside;
    }
    if (__all_sync(ALL_LANES, known)) {
      u64 hash[NUMBER_ROWS], there[NUMBER_ROWS];
#pragma unroll
      for (u32 j = 0; j < NUMBER_ROWS; ++j) {
        u64 words[SHORT_WORDS];
        const Text text(chars + begin[j], end[j] - begin[j], bounds[0], bounds[1]);
        text.all(words);
        hash[j] = hash_words(words, u32(text.nbytes));
      }
      const u32 mask = u32(job.slots) - 1;
#pragma unroll
      for (u32 j = 0; j < NUMBER_ROWS; ++j) there[j] = load<u64>(job.map + 8 * u64(u32(hash[j]) & mask));
#pragma unroll
      for (u32 j = 0; j < NUMBER_ROWS; ++j) {
        if (i + 32 * j >= rows) continue;
        if (job.validity != 0 && !bit_at(job.validity, job.validity_offset + job.first + (i + 32 * j))) {
          there[j] = 0;
        } else if (there[j] >> 32 != hash[j] >> 32) {
          there[j] = number_of(job, hash[j]);
        }
        write_code(job.out, job.out_nbytes, i + 32 * j, u32(there[j]));
      }
      continue;
    }
#pragma unroll 1
    for (u32 j = 0; j < NUMBER_ROWS; ++j) {
      if (i + 32 * j >= rows) continue;
      const u64 place = offsets + u64(i + 32 * j) * sizeof(Offset);
      const u64 at = load<Offset>(place);
      const Text text(chars + at, load<Offset>(place + sizeof(Offset)) - at, bounds[0], bounds[1]);
      if (text.nbytes > FIND_LONG) continue;  // dict_find_long has it
      u32 code = 0;
      if (job.validity == 0 || bit_at(job.validity, job.validity_offset + job.first + (i + 32 * j))) {
        if (clashes) {
          code = number_of_row(job, wide, bounds, text);
        } else if (text.nbytes <= SHORT_NBYTES || text.nbytes > KEY_NBYTES || !text.inside) {
          code = number_of(job, hash_text(text));
        } else {
          u64 words[KEY_WORDS];
          text.all(words);
          code = number_of(job, hash_words(words, u32(text.nbytes)));
        }
      }
      write_code(job.out, job.out_nbytes, i + 32 * j, code);
    }
  }
}

// Writes the number of every row's value; of null rows, 0. Of long rows dict_find_long does.
extern "C" __global__ void __launch_bounds__(FIND_THREADS, RESIDENT_NUMBER) dict_number(const u64* table, u32 jobs) {
  __shared__ FindJob job;
  __shared__ u64 bounds[2];
  const u32 in_job = load_job(table, jobs, job);
  if (*found_at(job, FOUND_TOO_MANY) != 0) return;
  if (threadIdx.x < 2)
    bounds[threadIdx.x] = job.chars + offset_at(job.offsets, job.wide != 0, threadIdx.x == 0 ? 0 : job.scope_rows);
  __syncthreads();
  if (job.wide != 0)
    number_rows<u64>(job, in_job, bounds);
  else
    number_rows<u32>(job, in_job, bounds);
}

// The rows that dict_find left, a thread block each.
extern "C" __global__ void __launch_bounds__(FIND_THREADS) dict_find_long(const u64* table, u32 jobs) {
  __shared__ FindJob job;
  __shared__ u64 shared_entry;
  __shared__ u64 shared_sum;
  const u64 in_job = load_job(table, jobs, job);
  const bool wide = job.wide != 0;
  const u64 low = job.chars + offset_at(job.offsets, wide, 0);
  const u64 high = job.chars + offset_at(job.offsets, wide, job.scope_rows);
  const u64 count = *found_at(job, FOUND_LONG);
  const u32 mask = u32(job.slots) - 1;
  for (u64 i = in_job; i < count; i += job.blocks) {
    const u32 row = reinterpret_cast<const u32*>(job.long_rows)[i];
    if (row < job.first || row - job.first >= job.rows) continue;
    const u64 begin = offset_at(job.offsets, wide, row);
    const Text text(job.chars + begin, offset_at(job.offsets, wide, u64(row) + 1) - begin, low, high);
    __syncthreads();  // all have read what is there of the row before
    const bool ended = threadIdx.x == 0 && load_volatile(job.found + 8 * FOUND_TOO_MANY) != 0;
    if (threadIdx.x == 0) shared_sum = 0;
    if (__syncthreads_or(ended)) return;
    u64 sum = 0;  // of hashes of all words with their places: in any order
    for (u64 at = 8 * threadIdx.x; at < text.nbytes; at += 8 * FIND_THREADS)
      sum += mix(mix(at, text.from(at)), HASH_FIRST);
    atomicAdd(&shared_sum, sum);
    __syncthreads();
    const u64 hash = finish(shared_sum + text.nbytes * HASH_FIRST);
    const u64 mine = make_entry(hash, row);
    u32 slot = u32(hash) & mask, steps = 0;
    while (true) {
      u64* const place = reinterpret_cast<u64*>(job.table) + u64(slot) * u32(job.stride);
      __syncthreads();
      if (threadIdx.x == 0) {
        u64 entry = load_volatile(reinterpret_cast<u64>(place));
        if (entry == EMPTY) {
          entry = atomicCAS(place, EMPTY, mine);
          if (entry == EMPTY) {
            count_value(job);
            entry = mine;
          }
        }
        shared_entry = entry;
      }
      __syncthreads();
      const u64 entry = shared_entry;
      bool differs = entry >> 32 != mine >> 32;
      if (!differs && entry != mine) {
        const u64 at = offset_at(job.offsets, wide, row_of_entry(entry));
        const Text there(job.chars + at, offset_at(job.offsets, wide, u64(row_of_entry(entry)) + 1) - at, low, high);
        differs = there.nbytes != text.nbytes;
        for (u64 at = 8 * threadIdx.x; at < text.nbytes && !differs; at += 8 * FIND_THREADS)
          differs = there.from(at) != text.from(at);
      }
      if (!__syncthreads_or(differs)) {
        if (threadIdx.x == 0 && mine > entry) atomicMax(place, mine);
        break;
      }
      if (threadIdx.x == 0 && entry >> 32 == mine >> 32) *found_at(job, FOUND_CLASHES) = 1;
      slot = slot + 1 & mask;
      if (++steps >= mask) {
        if (threadIdx.x == 0) *found_at(job, FOUND_TOO_MANY) = 1;
        slot = NO_SLOT;
        break;
      }
    }
    if (threadIdx.x == 0) write_slot(job, row, slot);
  }
}
