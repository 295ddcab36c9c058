// Packed row lengths (docs/format.md, section 3), as kernels read them.
#pragma once

#include "text.cuh"

#define ROWS_PER_LANE (ROW_BLOCK / 32)

// Where row i of a row block lies in shared memory: neither rows 8 * lane + k nor rows 32 * k + lane of a warp share a bank (64-bit
// offsets: two at most).
#define PADDED_ROWS (ROW_BLOCK + ROW_BLOCK / 32)
__device__ __forceinline__ u32 padded(u32 i) { return i + i / 32; }

// The row blocks of a launch that this warp handles, one after another: what it has found out about its segment serves all of them, and
// few warps wait for the memory's answers at their start.
struct Run {
  u32 begin, end;
  __device__ __forceinline__ explicit Run(u64 row_blocks) {
    const u32 warps = gridDim.x * (blockDim.x / 32), warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    const u64 each = (u32(row_blocks) + warps - 1) / warps;
    begin = u32(min(warp * each, row_blocks)), end = u32(min(begin + each, row_blocks));
  }
};

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
  // The block of another lane.
  __device__ __forceinline__ PackedBlock(const PackedBlock& own, u32 lane)
      : bits(reinterpret_cast<const u32*>(__shfl_sync(ALL_LANES, reinterpret_cast<u64>(own.bits), lane))),
        width(__shfl_sync(ALL_LANES, own.width, lane)),
        minimum(__shfl_sync(ALL_LANES, own.minimum, lane)) {}
  // Asks for the next row block's bits, which lie behind this one's; whole warps.
  __device__ __forceinline__ void prefetch_next(const SegmentView& s) const {
    const u32* next = bits + ROW_BLOCK / 32 * width + 32 * lane_id();  // as much again, a line a lane
    const u64 place = next - reinterpret_cast<const u32*>(s.row_bits);
    if (4 * lane_id() < width && place < s.row_bits_words) prefetch(reinterpret_cast<u64>(next));
  }
  // Length of row i less the minimum; what stands behind the segment's last row is not to be used.
  __device__ __forceinline__ u64 difference(u32 i) const {
    if (width == 0) return 0;
    const u32 bit = i * width, shift = bit & 31, used = shift + width;
    const u32* word = bits + bit / 32;
    if (width < 32) return __funnelshift_r(word[0], used > 32 ? word[1] : 0, shift) & ((1u << width) - 1);
    u64 value = word[0] >> shift;
    if (used > 32) value |= u64(word[1]) << (32 - shift);
    if (used > 64) value |= u64(word[2]) << (64 - shift);
    return value & ((1ull << width) - 1);
  }
  __device__ __forceinline__ u64 length(u32 i) const { return minimum + difference(i); }
  // Whether the sum of all lengths fits 31 bits.
  __device__ __forceinline__ bool sums_fit() const { return width <= 22 && minimum < 1u << 22; }

  // For widths up to 8: the differences of rows 8 * group to 8 * group + 3 in `near`, of the next four in `far`; above them others'.
  __device__ __forceinline__ void eight_rows(u32 group, u32* near, u32* far) const {
    u32 words[3] = {0, 0, 0};
#pragma unroll
    for (u32 i = 0; i < 3; ++i)  // eight rows are `width` whole bytes
      if (width > 0) words[i] = bits[min(group * width / 4 + i, ROW_BLOCK / 32 * width - 1)];
    const u32 shift = 8 * (group * width & 3), high = __funnelshift_r(words[1], words[2], shift);
    *near = __funnelshift_r(words[0], words[1], shift);
    *far = u32((*near | u64(high) << 32) >> (4 * width));
  }

  // The sum of the first `rows` (at most 4) of four differences that `eight_rows` gave: sums of neighbours first, in the room of both.
  __device__ __forceinline__ u32 sum_of(u32 four, u32 rows) const {
    const u32 one = (1u << width) - 1, two = (1u << (2 * width)) - 1, alternate = one | one << (2 * width);
    const u32 kept = four & u32((1ull << (rows * width)) - 1);
    const u32 pairs = (kept & alternate) + (kept >> width & alternate);
    return (pairs & two) + (pairs >> (2 * width));
  }

  // Characters of the rows before row `i`, as far as the `parts` lanes, of which this is number `part`, share them out among each other.
  __device__ __forceinline__ u64 sum_before(u32 i, u32 part, u32 parts) const {
    u64 sum = part == 0 ? i * minimum : 0;
    if (width > 8) {
      for (u32 r = part; r < i; r += parts) sum += difference(r);
      return sum;
    }
    u32 narrow = 0;
    for (u32 r = 8 * part; r < i; r += 8 * parts) {
      u32 near, far;
      eight_rows(r / 8, &near, &far);
      narrow += sum_of(near, min(i - r, 4u)) + sum_of(far, max(min(i - r, 8u), 4u) - 4);
    }
    return sum + narrow;
  }
};

// Where a lane's eight neighbouring rows of a block end, if the first row of the block begins at `origin`; returns where the first of these begins.
// Sums have to fit, or wrap. Their bits are whole bytes, and one warp sum does for all.
__device__ __forceinline__ u32 eight_ends(const PackedBlock& block, u32* ends, u32 origin) {
  const u32 lane = lane_id(), width = block.width;
  u32 sum = 0;
  if (width <= 8) {
    u32 near, far;
    block.eight_rows(lane, &near, &far);
    const u32 mask = (1u << width) - 1;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      ends[k] = near >> (k * width) & mask;
      ends[k + 4] = far >> (k * width) & mask;
    }
  } else {
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k) ends[k] = u32(block.difference(ROWS_PER_LANE * lane + k));
  }
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) ends[k] = sum += u32(block.minimum) + ends[k];
  const u32 start = origin + warp_inclusive_sum(sum) - sum;
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) ends[k] += start;
  return start;
}

// Where the rows of a block begin, if the first does at `origin`, to `staged`; returns where this lane's last row ends.
__device__ __forceinline__ u32 stage_starts(const PackedBlock& block, u32* staged, u32 origin = 0) {
  u32 ends[ROWS_PER_LANE];
  const u32 lane = lane_id(), start = eight_ends(block, ends, origin);
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) staged[padded(ROWS_PER_LANE * lane + k)] = k == 0 ? start : ends[k - 1];
  return ends[ROWS_PER_LANE - 1];
}
