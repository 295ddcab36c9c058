// Different values of strings, numbered by first appearance (docs/format.md, section 19).
//
// A table of slots (open addressing, linear) has of each value 32 bits of its hash and the first row that has it, one number:
//
//     slot   | hash, upper 32 bits | ~row |      0: empty
//
// Invariant: a row whose hash leads to a slot is compared with the slot's row, byte by byte, so equal hashes decide nothing. The row number
// goes down by atomicMax: what is there when the kernel ends does not depend on the order in which rows were looked at. Then rows that
// are some value's first are marked in a bitmap over all rows, and the number of a value is how many are marked before its first.
//
// Work unit: a lane has a row; 32 rows that follow each other are read coalesced. Where values may be many, a slot has the bytes of its
// value beside its entry, as far as there is room, so most rows read nothing else (dict_find). Where slots are as few as the threads of a
// block, dict_find_few keeps all short values of the table in shared memory, in words of 4 bytes, four rows a lane. Rows of more than
// FIND_LONG bytes are left to dict_find_long, a thread block each. The kernel is launched once to fill the table, and, where there was no
// room to keep the slot of every row, again to look them up.
//
// Bound: instructions and shared memory, not bytes, of which 0.14 ms would be enough. On an H200, 60 M rows by dict_find_few: l_shipmode
// 0.28 ms, l_shipinstruct 0.42, l_returnflag, of one byte a row, 0.27. Two that lost (docs/kernels.md has the others):
// - the way to the table inlined for each of a lane's rows, which makes 93 KB of code: 0.39 ms for l_shipmode, 0.52 for l_shipinstruct.
// - an earlier form, with keys in shared memory of the values that a block met first, a row a lane: 0.66, 0.83 and 0.65 ms.
#include "dict.cuh"
#include "segments.cuh"

#define EMPTY u64(0)
#define NO_SLOT 0xffffffffu
#define PROBES 4
// Thread blocks of dict_find on a multiprocessor: code for other GPUs spills with the registers that are left then.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define RESIDENT FIND_BLOCKS
#define RESIDENT_FEW FEW_BLOCKS
#define RESIDENT_NUMBER NUMBER_BLOCKS
#else
#define RESIDENT 3
#define RESIDENT_FEW 2
#define RESIDENT_NUMBER 4
#endif

// The largest of the warp's numbers.
__device__ __forceinline__ u32 warp_max(u32 value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __reduce_max_sync(ALL_LANES, value);
#else
#pragma unroll
  for (u32 delta = 16; delta > 0; delta /= 2) value = max(value, __shfl_xor_sync(ALL_LANES, value, delta));
  return value;
#endif
}

__device__ __forceinline__ u64 mix(u64 hash, u64 word) {
  hash = (hash ^ word) * HASH_NEXT;
  return hash ^ hash >> 32;
}

__device__ __forceinline__ u64 finish(u64 hash) {
  hash ^= hash >> 29;
  hash *= HASH_FIRST;
  return hash ^ hash >> 32;
}

__device__ __forceinline__ u64 make_entry(u64 hash, u32 row) { return hash & ~u64(0xffffffff) | ~row; }
__device__ __forceinline__ u32 row_of_entry(u64 entry) { return ~u32(entry); }

__device__ __forceinline__ u64 load_volatile(u64 address) { return *reinterpret_cast<const volatile u64*>(address); }

// ---- where scopes begin, and their samples

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

// ---- all rows

struct FindJob {
  u64 chars, offsets, wide;       // offsets: address of the scope's first
  u64 scope_rows;                 // rows of the scope
  u64 first, rows;                // which of them are wanted
  u64 validity, validity_offset;  // 0: no nulls; the bit of the scope's first row
  u64 table, slots, stride;       // slots: a power of 2; words of 8 bytes from one to the next: 1 or SLOT_WORDS
  u64 limit;                      // values, at most
  u64 found;                      // address of u64[FOUND_...]
  u64 long_rows;                  // address of u32s, for as many rows as can be long
  u64 out, out_nbytes;            // address where each row's slot or number goes, bytes of one; 0: nowhere
  u64 map;                        // address of u64s, numbers of slots' values (number_of); 0: slots are written
  u64 blocks;                     // thread blocks
};

// Places in `found`.
#define FOUND_VALUES 0
#define FOUND_TOO_MANY 1
#define FOUND_LONG 2
#define FOUND_NULLS 3
#define FOUND_NULL_CHARS 4
#define FOUND_VALUE_CHARS 5
#define FOUND_LONGEST 6
#define FOUND_CLASHES 7

__device__ __forceinline__ u64* found_at(const FindJob& job, u32 place) {
  return reinterpret_cast<u64*>(job.found) + place;
}

__device__ __forceinline__ void write_code(u64 out, u64 nbytes, u64 i, u32 code) {
  if (nbytes == 1)
    reinterpret_cast<u8*>(out)[i] = u8(code);
  else if (nbytes == 2)
    reinterpret_cast<u16*>(out)[i] = u16(code);
  else
    reinterpret_cast<u32*>(out)[i] = code;
}

__device__ __forceinline__ void write_slot(const FindJob& job, u64 row, u32 slot) {
  if (job.out == 0) return;
  u32 code = 0;
  if (slot != NO_SLOT) code = job.map != 0 ? u32(reinterpret_cast<const u64*>(job.map)[slot]) : slot;
  write_code(job.out, job.out_nbytes, row - job.first, code);
}

// A new value has been put into the table.
__device__ __forceinline__ void count_value(const FindJob& job) {
  if (atomicAdd(found_at(job, FOUND_VALUES), u64(1)) >= job.limit) *found_at(job, FOUND_TOO_MANY) = 1;
}

// The slot of a value; NO_SLOT where the table is full, or where there are too many values, which is seen some time. `equal` compares with
// a row; `fill` is called by the thread that has put a value into the table, with the slot's address.
template <typename Equal, typename Fill>
__device__ __forceinline__ u32 find_slot(const FindJob& job, u64 hash, u32 row, const Equal& equal, const Fill& fill) {
  const u64 mine = make_entry(hash, row);
  const u32 mask = u32(job.slots) - 1;
  u32 slot = u32(hash) & mask;
  for (u32 steps = 1; steps <= mask; ++steps) {
    u64* const at = reinterpret_cast<u64*>(job.table) + u64(slot) * u32(job.stride);
    u64 entry = *at;
    if (entry == EMPTY) {
      entry = atomicCAS(at, EMPTY, mine);
      if (entry == EMPTY) {
        count_value(job);
        fill(at);
        return slot;
      }
    }
    if (entry >> 32 == mine >> 32) {
      if (entry == mine || equal(row_of_entry(entry))) {
        if (mine > entry) atomicMax(at, mine);
        return slot;
      }
      *found_at(job, FOUND_CLASHES) = 1;
    }
    slot = slot + 1 & mask;
    if (steps % 32 == 0 && load_volatile(job.found + 8 * FOUND_TOO_MANY) != 0) return NO_SLOT;
  }
  *found_at(job, FOUND_TOO_MANY) = 1;
  return NO_SLOT;
}

// ---- all rows, where there are many values

// Beside its entry a slot of SLOT_WORDS has the value's bytes, so that most rows read nothing else. Of a value of up to SHORT_NBYTES these
// are three words, in the entry's own 32 bytes, of one of up to KEY_NBYTES seven; of longer ones, none. The last of these words has the
// number of bytes + 1 at its top. What is written of a word is not 0, which stands for what is not written yet: so words that are equal
// are those of an equal value, whenever they were read, and nothing has to be ordered. Values of three words and of seven differ in
// what the entry has of their hashes.
#define SHORT_WORDS 3
#define KEY_WORDS (SLOT_WORDS - 1)
#define SHORT_NBYTES (8 * SHORT_WORDS - 1)
#define KEY_NBYTES (8 * KEY_WORDS - 1)
static_assert(SLOT_WORDS == 8, "slots are read 16 bytes at a time");
#define IS_LONGER (u64(1) << 32)

// The words of a key that is made of a value's, none of them 0; false of a value one of whose words would be.
template <u32 count>
__device__ __forceinline__ bool make_key(u64 (&words)[count], u32 nbytes) {
  words[count - 1] |= u64(nbytes + 1) << 56;
  bool whole = true;
#pragma unroll
  for (u32 w = 0; w < count; ++w) {
    words[w] ^= HASH_FIRST;
    whole = whole && words[w] != 0;
  }
  return whole;
}

// The hash that a table is looked up by. Equal values have the same, whatever way it is made.
template <u32 count>
__device__ __forceinline__ u64 hash_words(const u64 (&words)[count], u32 nbytes) {
  u64 hash = nbytes * HASH_FIRST;
#pragma unroll
  for (u32 w = 0; w < count; ++w)
    if (8 * w < nbytes) hash = mix(hash, words[w]);
  hash = finish(hash);
  return count == SHORT_WORDS ? hash & ~IS_LONGER : hash | IS_LONGER;
}
__device__ __forceinline__ u64 hash_text(const Text& text) {
  u64 hash = text.nbytes * HASH_FIRST;
#pragma unroll 1
  for (u64 at = 0; at < text.nbytes; at += 8) hash = mix(hash, text.from(at));
  hash = finish(hash);
  return text.nbytes <= SHORT_NBYTES ? hash & ~IS_LONGER : hash | IS_LONGER;
}

__device__ __forceinline__ bool equal_rows(const FindJob& job, bool wide, const u64* bounds, const Text& text,
                                           u32 other) {
  const u64 begin = offset_at(job.offsets, wide, other);
  const Text there(job.chars + begin, offset_at(job.offsets, wide, u64(other) + 1) - begin, bounds[0], bounds[1]);
  if (there.nbytes != text.nbytes) return false;
#pragma unroll 1
  for (u64 at = 0; at < text.nbytes; at += 8)
    if (there.from(at) != text.from(at)) return false;
  return true;
}

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

// ---- all rows, where there are few values

// What a thread block keeps of the values that are in the table: two words of 4 bytes, how many bytes it has + 1 and what is written of
// its rows (slot or number), and the table's row; apart, the other words. Open addressing, linear; more than half of the places are free, and those have zeros.
struct FewValues {
  uint4* heads;  // [FEW_PLACES]
  u32* tails;    // [FEW_WORDS - 2][FEW_PLACES]
};

#define FEW_SHIFT 8
static_assert(FIND_THREADS == 1 << FEW_SHIFT, "a thread has a slot, and a byte says which");
static_assert(FEW_PLACES > FIND_THREADS && (FEW_PLACES & FEW_PLACES - 1) == 0, "some places stay free");

// Bytes `from` to 3 behind it, of `nbytes` in all, the others zeros.
__device__ __forceinline__ u32 cut_word(u32 word, u32 nbytes, u32 from) {
  return word & ~shift_left(~0u, nbytes > from ? 8 * (nbytes - from) : 0);
}

// Where a value's place is looked for first: words of zeros do not count, so it is the same however many there are.
template <u32 count>
__device__ __forceinline__ u32 first_place(const u32 (&key)[count], u32 nbytes) {
  u32 hash = nbytes * 0x85EBCA6Bu, factor = 0x9E3779B1u;
#pragma unroll
  for (u32 w = 0; w < count; ++w) {
    hash += key[w] * factor;
    factor = factor * 0x2C1B3C6Du | 1;
  }
  return (hash ^ hash >> 15) * 0xC2B2AE35u / (0x80000000u / FEW_PLACES * 2);
}

// What is written of a row whose value is kept, and has a first row that is not behind it; else NO_SLOT.
template <u32 count>
__device__ __forceinline__ u32 kept_code(const FewValues& kept, const u32 (&key)[count], u32 nbytes, u32 row) {
  for (u32 c = first_place(key, nbytes);; c = c + 1 & FEW_PLACES - 1) {
    const uint4 head = kept.heads[c];
    bool same = head.x == key[0] && head.y == key[1] && head.z >> FEW_SHIFT == nbytes + 1;
#pragma unroll
    for (u32 w = 2; w < count; ++w)
      if (same && 4 * w < nbytes) same = kept.tails[(w - 2) * FEW_PLACES + c] == key[w];
    if (same) return row >= head.w ? head.z & (1u << FEW_SHIFT) - 1 : NO_SLOT;
    if (head.z == 0) return NO_SLOT;
  }
}

// Keeps all values of up to 4 * FEW_WORDS bytes that are in the table. For whole thread blocks. Whether there are too many values.
template <typename Offset>
__device__ __forceinline__ bool keep_values(const FindJob& job, const FewValues& kept, const u64* bounds) {
  __syncthreads();  // none looks for one
  for (u32 c = threadIdx.x; c < FEW_PLACES; c += FIND_THREADS) kept.heads[c] = {0, 0, 0, 0};
  if (__syncthreads_or(threadIdx.x == 0 && load_volatile(job.found + 8 * FOUND_TOO_MANY) != 0)) return true;
  const u64 entry = load_volatile(job.table + 8 * threadIdx.x);
  if (entry != EMPTY) {
    const u32 row = row_of_entry(entry);
    const u64 begin = load<Offset>(job.offsets + u64(row) * sizeof(Offset));
    const u64 nbytes = load<Offset>(job.offsets + (u64(row) + 1) * sizeof(Offset)) - begin;
    if (nbytes <= 4 * FEW_WORDS) {
      const Text text(job.chars + begin, nbytes, bounds[0], bounds[1]);
      u32 key[FEW_WORDS];
#pragma unroll
      for (u32 w = 0; w < FEW_WORDS; w += 2) {
        const u64 word = 4 * w < nbytes ? text.from(4 * w) : 0;
        key[w] = u32(word), key[w + 1] = u32(word >> 32);
      }
      u32 c = first_place(key, u32(nbytes));
      const u32 code = job.map != 0 ? u32(reinterpret_cast<const u64*>(job.map)[threadIdx.x]) : threadIdx.x;
      const u32 meta = u32(nbytes) + 1 << FEW_SHIFT | code;
      while (atomicCAS(&kept.heads[c].z, 0u, meta) != 0) c = c + 1 & FEW_PLACES - 1;
      kept.heads[c].x = key[0], kept.heads[c].y = key[1], kept.heads[c].w = row;
#pragma unroll
      for (u32 w = 2; w < FEW_WORDS; ++w) kept.tails[(w - 2) * FEW_PLACES + c] = key[w];
    }
  }
  __syncthreads();
  return false;
}

// What is written of a thread's rows, FEW_ROWS of them; NO_SLOT of one that has more than 4 * count bytes or is not kept.
template <u32 count, u32 together>
__device__ __forceinline__ void kept_codes(const FewValues& kept, u64 base, const u32 (&at)[FEW_ROWS],
                                           const u32 (&nbytes)[FEW_ROWS], u32 row, u32 (&codes)[FEW_ROWS]) {
#pragma unroll
  for (u32 first = 0; first < FEW_ROWS; first += together) {
    u32 words[together][count + 1];
#pragma unroll
    for (u32 j = 0; j < together; ++j)
#pragma unroll
      for (u32 w = 0; w <= count; ++w) words[j][w] = load<u32>(base + (at[first + j] & ~3u) + 4 * w);
#pragma unroll
    for (u32 j = 0; j < together; ++j) {
      u32 key[count];
#pragma unroll
      for (u32 w = 0; w < count; ++w)
        key[w] =
            cut_word(__funnelshift_r(words[j][w], words[j][w + 1], 8 * (at[first + j] & 3)), nbytes[first + j], 4 * w);
      codes[first + j] = NO_SLOT;
      if (nbytes[first + j] <= 4 * count)
        codes[first + j] = kept_code(kept, key, nbytes[first + j], row + 32 * (first + j));
    }
  }
}

// The slot of a row, by the table. Its length is known; it is no null.
__device__ __forceinline__ u32 slot_of_row(const FindJob& job, u32 row, const Text& text, bool wide,
                                           const u64* bounds) {
  if (text.nbytes > FIND_LONG) return NO_SLOT;
  return find_slot(
      job, hash_text(text), row, [&](u32 other) { return equal_rows(job, wide, bounds, text, other); }, [](u64*) {});
}

template <typename Offset>
__device__ __forceinline__ void find_few_rows(const FindJob& job, u32 in_job, const FewValues& kept,
                                              const u64* bounds) {
  constexpr bool wide = sizeof(Offset) == 8;
  const u64 chars = job.chars, offsets = job.offsets + job.first * sizeof(Offset);
  const u32 rows = u32(job.rows), in_block = threadIdx.x / 32 * (32 * FEW_ROWS) + lane_id();
  const u32 step = u32(job.blocks) * FIND_THREADS * FEW_ROWS;
  const bool may_be_null = job.validity != 0;
  u8* out = reinterpret_cast<u8*>(job.out);
  u32 nulls = 0, start = in_job * FIND_THREADS * FEW_ROWS;
  bool missed = false;

  // A row that is not kept, or of which that is not known.
  const auto look_up = [&](u32 i) {
    const u32 row = u32(job.first) + i;
    const u64 place = offsets + u64(i) * sizeof(Offset);
    const u64 begin = load<Offset>(place), nbytes = load<Offset>(place + sizeof(Offset)) - begin;
    u32 slot = NO_SLOT;
    if (may_be_null && !bit_at(job.validity, job.validity_offset + row)) {
      ++nulls;
      if (nbytes != 0) atomicAdd(found_at(job, FOUND_NULL_CHARS), nbytes);
    } else if (nbytes > FIND_LONG) {
      reinterpret_cast<u32*>(job.long_rows)[atomicAdd(found_at(job, FOUND_LONG), u64(1))] = row;
      return;
    } else {
      missed = missed || nbytes <= 4 * FEW_WORDS;
      slot = slot_of_row(job, row, Text(chars + begin, nbytes, bounds[0], bounds[1]), wide, bounds);
    }
    write_slot(job, row, slot);
  };

  // Some rows first, so that most values are kept before the others are looked at. Few: all blocks ask for the same slots.
  if (threadIdx.x < 32 && start + threadIdx.x < rows) {
    const u32 row = u32(job.first) + start + threadIdx.x;
    const u64 begin = offset_at(job.offsets, wide, row), nbytes = offset_at(job.offsets, wide, u64(row) + 1) - begin;
    if (!may_be_null || bit_at(job.validity, job.validity_offset + row))
      slot_of_row(job, row, Text(chars + begin, nbytes, bounds[0], bounds[1]), wide, bounds);
  }
  if (keep_values<Offset>(job, kept, bounds)) return;
#pragma unroll 1
  for (u32 turn = 1; start < rows; start += step, ++turn) {
    const u32 i = start + in_block;
    u64 base = 0;
    u32 at[FEW_ROWS], nbytes[FEW_ROWS], codes[FEW_ROWS];
    u32 most = 0, left = 0;
    bool inside = i + 32 * (FEW_ROWS - 1) < rows;
    if (inside) {
#pragma unroll
      for (u32 j = 0; j < FEW_ROWS; ++j) {
        const u64 place = offsets + u64(i + 32 * j) * sizeof(Offset);
        const Offset begin = load<Offset>(place), end = load<Offset>(place + sizeof(Offset));
        if (j == 0) base = chars + begin;
        if (j == FEW_ROWS - 1) inside = inside && chars + begin + (4 * FEW_WORDS + 8) <= bounds[1];
        at[j] = u32(chars) + u32(begin), nbytes[j] = u32(end - begin);
        most = max(most, nbytes[j]);
        inside = inside && end - begin <= FIND_LONG;
      }
      inside = inside && base >= bounds[0] + 4;
    }
    if (__all_sync(ALL_LANES, inside)) {
      most = warp_max(most);
      base = __shfl_sync(ALL_LANES, base, 0) & ~u64(3);
#pragma unroll
      for (u32 j = 0; j < FEW_ROWS; ++j) at[j] -= u32(base);
      const u32 row = u32(job.first) + i;
      if (most <= 8)
        kept_codes<2, FEW_ROWS>(kept, base, at, nbytes, row, codes);
      else if (most <= 20)
        kept_codes<5, FEW_ROWS / 2>(kept, base, at, nbytes, row, codes);
      else
        kept_codes<FEW_WORDS, 1>(kept, base, at, nbytes, row, codes);
#pragma unroll
      for (u32 j = 0; j < FEW_ROWS; ++j) {
        if (may_be_null && !bit_at(job.validity, job.validity_offset + row + 32 * j)) codes[j] = NO_SLOT;
        if (codes[j] == NO_SLOT)
          left |= 1u << j;
        else if (out != nullptr)
          out[i + 32 * j] = u8(codes[j]);
      }
    } else {
#pragma unroll
      for (u32 j = 0; j < FEW_ROWS; ++j) left |= u32(i + 32 * j < rows) << j;
    }
#pragma unroll 1
    for (; left != 0; left &= left - 1) look_up(i + 32 * (31 - __clz(int(left & 0 - left))));
    if (turn % FEW_TURNS == 0 && __syncthreads_or(missed)) {
      if (keep_values<Offset>(job, kept, bounds)) break;
      missed = false;
    }
  }
  if (nulls != 0) atomicAdd(found_at(job, FOUND_NULLS), u64(nulls));
}

// As dict_find, where slots are FIND_THREADS: what a thread block keeps of their values is made of the table, so between two barriers
// nobody writes it. A lane has FEW_ROWS rows at once.
extern "C" __global__ void __launch_bounds__(FIND_THREADS, RESIDENT_FEW) dict_find_few(const u64* table, u32 jobs) {
  __shared__ FindJob job;
  __shared__ uint4 heads[FEW_PLACES];
  __shared__ u32 tails[(FEW_WORDS - 2) * FEW_PLACES];
  __shared__ u64 bounds[2];
  const u32 in_job = load_job(table, jobs, job);
  if (threadIdx.x < 2)
    bounds[threadIdx.x] = job.chars + offset_at(job.offsets, job.wide != 0, threadIdx.x == 0 ? 0 : job.scope_rows);
  __syncthreads();
  const FewValues kept = {heads, tails};
  if (job.wide != 0)
    find_few_rows<u64>(job, in_job, kept, bounds);
  else
    find_few_rows<u32>(job, in_job, kept, bounds);
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

// ---- numbers by first appearance

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
