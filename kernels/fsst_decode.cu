// FSST decode (GSST, splits of constant uncompressed size): codes -> characters, many segments in one launch.
//
// A warp decodes a *piece* of 32 consecutive tiles, one tile a lane. The piece's codes are contiguous: they are staged in shared
// memory with coalesced 16-byte loads, in batches of as many tiles as fit. A lane appends symbols to a 64-bit accumulator and
// writes 8 bytes at a time to its row of shared memory; the warp then writes the piece's characters with coalesced 8-byte stores.
//
// The table has 512 entries: entry 256 + b is the literal byte b. An escape (or a raw tile) selects the upper half for the next
// (for every) byte, so neither needs a branch. Entry 255 has no bytes.
//
// Whatever the codes, nothing outside the row, the staged codes and the wanted characters is touched: starts and lengths are
// clamped to `codes_nbytes`, and a row takes no more than its bytes.
#include "fsst.cuh"

#define ROW_PAD 8  // bytes

struct DecodeTable {
  u64 symbols[512];
  u8 bits[512];  // 8 * length
};

struct Lengths {
  u32 start;   // of the lane's tile in its block's codes
  u32 length;
};

// Code lengths of the block's tiles -> length and start of the lane's tile in piece `quarter` of the block.
__device__ __forceinline__ Lengths tile_lengths_of(const SegmentView& s, u64 block, u32 quarter, u64 tiles) {
  const u32 lane = lane_id();
  u32 lengths[4];
  const u64 first = block * TILE_BLOCK + 4 * lane;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) lengths[i] = 0;
  if (s.tile_shift <= 8) {
    const u8* from = reinterpret_cast<const u8*>(s.tile_lengths);
    if (first + 4 <= tiles) {
      const u32 four = *reinterpret_cast<const u32*>(from + first);
#pragma unroll
      for (u32 i = 0; i < 4; ++i) lengths[i] = (four >> (8 * i) & 255) + 1;
    } else {
      for (u32 i = 0; i < 4; ++i)
        if (first + i < tiles) lengths[i] = u32(from[first + i]) + 1;
    }
  } else {
    const u16* from = reinterpret_cast<const u16*>(s.tile_lengths);
    for (u32 i = 0; i < 4; ++i)
      if (first + i < tiles) lengths[i] = u32(from[first + i]) + 1;
  }
  const u32 sum = lengths[0] + lengths[1] + lengths[2] + lengths[3];
  const u32 before = warp_inclusive_sum(sum) - sum;
  // Tile 32 * quarter + lane of the block is number lane % 4 of lane 8 * quarter + lane / 4.
  const u32 source = 8 * quarter + lane / 4;
  Lengths result;
  result.start = __shfl_sync(ALL_LANES, before, source);
  result.length = 0;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    const u32 value = __shfl_sync(ALL_LANES, lengths[i], source);
    if (i < (lane & 3)) result.start += value;
    if (i == (lane & 3)) result.length = value;
  }
  return result;
}

// Copies bytes [from, to) of `codes` (16-byte aligned) so that byte b lands at staged[b - from / 16 * 16].
__device__ __forceinline__ void stage_codes(uint4* staged, u64 codes, u64 codes_nbytes, u64 from, u64 to) {
  const u64 first = from / 16, last = (to + 15) / 16;
  const uint4* source = reinterpret_cast<const uint4*>(codes);
  for (u64 i = first + lane_id(); i < last; i += 32) {
    if (16 * i + 16 <= codes_nbytes) {
      staged[i - first] = source[i];
    } else {
      u32* words = reinterpret_cast<u32*>(staged + (i - first));
      for (u32 k = 0; k < 4; ++k) words[k] = load_word(codes + 16 * i + 4 * k, codes, codes + codes_nbytes);
    }
  }
}

struct Row {
  u64* out;
  u32 capacity;  // 8-byte words
  u64 pending;
  u32 fill;      // bits in pending
  u32 words;     // written

  __device__ __forceinline__ void append(u64 symbol, u32 bits) {
    pending |= symbol << fill;
    const u32 before = fill;
    fill += bits;
    if (fill >= 64) {
      if (words < capacity) out[words] = pending;
      ++words;
      pending = shift_right(symbol, 64 - before);
      fill -= 64;
    }
  }
};

// Decodes `count` codes that start at byte `at` of the staged codes.
__device__ __forceinline__ void decode_row(const DecodeTable* table, const u32* staged, u32 at, u32 count, bool raw, u64* out,
                                           u32 tile) {
  Row row = {out, tile / 8, 0, 0, 0};
  const u32 literal = raw ? 256 : 0;
  u32 half = literal;
  const u32* word = staged + at / 4;
  const u32 shift = 8 * (at & 3);
  u32 previous = *word;
  for (; count >= 4; count -= 4) {
    const u32 next = *++word;
    const u32 four = __funnelshift_r(previous, next, shift);
    previous = next;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 entry = (four >> (8 * i) & 255) | half;
      half = entry == 255 ? 256 : literal;
      row.append(table->symbols[entry], table->bits[entry]);
    }
  }
  if (count > 0) {
    u32 rest = __funnelshift_r(previous, shift == 0 ? 0 : word[1], shift);
    for (; count > 0; --count) {
      const u32 entry = (rest & 255) | half;
      half = entry == 255 ? 256 : literal;
      row.append(table->symbols[entry], table->bits[entry]);
      rest >>= 8;
    }
  }
  if (row.fill > 0 && row.words < row.capacity) out[row.words] = row.pending;
}

// Writes the piece's characters from `begin` to `end` (relative to the piece) to `to` + character number.
__device__ __forceinline__ void write_chars(const u32* rows, u32 tile_shift, u64 to, u32 begin, u32 end) {
  const u32 word_shift = tile_shift - 2;
  const u64 aligned = (to + begin) & ~7ull;
  const u64 last = to + end;
  for (u64 address = aligned + 8 * lane_id(); address < last; address += 256) {
    if (address >= to + begin && address + 8 <= last) {
      const u32 at = u32(address - to);  // character number
      const u32 w = at / 4, shift = 8 * (at & 3);
      const u32 pad = ROW_PAD / 4;
      const u32 a = rows[w + (w >> word_shift) * pad], b = rows[w + 1 + ((w + 1) >> word_shift) * pad];
      const u32 c = shift ? rows[w + 2 + ((w + 2) >> word_shift) * pad] : 0;
      *reinterpret_cast<uint2*>(address) = make_uint2(__funnelshift_r(a, b, shift), __funnelshift_r(b, c, shift));
    } else {
      for (u32 i = 0; i < 8; ++i) {
        if (address + i < to + begin || address + i >= last) continue;
        const u32 at = u32(address + i - to);
        *reinterpret_cast<u8*>(address + i) =
            reinterpret_cast<const u8*>(rows)[at + (at >> tile_shift) * ROW_PAD];
      }
    }
  }
}

// block: a multiple of 32 threads, a thread a tile. grid: as many blocks as cover the tiles of every segment, counted from the
// block of tiles that holds `char_begin`. shared memory: DecodeTable, then a warp 32 * (tile + ROW_PAD) + codes_capacity + 32 bytes.
// All segments of a launch have the same tile size; codes_capacity >= tile + 16, a multiple of 16.
extern "C" __global__ void __launch_bounds__(256, 2)
    fsst_decode(const SegmentView* __restrict__ segments, u32 segment_count, u32 tile_shift, u32 codes_capacity, u8* out) {
  DYNAMIC_SHARED(u64, shared_memory);
  const SegmentView& s = segments[find_segment<&SegmentView::first_unit>(segments, segment_count, blockIdx.x)];
  DecodeTable* table = reinterpret_cast<DecodeTable*>(shared_memory);
  for (u32 i = threadIdx.x; i < sizeof(DecodeTable) / 8; i += blockDim.x)
    shared_memory[i] = reinterpret_cast<const u64*>(s.table)[i];
  __syncthreads();

  const u32 tile = 1u << tile_shift, lane = lane_id(), warp = threadIdx.x / 32;
  const u32 row_nbytes = tile + ROW_PAD, warp_nbytes = 32 * row_nbytes + codes_capacity + 32;
  u8* mine = reinterpret_cast<u8*>(table + 1) + warp * warp_nbytes;
  u64* row = reinterpret_cast<u64*>(mine + lane * row_nbytes);
  uint4* staged = reinterpret_cast<uint4*>(mine + 32 * row_nbytes);

  const u64 tiles = (s.chars + tile - 1) >> tile_shift;
  const u64 first_block = (s.char_begin >> tile_shift) / TILE_BLOCK;
  const u64 first_tile = first_block * TILE_BLOCK + (blockIdx.x - s.first_unit) * blockDim.x + 32 * warp;
  const u64 block = first_tile / TILE_BLOCK;
  const u64 piece_begin = first_tile << tile_shift;
  if (first_tile >= tiles || piece_begin >= s.char_end || piece_begin + 32 * tile <= s.char_begin) return;

  const Lengths mine_lengths = tile_lengths_of(s, block, u32(first_tile % TILE_BLOCK) / 32, tiles);
  const u64 block_start = reinterpret_cast<const u64*>(s.block_starts)[block];
  const u64 tile_begin = piece_begin + (u64(lane) << tile_shift);
  const u32 n = tile_begin < s.chars ? u32(min(u64(tile), s.chars - tile_begin)) : 0;
  u64 start = block_start + mine_lengths.start;
  u32 length = mine_lengths.length;
  if (length > n || start > s.codes_nbytes || length > s.codes_nbytes - start) length = 0, start = 0;

  u32 open = __ballot_sync(ALL_LANES, length > 0);  // tiles still to decode
  while (open != 0) {
    const u64 base = __shfl_sync(ALL_LANES, start, __ffs(open) - 1);
    const u64 origin = base / 16 * 16;
    const bool fits = (open >> lane & 1) && start >= base && start + length - origin <= codes_capacity;
    const u32 batch = __ballot_sync(ALL_LANES, fits);
    const u64 to = __shfl_sync(ALL_LANES, start + length, 31 - __clz(batch));
    stage_codes(staged, s.codes, s.codes_nbytes, base, to);
    __syncwarp();
    if (fits)
      decode_row(table, reinterpret_cast<const u32*>(staged), u32(start - origin), length, length == n, row, tile);
    open &= ~batch;
    __syncwarp();
  }

  const u64 begin = max(piece_begin, s.char_begin), end = min(min(piece_begin + 32 * tile, s.chars), s.char_end);
  const u64 to = reinterpret_cast<u64>(out) + s.out_char - s.char_begin + piece_begin;
  write_chars(reinterpret_cast<const u32*>(mine), tile_shift, to, u32(begin - piece_begin), u32(end - piece_begin));
}
