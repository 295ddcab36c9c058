// Fixed-width values before they are compressed and after: what all codecs of values share.
//
//   gather_values    values of a stream, or of its sample, one after another; rows that are null get the value before them
//   place_halves     halves of numbers of 16 bytes to where these have them
//   take_plain(_bits)  rows by number of values, or bits, that lie there as they are
//   mark_chunks      which chunks have some of the rows
//   list_*           offsets of lists <-> where lists begin and how long they are
//
// Work unit: in gather_values a warp has FILL_BLOCK = 1024 rows, with all loads of a lane under way before the first is used; in all
// others a thread has a row. Bound: memory; every value is read once and written once.
//
// Invariant: rows that no part has are left out, and damaged lists have none of the values that there are not.
#include "jobs.cuh"

#define FILL_WORDS (FILL_BLOCK / 32)
#define COPY_WORDS 8

// The bits of rows 32 * word .. + 31 of a validity bitmap whose row 0 is bit `offset`; rows past the last are null.
__device__ __forceinline__ u32 validity_word(const u32* validity, u64 offset, u64 word, u64 rows) {
  const u64 first = offset + 32 * word, last = offset + rows - 1;
  if (32 * word >= rows) return 0;
  u32 bits = validity[first / 32] >> (first % 32);
  if (first % 32 != 0 && first / 32 < last / 32) bits |= validity[first / 32 + 1] << (32 - first % 32);
  const u64 left = rows - 32 * word;
  return left < 32 ? bits & ((1u << left) - 1) : bits;
}

// What is put together: values of a stream, or of runs of it at equal distances, one after another.
struct GatherJob {
  u64 source, out;                // addresses: of row 0, and of where the first row goes
  u64 rows;                       // of the stream, from `source` on
  u64 itemsize;                   // bytes of a value; 0: a bitmap, of which a row is a byte
  u64 stride;                     // distance of two rows in `source`, in values: 1, or 2 for a half of each
  u64 blocks;                     // of FILL_BLOCK rows, of all runs
  u64 run_blocks, step;           // blocks of a run, and rows from the start of one run to that of the next
  u64 validity, validity_offset;  // address of the bitmap of values that are no nulls, or 0; bit of row 0
};

// Rows of a block without nulls.
template <typename T>
__device__ __forceinline__ void copy(const T* from, u64 stride, u32 count, T* out) {
#pragma unroll 1
  for (u32 begin = lane_id(); begin < count; begin += 32 * COPY_WORDS) {
    T x[COPY_WORDS];  // all loads under way before the first is used
#pragma unroll
    for (u32 k = 0; k < COPY_WORDS; ++k)
      if (begin + 32 * k < count) x[k] = from[(begin + 32 * k) * stride];
#pragma unroll
    for (u32 k = 0; k < COPY_WORDS; ++k)
      if (begin + 32 * k < count) out[begin + 32 * k] = x[k];
  }
}

// A null gets the value of the last row before it that is none, in each FILL_BLOCK rows by themselves; before the first such
// row, that row's; without any, 0 (docs/format.md, section 15). Lane i holds the bits of rows 32 * i and up, so FILL_BLOCK is 1024.
template <typename T>
__device__ __forceinline__ void fill(const T* from, u64 stride, u32 bits, u32 count, T* out) {
  const u32 lane = lane_id();
  const u32 some = __ballot_sync(ALL_LANES, bits != 0);
  for (u32 word = 0; word < FILL_WORDS; ++word) {
    const u32 here = __shfl_sync(ALL_LANES, bits, word);
    const u32 before = some & ((1u << word) - 1);
    // The word that holds the source, for rows before the first valid one of this word.
    const u32 earlier = before ? 31 - __clz(before) : 0;
    const u32 later = some ? __ffs(some) - 1 : 0;
    const u32 earlier_bits = __shfl_sync(ALL_LANES, bits, earlier);
    const u32 later_bits = __shfl_sync(ALL_LANES, bits, later);
    const u32 row = 32 * word + lane;
    if (row >= count) continue;
    const u32 upto = here & (lane == 31 ? ALL_LANES : (2u << lane) - 1);
    u32 source = 0;
    if (upto)
      source = 32 * word + 31 - __clz(upto);
    else if (before)
      source = 32 * earlier + 31 - __clz(earlier_bits);
    else if (some)
      source = 32 * later + __ffs(later_bits) - 1;
    out[row] = some ? from[source * stride] : T(0);
  }
}

template <typename T>
__device__ __forceinline__ void gather(const GatherJob& job, u64 block, u64 begin, u32 count) {
  const T* from = reinterpret_cast<const T*>(job.source) + begin * job.stride;
  T* out = reinterpret_cast<T*>(job.out) + block * FILL_BLOCK;
  if (job.validity == 0) return copy(from, job.stride, count, out);
  const u32* validity = reinterpret_cast<const u32*>(job.validity);
  const u32 bits = validity_word(validity, job.validity_offset, begin / 32 + lane_id(), job.rows);
  fill(from, job.stride, bits, count, out);
}

// Bytes of a bitmap whose row 0 is any bit; zeros past its last bit.
__device__ __forceinline__ void gather_bits(const GatherJob& job, u64 block, u64 begin, u32 count) {
  const u32* bitmap = reinterpret_cast<const u32*>(job.source);
  u8* out = reinterpret_cast<u8*>(job.out) + block * FILL_BLOCK;
  for (u32 byte = 4 * lane_id(); byte < count; byte += 4 * 32) {
    const u32 bits = validity_word(bitmap, job.validity_offset, (begin + byte) / 4, job.rows);
    if (byte + 4 <= count)
      *reinterpret_cast<u32*>(out + byte) = bits;
    else
      for (u32 k = 0; byte + k < count; ++k) out[byte + k] = u8(bits >> (8 * k));
  }
}

// A warp a block of rows.
extern "C" __global__ void __launch_bounds__(256) gather_values(const u64* table, u32 jobs) {
  __shared__ GatherJob job;
  const u32 in_job = load_job(table, jobs, job);
  const u32 block = in_job * (blockDim.x / 32) + threadIdx.x / 32;
  if (block >= job.blocks) return;
  const u32 run_blocks = u32(job.run_blocks);
  const u64 begin = block / run_blocks * job.step + block % run_blocks * u64(FILL_BLOCK);
  const u64 rows = job.itemsize == 0 ? (job.rows + 7) / 8 : job.rows;
  const u32 count = u32(min(rows - begin, u64(FILL_BLOCK)));
  if (job.itemsize == 0)
    gather_bits(job, block, begin, count);
  else if (job.itemsize == 1)
    gather<u8>(job, block, begin, count);
  else if (job.itemsize == 2)
    gather<u16>(job, block, begin, count);
  else if (job.itemsize == 4)
    gather<u32>(job, block, begin, count);
  else
    gather<u64>(job, block, begin, count);
}

// ---- reading

struct PlacedHalf {
  u64 source;  // address of 64-bit words
  OutputRows output;
};

// Stored words to where numbers of 16 bytes have them. A thread a word.
extern "C" __global__ void __launch_bounds__(256) place_halves(const u64* table, u32 jobs) {
  const u32 number = find_job(table, jobs, blockIdx.x);
  const PlacedHalf& job = reinterpret_cast<const PlacedHalf*>(table + jobs)[number];
  const u64 i = (blockIdx.x - table[number]) * 256 + threadIdx.x;
  if (i >= job.output.end - job.output.begin) return;
  const u64 value = reinterpret_cast<const u64*>(job.source)[job.output.begin + i];
  *reinterpret_cast<u64*>(job.output.values + i * job.output.stride) = value;
}

struct PlainPart {
  u64 values;  // address
  u64 first_row, rows;
};

// Rows by number, of many columns whose values lie there as they are. Rows that no part has are left out. grid: `blocks` thread
// blocks of 256 rows for each column. The table: columns, then parts.
extern "C" __global__ void __launch_bounds__(256)
    take_plain(const u64* table, u32 columns, u32 blocks, const u64* rows, u64 shift, u64 count) {
  const TakenColumn& column = reinterpret_cast<const TakenColumn*>(table)[blockIdx.x / blocks];
  const PlainPart* parts = reinterpret_cast<const PlainPart*>(reinterpret_cast<const TakenColumn*>(table) + columns);
  const u64 i = blockIdx.x % blocks * u64(256) + threadIdx.x, row = row_of(rows, shift, i, count);
  const PlainPart* part;
  if (i >= count || !find_part(parts + column.first_part, column.parts, row, part)) return;
  const u64 local = row - part->first_row, to = column.values + i * column.stride;
  if (column.itemsize == 1)
    *reinterpret_cast<u8*>(to) = reinterpret_cast<const u8*>(part->values)[local];
  else if (column.itemsize == 2)
    *reinterpret_cast<u16*>(to) = reinterpret_cast<const u16*>(part->values)[local];
  else if (column.itemsize == 4)
    *reinterpret_cast<u32*>(to) = reinterpret_cast<const u32*>(part->values)[local];
  else
    *reinterpret_cast<u64*>(to) = reinterpret_cast<const u64*>(part->values)[local];
}

// Rows by number of bitmaps, whose bytes have the bits of 8 rows each; the output is filled up with zeros to whole 64 bytes, which the grid
// covers.
extern "C" __global__ void __launch_bounds__(256)
    take_plain_bits(const u64* table, u32 columns, u32 blocks, const u64* rows, u64 shift, u64 count) {
  const TakenColumn& column = reinterpret_cast<const TakenColumn*>(table)[blockIdx.x / blocks];
  const PlainPart* parts = reinterpret_cast<const PlainPart*>(reinterpret_cast<const TakenColumn*>(table) + columns);
  const u64 i = blockIdx.x % blocks * u64(256) + threadIdx.x, row = row_of(rows, shift, i, count);
  const PlainPart* part;
  bool bit = i < count && find_part(parts + column.first_part, column.parts, row / 8, part);
  if (bit) bit = reinterpret_cast<const u8*>(part->values)[row / 8 - part->first_row] >> row % 8 & 1;
  put_bits(column, i, count, bit);
}

// Sets touched[k] where a row lies in chunk k of the rows from `begin` to `end` - 1. A thread a row.
extern "C" __global__ void __launch_bounds__(256)
    mark_chunks(const u64* rows, u64 shift, u64 count, u64 begin, u64 end, u32 chunk, u8* touched) {
  const u64 i = blockIdx.x * u64(256) + threadIdx.x, row = row_of(rows, shift, i, count);
  if (i < count && row >= begin && row < end) touched[(row - begin) / chunk] = 1;
}

// ---- lists

__device__ __forceinline__ u64 list_offset(const void* offsets, u32 itemsize, u64 i) {
  return itemsize == 4 ? static_cast<const u32*>(offsets)[i] : static_cast<const u64*>(offsets)[i];
}

__device__ __forceinline__ void put_offset(void* offsets, u32 itemsize, u64 i, u64 value) {
  if (itemsize == 4)
    static_cast<u32*>(offsets)[i] = u32(value);
  else
    static_cast<u64*>(offsets)[i] = value;
}

// Subtracts `first`. A thread an offset.
extern "C" __global__ void __launch_bounds__(256) rebase_offsets(void* offsets, u32 itemsize, u64 count, u64 first) {
  const u64 i = blockIdx.x * u64(256) + threadIdx.x;
  if (i < count) put_offset(offsets, itemsize, i, list_offset(offsets, itemsize, i) - first);
}

// Where lists begin and end in their values, which have `limit` rows -> begins as 64-bit numbers, and lengths. Damaged ones have none
// of the values that there are not. A thread a list.
extern "C" __global__ void __launch_bounds__(256)
    list_lengths(const void* begins, const void* ends, u32 itemsize, u64 count, u64 limit, u64* first, u64* lengths) {
  const u64 i = blockIdx.x * u64(256) + threadIdx.x;
  if (i >= count) return;
  const u64 begin = min(list_offset(begins, itemsize, i), limit), end = min(list_offset(ends, itemsize, i), limit);
  first[i] = begin;
  lengths[i] = max(begin, end) - begin;
}

// Offsets of lists, whose lengths were summed up to `ends`. A thread an offset.
extern "C" __global__ void __launch_bounds__(256)
    list_offsets(const u64* ends, u32 itemsize, u64 count, void* offsets) {
  const u64 i = blockIdx.x * u64(256) + threadIdx.x;
  if (i <= count) put_offset(offsets, itemsize, i, i == 0 ? 0 : ends[i - 1]);
}

// Rows of the values of `count` lists, one after another. A thread a value.
extern "C" __global__ void __launch_bounds__(256)
    list_rows(const u64* first, const u64* ends, u64 count, u64 total, u64* rows) {
  const u64 at = blockIdx.x * u64(256) + threadIdx.x;
  if (at >= total) return;
  const u64 list = first_that_not(u64(0), count, [&](u64 i) { return ends[i] <= at; });
  rows[at] = first[list] + at - (list == 0 ? 0 : ends[list - 1]);
}
