// Row lengths: bit-packed by row blocks of ROW_BLOCK = 256 rows (docs/format.md, section 3), and validity bitmaps.
//
// A warp handles a row block, 8 rows a lane: row 32 * k + lane is the lane's k-th, so offsets are read and written coalesced.
// Memory-bound: 4 or 8 bytes of offset and `width` bits a row.
#include "fsst.cuh"

#define ROWS_PER_LANE (ROW_BLOCK / 32)

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

struct RowBlock {
  u64 length[ROWS_PER_LANE];
  u64 minimum;
  u32 width;
};

// Lengths of rows first .. first + count of `offsets` (count <= ROW_BLOCK), their minimum and the bits of their differences.
__device__ __forceinline__ RowBlock read_row_block(Offsets offsets, u64 first, u32 count) {
  RowBlock block;
  u64 low = ~0ull, high = 0;
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
    const u32 i = 32 * k + lane_id();
    block.length[k] = i < count ? offsets[first + i + 1] - offsets[first + i] : 0;
    if (i < count) {
      low = min(low, block.length[k]);
      high = max(high, block.length[k]);
    }
  }
  for (u32 delta = 16; delta > 0; delta /= 2) {
    low = min(low, __shfl_xor_sync(ALL_LANES, low, delta));
    high = max(high, __shfl_xor_sync(ALL_LANES, high, delta));
  }
  block.minimum = min(low, 0xffffffffull);
  block.width = 64 - __clzll(static_cast<long long>(high - block.minimum));
  return block;
}

// row_words of every row block, as counts (row_lengths_scan turns them into indices). One warp a row block of the launch.
extern "C" __global__ void __launch_bounds__(256)
    row_lengths_measure(const u8* offsets_data, u32 wide, const SegmentView* segments, u32 segment_count,
                        u64 row_blocks, u32* words) {
  const u64 unit = blockIdx.x * u64(blockDim.x / 32) + threadIdx.x / 32;
  if (unit >= row_blocks) return;
  const SegmentView& s = segments[find_segment<&SegmentView::first_row_block>(segments, segment_count, unit)];
  const u64 first = (unit - s.first_row_block) * ROW_BLOCK;
  const RowBlock block =
      read_row_block({offsets_data, wide}, s.first_row + first, u32(min(s.rows - first, u64(ROW_BLOCK))));
  if (lane_id() == 0) words[unit] = ROW_BLOCK / 32 * block.width;
}

// In place: a segment's counts become indices; totals[k] is their sum. grid: one block of 1024 threads a segment.
extern "C" __global__ void __launch_bounds__(1024, 1)
    row_lengths_scan(const SegmentView* segments, u32* words, u64* totals) {
  __shared__ u32 warp_sums[32];
  const SegmentView& s = segments[blockIdx.x];
  const u64 count = (s.rows + ROW_BLOCK - 1) / ROW_BLOCK;
  u32* mine = words + s.first_row_block;
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

// Writes row_starts, row_minima, row_words and row_bits. One warp a row block; block: 256 threads. `words` as row_lengths_scan left it.
extern "C" __global__ void __launch_bounds__(256)
    row_lengths_pack(const u8* offsets_data, u32 wide, const SegmentView* segments, u32 segment_count, u64 row_blocks,
                     const u32* words) {
  __shared__ u32 packed[8][ROW_BLOCK / 32 * 63];
  const u64 unit = blockIdx.x * u64(blockDim.x / 32) + threadIdx.x / 32;
  if (unit >= row_blocks) return;
  const Offsets offsets = {offsets_data, wide};
  const SegmentView& s = segments[find_segment<&SegmentView::first_row_block>(segments, segment_count, unit)];
  const u64 b = unit - s.first_row_block, first = b * ROW_BLOCK;
  const u32 count = u32(min(s.rows - first, u64(ROW_BLOCK))), lane = lane_id();
  const RowBlock block = read_row_block(offsets, s.first_row + first, count);
  const u32 width = block.width, block_words = ROW_BLOCK / 32 * width;
  u32* mine = packed[threadIdx.x / 32];

  for (u32 i = lane; i < block_words; i += 32) mine[i] = 0;
  __syncwarp();
  if (width > 0) {
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
      const u32 i = 32 * k + lane;
      if (i >= count) continue;
      const u64 difference = block.length[k] - block.minimum;
      const u32 bit = i * width, shift = bit & 31;
      u32* word = mine + bit / 32;
      atomicOr(word, u32(difference << shift));
      const u64 rest = shift_right(difference, 32 - shift);
      if (u32(rest) != 0) atomicOr(word + 1, u32(rest));
      if (rest >> 32 != 0) atomicOr(word + 2, u32(rest >> 32));
    }
  }
  __syncwarp();
  u32* row_bits = reinterpret_cast<u32*>(s.row_bits) + words[unit];
  for (u32 i = lane; i < block_words; i += 32) row_bits[i] = mine[i];
  if (lane == 0) {
    u64* row_starts = reinterpret_cast<u64*>(s.row_starts);
    u32* row_words = reinterpret_cast<u32*>(s.row_words);
    row_starts[b] = offsets[s.first_row + first] - offsets[s.first_row];
    row_words[b] = words[unit];
    reinterpret_cast<u32*>(s.row_minima)[b] = u32(block.minimum);
    if (first + ROW_BLOCK >= s.rows) {
      row_starts[b + 1] = s.chars;
      row_words[b + 1] = words[unit] + block_words;
    }
  }
}

// Row block b of a segment, ready to read; damaged sections read as width 0.
struct PackedBlock {
  const u32* bits;
  u32 width;
  u64 minimum;

  __device__ __forceinline__ PackedBlock(const SegmentView& s, u64 b) {
    const u32* row_words = reinterpret_cast<const u32*>(s.row_words);
    const u32 begin = row_words[b], end = row_words[b + 1];
    width = 0;
    if (begin <= end && end <= s.row_bits_words) width = min((end - begin) / (ROW_BLOCK / 32), 63u);
    bits = reinterpret_cast<const u32*>(s.row_bits) + begin;
    minimum = reinterpret_cast<const u32*>(s.row_minima)[b];
  }
  __device__ __forceinline__ u64 length(u32 i) const {
    if (width == 0) return minimum;
    const u32 bit = i * width, shift = bit & 31, used = shift + width;
    const u32* word = bits + bit / 32;
    if (width < 32) return minimum + (__funnelshift_r(word[0], used > 32 ? word[1] : 0, shift) & ((1u << width) - 1));
    u64 value = word[0] >> shift;
    if (used > 32) value |= u64(word[1]) << (32 - shift);
    if (used > 64) value |= u64(word[2]) << (64 - shift);
    return minimum + (value & ((1ull << width) - 1));
  }
};

// Writes the offsets of a row block's rows that lie in row_begin .. row_end. `Sum` holds the block's characters: 32 bits where that
// is certain, since sums of 64 take twice the shuffles.
template <typename Sum>
__device__ __forceinline__ void unpack_block(const SegmentView& s, PackedBlock block, u64 first, u32 count, u64 before,
                                             u8* offsets, u32 wide) {
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
    const u32 i = 32 * k + lane_id();
    if (32 * k >= count) break;
    const Sum length = i < count ? Sum(block.length(i)) : 0;
    const Sum inclusive = warp_inclusive_sum(length);
    const u64 row = first + i;
    if (i < count && row >= s.row_begin && row < s.row_end) {
      const u64 at = s.out_row + (row - s.row_begin), value = before + (inclusive - length);
      if (wide)
        reinterpret_cast<u64*>(offsets)[at] = value;
      else
        reinterpret_cast<u32*>(offsets)[at] = u32(value);
    }
    before += __shfl_sync(ALL_LANES, inclusive, 31);
  }
}

// Rows row_begin .. row_end of every segment -> offsets out_row .. of the output, and the offset after the last row of all.
// One warp a row block, counted from the one that holds row_begin. `out_chars`: characters of the whole output.
extern "C" __global__ void __launch_bounds__(256, 4)
    row_lengths_unpack(const SegmentView* segments, u32 segment_count, u64 row_blocks, u8* offsets, u32 wide,
                       u64 out_rows, u64 out_chars) {
  const u64 unit = blockIdx.x * u64(blockDim.x / 32) + threadIdx.x / 32;
  if (unit >= row_blocks) return;
  const SegmentView& s = segments[find_segment<&SegmentView::first_row_block>(segments, segment_count, unit)];
  const u64 b = s.row_begin / ROW_BLOCK + unit - s.first_row_block, first = b * ROW_BLOCK;
  const u32 count = u32(min(s.rows - first, u64(ROW_BLOCK)));
  const PackedBlock block(s, b);
  const u64 before = reinterpret_cast<const u64*>(s.row_starts)[b] - s.char_begin + s.out_char;
  if (block.width <= 22 && block.minimum < 1u << 22)
    unpack_block<u32>(s, block, first, count, before, offsets, wide);
  else
    unpack_block<u64>(s, block, first, count, before, offsets, wide);
  if (unit == 0 && lane_id() == 0) {
    if (wide)
      reinterpret_cast<u64*>(offsets)[out_rows] = out_chars;
    else
      reinterpret_cast<u32*>(offsets)[out_rows] = u32(out_chars);
  }
}

// Where rows lie. For rows[i] (a row of the column): places[4 * i] = segment, [4 * i + 1] = first character in it,
// [4 * i + 2] = length, [4 * i + 3] = tiles it touches. One thread a row.
extern "C" __global__ void __launch_bounds__(256, 4)
    locate_rows(const SegmentView* segments, u32 segment_count, const u64* rows, u64 count, u64* places) {
  const u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x;
  if (i >= count) return;
  const u64 row = rows[i];
  const u32 k = find_segment<&SegmentView::first_row>(segments, segment_count, row);
  const SegmentView& s = segments[k];
  const u64 local = row - s.first_row, b = local / ROW_BLOCK;
  const u32 in_block = u32(local % ROW_BLOCK);
  const PackedBlock block(s, b);
  u64 start = reinterpret_cast<const u64*>(s.row_starts)[b];
  for (u32 r = 0; r < in_block; ++r) start += block.length(r);
  u64 length = block.length(in_block);
  if (start > s.chars || length > s.chars - start) length = 0, start = 0;  // damaged
  places[4 * i] = k;
  places[4 * i + 1] = start;
  places[4 * i + 2] = length;
  places[4 * i + 3] = length == 0 ? 0 : (start + length - 1 >> s.tile_shift) - (start >> s.tile_shift) + 1;
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

// Validity of rows row_begin .. row_end of every segment, one after another, to bit 0 of `to`. One thread a word.
extern "C" __global__ void __launch_bounds__(256)
    gather_validity(const SegmentView* segments, u32 segment_count, u64 rows, u32* to) {
  const u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x;
  if (32 * i >= rows) return;
  const u64 end = min(32 * i + 32, rows);
  u32 k = find_segment<&SegmentView::out_row>(segments, segment_count, 32 * i);
  u32 word = 0;
  for (u64 row = 32 * i; row < end;) {
    const SegmentView& s = segments[k];
    const u64 stop = min(end, s.out_row + (s.row_end - s.row_begin));
    const u8* validity = reinterpret_cast<const u8*>(s.validity);
    for (; row < stop; ++row) {
      const u64 local = s.row_begin + (row - s.out_row);
      const u32 bit = validity == nullptr ? 1 : validity[local / 8] >> (local % 8) & 1;
      word |= bit << (row % 32);
    }
    ++k;
  }
  to[i] = word;
}

// Validity of chosen rows: bit i of `to` is the validity of rows[i]. One thread a row, whole warps.
extern "C" __global__ void __launch_bounds__(256)
    take_validity(const SegmentView* segments, u32 segment_count, const u64* rows, u64 count, u32* to, u64* nulls) {
  const u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x;
  bool valid = false;
  if (i < count) {
    const SegmentView& s = segments[find_segment<&SegmentView::first_row>(segments, segment_count, rows[i])];
    const u64 local = rows[i] - s.first_row;
    const u8* validity = reinterpret_cast<const u8*>(s.validity);
    valid = validity == nullptr || (validity[local / 8] >> (local % 8) & 1);
  }
  const u32 word = __ballot_sync(ALL_LANES, valid), inside = __ballot_sync(ALL_LANES, i < count);
  if (lane_id() == 0 && inside != 0) {
    to[i / 32] = word;
    atomicAdd(nulls, u64(__popc(inside & ~word)));
  }
}
