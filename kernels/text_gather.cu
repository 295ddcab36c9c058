// Rows of strings by number, of strings that lie decoded in memory: a whole column, the values of a dictionary, or a *piece* of a column
// at a time, so that what is decoded at once is bounded. fsst_take.cu is for rows of which most tiles need not be decoded.
//
//   gather_lengths  length and validity of each row that the piece has; behind it, of all pieces, every row has its length
//   gather_sums     characters before each GATHER_ROWS rows, and the total
//   gather_offsets  lengths become offsets
//   gather_chars    characters of the rows that the piece has; gather_rows does the same where it has few of neighbouring rows
//   gather_edges    which rows a piece has, of rows in order
//
// Numbers of rows have 1, 2, 4 or 8 bytes: codes of a dictionary are such numbers. Work unit: of the first three a row a thread. In gather_chars a
// thread writes aligned eight bytes, whatever rows they are of, so that long and short rows take the same time; `gridDim.y` thread blocks
// share GATHER_ROWS rows, where some are long.
//
// Bounds: damaged offsets make rows empty. What a row has is compared with what was measured before it is written.
#include "text.cuh"

// Strings in memory: chars + offsets of rows `first` to `first` + `rows` - 1. Offsets that are damaged make rows empty.
struct Piece {
  u64 first, rows;
  u64 offsets, wide;
  u64 chars, limit;  // address of what offset 0 names, bytes there
  u64 validity;      // bitmap of its rows, 0: no nulls
};

// Rows that are wanted.
struct Numbers {
  u64 numbers, nbytes, count;
  u64 validity;  // bitmap: a number whose bit is 0 is that of no row, and its row is empty. 0: all are
};

// What a launch reads. The thread blocks' first rows are those of group `first_group`.
struct GatherRowsJob {
  Numbers numbers;
  u64 first_group;
  Piece piece;
};

__device__ __forceinline__ u64 number_at(const Numbers& n, u64 i) {
  return n.nbytes == 8   ? reinterpret_cast<const u64*>(n.numbers)[i]
         : n.nbytes == 4 ? reinterpret_cast<const u32*>(n.numbers)[i]
         : n.nbytes == 2 ? reinterpret_cast<const u16*>(n.numbers)[i]
                         : reinterpret_cast<const u8*>(n.numbers)[i];
}

// Where row `row` of the piece begins; `length`: its characters.
__device__ __forceinline__ u64 row_begin(const Piece& piece, u64 row, u64* length) {
  u64 begin, end;
  if (piece.wide) {
    begin = reinterpret_cast<const u64*>(piece.offsets)[row];
    end = reinterpret_cast<const u64*>(piece.offsets)[row + 1];
  } else {
    begin = reinterpret_cast<const u32*>(piece.offsets)[row];
    end = reinterpret_cast<const u32*>(piece.offsets)[row + 1];
  }
  *length = begin <= end && end <= piece.limit ? end - begin : 0;
  return begin;
}

// Rows of other pieces are left alone. `validity_to`: a bitmap of zeros, 0: the column has no nulls. grid: blocks of GATHER_ROWS rows.
extern "C" __global__ void __launch_bounds__(GATHER_ROWS)
    gather_lengths(const GatherRowsJob* __restrict__ job, u32* lengths, u32* validity_to, u64* nulls) {
  const Numbers numbers = job->numbers;
  const Piece piece = job->piece;
  const u64 i = (job->first_group + blockIdx.x) * GATHER_ROWS + threadIdx.x;
  const bool inside = i < numbers.count, some = inside && (numbers.validity == 0 || bit_at(numbers.validity, i));
  const u64 row = some ? number_at(numbers, i) - piece.first : ~0ull;
  const bool here = row < piece.rows;
  u64 length = 0;
  if (here) row_begin(piece, row, &length);
  if (here || (inside && !some)) lengths[i] = u32(length);
  if (validity_to == nullptr) return;
  const u32 wanted = __ballot_sync(ALL_LANES, here);
  const u32 valid = __ballot_sync(ALL_LANES, here && (piece.validity == 0 || bit_at(piece.validity, row)));
  if (lane_id() != 0 || wanted == 0) return;
  validity_to[i / 32] |= valid;
  if (valid != wanted) atomicAdd(nulls, u64(__popc(wanted & ~valid)));
}

struct Totals {
  u64 chars, longest;  // of all rows, and of the group that has most
  u64 done, nulls;
};

// sums[g]: characters of the rows before group g of GATHER_ROWS; `totals` are zeros. grid: groups.
extern "C" __global__ void __launch_bounds__(GATHER_ROWS)
    gather_sums(const u32* lengths, u64 count, u64* sums, Totals* totals) {
  __shared__ bool last;
  const u64 i = blockIdx.x * u64(GATHER_ROWS) + threadIdx.x;
  u64 chars;
  block_sum_before<GATHER_ROWS>(u64(i < count ? lengths[i] : 0), &chars);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = chars;
    atomicMax(&totals->longest, chars);
    __threadfence();
    last = atomicAdd(&totals->done, 1ull) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  u64 before = 0;
  for (u32 first = 0; first < gridDim.x; first += 8 * GATHER_ROWS) {
    u64 values[8], mine = 0, all;
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
      const u32 g = first + 8 * threadIdx.x + k;
      values[k] = g < gridDim.x ? __ldcg(sums + g) : 0;
      mine += values[k];
    }
    u64 at = before + block_sum_before<GATHER_ROWS>(mine, &all);
#pragma unroll
    for (u32 k = 0; k < 8; ++k) {
      const u32 g = first + 8 * threadIdx.x + k;
      if (g < gridDim.x) sums[g] = at;
      at += values[k];
    }
    before += all;
  }
  if (threadIdx.x == 0) totals->chars = before;
}

// `offsets`, count + 1 of them, may be where the lengths are, if they are not wide. grid: as gather_sums.
extern "C" __global__ void __launch_bounds__(GATHER_ROWS)
    gather_offsets(const u32* lengths, u64 count, const u64* sums, u64 offsets, u32 wide) {
  const u64 i = blockIdx.x * u64(GATHER_ROWS) + threadIdx.x;
  const u64 length = i < count ? lengths[i] : 0;
  u64 chars;
  const u64 at = sums[blockIdx.x] + block_sum_before<GATHER_ROWS>(length, &chars);
  if (i >= count) return;
  if (wide) {
    reinterpret_cast<u64*>(offsets)[i] = at;
    if (i == count - 1) reinterpret_cast<u64*>(offsets)[count] = at + length;
  } else {
    reinterpret_cast<u32*>(offsets)[i] = u32(at);
    if (i == count - 1) reinterpret_cast<u32*>(offsets)[count] = u32(at + length);
  }
}

// Eight bytes from any address on; what lies up to 15 bytes behind it must be readable.
__device__ __forceinline__ u64 load_eight(u64 address) {
  const u64* word = reinterpret_cast<const u64*>(address / 8 * 8);
  const u32 shift = 8 * u32(address % 8);
  return shift == 0 ? word[0] : word[0] >> shift | word[1] << (64 - shift);
}

#define NOT_HERE (~0ull)

// chars + `offsets`: what is written. The piece's characters have 16 bytes behind them that may be read. grid: (groups, any).
extern "C" __global__ void __launch_bounds__(GATHER_ROWS, 4)
    gather_chars(const GatherRowsJob* __restrict__ job, u64 offsets, u32 wide, u64 chars) {
  __shared__ u64 sources[GATHER_ROWS];
  __shared__ u64 places[GATHER_ROWS + 1];  // from the group's first character on
  const Numbers& numbers = job->numbers;
  const Piece& piece = job->piece;
  const u32 t = threadIdx.x;
  const u64 first = (job->first_group + blockIdx.x) * GATHER_ROWS, i = min(first + t, numbers.count);
  const u64 group_at = offset_at(offsets, wide, first);
  const u64 end = offset_at(offsets, wide, min(first + GATHER_ROWS, numbers.count)) - group_at;
  if (end == 0) return;
  const u64 at = offset_at(offsets, wide, i) - group_at;
  places[t] = at;
  if (t == 0) places[GATHER_ROWS] = end;
  u64 source = NOT_HERE;
  if (i < numbers.count) {
    const u64 row = number_at(numbers, i) - piece.first;
    if (row < piece.rows) {
      u64 length;
      source = row_begin(piece, row, &length);
      // The same as when lengths were written, unless memory has changed.
      if (length != offset_at(offsets, wide, i + 1) - group_at - at) source = NOT_HERE;
    }
  }
  sources[t] = source;
  if (!__syncthreads_or(source != NOT_HERE)) return;
  const u64 to = chars + group_at, first_word = to / 8, words = (to + end + 7) / 8 - first_word;
  for (u64 w = u64(blockIdx.y) * GATHER_ROWS + t; w < words; w += u64(gridDim.y) * GATHER_ROWS) {
    const u64 address = 8 * (first_word + w);
    u64 begin = max(address, to) - to;
    const u64 stop = min(address + 8 - to, end);
    u64 bytes = 0;
    u32 known = 0;  // a bit a byte
    // From the row that has `begin` on: the last one that does not begin behind it.
    for (u32 r = last_that(0u, u32(GATHER_ROWS), [&](u32 i) { return places[i] <= begin; }); begin < stop; ++r) {
      const u64 upto = min(stop, places[r + 1]);
      if (upto <= begin) continue;
      const u32 count = u32(upto - begin), place = u32(to + begin - address);
      if (sources[r] != NOT_HERE) {
        const u64 from = piece.chars + sources[r] + (begin - places[r]);
        bytes |= (load_eight(from) & shift_right(~0ull, 64 - 8 * count)) << 8 * place;
        known |= ((1u << count) - 1) << place;
      }
      begin = upto;
    }
    if (known == 255)
      *reinterpret_cast<u64*>(address) = bytes;
    else
      for (u32 k = 0; k < 8; ++k)
        if (known >> k & 1) reinterpret_cast<u8*>(address)[k] = u8(bytes >> (8 * k));
  }
}

// As gather_chars, of short rows of which neighbours are in several pieces: 8 threads have a row. grid: (groups, 1).
extern "C" __global__ void __launch_bounds__(GATHER_ROWS, 4)
    gather_rows(const GatherRowsJob* __restrict__ job, u64 offsets, u32 wide, u64 chars) {
  __shared__ u64 sources[GATHER_ROWS];
  __shared__ u64 targets[GATHER_ROWS];
  __shared__ u32 lengths[GATHER_ROWS];
  __shared__ u32 found;
  const Numbers& numbers = job->numbers;
  const Piece& piece = job->piece;
  const u32 t = threadIdx.x;
  const u64 i = (job->first_group + blockIdx.x) * GATHER_ROWS + t;
  if (t == 0) found = 0;
  __syncthreads();
  if (i < numbers.count) {
    const u64 row = number_at(numbers, i) - piece.first;
    if (row < piece.rows) {
      u64 length;
      const u64 source = row_begin(piece, row, &length), at = offset_at(offsets, wide, i);
      // The same as when lengths were written, unless memory has changed.
      if (length > 0 && length == offset_at(offsets, wide, i + 1) - at) {
        const u32 slot = atomicAdd(&found, 1u);
        sources[slot] = piece.chars + source;
        targets[slot] = chars + at;
        lengths[slot] = u32(length);
      }
    }
  }
  __syncthreads();
  for (u32 slot = t / 8; slot < found; slot += GATHER_ROWS / 8) {
    const u64 to = targets[slot], end = to + lengths[slot];
    for (u64 address = to / 8 * 8 + t % 8 * 8; address < end; address += 64) {
      const u64 begin = max(address, to);
      const u32 count = u32(min(address + 8, end) - begin);
      u64 bytes = load_eight(sources[slot] + (begin - to));
      if (count == 8) {
        *reinterpret_cast<u64*>(address) = bytes;
      } else {
        u8* out = reinterpret_cast<u8*>(begin);
        for (u32 k = 0; k < count; ++k, bytes >>= 8) out[k] = u8(bytes);
      }
    }
  }
}

// How many of some ordered numbers stand before the first one that is not below an edge; `down`: that is. A thread an edge.
extern "C" __global__ void __launch_bounds__(GATHER_ROWS)
    gather_edges(const u64* numbers, u64 count, u32 down, const u64* edges, u32 several, u64* places) {
  const u32 e = blockIdx.x * GATHER_ROWS + threadIdx.x;
  if (e >= several) return;
  places[e] = first_that_not(u64(0), count, [&](u64 i) { return (numbers[i] < edges[e]) != (down != 0); });
}
