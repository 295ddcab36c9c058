// Fixed-width values: frame of reference or differences of neighbours, bit-packed by blocks of 1024 (docs/format.md, section 11).
// Compiled for values of ITEM_NBYTES = 1, 2, 4 or 8 bytes.
//
// Work unit: a warp handles a block. A *row* is 32 vectors of 16 bytes, one a lane; a block has 1024 * ITEM_NBYTES / 512 rows, so every lane
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
// On an H200, 268 MB of l_orderkey as int64 (12.4 times smaller): the call 1,299 GB/s, of random bits 992. Values of one byte are bound by
// instructions: 607. bitpack_read.cu has the way back.
#include "bitpack.cuh"

// Rows whose values are read before any is used.
#define READ_ROWS (ROWS < 4 ? ROWS : 4)
// Rows whose values are read before any is divided, which takes registers.
#define DIVIDED_ROWS (READ_ROWS > 2 ? 2 : 1)
// Thread blocks of bitpack_measure on a multiprocessor. With as few registers as 5 need, code for most other GPUs spills; with those of 4,
// that for the oldest. DIVIDE_BLOCKS: the same of bitpack_measure_divided.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define MEASURE_BLOCKS 5
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define MEASURE_BLOCKS 3
#else
#define MEASURE_BLOCKS 4
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900 && ITEM_NBYTES > 1
#define DIVIDE_BLOCKS 4
#else
#define DIVIDE_BLOCKS 3
#endif
// Thread blocks of bitpack_pack_divided on a multiprocessor.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900 && ITEM_NBYTES == 8
#define PACK_BLOCKS 5
#else
#define PACK_BLOCKS 1
#endif
// In a block's kind, beside its width. A width of 64 is never divided and a divided one never 0, so there is a bit for both.
#define KIND_DELTA 128u
#define KIND_DIVIDED 64u
// Bits of a Number above those of a value.
#define UPPER (8 * sizeof(Number) - BITS)

__device__ __forceinline__ u32 bits_of(u64 x) { return 64 - __clzll(static_cast<long long>(x)); }
__device__ __forceinline__ u32 bits_of(u32 x) { return 32 - __clz(static_cast<int>(x)); }

__device__ __forceinline__ u32 component(const uint4& v, u32 i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// The lane's values of R rows from `row` on; past `count`, and only if not `fast`, zeros.
template <bool fast, u32 R>
__device__ __forceinline__ void read_rows(const Value* values, u32 count, u32 row, Number (&x)[R][VECTOR]) {
  if (fast) {
    uint4 raw[R];
#pragma unroll
    for (u32 r = 0; r < R; ++r) raw[r] = reinterpret_cast<const uint4*>(values)[(row + r) * 32 + lane_id()];
#pragma unroll
    for (u32 r = 0; r < R; ++r)
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
    for (u32 r = 0; r < R; ++r)
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

// What division by an odd number is: multiplication by its inverse. Of what is no multiple it makes a large number.
__device__ __forceinline__ Number inverse_of(Number odd) {
  Number inverse = odd;  // right in 3 bits, and then in twice as many each time
#pragma unroll
  for (u32 bits = 3; bits < 8 * sizeof(Number); bits *= 2) inverse *= 2 - odd * inverse;
  return inverse;
}

__device__ __forceinline__ u32 trailing_zeros(u64 x) { return u32(__ffsll(static_cast<long long>(x))) - 1; }

__device__ __forceinline__ u32 width_of(u32 kind) {
  const u32 width = kind & ~KIND_DELTA;
  return width > KIND_DIVIDED ? width - KIND_DIVIDED : width;
}

#if ITEM_NBYTES == 8
__device__ __forceinline__ u64 shift_right_signed(u64 x, u32 n) { return u64(static_cast<long long>(x) >> n); }
// Whether range * divisor < 2^63.
__device__ __forceinline__ bool less_than_half(u64 range, u64 divisor) {
  return __umul64hi(range, divisor) == 0 && range * divisor < SIGN;
}
#else
__device__ __forceinline__ u32 shift_right_signed(u32 x, u32 n) { return u32(static_cast<i32>(x) >> n); }
__device__ __forceinline__ bool less_than_half(u32 range, u32 divisor) { return u64(range) * divisor < SIGN; }
#endif

struct MinMax {
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

#if ITEM_NBYTES == 8
#define SAMPLE_VALUES 16  // of a lane, that are read before any is used

// What tells multiples of a number from others. Of 0 there is one.
struct Multiples {
  u64 inverse, most;
  u32 shift;

  __device__ __forceinline__ explicit Multiples(u64 of) : inverse(1), most(0), shift(0) {
    if (of == 0) return;
    shift = trailing_zeros(of);
    inverse = inverse_of(of >> shift);
    most = ~u64(0) / of;
  }
  __device__ __forceinline__ bool has(u64 x) const {
    const u64 product = x * inverse;
    return (product >> shift | product << 1 << (63 - shift)) <= most;
  }
};

// Stein's algorithm: a division of 64 bits takes longer than a dozen of these steps.
__device__ __forceinline__ u64 greatest_common_divisor(u64 a, u64 b) {
  if (a == 0 || b == 0) return a | b;
  const u32 shift = trailing_zeros(a | b);
  a >>= trailing_zeros(a);
  while (b != 0) {
    b >>= trailing_zeros(b);
    const u64 less = min(a, b);
    b = max(a, b) - less;
    a = less;
  }
  return a << shift;
}

// Values `first` + lane and every 32nd after it; past `count`, the block's first.
template <typename T>
__device__ __forceinline__ void read_sample(u64 values, u32 first, u32 count, u64 (&x)[SAMPLE_VALUES]) {
#pragma unroll
  for (u32 k = 0; k < SAMPLE_VALUES; ++k) {
    const u32 i = first + 32 * k + lane_id();
    x[k] = reinterpret_cast<const T*>(values)[i < count ? i : 0];
  }
}

// Values on some of whose blocks a divisor is looked for.
struct DivisorJob {
  u64 values, rows, itemsize;  // address, count, bytes of a value
  u64 is_signed;
  u64 step;  // from one block that is looked at to the next, in blocks
  u64 out;   // address of the divisor
};

// The greatest common divisor of the differences in a block; 0: all values are equal. For whole warps.
__device__ __forceinline__ u64 common_divisor(const DivisorJob& job, u64 begin, u32 count) {
  const u64 values = job.values + begin * job.itemsize, flip = job.is_signed << (8 * u32(job.itemsize) - 1);
  u64 found = 0, start = 0;
#pragma unroll 1
  for (u32 i = 0; i < count && found != 1; i += 32 * SAMPLE_VALUES) {
    u64 x[SAMPLE_VALUES];
    if (job.itemsize == 8)
      read_sample<u64>(values, i, count, x);
    else if (job.itemsize == 4)
      read_sample<u32>(values, i, count, x);
    else if (job.itemsize == 2)
      read_sample<u16>(values, i, count, x);
    else
      read_sample<u8>(values, i, count, x);
    if (i == 0) start = __shfl_sync(ALL_LANES, x[0], 0) ^ flip;
#pragma unroll
    for (u32 k = 0; k < SAMPLE_VALUES; ++k) {
      const u64 key = x[k] ^ flip;
      x[k] = max(key, start) - min(key, start);
      if (job.itemsize == 8) x[k] = min(x[k], 0 - x[k]);  // low halves of negative numbers of 16 bytes
    }
    for (;;) {
      const Multiples multiples(found);
      u64 other = 0;
#pragma unroll
      for (u32 k = 0; k < SAMPLE_VALUES; ++k)
        if (!multiples.has(x[k])) other = x[k];
      const u32 lanes = __ballot_sync(ALL_LANES, other != 0);
      if (lanes == 0) break;
      found = greatest_common_divisor(__shfl_sync(ALL_LANES, other, __ffs(int(lanes)) - 1), found);
    }
  }
  return found;
}

// What the codes of each job's values may be divided by, or 1: what divides all blocks that are looked at, or one of them, whichever
// saves most bits there. That others may not be divided by it shows when they are measured. grid: a thread block a job, a warp a block
// of values.
extern "C" __global__ void __launch_bounds__(32 * BITPACK_SAMPLE) bitpack_divisor(const u64* table, u32 jobs) {
  __shared__ DivisorJob job;
  __shared__ u64 found[32];
  load_job(table, jobs, job);
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  const u64 begin = warp * job.step * BITPACK_BLOCK;
  const u64 common = begin < job.rows ? common_divisor(job, begin, u32(min(job.rows - begin, u64(BITPACK_BLOCK)))) : 0;
  if (lane == 0) found[warp] = common;
  __syncthreads();
  if (warp != 0) return;
  u64 candidate = lane < BITPACK_SAMPLE ? found[lane] : 0;
  const u32 varied = __popc(__ballot_sync(ALL_LANES, candidate != 0));
  u64 everything = candidate;
  if (__ballot_sync(ALL_LANES, candidate > 1) != 0)
    for (u32 delta = 16; delta > 0; delta /= 2)
      everything = greatest_common_divisor(everything, __shfl_xor_sync(ALL_LANES, everything, delta));
  // The last lane has the one that comes first.
  if (lane == 31) candidate = everything;
  u32 fits = 0;
  if (candidate > 1) {
    const Multiples multiples(candidate);
    for (u32 i = 0; i < BITPACK_SAMPLE; ++i) fits += found[i] != 0 && multiples.has(found[i]);
  }
  const u32 saved = 4 * fits >= varied ? fits * (bits_of(candidate) - 1) : 0;
  u32 best = candidate > 1 ? saved << 5 | (lane == 31 ? 31 : 30 - lane) : 0;
  const u32 own = best;
  for (u32 delta = 16; delta > 0; delta /= 2) best = max(best, __shfl_xor_sync(ALL_LANES, best, delta));
  const u32 winner = __ffs(int(__ballot_sync(ALL_LANES, own == best))) - 1;
  const u64 divisor = __shfl_sync(ALL_LANES, candidate, winner);
  if (lane == 0) *reinterpret_cast<u64*>(job.out) = best >> 5 != 0 ? divisor : 1;
}
#endif

// Values to measure: kinds, bases and slopes of all their blocks.
struct MeasureJob {
  u64 values, rows;  // address, count
  u64 is_signed;
  u64 kinds, bases, slopes;  // addresses: u8, Value, Value of every block
};

// Values to measure for which a divisor was looked for.
struct MeasureDividedJob : MeasureJob {
  u64 divisor;  // address of what bitpack_divisor found
};

// Least value and width of a block and of its differences, as values are read.
struct Measure {
  MinMax plain = {LOW_BITS, 0}, differences = {LOW_BITS, 0};  // ordered as unsigned numbers
  Number carry = 0;

  // What `of` makes of values of some rows, of which the first is number `i` of the block for this lane.
  template <bool fast, u32 R, typename Of>
  __device__ __forceinline__ void add(const Number (&x)[R][VECTOR], u32 i, u32 count, Number flip, Of of) {
#pragma unroll
    for (u32 r = 0; r < R; ++r) {
      Number before = value_before(of(x[r][VECTOR - 1]), carry);
#pragma unroll
      for (u32 v = 0; v < VECTOR; ++v) {
        const Number value = of(x[r][v]);
        if (fast || i + r * ROW + v < count) plain.add(value ^ flip);
        differences.add(((value - before) ^ SIGN) & LOW_BITS);
        before = value;
      }
    }
  }
};

// Writes the entries of block b; its width. `first`: its first value; `divisor`: not 1 where quotients of differences from that were
// measured.
template <bool fast>
__device__ __forceinline__ u32 put_entries(Measure& measure, Number first, Number flip, Number divisor, u32 count,
                                           const MeasureJob& job, u32 b) {
  MinMax &plain = measure.plain, &differences = measure.differences;
  plain.reduce();
  differences.reduce();
  const bool delta = (fast || count == BITPACK_BLOCK) && differences.width() < plain.width();
  const u32 width = delta ? differences.width() : plain.width();
  if (lane_id() == 0) {
    const bool divided = divisor != 1;
    const Number low = plain.low ^ flip;
    reinterpret_cast<u8*>(job.kinds)[b] =
        u8(width | (delta ? KIND_DELTA : 0) | (divided && width != 0 ? KIND_DIVIDED : 0));
    reinterpret_cast<Value*>(job.bases)[b] = Value(delta ? first : divided ? first + divisor * low : low);
    reinterpret_cast<Value*>(job.slopes)[b] = Value(delta ? divisor * (differences.low ^ SIGN) : 0);
  }
  return width;
}

// What is measured goes to the entries of block b; its width.
template <bool fast>
__device__ __forceinline__ u32 measure_block(const Value* values, u32 count, const MeasureJob& job, u32 b) {
  const Number flip = Number(u32(job.is_signed)) << (BITS - 1);
  Measure measure;
  Number first = 0;
#pragma unroll 1
  for (u32 row = 0; row < ROWS; row += READ_ROWS) {
    Number x[READ_ROWS][VECTOR];
    read_rows<fast>(values, count, row, x);
    if (row == 0) {
      first = x[0][0];
      measure.carry = 2 * x[0][0] - x[0][1];  // the first value has no difference: the second's instead
    }
    measure.add<fast>(x, row * ROW + lane_id() * VECTOR, count, flip, [](Number value) { return value; });
  }
  return put_entries<fast>(measure, first, flip, 1, count, job, b);
}

// The width of a divided block, whose quotients are those of the differences from its first value, as signed numbers. Returns 0 where it
// certainly needs less than undivided: all quotients are exact, and the values take less than half of all numbers; else the width, which
// has to be compared, or BITS where the block cannot be divided.
template <bool fast>
__device__ __forceinline__ u32 divide_block(const Value* values, u32 count, const MeasureJob& job, u32 b,
                                            Number divisor) {
  const u32 shift = trailing_zeros(divisor);
  const Number inverse = inverse_of(divisor >> shift);
  Measure measure;
  Number start, rests = 0;
  const auto quotient = [&](Number value) {
    const Number product = (value - start) * inverse << UPPER;
    rests |= product;
    return shift_right_signed(product, UPPER + shift) & LOW_BITS;
  };
  if (fast) {
#pragma unroll 1
    for (u32 row = 0; row < ROWS; row += DIVIDED_ROWS) {
      Number x[DIVIDED_ROWS][VECTOR];
      read_rows<true>(values, count, row, x);
      if (row == 0) {
        start = __shfl_sync(ALL_LANES, x[0][0], 0);
        measure.carry = 2 * quotient(x[0][0]) - quotient(x[0][1]);
      }
      measure.add<true>(x, 0, count, SIGN, quotient);
    }
  } else {
    start = values[0];
#pragma unroll 1
    for (u32 i = lane_id(); i < count; i += 32) {
      const Number value = quotient(values[i]);
      measure.plain.add(value ^ SIGN);
      if (i > 0) measure.differences.add(((value - quotient(values[i - 1])) ^ SIGN) & LOW_BITS);
    }
  }
  const bool rest = (rests >> UPPER & ((Number(1) << shift) - 1)) != 0;
  if (__ballot_sync(ALL_LANES, rest) != 0) return BITS;
  const u32 width = put_entries<fast>(measure, start, SIGN, divisor, count, job, b);
  return less_than_half(measure.plain.high - measure.plain.low, divisor) ? 0 : width;
}

// kinds, bases and slopes of all blocks.
extern "C" __global__ void __launch_bounds__(THREADS, MEASURE_BLOCKS) bitpack_measure(const u64* table, u32 jobs) {
  __shared__ MeasureJob job;
  const u32 in_job = load_job(table, jobs, job);
  const u32 b = in_job * BITPACK_WARPS + threadIdx.x / 32;
  const u64 begin = u64(b) * BITPACK_BLOCK, rows = job.rows;
  if (begin >= rows) return;
  const Value* values = reinterpret_cast<const Value*>(job.values) + begin;
  const u32 count = u32(min(rows - begin, u64(BITPACK_BLOCK)));
  if (count == BITPACK_BLOCK && job.values % 16 == 0)
    measure_block<true>(values, count, job, b);
  else
    measure_block<false>(values, count, job, b);
}

// bitpack_measure where a divisor was looked for: blocks are divided where that makes them smaller.
extern "C" __global__ void __launch_bounds__(THREADS, DIVIDE_BLOCKS)
    bitpack_measure_divided(const u64* table, u32 jobs) {
  __shared__ MeasureDividedJob job;
  const u32 in_job = load_job(table, jobs, job);
  const u32 b = in_job * BITPACK_WARPS + threadIdx.x / 32;
  const u64 begin = u64(b) * BITPACK_BLOCK, rows = job.rows;
  if (begin >= rows) return;
  const Value* values = reinterpret_cast<const Value*>(job.values) + begin;
  const u32 count = u32(min(rows - begin, u64(BITPACK_BLOCK)));
  const bool fast = count == BITPACK_BLOCK && job.values % 16 == 0;
  const Number divisor = Number(*reinterpret_cast<const u64*>(job.divisor));
  u32 found = BITS;
  if (divisor != 1)
    found =
        fast ? divide_block<true>(values, count, job, b, divisor) : divide_block<false>(values, count, job, b, divisor);
  if (found == 0) return;
  const u32 whole = fast ? measure_block<true>(values, count, job, b) : measure_block<false>(values, count, job, b);
  if (whole > found) divide_block<false>(values, count, job, b, divisor);
}

// starts (without the last) from kinds, for streams of all item sizes; totals: units, and whether a block has differences (1) or,
// only if `divides`, is divided (2). A thread block does a job. Both arrays have room for a multiple of 16 entries.
template <bool divides>
__device__ __forceinline__ void scan(const u64* table, u32 jobs) {
  const ScanJob& job = reinterpret_cast<const ScanJob*>(table + jobs)[blockIdx.x];
  const u8* kinds = reinterpret_cast<const u8*>(job.sizes);
  u32* starts = reinterpret_cast<u32*>(job.starts);
  const u32 blocks = u32(job.count);
  __shared__ u32 warp_sums[BITPACK_SCAN_THREADS / 32];
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  u32 units = 0;
  bool delta = false;
  u32 seen = 0;
  for (u32 base = 0; base < blocks; base += 16 * BITPACK_SCAN_THREADS) {
    const u32 first = base + 16 * threadIdx.x;
    u32 before[16], sum = 0, flags = 0;
    uint4 raw = {0, 0, 0, 0};
    if (first < blocks) raw = reinterpret_cast<const uint4*>(kinds)[first / 16];
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
      const u32 kind = first + i < blocks ? component(raw, i / 4) >> 8 * (i % 4) & 255 : 0;
      before[i] = sum;
      sum += divides ? width_of(kind) : kind & ~KIND_DELTA;
      flags |= (kind / KIND_DELTA) << i;
      if (divides) {
        before[i] |= (kind & KIND_DELTA ? BITPACK_DELTA : 0) | (kind % KIND_DELTA > KIND_DIVIDED ? BITPACK_DIVIDED : 0);
        seen |= before[i];
      }
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
        for (u32 j = 0; j < 4; ++j)
          entry[j] =
              divides ? start + before[i + j] : (start + before[i + j]) | (flags >> (i + j) & 1 ? BITPACK_DELTA : 0);
        reinterpret_cast<uint4*>(starts)[(first + i) / 4] = {entry[0], entry[1], entry[2], entry[3]};
      }
    }
    units += warp_sums[BITPACK_SCAN_THREADS / 32 - 1];
    delta |= divides ? (seen & BITPACK_DELTA) != 0 : flags != 0;
    __syncthreads();
  }
  delta = __syncthreads_or(delta);
  const bool divided = divides && __syncthreads_or((seen & BITPACK_DIVIDED) != 0);
  if (threadIdx.x != 0) return;
  u64* totals = reinterpret_cast<u64*>(job.totals);
  totals[0] = units;
  totals[1] = divides ? u32(delta) | u32(divided) << 1 : delta;
}

extern "C" __global__ void __launch_bounds__(BITPACK_SCAN_THREADS, 1) bitpack_scan(const u64* table, u32 jobs) {
  scan<false>(table, jobs);
}

extern "C" __global__ void __launch_bounds__(BITPACK_SCAN_THREADS, 1) bitpack_scan_divided(const u64* table, u32 jobs) {
  scan<true>(table, jobs);
}

// Puts numbers of up to 32 bits, the same for all lanes, one after another in the lane's words.
struct BitWriter {
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

// How codes are divided: multiplied by the inverse of the odd part, then shifted by the other.
struct Division {
  Number inverse;
  u32 shift;
  bool wanted;
  __device__ __forceinline__ Number operator()(Number code) const {
    return wanted ? (code * inverse & LOW_BITS) >> shift : code;
  }
};

// Where nothing is divided.
struct NoDivision {
  __device__ __forceinline__ Number operator()(Number code) const { return code; }
};

template <bool delta, bool wide, bool fast, typename Divide>
__device__ __forceinline__ void pack_block(const Value* values, u32 count, Number base, Number slope, u32 width,
                                           Divide divide, u32* words) {
  BitWriter writer = {words + lane_id(), 0, 0};
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
        const Number code = divide((x[r][v] - before) & LOW_BITS);
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

template <bool fast, typename Divide>
__device__ __forceinline__ void pack_block(const Value* values, u32 count, Number base, Number slope, u32 width,
                                           bool delta, Divide divide, u32* words) {
  if (width == 0) return;
  if (ITEM_NBYTES == 8 && width > 32) {
    if (delta)
      pack_block<true, true, fast>(values, count, base, slope, width, divide, words);
    else
      pack_block<false, true, fast>(values, count, base, slope, width, divide, words);
  } else {
    if (delta)
      pack_block<true, false, fast>(values, count, base, slope, width, divide, words);
    else
      pack_block<false, false, fast>(values, count, base, slope, width, divide, words);
  }
}

// Values to pack. Their blocks are some or all of a stream's; all addresses are of the first one's entries.
struct PackJob {
  u64 values, rows;                  // address, count
  u64 kinds, bases, slopes, starts;  // addresses, as the kernels before left them
  u64 out_starts, out_bases;         // addresses, sections of meta
  u64 out_slopes;                    // the same, 0: there are none
  u64 codes;                         // address, of the stream's first block
  u64 end;                           // 0, or, where the stream's last block is among these, its units + 1
};

// Values to pack of which some blocks are divided.
struct PackDividedJob : PackJob {
  u64 inverse, shift;  // of the divisor: of its odd part modulo 2^64, and how often it can be halved
};

// Zeros from `end` to the next multiple of 16, in meta.
__device__ __forceinline__ void fill_gap(u64 end) {
  const u64 at = end + lane_id();
  if (at < (end + 15) / 16 * 16) *reinterpret_cast<u8*>(at) = 0;
}

__device__ __forceinline__ NoDivision division_of(const PackJob&, u32) { return {}; }
__device__ __forceinline__ Division division_of(const PackDividedJob& job, u32 start) {
  return {Number(job.inverse), u32(job.shift), (start & BITPACK_DIVIDED) != 0};
}

// Writes meta and codes of the thread block's job. `divides`: whether blocks may be divided.
template <bool divides, typename UnpackJob>
__device__ __forceinline__ void pack(const UnpackJob& job, u32 in_job) {
  const u64 b = u64(in_job) * BITPACK_WARPS + threadIdx.x / 32, begin = b * BITPACK_BLOCK, rows = job.rows;
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
  const u32 place = divides ? start & BITPACK_PLACE : start & ~BITPACK_DELTA;
  const u32 width = divides ? width_of(kind) : kind & ~KIND_DELTA;
  const bool delta = kind >= KIND_DELTA;
  const auto divide = division_of(job, start);
  u32* words = reinterpret_cast<u32*>(job.codes) + u64(place) * 32;
  if (count == BITPACK_BLOCK && job.values % 16 == 0)
    pack_block<true>(values + begin, count, base, slope, width, delta, divide, words);
  else
    pack_block<false>(values + begin, count, base, slope, width, delta, divide, words);
}

extern "C" __global__ void __launch_bounds__(THREADS) bitpack_pack(const u64* table, u32 jobs) {
  __shared__ PackJob job;
  const u32 in_job = load_job(table, jobs, job);
  pack<false>(job, in_job);
}

extern "C" __global__ void __launch_bounds__(THREADS, PACK_BLOCKS) bitpack_pack_divided(const u64* table, u32 jobs) {
  __shared__ PackDividedJob job;
  const u32 in_job = load_job(table, jobs, job);
  pack<true>(job, in_job);
}
