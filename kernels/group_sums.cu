// Sums and least values of groups of rows: of few groups, whose numbers are known.
//
// Work unit: a thread takes every so many-th row. It has a place for each group in shared memory, which no other thread touches: so there are no
// atomics but those at the end, of each block and group. The floor is reading numbers and values once: of 60 M rows of 8 bytes 0.13 ms
// on an H200, where these kernels take 0.17. libcudf's group-by, which adds atomically, takes 6.2 for one sum and 12 for three.
//
// Rows are left out whose number is below 0, that are null, or that are NaN. `number_type`: how a value of `itemsize` bytes is read.
// Constants that host code needs too are compile options (cudf_fsst/codecs/group_sums/launch.py): GROUP_THREADS, GROUP_SIGNED,
// GROUP_UNSIGNED.
#include "common.cuh"

#define ROWS_AT_ONCE 4

typedef long long s64;

struct GroupValues {
  u64 values, validity;  // addresses; no validity: 0
  u32 number_type, itemsize;

  __device__ __forceinline__ bool is_there(u64 row) const { return validity == 0 || bit_at(validity, row); }
  __device__ __forceinline__ u64 integer(u64 row) const {
    switch (itemsize) {
      case 1:
        return number_type == GROUP_SIGNED ? u64(s64(load<signed char>(values + row))) : load<u8>(values + row);
      case 2:
        return number_type == GROUP_SIGNED ? u64(s64(load<short>(values + 2 * row))) : load<u16>(values + 2 * row);
      case 4:
        return number_type == GROUP_SIGNED ? u64(s64(load<i32>(values + 4 * row))) : load<u32>(values + 4 * row);
      default:
        return load<u64>(values + 8 * row);
    }
  }
  __device__ __forceinline__ double number(u64 row) const {
    if (number_type == GROUP_SIGNED) return double(s64(integer(row)));
    if (number_type == GROUP_UNSIGNED) return double(integer(row));
    return itemsize == 4 ? double(load<float>(values + 4 * row)) : load<double>(values + 8 * row);
  }
  __device__ __forceinline__ bool is_nan(u64 row) const {
    if (number_type == GROUP_SIGNED || number_type == GROUP_UNSIGNED) return false;
    const double value = number(row);
    return value != value;
  }
};

// What a thread has of a group.
template <typename T>
struct Places {
  T* values;
  u32* counts;
  u32 groups;

  __device__ __forceinline__ Places(u64* shared, u32 groups)
      : values(reinterpret_cast<T*>(shared)),
        counts(reinterpret_cast<u32*>(values + groups * GROUP_THREADS)),
        groups(groups) {}
  __device__ __forceinline__ void fill(T value) {
    for (u32 g = 0; g < groups; ++g) {
      values[g * GROUP_THREADS + threadIdx.x] = value;
      counts[g * GROUP_THREADS + threadIdx.x] = 0;
    }
  }
};

// Calls `see(row, number)` for the thread's rows, whose numbers are loaded some at a time.
template <typename See>
__device__ __forceinline__ void each_row(u64 numbers, u64 rows, const See& see) {
  const u64 step = u64(gridDim.x) * GROUP_THREADS;
  for (u64 first = u64(blockIdx.x) * GROUP_THREADS + threadIdx.x; first < rows; first += ROWS_AT_ONCE * step) {
    i32 group[ROWS_AT_ONCE];
#pragma unroll
    for (u32 k = 0; k < ROWS_AT_ONCE; ++k)
      group[k] = first + k * step < rows ? i32(load<signed char>(numbers + first + k * step)) : -1;
    see(first, step, group);
  }
}

// The block's part of each group, by `join` of the threads' parts; `put(group, value, count)` is called once for each.
template <typename T, typename Join, typename Put>
__device__ __forceinline__ void of_block(const Places<T>& places, const Join& join, const Put& put) {
  __syncthreads();
  for (u32 g = threadIdx.x / 32; g < places.groups; g += GROUP_THREADS / 32) {
    T value = places.values[g * GROUP_THREADS + lane_id()];
    u64 count = places.counts[g * GROUP_THREADS + lane_id()];
    for (u32 t = lane_id() + 32; t < GROUP_THREADS; t += 32) {
      value = join(value, places.values[g * GROUP_THREADS + t]);
      count += places.counts[g * GROUP_THREADS + t];
    }
    for (u32 delta = 16; delta > 0; delta /= 2) {
      value = join(value, __shfl_down_sync(ALL_LANES, value, delta));
      count += __shfl_down_sync(ALL_LANES, count, delta);
    }
    if (lane_id() == 0 && count > 0) put(g, value, count);
  }
}

// Sums of integers, modulo 2^64, and how many they are.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS)
    group_integers(u64 numbers, u64 rows, u64 values, u64 validity, u32 number_type, u32 itemsize, u32 groups,
                   u64* sums, u64* counts) {
  DYNAMIC_SHARED(u64, shared);
  const GroupValues column = {values, validity, number_type, itemsize};
  Places<u64> places(shared, groups);
  places.fill(0);
  each_row(numbers, rows, [&](u64 first, u64 step, const i32* group) {
    u64 found[ROWS_AT_ONCE];
    bool there[ROWS_AT_ONCE];
#pragma unroll
    for (u32 k = 0; k < ROWS_AT_ONCE; ++k) {
      there[k] = group[k] >= 0 && column.is_there(first + k * step);
      found[k] = there[k] ? column.integer(first + k * step) : 0;
    }
#pragma unroll
    for (u32 k = 0; k < ROWS_AT_ONCE; ++k)
      if (there[k]) {
        places.values[group[k] * GROUP_THREADS + threadIdx.x] += found[k];
        ++places.counts[group[k] * GROUP_THREADS + threadIdx.x];
      }
  });
  of_block(
      places, [](u64 a, u64 b) { return a + b; },
      [&](u32 g, u64 value, u64 count) {
        atomicAdd(sums + g, value);
        atomicAdd(counts + g, count);
      });
}

// Sums of numbers, or with `around` of the squares of their distances from a mean, and how many they are. `around`: the sums
// of the same rows, and behind them how many these are.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS)
    group_floats(u64 numbers, u64 rows, u64 values, u64 validity, u32 number_type, u32 itemsize, u32 groups,
                 double* sums, u64* counts, u64 around) {
  DYNAMIC_SHARED(u64, shared);
  const GroupValues column = {values, validity, number_type, itemsize};
  double* means = reinterpret_cast<double*>(shared);
  Places<double> places(shared + groups, groups);
  for (u32 g = threadIdx.x; g < groups; g += GROUP_THREADS)
    means[g] = around == 0 ? 0 : load<double>(around + 8 * g) / double(load<u64>(around + 8 * (groups + g)));
  places.fill(0);
  __syncthreads();
  each_row(numbers, rows, [&](u64 first, u64 step, const i32* group) {
    double found[ROWS_AT_ONCE];
    bool there[ROWS_AT_ONCE];
#pragma unroll
    for (u32 k = 0; k < ROWS_AT_ONCE; ++k) {
      there[k] = group[k] >= 0 && column.is_there(first + k * step);
      found[k] = there[k] ? column.number(first + k * step) : 0;
    }
#pragma unroll
    for (u32 k = 0; k < ROWS_AT_ONCE; ++k)
      if (there[k] && found[k] == found[k]) {
        const double value = found[k] - means[group[k]];
        places.values[group[k] * GROUP_THREADS + threadIdx.x] += around == 0 ? value : value * value;
        ++places.counts[group[k] * GROUP_THREADS + threadIdx.x];
      }
  });
  of_block(
      places, [](double a, double b) { return a + b; },
      [&](u32 g, double value, u64 count) {
        atomicAdd(sums + g, value);
        atomicAdd(counts + g, count);
      });
}

// A number's place among all of its type.
__device__ __forceinline__ u64 rank_of(const GroupValues& column, u64 row) {
  constexpr u64 top = 1ull << 63;
  if (column.number_type == GROUP_UNSIGNED) return column.integer(row);
  if (column.number_type == GROUP_SIGNED) return column.integer(row) ^ top;
  const double value = column.number(row);
  u64 bits;
  memcpy(&bits, &value, 8);
  return bits & top ? ~bits : bits | top;
}

// The greatest rank, or with `flip` of all bits the greatest of the ranks' complements, and how many there are.
extern "C" __global__ void __launch_bounds__(GROUP_THREADS)
    group_greatest(u64 numbers, u64 rows, u64 values, u64 validity, u32 number_type, u32 itemsize, u32 groups,
                   u64* greatest, u64* counts, u64 flip) {
  DYNAMIC_SHARED(u64, shared);
  const GroupValues column = {values, validity, number_type, itemsize};
  Places<u64> places(shared, groups);
  places.fill(0);
  each_row(numbers, rows, [&](u64 first, u64 step, const i32* group) {
#pragma unroll
    for (u32 k = 0; k < ROWS_AT_ONCE; ++k) {
      const u64 row = first + k * step;
      if (group[k] < 0 || !column.is_there(row) || column.is_nan(row)) continue;
      u64& best = places.values[group[k] * GROUP_THREADS + threadIdx.x];
      const u64 rank = rank_of(column, row) ^ flip;
      if (rank > best) best = rank;
      ++places.counts[group[k] * GROUP_THREADS + threadIdx.x];
    }
  });
  of_block(
      places, [](u64 a, u64 b) { return a > b ? a : b; },
      [&](u32 g, u64 value, u64 count) {
        atomicMax(greatest + g, value);
        atomicAdd(counts + g, count);
      });
}
