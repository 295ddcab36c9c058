// Fixed-width values: frame of reference or differences of neighbours, bit-packed by blocks of 1024 (docs/format.md, section 11).
// Compiled for values of ITEM_NBYTES = 1, 2, 4 or 8 bytes.
//
// A warp handles a block. A *row* is 32 vectors of 16 bytes, one a lane; a block has 1024 * ITEM_NBYTES / 512 rows, so every lane
// has 32 values, whose codes of `width` bits follow each other in `width` 32-bit words of the lane; word j of lane l is word
// 32 * j + l of the block:
//
//     values   row 0: | lane 0: VECTOR values | lane 1 | ... | lane 31 |     row 1: | lane 0 | ...
//     codes    word 0 of lane 0, of lane 1, ... of lane 31; word 1 of lane 0, ...
//
// So values and codes are read and written coalesced, with no shared memory, and the running sum over differences takes a warp scan
// for each row only (of 64 values of 8 bytes, 512 of 1 byte).
//
// Compression reads the values twice, because the result has its exact size: bitpack_measure, bitpack_scan, bitpack_pack.
// Where the values' address is no multiple of 16, or a block is not full, values are read and written one by one.
//
// On an H200, 268 MB of l_orderkey as int64 (12.4 times smaller): the call 1,299 GB/s, unpacking 2,806; of random bits 992 and 1,800.
// Values of one byte are bound by instructions: 607 and 2,100.
#include "common.cuh"

#if ITEM_NBYTES == 8
typedef u64 Value;
typedef u64 Number;  // what values are computed in
#else
#if ITEM_NBYTES == 4
typedef u32 Value;
#elif ITEM_NBYTES == 2
typedef u16 Value;
#else
typedef u8 Value;
#endif
typedef u32 Number;
#endif

#define BITS (8 * ITEM_NBYTES)
#define VECTOR (16 / ITEM_NBYTES)
#define ROW (32 * VECTOR)
#define ROWS (BITPACK_BLOCK / ROW)
#define THREADS (32 * BITPACK_WARPS)
#define SIGN (Number(1) << (BITS - 1))
#define LOW_BITS (Number(~Number(0)) >> (8 * sizeof(Number) - BITS))
// Rows whose values are read before any is used.
#define READ_ROWS (ROWS < 4 ? ROWS : 4)
// Rows whose codes are read before any is used.
#define UNPACK_ROWS (VECTOR < 8 ? 8 / VECTOR : 1)
#define NUMBERS (UNPACK_ROWS * VECTOR / MERGED)
// Neighbouring codes of a lane that are put or taken as one number: to put one takes a dozen instructions, however narrow it is.
#define MERGED (ITEM_NBYTES < 4 ? 4 / ITEM_NBYTES : 1)
// Thread blocks of bitpack_measure on a multiprocessor; with as few registers as 5 need, code for newer GPUs spills.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define MEASURE_BLOCKS 4
#else
#define MEASURE_BLOCKS 5
#endif
// In a block's kind, beside its width.
#define KIND_DELTA 128u

static_assert(BITPACK_BLOCK == 32 * 32, "a lane's codes fill whole words at every width");

__device__ __forceinline__ u32 bits_of(u64 x) { return 64 - __clzll(static_cast<long long>(x)); }
__device__ __forceinline__ u32 bits_of(u32 x) { return 32 - __clz(static_cast<int>(x)); }

__device__ __forceinline__ u32 component(const uint4& v, u32 i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// The lane's values of READ_ROWS rows from `row` on; past `count`, and only if not `fast`, zeros.
template <bool fast>
__device__ __forceinline__ void read_rows(const Value* values, u32 count, u32 row, Number (&x)[READ_ROWS][VECTOR]) {
  if (fast) {
    uint4 raw[READ_ROWS];
#pragma unroll
    for (u32 r = 0; r < READ_ROWS; ++r) raw[r] = reinterpret_cast<const uint4*>(values)[(row + r) * 32 + lane_id()];
#pragma unroll
    for (u32 r = 0; r < READ_ROWS; ++r)
#pragma unroll
      for (u32 v = 0; v < VECTOR; ++v) {
#if ITEM_NBYTES == 8
        x[r][v] = component(raw[r], 2 * v) | u64(component(raw[r], 2 * v + 1)) << 32;
#else
        x[r][v] = component(raw[r], v * ITEM_NBYTES / 4) >> (v * BITS % 32) & LOW_BITS;
#endif
      }
  } else {
#pragma unroll
    for (u32 r = 0; r < READ_ROWS; ++r)
#pragma unroll
      for (u32 v = 0; v < VECTOR; ++v) {
        const u32 i = (row + r) * ROW + lane_id() * VECTOR + v;
        x[r][v] = i < count ? values[i] : 0;
      }
  }
}

// What stands before the lane's first value of a row, of which `last` is the lane's last. `carry`: lane 0 keeps the row's last value.
__device__ __forceinline__ Number value_before(Number last, Number& carry) {
  const Number below = __shfl_sync(ALL_LANES, last, (lane_id() + 31) & 31);
  const Number before = lane_id() == 0 ? carry : below;
  carry = below;
  return before;
}

struct Range {
  Number low, high;

  __device__ __forceinline__ void add(Number x) {
    low = min(low, x);
    high = max(high, x);
  }
  __device__ __forceinline__ void reduce() {
    for (u32 delta = 16; delta > 0; delta /= 2) {
      low = min(low, __shfl_xor_sync(ALL_LANES, low, delta));
      high = max(high, __shfl_xor_sync(ALL_LANES, high, delta));
    }
  }
  __device__ __forceinline__ u32 width() const { return bits_of(high - low); }
};

// Values to measure: kinds, bases and slopes of all their blocks.
struct MeasureJob {
  u64 first;         // see find_job
  u64 values, rows;  // address, count
  u64 is_signed;
  u64 kinds, bases, slopes;  // addresses: u8, Value, Value of every block
};

// What is measured goes to the entries of block b.
template <bool fast>
__device__ __forceinline__ void measure_block(const Value* values, u32 count, const MeasureJob& job, u32 b) {
  const Number flip = Number(u32(job.is_signed)) << (BITS - 1);
  Range plain = {LOW_BITS, 0}, differences = {LOW_BITS, 0};  // ordered as unsigned numbers
  Number carry = 0, first = 0;
#pragma unroll 1
  for (u32 row = 0; row < ROWS; row += READ_ROWS) {
    Number x[READ_ROWS][VECTOR];
    read_rows<fast>(values, count, row, x);
    if (row == 0) {
      first = x[0][0];
      carry = 2 * x[0][0] - x[0][1];  // the first value has no difference: the second's instead
    }
#pragma unroll
    for (u32 r = 0; r < READ_ROWS; ++r) {
      Number before = value_before(x[r][VECTOR - 1], carry);
#pragma unroll
      for (u32 v = 0; v < VECTOR; ++v) {
        if (fast || (row + r) * ROW + lane_id() * VECTOR + v < count) plain.add(x[r][v] ^ flip);
        differences.add(((x[r][v] - before) ^ SIGN) & LOW_BITS);
        before = x[r][v];
      }
    }
  }
  plain.reduce();
  differences.reduce();
  if (lane_id() != 0) return;
  const bool delta = (fast || count == BITPACK_BLOCK) && differences.width() < plain.width();
  reinterpret_cast<u8*>(job.kinds)[b] = u8(delta ? differences.width() | KIND_DELTA : plain.width());
  reinterpret_cast<Value*>(job.bases)[b] = Value(delta ? first : plain.low ^ flip);
  reinterpret_cast<Value*>(job.slopes)[b] = Value(delta ? differences.low ^ SIGN : 0);
}

// kinds, bases and slopes of all blocks.
extern "C" __global__ void __launch_bounds__(THREADS, MEASURE_BLOCKS)
    bitpack_measure(const MeasureJob* jobs, u32 count_of_jobs) {
  __shared__ MeasureJob job;
  find_job(jobs, count_of_jobs, job);
  const u32 b = u32(blockIdx.x - job.first) * BITPACK_WARPS + threadIdx.x / 32;
  const u64 begin = u64(b) * BITPACK_BLOCK, rows = job.rows;
  if (begin >= rows) return;
  const Value* values = reinterpret_cast<const Value*>(job.values) + begin;
  const u32 count = u32(min(rows - begin, u64(BITPACK_BLOCK)));
  if (count == BITPACK_BLOCK && job.values % 16 == 0)
    measure_block<true>(values, count, job, b);
  else
    measure_block<false>(values, count, job, b);
}

// starts (without the last) from kinds, for streams of all item sizes; totals: units, whether a block has differences. grid: a
// thread block a job. Both arrays have room for a multiple of 16 entries.
extern "C" __global__ void __launch_bounds__(BITPACK_SCAN_THREADS, 1) bitpack_scan(const ScanJob* jobs) {
  const ScanJob& job = jobs[blockIdx.x];
  const u8* kinds = reinterpret_cast<const u8*>(job.sizes);
  u32* starts = reinterpret_cast<u32*>(job.starts);
  const u32 blocks = u32(job.count);
  __shared__ u32 warp_sums[BITPACK_SCAN_THREADS / 32];
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  u32 units = 0;
  bool delta = false;
  for (u32 base = 0; base < blocks; base += 16 * BITPACK_SCAN_THREADS) {
    const u32 first = base + 16 * threadIdx.x;
    u32 before[16], sum = 0, flags = 0;
    uint4 raw = {0, 0, 0, 0};
    if (first < blocks) raw = reinterpret_cast<const uint4*>(kinds)[first / 16];
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
      const u32 kind = first + i < blocks ? component(raw, i / 4) >> 8 * (i % 4) & 255 : 0;
      before[i] = sum;
      sum += kind & ~KIND_DELTA;
      flags |= (kind / KIND_DELTA) << i;
    }
    u32 inclusive = warp_inclusive_sum(sum);
    if (lane == 31) warp_sums[warp] = inclusive;
    __syncthreads();
    if (warp == 0) {
      const u32 own = lane < BITPACK_SCAN_THREADS / 32 ? warp_sums[lane] : 0;
      const u32 summed = warp_inclusive_sum(own);
      if (lane < BITPACK_SCAN_THREADS / 32) warp_sums[lane] = summed;
    }
    __syncthreads();
    const u32 start = units + (warp > 0 ? warp_sums[warp - 1] : 0) + inclusive - sum;
    if (first < blocks) {
#pragma unroll
      for (u32 i = 0; i < 16; i += 4) {
        u32 entry[4];
#pragma unroll
        for (u32 j = 0; j < 4; ++j) entry[j] = (start + before[i + j]) | (flags >> (i + j) & 1 ? BITPACK_DELTA : 0);
        reinterpret_cast<uint4*>(starts)[(first + i) / 4] = {entry[0], entry[1], entry[2], entry[3]};
      }
    }
    units += warp_sums[BITPACK_SCAN_THREADS / 32 - 1];
    delta |= flags != 0;
    __syncthreads();
  }
  delta = __syncthreads_or(delta);
  if (threadIdx.x != 0) return;
  u64* totals = reinterpret_cast<u64*>(job.totals);
  totals[0] = units;
  totals[1] = delta;
}

// Puts numbers of up to 32 bits, the same for all lanes, one after another in the lane's words.
struct Writer {
  u32* to;
  u64 waiting;
  u32 have;  // bits of `waiting`, fewer than 32 between two numbers

  __device__ __forceinline__ void put(u32 number, u32 width) {
    waiting |= u64(number) << have;
    have += width;
    if (have < 32) return;
    *to = u32(waiting);
    to += 32;
    waiting >>= 32;
    have -= 32;
  }
};

template <bool delta, bool wide, bool fast>
__device__ __forceinline__ void pack_block(const Value* values, u32 count, Number base, Number slope, u32 width,
                                           u32* words) {
  Writer writer = {words + lane_id(), 0, 0};
  Number carry = base - slope;  // so that the first code is 0
#pragma unroll 1
  for (u32 row = 0; row < ROWS; row += READ_ROWS) {
    Number x[READ_ROWS][VECTOR];
    read_rows<fast>(values, count, row, x);
#pragma unroll
    for (u32 r = 0; r < READ_ROWS; ++r) {
      Number before = delta ? value_before(x[r][VECTOR - 1], carry) + slope : base;
#pragma unroll
      for (u32 v = 0; v < VECTOR; ++v) {
        const Number code = (x[r][v] - before) & LOW_BITS;
        if (delta) before = x[r][v] + slope;
        x[r][v] = fast || (row + r) * ROW + lane_id() * VECTOR + v < count ? code : 0;
      }
#pragma unroll
      for (u32 v = 0; v < VECTOR; v += MERGED) {
        u32 number = u32(x[r][v]);
#pragma unroll
        for (u32 m = 1; m < MERGED; ++m) number |= u32(x[r][v + m]) << m * width;
        writer.put(number, wide ? 32 : MERGED * width);
        if (wide) writer.put(u32(u64(x[r][v]) >> 32), width - 32);
      }
    }
  }
}

template <bool fast>
__device__ __forceinline__ void pack_block(const Value* values, u32 count, Number base, Number slope, u32 kind,
                                           u32* words) {
  const u32 width = kind & ~KIND_DELTA;
  if (width == 0) return;
  const bool delta = kind >= KIND_DELTA;
  if (ITEM_NBYTES == 8 && width > 32) {
    if (delta)
      pack_block<true, true, fast>(values, count, base, slope, width, words);
    else
      pack_block<false, true, fast>(values, count, base, slope, width, words);
  } else {
    if (delta)
      pack_block<true, false, fast>(values, count, base, slope, width, words);
    else
      pack_block<false, false, fast>(values, count, base, slope, width, words);
  }
}

// Zeros from `end` to the next multiple of 16.
__device__ __forceinline__ void fill_gap(u8* meta, u64 end) {
  const u64 at = end + lane_id();
  if (at < (end + 15) / 16 * 16) meta[at] = 0;
}

// Values to pack. Their blocks are some or all of a stream's; all addresses are of the first one's entries.
struct PackJob {
  u64 first;                         // see find_job
  u64 values, rows;                  // address, count
  u64 kinds, bases, slopes, starts;  // addresses, as the kernels before left them
  u64 out_starts, out_bases;         // addresses, sections of meta
  u64 out_slopes;                    // the same, 0: there are none
  u64 codes;                         // address, of the stream's first block
  u64 end;                           // 0, or, where the stream's last block is among these, its units + 1
};

// Zeros from `end` to the next multiple of 16, in meta.
__device__ __forceinline__ void fill_gap(u64 end) {
  const u64 at = end + lane_id();
  if (at < (end + 15) / 16 * 16) *reinterpret_cast<u8*>(at) = 0;
}

// Writes meta and codes.
extern "C" __global__ void __launch_bounds__(THREADS) bitpack_pack(const PackJob* jobs, u32 count_of_jobs) {
  __shared__ PackJob job;
  find_job(jobs, count_of_jobs, job);
  const u64 b = (blockIdx.x - job.first) * BITPACK_WARPS + threadIdx.x / 32, begin = b * BITPACK_BLOCK, rows = job.rows;
  if (begin >= rows) return;
  const Value* values = reinterpret_cast<const Value*>(job.values);
  const u32 count = u32(min(rows - begin, u64(BITPACK_BLOCK)));
  const u32 kind = reinterpret_cast<const u8*>(job.kinds)[b], start = reinterpret_cast<const u32*>(job.starts)[b];
  const Value base = reinterpret_cast<const Value*>(job.bases)[b],
              slope = reinterpret_cast<const Value*>(job.slopes)[b];
  if (lane_id() == 0) {
    reinterpret_cast<u32*>(job.out_starts)[b] = start;
    reinterpret_cast<Value*>(job.out_bases)[b] = base;
    if (job.out_slopes != 0) reinterpret_cast<Value*>(job.out_slopes)[b] = slope;
  }
  if (job.end != 0 && begin + count == rows) {
    if (lane_id() == 0) reinterpret_cast<u32*>(job.out_starts)[b + 1] = u32(job.end - 1);
    fill_gap(job.out_starts + 4 * (b + 2));
    fill_gap(job.out_bases + ITEM_NBYTES * (b + 1));
    if (job.out_slopes != 0) fill_gap(job.out_slopes + ITEM_NBYTES * (b + 1));
  }
  u32* words = reinterpret_cast<u32*>(job.codes) + u64(start & ~BITPACK_DELTA) * 32;
  if (count == BITPACK_BLOCK && job.values % 16 == 0)
    pack_block<true>(values + begin, count, base, slope, kind, words);
  else
    pack_block<false>(values + begin, count, base, slope, kind, words);
}

// Numbers `first` to `first` + NUMBERS - 1 of the lane whose words begin at `words`, each MERGED codes of `width` bits. Where a
// number goes on in the word after its first, that is the first word of the number after it: one load a number, and no branch.
template <bool wide>
__device__ __forceinline__ void take_numbers(const u32* words, u32 width, u32 first, Number (&numbers)[NUMBERS]) {
  const u32 bits = MERGED * width;
  u32 low[NUMBERS + 1], middle[NUMBERS];
#pragma unroll
  for (u32 n = 0; n <= NUMBERS; ++n) {
    const u32 word = (first + n) * bits / 32;
    low[n] = width == 0 ? 0 : words[(n < NUMBERS ? word : min(word, width - 1)) * 32];
    if (wide && n < NUMBERS) middle[n] = words[(word + 1) * 32];
  }
#pragma unroll
  for (u32 n = 0; n < NUMBERS; ++n) {
    const u32 shift = (first + n) * bits % 32;
    if (!wide)
      numbers[n] = __funnelshift_r(low[n], low[n + 1], shift);
    else
      numbers[n] =
          Number(__funnelshift_r(low[n], middle[n], shift) | u64(__funnelshift_r(middle[n], low[n + 1], shift)) << 32);
  }
}

// `Sum` holds the sum of a row's codes.
template <typename Sum, bool delta, bool wide>
__device__ __forceinline__ void unpack_block(Value* values, u32 count, const u32* words, u32 width, Number base,
                                             Number slope, bool fast) {
  const u32 lane = lane_id();
  const Number mask = width == 0 ? 0 : Number(~Number(0)) >> (8 * sizeof(Number) - width);
  if (delta) base += slope * (lane * VECTOR);
#pragma unroll 1
  for (u32 row = 0; row < ROWS && row * ROW < count; row += UNPACK_ROWS) {
    Number x[UNPACK_ROWS][VECTOR];
    Sum inclusive[UNPACK_ROWS];
    Number numbers[NUMBERS];
    take_numbers<wide>(words + lane, width, row * VECTOR / MERGED, numbers);
#pragma unroll
    for (u32 r = 0; r < UNPACK_ROWS; ++r)
#pragma unroll
      for (u32 v = 0; v < VECTOR; ++v) x[r][v] = numbers[(r * VECTOR + v) / MERGED] >> v % MERGED * width & mask;
#pragma unroll
    for (u32 r = 0; r < UNPACK_ROWS; ++r) {
      if (delta) {
#pragma unroll
        for (u32 v = 1; v < VECTOR; ++v) x[r][v] += x[r][v - 1];
        inclusive[r] = warp_inclusive_sum(Sum(x[r][VECTOR - 1]));
      }
    }
#pragma unroll
    for (u32 r = 0; r < UNPACK_ROWS; ++r) {
      const Number before = delta ? base + Number(inclusive[r] - Sum(x[r][VECTOR - 1])) : base;
#pragma unroll
      for (u32 v = 0; v < VECTOR; ++v) x[r][v] += before + (delta ? slope * v : 0);
      if (delta) base += slope * ROW + Number(__shfl_sync(ALL_LANES, inclusive[r], 31));
      const u32 first = (row + r) * ROW + lane * VECTOR;
      if (fast) {
        u32 out[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
#if ITEM_NBYTES == 8
          out[i] = u32(x[r][i / 2] >> 32 * (i % 2));
#else
          out[i] = 0;
#pragma unroll
          for (u32 v = 0; v < VECTOR / 4; ++v) out[i] |= (x[r][i * (VECTOR / 4) + v] & LOW_BITS) << v * BITS;
#endif
        }
        *reinterpret_cast<uint4*>(values + first) = {out[0], out[1], out[2], out[3]};
      } else {
#pragma unroll
        for (u32 v = 0; v < VECTOR; ++v)
          if (first + v < count) values[first + v] = Value(x[r][v]);
      }
    }
  }
}

// meta and codes of a segment -> values. A warp decodes BITPACK_GROUP blocks, whose numbers it reads together. `units`: what codes
// has. Blocks that lie outside it, or have too many bits, are damaged: they are read as if their width were 0.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    bitpack_unpack(const u32* starts, const Value* bases, const Value* slopes, const u32* codes, u32 units,
                   Value* values, u64 rows) {
  const u64 first = (blockIdx.x * u64(BITPACK_WARPS) + threadIdx.x / 32) * BITPACK_GROUP;
  const u64 blocks = (rows + BITPACK_BLOCK - 1) / BITPACK_BLOCK;
  if (first >= blocks) return;
  const u64 mine = min(first + lane_id(), blocks);
  const u32 entry = starts[mine];
  Number base_of = 0, slope_of = 0;
  if (lane_id() < BITPACK_GROUP && mine < blocks) {
    base_of = bases[mine];
    if (slopes != nullptr) slope_of = slopes[mine];
  }
#pragma unroll 1
  for (u32 g = 0; g < BITPACK_GROUP && first + g < blocks; ++g) {
    const u32 kind = __shfl_sync(ALL_LANES, entry, g), next = __shfl_sync(ALL_LANES, entry, g + 1);
    const Number base = __shfl_sync(ALL_LANES, base_of, g), slope = __shfl_sync(ALL_LANES, slope_of, g);
    const u32 begin = kind & ~BITPACK_DELTA, end = next & ~BITPACK_DELTA;
    const u32 width = begin <= end && end <= units && end - begin <= BITS ? end - begin : 0;
    const u64 row = (first + g) * BITPACK_BLOCK;
    const u32 count = u32(min(rows - row, u64(BITPACK_BLOCK)));
    const u32* words = codes + u64(begin) * 32;
    Value* to = values + row;
    const bool fast = count == BITPACK_BLOCK && reinterpret_cast<u64>(values) % 16 == 0;
    if (kind < BITPACK_DELTA) {
      if (ITEM_NBYTES < 8 || width <= 32)
        unpack_block<u32, false, false>(to, count, words, width, base, slope, fast);
      else
        unpack_block<u32, false, true>(to, count, words, width, base, slope, fast);
    } else if (ITEM_NBYTES < 8 || width <= 26) {
      unpack_block<u32, true, false>(to, count, words, width, base, slope, fast);
    } else if (width <= 32) {
      unpack_block<Number, true, false>(to, count, words, width, base, slope, fast);
    } else {
      unpack_block<Number, true, true>(to, count, words, width, base, slope, fast);
    }
  }
}
