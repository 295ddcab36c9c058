// bitpack: a NaN that floating point numbers have, and what stands for it in each block of 1024 (docs/format.md, section 24).
// Compiled for values of ITEM_NBYTES = 4 or 8 bytes.
//
// The kernels of bitpack.cu know nothing of it: before they pack, a block's NaN becomes the number above its others; when they have unpacked
// or taken values, those that equal it become the NaN again. So of columns without a NaN only the sample is read once more; those with one
// are read and written once more.
//
// Work unit: bitpack_find_nan and bitpack_stand_in: a warp a block of values; bitpack_put_nan and bitpack_take_nan: a thread a value. Bound:
// memory. Invariant: whatever the NaN and the stand-ins, nothing but the wanted values is touched.
//
// What lost: a bit for each value beside values that are filled as under nulls, 42 kB more of 554 for the minutes of 336,776 departures of which
// 2.5 % are missing; it wins where values rise steadily, for these have differences (201 kB of 534). A code of all ones in the kernels of
// bitpack.cu: as small, but a test of each value in what all columns are read by.
#include "bitpack.cuh"

#define NAN_ABOVE (ITEM_NBYTES == 8 ? Number(u64(0x7FF) << (BITS - 12)) : Number(u64(0xFF) << (BITS - 9)))  // infinity
#define NAN_NBYTES 16  // in front of the stand-ins
#define NAN_READ 8     // values of a lane that are read before any is used

// Of a block, the lane's values `first` and every 32nd after it; past `count`, zeros.
__device__ __forceinline__ void read_some(const Value* values, u32 first, u32 count, Number (&x)[NAN_READ]) {
#pragma unroll
  for (u32 k = 0; k < NAN_READ; ++k) x[k] = first + 32 * k < count ? values[first + 32 * k] : 0;
}

struct FindNanJob {
  u64 values, rows;  // address, count
  u64 least;         // address of a u64, 0 before: the complement of the least NaN, in as many bits as it has
};

// The least NaN of each job's values. grid: BITPACK_WARPS blocks of values a thread block.
extern "C" __global__ void __launch_bounds__(THREADS) bitpack_find_nan(const u64* table, u32 jobs) {
  __shared__ FindNanJob job;
  const u64 begin = (u64(load_job(table, jobs, job)) * BITPACK_WARPS + threadIdx.x / 32) * BITPACK_BLOCK;
  if (begin >= job.rows) return;
  const Value* values = reinterpret_cast<const Value*>(job.values) + begin;
  const u32 count = u32(min(job.rows - begin, u64(BITPACK_BLOCK)));
  Number found = 0;  // the largest complement
#pragma unroll 1
  for (u32 i = lane_id(); i < count; i += 32 * NAN_READ) {
    Number x[NAN_READ];
    read_some(values, i, count, x);
#pragma unroll
    for (u32 k = 0; k < NAN_READ; ++k)
      if ((x[k] & ~SIGN) > NAN_ABOVE) found = max(found, Number(~x[k]));
  }
  for (u32 delta = 16; delta > 0; delta /= 2) found = max(found, __shfl_xor_sync(ALL_LANES, found, delta));
  if (lane_id() == 0 && found != 0) atomicMax(reinterpret_cast<u64*>(job.least), u64(found));
}

struct StandInJob {
  u64 values, rows;  // address, count
  u64 bits;          // of the NaN
  u64 nan;           // address of where it goes, with the stand-ins of all blocks behind it, zeros before; 0: nowhere
  u64 first;         // number of the first block
};

// Puts stand-ins in the place of the NaN, and says which: of a block that has none, or nothing else, the NaN. grid: as bitpack_find_nan.
extern "C" __global__ void __launch_bounds__(THREADS) bitpack_stand_in(const u64* table, u32 jobs) {
  __shared__ StandInJob job;
  const u64 block = u64(load_job(table, jobs, job)) * BITPACK_WARPS + threadIdx.x / 32;
  const u64 begin = block * BITPACK_BLOCK;
  if (begin >= job.rows) return;
  Value* values = reinterpret_cast<Value*>(job.values) + begin;
  const u32 count = u32(min(job.rows - begin, u64(BITPACK_BLOCK)));
  const Number nan = Number(job.bits);
  Number most = 0, bits = 0;
  u32 found = 0;
#pragma unroll 1
  for (u32 i = lane_id(); i < count; i += 32 * NAN_READ) {
    Number x[NAN_READ];
    read_some(values, i, count, x);
#pragma unroll
    for (u32 k = 0; k < NAN_READ; ++k) {
      const bool is = x[k] == nan;
      found += is;
      most = max(most, is ? 0 : x[k]);
      bits |= is ? 0 : x[k];
    }
  }
  for (u32 delta = 16; delta > 0; delta /= 2) {
    most = max(most, __shfl_xor_sync(ALL_LANES, most, delta));
    bits |= __shfl_xor_sync(ALL_LANES, bits, delta);
    found += __shfl_xor_sync(ALL_LANES, found, delta);
  }
  const Number step = max(Number(bits & (~bits + 1)), Number(1));
  const Number stand_in = found > 0 && found < count && most <= LOW_BITS - step ? most + step : nan;
  if (job.nan != 0 && lane_id() == 0) {
    reinterpret_cast<Value*>(job.nan + NAN_NBYTES)[job.first + block] = Value(stand_in);
    if (job.first + block == 0) *reinterpret_cast<Value*>(job.nan) = Value(nan);
  }
  if (stand_in == nan) return;
  for (u32 i = lane_id(); i < count; i += 32)
    if (values[i] == Value(nan)) values[i] = Value(stand_in);
}

struct PutNanJob {
  u64 nan;  // address, of the NaN, behind which are stand-ins
  OutputRows output;
};

// A value, or the NaN where it is what stands for that in `block`.
__device__ __forceinline__ void put_nan(u64 nan, u64 block, Value* value) {
  if (*value == reinterpret_cast<const Value*>(nan + NAN_NBYTES)[block]) *value = *reinterpret_cast<const Value*>(nan);
}

// Segments, or ranges of them, that were unpacked. A thread a value.
extern "C" __global__ void __launch_bounds__(THREADS) bitpack_put_nan(const u64* table, u32 jobs) {
  const u32 number = find_job(table, jobs, blockIdx.x);
  const PutNanJob& job = reinterpret_cast<const PutNanJob*>(table + jobs)[number];
  const u64 i = (blockIdx.x - table[number]) * THREADS + threadIdx.x, row = job.output.begin + i;
  if (row >= job.output.end) return;
  put_nan(job.nan, row / BITPACK_BLOCK, reinterpret_cast<Value*>(job.output.values + i * job.output.stride));
}

// Rows of a column's part; `nan`: as that of PutNanJob, or 0.
struct NanPart {
  u64 nan;
  u64 first_row, rows;
};

// Rows by number that were taken, as bitpack_take has them.
extern "C" __global__ void __launch_bounds__(THREADS)
    bitpack_take_nan(const u64* table, u32 columns, u32 blocks, const u64* rows, u64 shift, u64 count) {
  const TakenColumn& column = reinterpret_cast<const TakenColumn*>(table)[blockIdx.x / blocks];
  const NanPart* parts = reinterpret_cast<const NanPart*>(reinterpret_cast<const TakenColumn*>(table) + columns);
  const u64 i = blockIdx.x % blocks * u64(THREADS) + threadIdx.x, row = row_of(rows, shift, i, count);
  const NanPart* part;
  if (i >= count || !find_part(parts + column.first_part, column.parts, row, part) || part->nan == 0) return;
  put_nan(part->nan, (row - part->first_row) / BITPACK_BLOCK,
          reinterpret_cast<Value*>(column.values + i * column.stride));
}
