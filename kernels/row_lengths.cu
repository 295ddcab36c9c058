// Row lengths: bit-packed by row blocks of ROW_BLOCK = 256 rows (docs/format.md, section 3), and validity bitmaps.
//
// A warp handles one row block after another. To pack and unpack, a lane has 8 neighbouring rows, whose bits are `width` whole bytes;
// offsets pass through shared memory, so that they are read and written coalesced.
//
// The floor is 4 or 8 bytes of offset and `width` bits a row: 0.07 ms for TPC-H SF 10 l_comment (60 M rows) on an H200. Measured there:
// - row 32 * k + lane the lane's k-th, and a warp sum for every k: unpack 0.239 ms, measure 0.122, pack 0.206.
// - as now, a warp a row block: unpack 0.133, measure 0.086; with runs of row blocks, 16 thread blocks a multiprocessor: 0.121 and
//   0.088. 4 or 8 thread blocks: measure 0.098 to 0.101; 32: as 16. A warp starts by waiting for memory six times in a row.
#include "fsst.cuh"
#include "row_lengths.cuh"

#define ROWS_PER_LANE (ROW_BLOCK / 32)

// Where row i of a row block lies in shared memory: neither rows 8 * lane + k nor rows 32 * k + lane of a warp share a bank (64-bit
// offsets: two at most).
#define PADDED_ROWS (ROW_BLOCK + ROW_BLOCK / 32)
__device__ __forceinline__ u32 padded(u32 i) { return i + i / 32; }

// Offsets of 32 or 64 bits, as they are stored: the first need not be 0.
struct Offsets {
  const u8* data;
  u32 wide;
  __device__ __forceinline__ u64 operator[](u64 row) const {
    return wide ? reinterpret_cast<const u64*>(data)[row] : reinterpret_cast<const u32*>(data)[row];
  }
};

// Rows and characters where segments begin: segment k takes the rows that start at characters k * segment_chars and up.
// rows_begin[k], chars_begin[k] for k = 0 .. segments (the last: all rows, all characters). grid: covers segments + 1 threads.
extern "C" __global__ void segment_begins(const u8* offsets_data, u32 wide, u64 rows, u64 segment_chars, u32 segments,
                                          u64* rows_begin, u64* chars_begin) {
  const u32 k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k > segments) return;
  const Offsets offsets = {offsets_data, wide};
  const u64 first = offsets[0];
  u64 low = 0, high = rows;
  if (k == segments) low = rows;
  if (k == 0) high = 0;
  while (low < high) {
    const u64 middle = (low + high) / 2;
    if (offsets[middle] - first < k * segment_chars)
      low = middle + 1;
    else
      high = middle;
  }
  rows_begin[k] = low;
  chars_begin[k] = offsets[low] - first;
}

// Nulls of every segment, and characters that lie under nulls: counts[k] += nulls; *null_chars += characters.
// grid: any x, y = segments. Rows of segment k: rows_begin[k] .. rows_begin[k + 1].
extern "C" __global__ void __launch_bounds__(256)
    count_nulls(const u8* offsets_data, u32 wide, const u32* validity, u64 validity_offset, const u64* rows_begin,
                u64* counts, u64* null_chars) {
  const Offsets offsets = {offsets_data, wide};
  const u64 begin = rows_begin[blockIdx.y], end = rows_begin[blockIdx.y + 1];
  u64 nulls = 0, chars = 0;
  for (u64 row = begin + blockIdx.x * u64(blockDim.x) + threadIdx.x; row < end; row += u64(gridDim.x) * blockDim.x) {
    const u64 bit = validity_offset + row;
    if (validity[bit / 32] >> (bit % 32) & 1) continue;
    ++nulls;
    chars += offsets[row + 1] - offsets[row];
  }
  if (nulls > 0) atomicAdd(&counts[blockIdx.y], nulls);
  if (chars > 0) atomicAdd(null_chars, chars);
}

// The smallest of the warp's values.
template <typename T>
__device__ __forceinline__ T warp_min(T value) {
#pragma unroll
  for (u32 delta = 16; delta > 0; delta /= 2) value = min(value, __shfl_xor_sync(ALL_LANES, value, delta));
  return value;
}

// Bits of the differences of a row block's lengths from its minimum. `low` and `high` are a lane's smallest and largest length; the
// minimum, at most 32 bits, comes back in `low`.
template <typename T>
__device__ __forceinline__ u32 row_block_width(T& low, T high) {
  low = min(warp_min(low), T(0xffffffff));
  high = ~warp_min(T(~high));
  return 64 - __clzll(static_cast<long long>(high - low));
}

// row_words of one row block, as a count: the warp reads the offsets of rows first .. first + count (count <= ROW_BLOCK).
template <typename T>
__device__ __forceinline__ u32 measure_block(const T* offsets, u32 count) {
  T low = ~T(0), high = 0;
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
    const u32 i = 32 * k + lane_id();
    if (i < count) {
      const T length = offsets[i + 1] - offsets[i];
      low = min(low, length);
      high = max(high, length);
    }
  }
  return ROW_BLOCK / 32 * row_block_width(low, high);
}

// The row blocks of a launch that this warp handles, one after another: what it has found out about its segment serves all of them, and
// few warps wait for the memory's answers at their start.
struct Run {
  u64 begin, end;
  __device__ __forceinline__ explicit Run(u64 row_blocks) {
    const u64 warps = gridDim.x * u64(blockDim.x / 32), warp = blockIdx.x * u64(blockDim.x / 32) + threadIdx.x / 32;
    const u64 each = (row_blocks + warps - 1) / warps;
    begin = min(warp * each, row_blocks), end = min(begin + each, row_blocks);
  }
};

// The first of the row blocks that a launch has for segment k: enough for the rows between `rows_begin`s, at most one too many, and
// known as soon as those are.
__device__ __forceinline__ u64 first_row_block(const u64* rows_begin, u32 k) { return rows_begin[k] / ROW_BLOCK + k; }

// row_words of every row block, as counts (row_lengths_scan turns them into indices). grid: any; block: 256 threads.
// rows_begin: as segment_begins writes them.
extern "C" __global__ void __launch_bounds__(256, 6)
    row_lengths_measure(const u8* offsets, u32 wide, const u64* rows_begin, u32 segment_count, u64 row_blocks,
                        u32* words) {
  const Run run(row_blocks);
  if (run.begin >= run.end) return;
  u32 k = 0, high = segment_count;
  while (high - k > 1) {
    const u32 middle = (k + high) / 2;
    if (first_row_block(rows_begin, middle) <= run.begin)
      k = middle;
    else
      high = middle;
  }
  for (u64 unit = run.begin; unit < run.end; ++unit) {
    while (k + 1 < segment_count && first_row_block(rows_begin, k + 1) <= unit) ++k;
    const u64 row = rows_begin[k] + (unit - first_row_block(rows_begin, k)) * ROW_BLOCK, end = rows_begin[k + 1];
    if (row >= end) continue;
    const u32 count = u32(min(end - row, u64(ROW_BLOCK)));
    const u32 found = wide ? measure_block(reinterpret_cast<const u64*>(offsets) + row, count)
                           : measure_block(reinterpret_cast<const u32*>(offsets) + row, count);
    if (lane_id() == 0) words[unit] = found;
  }
}

// In place: a segment's counts become indices; totals[k] is their sum. grid: one block of 1024 threads a segment.
extern "C" __global__ void __launch_bounds__(1024, 1) row_lengths_scan(const u64* rows_begin, u32* words, u64* totals) {
  __shared__ u32 warp_sums[32];
  const u32 k = blockIdx.x;
  const u64 count = (rows_begin[k + 1] - rows_begin[k] + ROW_BLOCK - 1) / ROW_BLOCK;
  u32* mine = words + first_row_block(rows_begin, k);
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  u32 before = 0;
  for (u64 base = 0; base < count; base += 1024) {
    const u64 i = base + threadIdx.x;
    const u32 value = i < count ? mine[i] : 0;
    u32 inclusive = warp_inclusive_sum(value);
    if (lane == 31) warp_sums[warp] = inclusive;
    __syncthreads();
    if (warp == 0) warp_sums[lane] = warp_inclusive_sum(warp_sums[lane]);
    __syncthreads();
    if (warp > 0) inclusive += warp_sums[warp - 1];
    if (i < count) mine[i] = before + inclusive - value;
    before += warp_sums[31];
    __syncthreads();
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = before;
}

// Shared memory of a warp that packs: the offsets of a row block, then its bits.
union PackRoom {
  u64 wide[PADDED_ROWS + 1];
  u32 narrow[PADDED_ROWS + 1];
  u32 words[ROW_BLOCK / 32 * 63];
  u8 bytes[1];
};

// Packs row block b of a segment, whose row_bits begin at word `words_before`: rows 0 .. count of `offsets`.
template <typename T>
__device__ __forceinline__ void pack_block(const SegmentView& s, u64 b, const T* offsets, T first_offset, u32 count,
                                           u32 words_before, T* staged, PackRoom& room) {
  const u32 lane = lane_id();
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) staged[padded(32 * k + lane)] = offsets[min(32 * k + lane, count)];
  if (lane == 0) staged[padded(ROW_BLOCK)] = offsets[count];
  __syncwarp();
  const T block_offset = staged[0];
  T length[ROWS_PER_LANE], low = ~T(0), high = 0, start = staged[padded(ROWS_PER_LANE * lane)];
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
    const u32 i = ROWS_PER_LANE * lane + k;
    const T end = staged[padded(i + 1)];
    length[k] = end - start;
    start = end;
    if (i < count) {
      low = min(low, length[k]);
      high = max(high, length[k]);
    }
  }
  const u32 width = row_block_width(low, high), block_words = ROW_BLOCK / 32 * width;
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) length[k] = ROWS_PER_LANE * lane + k < count ? length[k] - low : 0;
  __syncwarp();
  if (width <= 8) {  // a lane's 8 rows are `width` whole bytes
    u32 near = 0, far = 0;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      near |= u32(length[k]) << (k * width);
      far |= u32(length[k + 4]) << (k * width);
    }
    u64 bits = near | u64(far) << (4 * width);
    u8* mine = room.bytes + lane * width;
#pragma unroll
    for (u32 i = 0; i < 8; ++i, bits >>= 8)
      if (i < width) mine[i] = u8(bits);
  } else {
    for (u32 i = lane; i < block_words; i += 32) room.words[i] = 0;
    __syncwarp();
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
      const u64 difference = length[k];
      const u32 bit = (ROWS_PER_LANE * lane + k) * width, shift = bit & 31;
      u32* word = room.words + bit / 32;
      if (u32(difference << shift) != 0) atomicOr(word, u32(difference << shift));
      const u64 rest = shift_right(difference, 32 - shift);
      if (u32(rest) != 0) atomicOr(word + 1, u32(rest));
      if (rest >> 32 != 0) atomicOr(word + 2, u32(rest >> 32));
    }
  }
  __syncwarp();
  u32* const row_bits = reinterpret_cast<u32*>(s.row_bits) + words_before;
  for (u32 i = lane; i < block_words; i += 32) row_bits[i] = room.words[i];
  if (lane == 0) {
    u64* row_starts = reinterpret_cast<u64*>(s.row_starts);
    u32* row_words = reinterpret_cast<u32*>(s.row_words);
    row_starts[b] = block_offset - first_offset;
    row_words[b] = words_before;
    reinterpret_cast<u32*>(s.row_minima)[b] = u32(low);
    if ((b + 1) * ROW_BLOCK >= s.rows) {
      row_starts[b + 1] = s.chars;
      row_words[b + 1] = words_before + block_words;
    }
  }
  __syncwarp();
}

// Writes row_starts, row_minima, row_words and row_bits. grid: any; block: 256 threads. `words` as row_lengths_scan left it.
extern "C" __global__ void __launch_bounds__(256, 4)
    row_lengths_pack(const u8* offsets, u32 wide, const SegmentView* segments, u32 segment_count, u64 row_blocks,
                     const u32* words) {
  __shared__ PackRoom rooms[8];
  PackRoom& room = rooms[threadIdx.x / 32];
  const Run run(row_blocks);
  if (run.begin >= run.end) return;
  u32 k = find_segment<&SegmentView::first_row_block>(segments, segment_count, run.begin);
  for (u64 unit = run.begin; unit < run.end; ++unit) {
    while (k + 1 < segment_count && segments[k + 1].first_row_block <= unit) ++k;
    const SegmentView& s = segments[k];
    const u64 b = unit - s.first_row_block, first = b * ROW_BLOCK, begin = s.first_row;
    if (first >= s.rows) continue;
    const u32 count = u32(min(s.rows - first, u64(ROW_BLOCK))), words_before = words[unit];
    if (wide) {
      const u64* from = reinterpret_cast<const u64*>(offsets) + begin;
      pack_block(s, b, from + first, from[0], count, words_before, room.wide, room);
    } else {
      const u32* from = reinterpret_cast<const u32*>(offsets) + begin;
      pack_block(s, b, from + first, from[0], count, words_before, room.narrow, room);
    }
  }
}

// Writes the offsets of a row block's rows from..to (counted in the block) at `out` + row. A lane's 8 rows are neighbours: their bits are
// whole bytes, and one warp sum does for all. Sums fit 32 bits. Through `staged` the lanes write coalesced.
template <typename T>
__device__ __forceinline__ void unpack_block(const PackedBlock& block, u32 from, u32 to, u64 before, u32* staged,
                                             T* out) {
  const u32 lane = lane_id(), width = block.width;
  u32 length[ROWS_PER_LANE], sum = 0;
  if (width <= 8) {
    u32 near, far;
    block.eight_rows(lane, &near, &far);
    const u32 mask = (1u << width) - 1;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      length[k] = near >> (k * width) & mask;
      length[k + 4] = far >> (k * width) & mask;
    }
  } else {
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k) length[k] = u32(block.difference(ROWS_PER_LANE * lane + k));
  }
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
    const u32 start = sum;
    sum += u32(block.minimum) + length[k];
    length[k] = start;
  }
  const u32 lane_start = warp_inclusive_sum(sum) - sum;
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) staged[padded(ROWS_PER_LANE * lane + k)] = lane_start + length[k];
  __syncwarp();
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
    const u32 i = 32 * k + lane;
    if (i >= from && i < to) out[i] = T(before + staged[padded(i)]);
  }
}

// The same for a block of rows so long that their sums need 64 bits.
template <typename T>
__device__ __forceinline__ void unpack_long_block(const PackedBlock& block, u32 from, u32 to, u64 before, T* out) {
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
    const u32 i = 32 * k + lane_id();
    const u64 length = block.minimum + block.difference(i), inclusive = warp_inclusive_sum(length);
    if (i >= from && i < to) out[i] = T(before + (inclusive - length));
    before += __shfl_sync(ALL_LANES, inclusive, 31);
  }
}

// Rows row_begin .. row_end of every segment -> offsets out_row .. of its column, and the offset after the last row of each column.
// Row blocks are counted from the one that holds row_begin. grid: any; block: 256 threads.
extern "C" __global__ void __launch_bounds__(256, 4)
    row_lengths_unpack(const SegmentView* segments, u32 segment_count, u64 row_blocks) {
  __shared__ u32 rooms[8][PADDED_ROWS];
  u32* const staged = rooms[threadIdx.x / 32];
  const Run run(row_blocks);
  if (run.begin >= run.end) return;
  u32 k = find_segment<&SegmentView::first_row_block>(segments, segment_count, run.begin);
  for (u64 unit = run.begin; unit < run.end; ++unit) {
    while (k + 1 < segment_count && segments[k + 1].first_row_block <= unit) ++k;
    const SegmentView& s = segments[k];
    const bool wide = s.wide_offsets;
    const u64 b = s.row_begin / ROW_BLOCK + unit - s.first_row_block, first = b * ROW_BLOCK;
    const PackedBlock block(s, b);
    const u64 before = reinterpret_cast<const u64*>(s.row_starts)[b] - s.char_begin + s.out_char;
    const u32 from = u32(max(first, s.row_begin) - first);
    const u32 to = u32(max(first, min(first + ROW_BLOCK, s.row_end)) - first);
    const u64 at = s.out_row + first - s.row_begin;  // of the block's first row; below 0 where that is not wanted
    u32* const narrow = reinterpret_cast<u32*>(s.offsets_to) + at;
    u64* const whole = reinterpret_cast<u64*>(s.offsets_to) + at;
    const bool sums_fit = block.width <= 22 && block.minimum < 1u << 22;
    if (sums_fit && wide)
      unpack_block(block, from, to, before, staged, whole);
    else if (sums_fit)
      unpack_block(block, from, to, before, staged, narrow);
    else if (wide)
      unpack_long_block(block, from, to, before, whole);
    else
      unpack_long_block(block, from, to, before, narrow);
    if (s.last && first + ROW_BLOCK >= s.row_end && lane_id() == 0) {
      const u64 chars = s.out_char + (s.char_end - s.char_begin);
      if (wide)
        whole[s.row_end - first] = chars;
      else
        narrow[s.row_end - first] = u32(chars);
    }
    __syncwarp();
  }
}

// Where the first row and the row after the last one of some rows of a segment begin. Of edge i: edges[2 * i] is the segment,
// edges[2 * i + 1] a row of it, or the number of its rows; starts[i] its first character. LOCATE_LANES threads an edge, whole warps.
extern "C" __global__ void __launch_bounds__(256)
    locate_edges(const SegmentView* segments, const u64* edges, u64 count, u64* starts) {
  const u64 thread = blockIdx.x * u64(blockDim.x) + threadIdx.x, i = min(thread / LOCATE_LANES, count - 1);
  const SegmentView& s = segments[edges[2 * i]];
  const u64 row = edges[2 * i + 1], b = row / ROW_BLOCK;
  u64 start = s.chars;
  if (row < s.rows) {
    start = PackedBlock(s, b).sum_before(u32(row % ROW_BLOCK), lane_id() % LOCATE_LANES, LOCATE_LANES);
    if (lane_id() % LOCATE_LANES == 0) start += reinterpret_cast<const u64*>(s.row_starts)[b];
  } else if (lane_id() % LOCATE_LANES != 0) {
    start = 0;
  }
#pragma unroll
  for (u32 delta = 1; delta < LOCATE_LANES; delta *= 2) start += __shfl_xor_sync(ALL_LANES, start, delta);
  if (thread < count * LOCATE_LANES && lane_id() % LOCATE_LANES == 0) starts[i] = min(start, s.chars);
}

// `bits` bits from bit `from_bit` of `from` to bit 0 of `to`; the last word is filled with zeros. One thread a word.
extern "C" __global__ void __launch_bounds__(256) copy_bits(const u32* from, u64 from_bit, u64 bits, u32* to) {
  const u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x;
  if (32 * i >= bits) return;
  const u64 first = from_bit + 32 * i, last = from_bit + min(32 * i + 32, bits) - 1;
  const u32 shift = u32(first % 32);
  const u32 low = from[first / 32], high = last / 32 > first / 32 ? from[last / 32] : 0;
  const u64 left = bits - 32 * i;
  const u32 mask = left >= 32 ? ~0u : (1u << left) - 1;
  to[i] = __funnelshift_r(low, high, shift) & mask;
}

// Validity of rows row_begin .. row_end of every segment that has some to write. Columns that write none have no bits: the out_bit of
// all their segments is that of the next column. Words behind a column's last row become 0. One thread a word, whole warps.
extern "C" __global__ void __launch_bounds__(256)
    gather_validity(const SegmentView* segments, u32 segment_count, u64 words) {
  const u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x;
  u64 nulls_to = 0;
  u32 nulls = 0;
  if (i < words) {
    u64 bit = 32 * i;
    const u64 end = bit + 32;
    u32 k = find_segment<&SegmentView::out_bit>(segments, segment_count, bit), word = 0;
    nulls_to = segments[k].nulls_to;
    u32* const to = reinterpret_cast<u32*>(segments[k].validity_to) + i;
    for (; k < segment_count && segments[k].out_bit <= bit; ++k) {
      const SegmentView& s = segments[k];
      const u64 stop = min(end, s.out_bit + (s.row_end - s.row_begin));
      if (stop <= bit) break;
      const u32 count = u32(stop - bit);
      u32 bits = ~0u;
      if (s.validity != 0) {
        const u32* validity = reinterpret_cast<const u32*>(s.validity);
        const u64 first = s.row_begin + (bit - s.out_bit), last = first + count - 1;
        const u32 low = validity[first / 32], high = last / 32 > first / 32 ? validity[last / 32] : 0;
        bits = __funnelshift_r(low, high, u32(first % 32));
      }
      bits &= ~0u >> (32 - count);
      nulls += count - __popc(bits);
      word |= bits << (bit % 32);
      bit = stop;
    }
    *to = word;
  }
  if (__any_sync(ALL_LANES, nulls_to != 0)) {
    const u64 first = __shfl_sync(ALL_LANES, nulls_to, 0);
    if (__all_sync(ALL_LANES, nulls_to == first || nulls == 0)) {
      nulls = __shfl_sync(ALL_LANES, warp_inclusive_sum(nulls), 31);
      if (lane_id() > 0) nulls = 0;
      nulls_to = first;
    }
    if (nulls_to != 0 && nulls > 0) atomicAdd(reinterpret_cast<u64*>(nulls_to), u64(nulls));
  }
}
