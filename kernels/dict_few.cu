// Different values of strings, where they are few: as dict_find, in tables of as many slots as a thread block has threads.
//
// Work unit: a thread block keeps all short values of the table in shared memory, in words of 4 bytes; a lane has four rows at once, and 32
// rows that follow each other are read coalesced. The kernel is launched once to fill the table, and, where there was no room to keep the
// slot of every row, again to look them up. Rows of more than FIND_LONG bytes are left to dict_find_long.
//
// Bound: instructions and shared memory, not bytes, of which 0.14 ms would be enough. On an H200, 60 M rows by dict_find_few: l_shipmode
// 0.28 ms, l_shipinstruct 0.42, l_returnflag, of one byte a row, 0.27. Two that lost (docs/kernels.md has the others):
// - the way to the table inlined for each of a lane's rows, which makes 93 KB of code: 0.39 ms for l_shipmode, 0.52 for l_shipinstruct.
// - an earlier form, with keys in shared memory of the values that a block met first, a row a lane: 0.66, 0.83 and 0.65 ms.
#include "dict.cuh"
#include "dict_table.cuh"

// Thread blocks on a multiprocessor: code for other GPUs spills with the registers that are left then.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define RESIDENT_FEW FEW_BLOCKS
#else
#define RESIDENT_FEW 2
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
