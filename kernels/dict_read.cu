// Numbers of values become strings, where dict_packed.cu does not write them: values may be long, and numbers need not be packed
// (docs/format.md, section 19). And what else reading rows of dictionaries needs.
//
//   dict_sums    bytes of the strings of every READ_TILE rows
//   dict_places  sums of what stands before each of them, and the total
//   dict_write   offsets
//   dict_chars   characters
//
// In dict_chars a warp has CHARS_STRETCH characters of the result, and looks for the row they begin in: so one row of a gigabyte is the
// work of as many warps as many short ones. Few strings are gathered by dict_gather alone.
#include "dict.cuh"

#define NO_CODE 0xffffffffu
// Thread blocks of dict_write on a multiprocessor: code for the oldest GPUs spills with the registers that are left for 4.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define WRITE_RESIDENT 3
#else
#define WRITE_RESIDENT 4
#endif

struct WriteJob {
  u64 codes, code_nbytes, rows;
  u64 validity, validity_offset;     // 0: no nulls
  u64 chars, offsets, wide, values;  // the dictionary: chars + its offsets, how many values
  u64 sums;                          // address of u64s, one for each tile, and the total
  u64 out_offsets, out_wide;         // of the first row
  u64 first_char;                    // what offsets begin with
  u64 out_chars, limit;              // address of the first row's, bytes that may be written there
  u64 last;                          // whether the last row's end is an offset too
  u64 blocks;
};

__device__ __forceinline__ u32 code_at(const WriteJob& job, u64 row) {
  return job.code_nbytes == 1   ? reinterpret_cast<const u8*>(job.codes)[row]
         : job.code_nbytes == 2 ? reinterpret_cast<const u16*>(job.codes)[row]
                                : reinterpret_cast<const u32*>(job.codes)[row];
}

// What threads need of a job for every row, in registers.
struct RowCodes {
  u64 codes, validity, validity_offset;
  u32 nbytes, rows, values;

  __device__ __forceinline__ explicit RowCodes(const WriteJob& job)
      : codes(job.codes),
        validity(job.validity),
        validity_offset(job.validity_offset),
        nbytes(u32(job.code_nbytes)),
        rows(u32(job.rows)),
        values(u32(job.values)) {}

  // The codes of a thread's rows, from `row` on; of rows that are not there and of nulls NO_CODE.
  __device__ __forceinline__ void read(u32 row, u32 (&found)[READ_ROWS]) const {
    const u64 at = codes + u64(row) * nbytes;
    if (row + READ_ROWS <= rows && at % 16 % (READ_ROWS * nbytes) == 0) {
      if (nbytes == 1) {
        const uint2 raw = *reinterpret_cast<const uint2*>(at);
#pragma unroll
        for (u32 i = 0; i < READ_ROWS; ++i) found[i] = (i < 4 ? raw.x : raw.y) >> 8 * (i % 4) & 0xff;
      } else if (nbytes == 2) {
        const uint4 raw = *reinterpret_cast<const uint4*>(at);
        const u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (u32 i = 0; i < READ_ROWS; ++i) found[i] = words[i / 2] >> 16 * (i % 2) & 0xffff;
      } else {
#pragma unroll
        for (u32 i = 0; i < READ_ROWS; i += 4) {
          const uint4 raw = reinterpret_cast<const uint4*>(at)[i / 4];
          found[i] = raw.x, found[i + 1] = raw.y, found[i + 2] = raw.z, found[i + 3] = raw.w;
        }
      }
    } else {
#pragma unroll
      for (u32 i = 0; i < READ_ROWS; ++i) {
        found[i] = NO_CODE;
        if (row < rows && i < rows - row)
          found[i] = nbytes == 1   ? reinterpret_cast<const u8*>(at)[i]
                     : nbytes == 2 ? reinterpret_cast<const u16*>(at)[i]
                                   : reinterpret_cast<const u32*>(at)[i];
      }
    }
#pragma unroll
    for (u32 i = 0; i < READ_ROWS; ++i)
      if (found[i] >= values) found[i] = NO_CODE;
    if (validity == 0) return;
#pragma unroll
    for (u32 i = 0; i < READ_ROWS; ++i)
      if (row < rows && i < rows - row && !bit_at(validity, validity_offset + row + i)) found[i] = NO_CODE;
  }
};

// ValueLengths of the first values in shared memory, for all threads.
struct ValueLengths {
  const u32* near;
  bool wide;
  u64 offsets;
  u32 kept;

  __device__ __forceinline__ ValueLengths(const WriteJob& job, u32* shared)
      : near(shared), wide(job.wide != 0), offsets(job.offsets), kept(u32(min(job.values, u64(READ_KEPT)))) {
    for (u32 i = threadIdx.x; i < kept; i += blockDim.x) {
      const u64 length = far(i);
      shared[i] = length > 0xffffffffu ? 0xffffffffu : u32(length);
    }
    __syncthreads();
  }
  __device__ __forceinline__ u64 far(u32 code) const {
    return offset_at(offsets, wide, u64(code) + 1) - offset_at(offsets, wide, code);
  }
  __device__ __forceinline__ u64 of(u32 code) const {
    if (code < kept && near[code] != 0xffffffffu) return near[code];
    return code == NO_CODE ? 0 : far(code);
  }
};

// `sums` are zeros. A warp's rows lie in one tile.
extern "C" __global__ void __launch_bounds__(READ_THREADS) dict_sums(const u64* table, u32 jobs) {
  __shared__ WriteJob job;
  __shared__ u32 near[READ_KEPT];
  const u32 in_job = load_job(table, jobs, job);
  const ValueLengths lengths(job, near);
  const RowCodes rows(job);
  u64* sums = reinterpret_cast<u64*>(job.sums);
  const u32 step = u32(job.blocks) * READ_THREADS * READ_ROWS;
  for (u32 row = (in_job * READ_THREADS + threadIdx.x) * READ_ROWS; row - lane_id() * READ_ROWS < rows.rows;
       row += step) {
    u32 codes[READ_ROWS];
    rows.read(row, codes);
    u64 sum = 0;
#pragma unroll
    for (u32 i = 0; i < READ_ROWS; ++i) sum += lengths.of(codes[i]);
    for (u32 delta = 16; delta > 0; delta /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, delta);
    if (lane_id() == 0) atomicAdd(sums + row / READ_TILE, sum);
  }
}

// A thread block has a job, and a warp some of the tiles.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS, 1) dict_places(const u64* table, u32 jobs) {
  __shared__ WriteJob job;
  load_job(table, jobs, job);
  const u32 tiles = (u32(job.rows) + READ_TILE - 1) / READ_TILE, warps = SCAN_THREADS / 32;
  const u32 each = (tiles + warps - 1) / warps, begin = min(each * (threadIdx.x / 32), tiles);
  const u32 end = min(begin + each, tiles);
  u64* sums = reinterpret_cast<u64*>(job.sums);
  u64 own = 0, total;
#pragma unroll 4
  for (u32 i = begin + lane_id(); i < end; i += 32) own += sums[i];
  u64 at = __shfl_sync(ALL_LANES, block_sum_before<SCAN_THREADS>(own, &total), 0);
  for (u32 i = begin; i < end; i += 32) {
    const u64 sum = i + lane_id() < end ? sums[i + lane_id()] : 0;
    const u64 inclusive = warp_inclusive_sum(sum);
    if (i + lane_id() < end) sums[i + lane_id()] = at + inclusive - sum;
    at += __shfl_sync(ALL_LANES, inclusive, 31);
  }
  if (threadIdx.x == 0) sums[tiles] = total;
}

extern "C" __global__ void __launch_bounds__(READ_THREADS, WRITE_RESIDENT) dict_write(const u64* table, u32 jobs) {
  __shared__ WriteJob job;
  __shared__ u32 near[READ_KEPT];
  const u32 in_job = load_job(table, jobs, job);
  const ValueLengths lengths(job, near);
  const RowCodes rows(job);
  const bool wide = job.out_wide != 0;
  const u32 tiles = (rows.rows + READ_TILE - 1) / READ_TILE;
#pragma unroll 1
  for (u32 tile = in_job; tile < tiles; tile += u32(job.blocks)) {
    u64 base = reinterpret_cast<const u64*>(job.sums)[tile];
#pragma unroll 1
    for (u32 first = tile * READ_TILE; first < min(rows.rows, (tile + 1) * READ_TILE);
         first += READ_THREADS * READ_ROWS) {
      const u32 row = first + threadIdx.x * READ_ROWS;
      u32 codes[READ_ROWS];
      rows.read(row, codes);
      u64 sum = 0, total;
#pragma unroll
      for (u32 i = 0; i < READ_ROWS; ++i) sum += lengths.of(codes[i]);
      u64 at = job.first_char + base + block_sum_before<READ_THREADS>(sum, &total);
      base += total;
      if (row >= rows.rows) continue;
      const u64 to = job.out_offsets + u64(row) * (wide ? 8 : 4);
#pragma unroll
      for (u32 i = 0; i < READ_ROWS; ++i) {
        if (i >= rows.rows - row) continue;
        if (wide)
          reinterpret_cast<u64*>(to)[i] = at;
        else
          reinterpret_cast<u32*>(to)[i] = u32(at);
        at += lengths.of(codes[i]);
      }
      if (job.last == 0 || row + READ_ROWS < rows.rows) continue;
      if (wide)  // the thread of the last row
        reinterpret_cast<u64*>(job.out_offsets)[rows.rows] = at;
      else
        reinterpret_cast<u32*>(job.out_offsets)[rows.rows] = u32(at);
    }
  }
}

// A warp has CHARS_STRETCH characters at a time.
extern "C" __global__ void __launch_bounds__(READ_THREADS, 3) dict_chars(const u64* table, u32 jobs) {
  __shared__ WriteJob job;
  const u64 in_job = load_job(table, jobs, job);
  const u64 tiles = (job.rows + READ_TILE - 1) / READ_TILE;
  const u64* sums = reinterpret_cast<const u64*>(job.sums);
  const u64 first = sums[0], chars = min(sums[tiles], job.limit);
  const bool wide = job.out_wide != 0, from_wide = job.wide != 0;
  const u64 step = job.blocks * (READ_THREADS / 32) * CHARS_STRETCH;
  for (u64 begin = first + (in_job * (READ_THREADS / 32) + threadIdx.x / 32) * CHARS_STRETCH; begin < chars;
       begin += step) {
    const u64 end = min(begin + CHARS_STRETCH, chars);
    const auto begins_before = [&](u64 row) { return offset_at(job.out_offsets, wide, row) - job.first_char <= begin; };
    for (u64 base = warp_last_that(u64(0), job.rows, begins_before); base < job.rows; base += 32) {
      const u64 row = base + lane_id();
      u64 at = end, from = 0,
          length = 0;  // each lane looks for a row's characters, so none waits for those of the row before
      if (row < job.rows) at = offset_at(job.out_offsets, wide, row) - job.first_char;
      if (at < end) {
        const u32 code = code_at(job, row);
        if (code < job.values && (job.validity == 0 || bit_at(job.validity, job.validity_offset + row))) {
          from = offset_at(job.offsets, from_wide, code);
          length = offset_at(job.offsets, from_wide, u64(code) + 1) - from;
        }
      }
      const u32 count = __popc(__ballot_sync(ALL_LANES, at < end));
      for (u32 k = 0; k < count; ++k) {
        const u64 to = __shfl_sync(ALL_LANES, at, k), source = job.chars + __shfl_sync(ALL_LANES, from, k);
        const u64 stop = min(end, to + __shfl_sync(ALL_LANES, length, k));
        for (u64 i = max(to, begin) + lane_id(); i < stop; i += 32)
          reinterpret_cast<u8*>(job.out_chars)[i] = reinterpret_cast<const u8*>(source)[i - to];
      }
      if (count < 32) break;
    }
  }
}

// ---- few strings by row number

struct GatherStringsJob {
  u64 chars, offsets, wide;    // strings: chars + offsets
  u64 rows, count;             // address of u32s, which rows; how many
  u64 out_offsets, out_chars;  // addresses: u32s, one more than rows; bytes, as many as they have
};

// Strings of fewer than 2^32 bytes together, one after another. A thread block has a job: for so few that launches cost more.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS, 1) dict_gather(const u64* table, u32 jobs) {
  __shared__ GatherStringsJob job;
  load_job(table, jobs, job);
  const bool wide = job.wide != 0;
  const u32* rows = reinterpret_cast<const u32*>(job.rows);
  u32* out = reinterpret_cast<u32*>(job.out_offsets);
  u32 before = 0;
  for (u32 base = 0; base < job.count; base += SCAN_THREADS) {
    const u32 i = base + threadIdx.x;
    u32 nbytes = 0, total;
    if (i < job.count)
      nbytes = u32(offset_at(job.offsets, wide, u64(rows[i]) + 1) - offset_at(job.offsets, wide, rows[i]));
    const u32 at = before + block_sum_before<SCAN_THREADS>(nbytes, &total);
    if (i < job.count) out[i] = at;
    before += total;
  }
  if (threadIdx.x == 0) out[job.count] = before;
  __syncthreads();
  for (u32 i = threadIdx.x / 32; i < job.count; i += SCAN_THREADS / 32) {
    const u64 from = job.chars + offset_at(job.offsets, wide, rows[i]);
    const u32 begin = out[i], nbytes = out[i + 1] - begin;
    for (u32 b = lane_id(); b < nbytes; b += 32)
      reinterpret_cast<u8*>(job.out_chars)[begin + b] = reinterpret_cast<const u8*>(from)[b];
  }
}

// ---- what reading needs beside that

struct LongestJob {
  u64 offsets, wide, rows;
  u64 longest;  // address of a u64, 0
  u64 blocks;
};

// Bytes of the longest row.
extern "C" __global__ void __launch_bounds__(READ_THREADS) dict_longest(const u64* table, u32 jobs) {
  __shared__ LongestJob job;
  const u64 in_job = load_job(table, jobs, job);
  u64 longest = 0;
  for (u64 i = in_job * READ_THREADS + threadIdx.x; i < job.rows; i += job.blocks * READ_THREADS)
    longest = max(longest, offset_at(job.offsets, job.wide != 0, i + 1) - offset_at(job.offsets, job.wide != 0, i));
  for (u32 delta = 16; delta > 0; delta /= 2) longest = max(longest, __shfl_xor_sync(ALL_LANES, longest, delta));
  if (lane_id() == 0) atomicMax(reinterpret_cast<u64*>(job.longest), longest);
}

// Offsets of strings that go behind others. A thread has one.
extern "C" __global__ void __launch_bounds__(READ_THREADS)
    dict_shift(u64 offsets, u64 nbytes, u64 count, u64 first, u64 out, u64 out_nbytes) {
  const u64 i = blockIdx.x * u64(READ_THREADS) + threadIdx.x;
  if (i >= count) return;
  const u64 at = offset_at(offsets, nbytes == 8, i) - offset_at(offsets, nbytes == 8, 0) + first;
  if (out_nbytes == 8)
    reinterpret_cast<u64*>(out)[i] = at;
  else
    reinterpret_cast<u32*>(out)[i] = u32(at);
}

struct BitsJob {
  u64 source, bits;  // address of a bitmap, 0: all are 1; how many
  u64 to, to_bit;    // address, of zeros; where the first one goes
};

// Puts a bitmap behind another one. A thread has a word of the result.
extern "C" __global__ void __launch_bounds__(READ_THREADS) dict_bits(const u64* table, u32 jobs) {
  __shared__ BitsJob job;
  const u64 word = u64(load_job(table, jobs, job)) * READ_THREADS + threadIdx.x + job.to_bit / 32;
  const u64 end = job.to_bit + job.bits;
  if (32 * word >= end) return;
  u32 made = 0;
  for (u32 b = 0; b < 32; ++b) {
    const u64 bit = 32 * word + b;
    if (bit >= job.to_bit && bit < end && (job.source == 0 || bit_at(job.source, bit - job.to_bit))) made |= 1u << b;
  }
  if (made != 0) atomicOr(reinterpret_cast<u32*>(job.to) + word, made);
}

// A scope of a column whose rows are taken.
struct ScopeRows {
  u64 first_row, rows;
  u64 first;               // of its rows, or of its values, in the column that both are rows of
  u64 codes, code_nbytes;  // address of the codes of the rows that are taken; 0: it has no dictionary
  u64 values;              // codes are below
  u64 validity;            // bitmap of the same rows, 0: no nulls
};

// Row numbers of a column of strings with dictionaries become those of a column that has the values of its dictionaries, its other rows
// and, at `null_row`, a null. A thread has a row.
extern "C" __global__ void __launch_bounds__(READ_THREADS)
    dict_rows(const u64* table, u32 scopes, const u64* rows, u64 count, u64 null_row, u64* out) {
  const ScopeRows* every = reinterpret_cast<const ScopeRows*>(table);
  const u64 i = blockIdx.x * u64(READ_THREADS) + threadIdx.x;
  if (i >= count) return;
  const ScopeRows* scope;
  const u64 row = rows[i];
  find_part(every, scopes, row, scope);
  u64 found;
  if (scope->codes == 0) {
    found = scope->first + row - scope->first_row;
  } else if (scope->validity != 0 && !bit_at(scope->validity, i)) {
    found = null_row;
  } else {
    const u64 code = scope->code_nbytes == 1   ? reinterpret_cast<const u8*>(scope->codes)[i]
                     : scope->code_nbytes == 2 ? reinterpret_cast<const u16*>(scope->codes)[i]
                                               : reinterpret_cast<const u32*>(scope->codes)[i];
    found = code < scope->values ? scope->first + code : scope->first;
  }
  out[i] = found;
}

// ---- answers and other numbers by code

struct MapJob {
  u64 codes, code_nbytes, rows;
  u64 map, values;       // address of answers, how many: codes that are not below get the first one
  u64 out, item_nbytes;  // address; of an answer: 1, 2, 4 or 8
  u64 blocks;
};

template <typename Item>
__device__ __forceinline__ void map_codes(const MapJob& job, u64 in_job, u64* shared) {
  const Item* map = reinterpret_cast<const Item*>(job.map);
  Item* near = reinterpret_cast<Item*>(shared);
  const bool kept = job.values * sizeof(Item) <= 8 * READ_KEPT;
  if (kept) {
    for (u32 i = threadIdx.x; i < job.values; i += READ_THREADS) near[i] = map[i];
    __syncthreads();
  }
  const auto answer = [&](u32 code) {
    if (code >= job.values) code = 0;
    return kept ? near[code] : map[code];
  };
  Item* out = reinterpret_cast<Item*>(job.out);
  const u64 step = job.blocks * READ_THREADS;
  u64 done = 0;
  if (sizeof(Item) == 1 && job.code_nbytes == 1 && (job.codes | job.out) % 16 == 0) {
    done = job.rows / 16 * 16;
    for (u64 i = in_job * READ_THREADS + threadIdx.x; i < done / 16; i += step) {
      const uint4 raw = reinterpret_cast<const uint4*>(job.codes)[i];
      const u32 in[4] = {raw.x, raw.y, raw.z, raw.w};
      u32 made[4];
#pragma unroll
      for (u32 w = 0; w < 4; ++w) {
        made[w] = 0;
#pragma unroll
        for (u32 b = 0; b < 32; b += 8) made[w] |= u32(u8(answer(in[w] >> b & 255))) << b;
      }
      reinterpret_cast<uint4*>(job.out)[i] = {made[0], made[1], made[2], made[3]};
    }
  }
  for (u64 i = done + in_job * READ_THREADS + threadIdx.x; i < job.rows; i += step) {
    const u32 code = job.code_nbytes == 1   ? reinterpret_cast<const u8*>(job.codes)[i]
                     : job.code_nbytes == 2 ? reinterpret_cast<const u16*>(job.codes)[i]
                                            : reinterpret_cast<const u32*>(job.codes)[i];
    out[i] = answer(code);
  }
}

extern "C" __global__ void __launch_bounds__(READ_THREADS, 4) dict_map(const u64* table, u32 jobs) {
  __shared__ MapJob job;
  __shared__ u64 shared[READ_KEPT];
  const u64 in_job = load_job(table, jobs, job);
  if (job.item_nbytes == 1)
    map_codes<u8>(job, in_job, shared);
  else if (job.item_nbytes == 2)
    map_codes<u16>(job, in_job, shared);
  else if (job.item_nbytes == 4)
    map_codes<u32>(job, in_job, shared);
  else
    map_codes<u64>(job, in_job, shared);
}
