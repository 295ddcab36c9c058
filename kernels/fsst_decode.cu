// FSST decode (GSST, splits of constant uncompressed size): codes -> characters, many segments in one launch.
//
// Work unit: a warp decodes a *bundle* of 32 consecutive tiles, one tile a lane. The codes of a bundle are contiguous. They are staged in
// shared memory with coalesced loads of 16 bytes, in batches of as many tiles as fit. A lane appends symbols to 64 bits, and writes 8 bytes
// at a time to its row of shared memory. Then the warp writes the characters with coalesced stores of 16 bytes.
//
//   row of a lane   | 0 to 15 bytes: the misalignment of its place in memory | characters of the tile |
//   table           | entries 0 to 254: symbols | 255: no bytes | 256 + b: the byte b |
//
// An escape selects the upper half of the table for the next byte, so it needs no branch. Raw tiles are copied.
//
// Bound: shared memory. 85 % of its cycles were busy (ncu), half of these with bank conflicts. TPC-H SF 10 l_comment on an H200, tiles of
// 256 bytes: 1.04 ms, 1,520 GB/s. Two that lost (docs/kernels.md has the others):
// - eight copies of entries of 16 bytes, so that lanes share no bank, for 16 instead of 18 warps: 30 instead of 41 cycles of shared memory
//   for four codes, 1.6 % faster here, 3 % slower on Chinese text, URLs, faust and genome.
// - rows of half a tile, so that 21 instead of 18 warps fit: 1,285 GB/s. It is not short of warps.
//
// Invariant: whatever the codes, nothing outside the row, the staged codes and the wanted characters is touched. Starts and lengths are
// clamped to `codes_nbytes`, and a row takes no more than its bytes.
#include "fsst.cuh"
#include "text_decode.cuh"

// A lane's place in its codes.
struct LaneCodes {
  const u32* word;  // the next word of staged codes to read
  u32 previous;     // the one before
  u32 shift;        // where in it the next code lies
  u32 half;         // which half of the table the next code belongs to
  u32 first_eight, eights;

  // Decodes four codes. Their table look-ups are under way before the first symbol is appended.
  __device__ __forceinline__ void decode_four(LaneOutput& row) {
    const u32 next = *word++;
    const u32 four = __funnelshift_r(previous, next, shift);
    previous = next;
    u64 symbols[4];
    bool eight[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 entry = (four >> (8 * i) & 255) | half;
      half = entry == 255 ? 256 : 0;
      symbols[i] = *reinterpret_cast<const u64*>(row.shared + entry * (8 * row.one));
      eight[i] = entry - first_eight < eights;
    }
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 bits = split_entry(symbols[i], eight[i]);
      row.append(symbols[i], bits);
    }
  }
};

// Decodes `count` codes that start at byte `at` of the staged codes to byte `skew` of the row at `row_at` in shared memory; bytes
// around them become 0. Four codes write at most four words, so it is enough to look at the row's end before every four: what
// damaged codes write past it stays in the warp's memory.
__device__ __forceinline__ void decode_fsst_row(u8* shared, const u32* staged, u32 at, u32 count, u32 row_at, u32 skew,
                                                u32 one) {
  const DecodeTable* table = reinterpret_cast<const DecodeTable*>(shared);
  const u32 last = row_at + ROW_NBYTES - 8;
  *reinterpret_cast<u64*>(shared + row_at) = 0;
  LaneOutput row = {shared, row_at + (skew & 8), 0, 8 * (skew & 7), one};
  LaneCodes codes = {staged + at / 4 + 1, staged[at / 4], 8 * (at & 3), 0, table->first_eight, table->eights};
  for (; count >= 4; count -= 4) {
    row.out = min(row.out, last);
    codes.decode_four(row);
  }
  row.out = min(row.out, last);
  if (count > 0) {
    u32 rest = __funnelshift_r(codes.previous, codes.shift == 0 ? 0 : *codes.word, codes.shift);
    for (; count > 0; --count) {
      const u32 entry = (rest & 255) | codes.half;
      codes.half = entry == 255 ? 256 : 0;
      u64 symbol = table->entries[entry];
      const u32 bits = split_entry(symbol, table->is_eight(entry));
      row.append(symbol, bits);
      rest >>= 8;
    }
    row.out = min(row.out, last);
  }
  *reinterpret_cast<u64*>(shared + row.out) = row.pending;
  if (row.out < last) *reinterpret_cast<u64*>(shared + row.out + 8) = 0;
}

struct FsstRows {
  u32 one;
  __device__ __forceinline__ void decode_row(u8* shared, const u32* staged, u32 at, u32 nbytes, u32 row_at, u32 skew,
                                             u32) const {
    decode_fsst_row(shared, staged, at, nbytes, row_at, skew, one);
  }
};

// block: a multiple of 32 threads, `bundles` (1, 2 or 4) bundles a warp, of one block of tiles. grid: as many blocks as cover the
// tiles of every segment, counted from the block of tiles that holds `char_begin`; segment k has those from first_units[k] on, or
// none where the next one begins there too. shared memory: DecodeTable, then a warp
// 32 * ROW_NBYTES + codes_capacity + 32 bytes. codes_capacity >= TILE + 16, a multiple of 16.
extern "C" __global__ void __launch_bounds__(256, 2)
    fsst_decode(const SegmentView* __restrict__ segments, const u32* __restrict__ first_units, u32 segment_count,
                u32 codes_capacity, u32 bundles) {
  DYNAMIC_SHARED(u64, shared_memory);
  const u32 k = find_unit(first_units, segment_count, blockIdx.x);
  const SegmentView& s = segments[k];
  for (u32 i = threadIdx.x; i < sizeof(DecodeTable) / 8; i += blockDim.x)
    shared_memory[i] = __ldg(reinterpret_cast<const u64*>(s.table) + i);
  __syncthreads();

  const FsstRows rows = {u32(__ffs(__ballot_sync(ALL_LANES, true)))};
  const u32 mine = u32(sizeof(DecodeTable)) + threadIdx.x / 32 * (32 * ROW_NBYTES + codes_capacity + 32);
  decode_bundles(rows, s, blockIdx.x - first_units[k], reinterpret_cast<u8*>(shared_memory), mine, codes_capacity,
                 bundles);
}
