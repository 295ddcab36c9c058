// FSST decode (GSST, splits of constant uncompressed size): codes -> characters, many segments in one launch.
//
// Work unit: a warp decodes a *piece* of 32 consecutive tiles, one tile a lane. The codes of a piece are contiguous. They are staged in
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
#include "text_tiles.cuh"

#define ROW_NBYTES (TILE + DECODE_ROW_EXTRA_NBYTES)  // a tile and the misalignment of its place in memory

// The characters a lane has decoded but not yet written.
struct LaneOutput {
  u8* shared;
  u32 out;  // where in `shared` the next eight bytes belong
  u64 pending;
  u32 fill;  // bits in pending
  u32 one;   // 1, but the compiler does not know: what is multiplied by it leaves the pipe of the integers alone

  __device__ __forceinline__ void append(u64 symbol, u32 bits) {
    pending |= symbol << fill;
    const u32 total = fill + bits;
    if (total >= 64) {
      *reinterpret_cast<u64*>(shared + out) = pending;
      pending = shift_right(symbol, 64 - fill);
      out = one * 8 + out;
    }
    fill = total & 63;
  }
};

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
__device__ __forceinline__ void decode_row(u8* shared, const u32* staged, u32 at, u32 count, u32 row_at, u32 skew,
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

// Copies a raw tile of `n` bytes to its row. Every lane begins with another word, so lanes in lockstep hit different banks.
__device__ __forceinline__ void copy_row(u8* shared, const u32* staged, u32 at, u32 n, u32 row_at, u32 skew) {
  u32* row = reinterpret_cast<u32*>(shared + row_at);
  const u32 first = skew / 4, last = (skew + n - 1) / 4, shift = 8 * ((at - skew) & 3);
  const int ahead = (int(at) - int(skew)) >> 2;  // of a word's characters in `staged`; with the first word at least -1
  const u32 first_mask = ~0u << (8 * (skew & 3)), last_mask = ~0u >> (24 - 8 * ((skew + n - 1) & 3));
  for (u32 w = 0; w < first; ++w) row[w] = 0;
  u32 w = first + lane_id() % (last - first + 1);
  for (u32 i = first; i <= last; ++i) {
    u32 word = __funnelshift_r(staged[max(int(w) + ahead, 0)], staged[int(w) + ahead + 1], shift);
    if (w == first) word &= first_mask;
    if (w == last) word &= last_mask;
    row[w] = word;
    w = w == last ? first : w + 1;
  }
  // The rest of the 16 bytes that the tile's end lies in.
  for (u32 end = (skew + n + 3) / 4; end <= (skew + n) / 16 * 4 + 3; ++end) row[end] = 0;
}

// Writes the piece's characters from `begin` to `end` (relative to the piece). `to` is where its first character belongs; the
// rows hold their tiles from byte `to` % 16 on, so 16-byte chunks of rows and of memory coincide, and where two tiles meet in a
// chunk the first has zeros at its end, the second at its start.
__device__ __forceinline__ void write_chars(const uint4* rows, u8* to, u32 begin, u32 end) {
  const u32 tile_chunks = TILE / 16, row_chunks = tile_chunks + 1, lane = lane_id();
  const u32 skew = u32(reinterpret_cast<u64>(to) & 15);
  const u32 first = begin + skew, last = end + skew;
  uint4* base = reinterpret_cast<uint4*>(to - skew);
#pragma unroll 4
  for (u32 chunk = (first + 15) / 16 + lane; chunk < last / 16; chunk += 32) {
    const u32 row = chunk / tile_chunks, column = chunk % tile_chunks;
    const uint4* from = rows + row * row_chunks + column;
    uint4 value = *from;
    if (column == 0 && row > 0) {
      const uint4 before = *(from - 1);  // the last chunk of the row before
      value = make_uint4(value.x | before.x, value.y | before.y, value.z | before.z, value.w | before.w);
    }
    base[chunk] = value;
  }
  // The bytes before the first and behind the last whole chunk, one a lane.
  const u32 byte = lane < 16 ? first / 16 * 16 + lane : last / 16 * 16 + lane - 16;
  const bool edge = lane < 16 ? (first & 15) != 0 : (last & 15) != 0 && !(first / 16 == last / 16 && (first & 15) != 0);
  if (edge && byte >= first && byte < last) {
    const u8* bytes = reinterpret_cast<const u8*>(rows);
    const u32 row = byte / TILE, column = byte % TILE;
    u8 value = row < 32 ? bytes[row * ROW_NBYTES + column] : 0;
    if (column < 16 && row > 0) value |= bytes[(row - 1) * ROW_NBYTES + TILE + column];
    reinterpret_cast<u8*>(base)[byte] = value;
  }
}

// block: a multiple of 32 threads, `pieces` (1, 2 or 4) pieces a warp, of one block of tiles. grid: as many blocks as cover the
// tiles of every segment, counted from the block of tiles that holds `char_begin`; segment k has those from first_units[k] on, or
// none where the next one begins there too. shared memory: DecodeTable, then a warp
// 32 * ROW_NBYTES + codes_capacity + 32 bytes. codes_capacity >= TILE + 16, a multiple of 16.
extern "C" __global__ void __launch_bounds__(256, 2)
    fsst_decode(const SegmentView* __restrict__ segments, const u32* __restrict__ first_units, u32 segment_count,
                u32 codes_capacity, u32 pieces) {
  DYNAMIC_SHARED(u64, shared_memory);
  const u32 k = find_unit(first_units, segment_count, blockIdx.x);
  const SegmentView& s = segments[k];
  for (u32 i = threadIdx.x; i < sizeof(DecodeTable) / 8; i += blockDim.x)
    shared_memory[i] = __ldg(reinterpret_cast<const u64*>(s.table) + i);
  __syncthreads();

  const u32 lane = lane_id(), warp = threadIdx.x / 32, one = __ffs(__ballot_sync(ALL_LANES, true));
  u8* shared = reinterpret_cast<u8*>(shared_memory);
  const u32 mine = u32(sizeof(DecodeTable)) + warp * (32 * ROW_NBYTES + codes_capacity + 32);
  const u32 row_at = mine + lane * ROW_NBYTES;
  uint4* staged = reinterpret_cast<uint4*>(shared + mine + 32 * ROW_NBYTES);

  const u64 chars = s.chars, char_begin = s.char_begin, char_end = s.char_end;
  const u64 tiles = (chars + TILE - 1) / TILE;
  const u64 first_block = char_begin / TILE / TILE_BLOCK;
  u64 first_tile = first_block * TILE_BLOCK + (u64(blockIdx.x - first_units[k]) * blockDim.x + 32 * warp) * pieces;
  if (first_tile >= tiles || first_tile * TILE >= char_end) return;
  const u64 block = first_tile / TILE_BLOCK;
  BlockLengths lengths;
  lengths.load(s, block, tiles);
  const u64 codes = s.codes, codes_nbytes = s.codes_nbytes;
  const u64 block_start = __ldg(reinterpret_cast<const u64*>(s.block_starts) + block);
  u8* const to_begin = reinterpret_cast<u8*>(s.chars_to + s.out_char - char_begin);

  for (u32 piece = 0; piece < pieces; ++piece, first_tile += 32) {
    const u64 piece_begin = first_tile * TILE;
    if (first_tile >= tiles || piece_begin >= char_end) return;
    if (piece_begin + 32 * TILE <= char_begin) continue;
    u32 start_in_block;
    u32 length = lengths.of_tile(u32(first_tile % TILE_BLOCK) / 32, &start_in_block);
    const u64 tile_begin = piece_begin + lane * TILE;
    const u32 n = tile_begin < chars ? u32(min(u64(TILE), chars - tile_begin)) : 0;
    u64 start = block_start + start_in_block;
    if (length > n || start > codes_nbytes || length > codes_nbytes - start) length = 0, start = 0;

    u8* to = to_begin + piece_begin;
    const u32 skew = u32(reinterpret_cast<u64>(to) & 15);
    // The tile before may end in this chunk.
    if (n == 0) *reinterpret_cast<uint4*>(shared + row_at) = make_uint4(0, 0, 0, 0);
    u32 open = __ballot_sync(ALL_LANES, length > 0);  // tiles still to decode
    while (open != 0) {
      const u64 base = __shfl_sync(ALL_LANES, start, __ffs(open) - 1);
      const u64 origin = base / 16 * 16;
      const bool fits = (open >> lane & 1) && start >= base && start + length - origin <= codes_capacity;
      const u32 batch = __ballot_sync(ALL_LANES, fits);
      const u64 stop = __shfl_sync(ALL_LANES, start + length, 31 - __clz(batch));
      stage_codes(staged, codes, codes_nbytes, base, stop);
      // The next ones are needed soon.
      if (stop + 128 * lane < codes_nbytes && lane < codes_capacity / 128) prefetch(codes + stop + 128 * lane);
      __syncwarp();
      const u32* codes_at = reinterpret_cast<const u32*>(staged);
      if (fits && length == n)
        copy_row(shared, codes_at, u32(start - origin), n, row_at, skew);
      else if (fits)
        decode_row(shared, codes_at, u32(start - origin), length, row_at, skew, one);
      open &= ~batch;
      __syncwarp();
    }

    const u64 begin = max(piece_begin, char_begin), end = min(min(piece_begin + 32 * TILE, chars), char_end);
    write_chars(reinterpret_cast<const uint4*>(shared + mine), to, u32(begin - piece_begin), u32(end - piece_begin));
    __syncwarp();
  }
}
