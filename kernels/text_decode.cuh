// Decoders with a tile a lane: what they share. A warp decodes a *bundle* of 32 consecutive tiles, whose codes are contiguous.
// They are staged in shared memory with coalesced loads of 16 bytes, in batches of as many tiles as fit. A lane appends symbols to 64
// bits, and writes 8 bytes at a time to its row of shared memory. Then the warp writes the characters with coalesced stores of 16 bytes.
//
//   row of a lane   | 0 to 15 bytes: the misalignment of its place in memory | characters of the tile | what a decoder may write past it |
//
// Raw tiles are copied. DECODE_ROW_EXTRA_NBYTES is what a row has beside its tile, an odd multiple of 16.
#pragma once

#include "text_tiles.cuh"

#define ROW_NBYTES (TILE + DECODE_ROW_EXTRA_NBYTES)

// The characters a lane has decoded but not yet written.
struct LaneOutput {
  u8* shared;
  u32 out;  // where in `shared` the next eight bytes belong
  u64 pending;
  u32 fill;  // bits in pending
  u32 one;   // 1, but the compiler does not know: what is multiplied by it leaves the pipe of the integers alone
  u32 minus_one = 0 - one;

  __device__ __forceinline__ void append(u64 symbol, u32 bits) {
    pending |= symbol << fill;
    const u32 total = fill + bits;
    if (total >= 64) {
      *reinterpret_cast<u64*>(shared + out) = pending;
      pending = shift_right(symbol, fill * minus_one + 64);
      out = one * 8 + out;
    }
    fill = total & 63;
  }
};

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

// Writes the bundle's characters from `begin` to `end` (relative to the bundle). `to` is where its first character belongs; the
// rows hold their tiles from byte `to` % 16 on, so 16-byte chunks of rows and of memory coincide, and where two tiles meet in a
// chunk the first has zeros at its end, the second at its start.
__device__ __forceinline__ void write_chars(const uint4* rows, u8* to, u32 begin, u32 end) {
  const u32 tile_chunks = TILE / 16, row_chunks = ROW_NBYTES / 16, lane = lane_id();
  const u32 skew = u32(reinterpret_cast<u64>(to) & 15);
  const u32 first = begin + skew, last = end + skew;
  uint4* base = reinterpret_cast<uint4*>(to - skew);
#pragma unroll 4
  for (u32 chunk = (first + 15) / 16 + lane; chunk < last / 16; chunk += 32) {
    const u32 row = chunk / tile_chunks, column = chunk % tile_chunks;
    const uint4* from = rows + row * row_chunks + column;
    uint4 value = *from;
    if (column == 0 && row > 0) {
      const uint4 before = *(from - (row_chunks - tile_chunks));  // the last chunk of the row before
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

// Decodes `bundles` bundles a warp of a segment, from its thread block number `unit` on. `codec.decode_row(shared, staged, at, nbytes, row_at,
// skew, n)` decodes `nbytes` of codes, which begin at byte `at` of those staged, to byte `skew` of the row at `row_at`; `n` are the tile's
// characters. Bytes around them become 0, in the chunks of 16 bytes that they lie in. `shared`: all of shared memory. `mine`: where in it
// this warp's 32 * ROW_NBYTES + codes_capacity + 32 bytes are.
template <typename Codec>
__device__ __forceinline__ void decode_bundles(const Codec& codec, const SegmentView& s, u32 unit, u8* shared, u32 mine,
                                               u32 codes_capacity, u32 bundles) {
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  const u32 row_at = mine + lane * ROW_NBYTES;
  uint4* staged = reinterpret_cast<uint4*>(shared + mine + 32 * ROW_NBYTES);

  const u64 chars = s.chars, char_begin = s.char_begin, char_end = s.char_end;
  const u64 tiles = (chars + TILE - 1) / TILE;
  const u64 first_block = char_begin / TILE / TILE_BLOCK;
  u64 first_tile = first_block * TILE_BLOCK + (u64(unit) * blockDim.x + 32 * warp) * bundles;
  if (first_tile >= tiles || first_tile * TILE >= char_end) return;
  const u64 block = first_tile / TILE_BLOCK;
  BlockLengths lengths;
  lengths.load(s, block, tiles);
  const u64 codes = s.codes, codes_nbytes = s.codes_nbytes;
  const u64 block_start = __ldg(reinterpret_cast<const u64*>(s.block_starts) + block);
  u8* const to_begin = reinterpret_cast<u8*>(s.chars_to + s.out_char - char_begin);

  for (u32 bundle = 0; bundle < bundles; ++bundle, first_tile += 32) {
    const u64 bundle_begin = first_tile * TILE;
    if (first_tile >= tiles || bundle_begin >= char_end) return;
    if (bundle_begin + 32 * TILE <= char_begin) continue;
    u32 start_in_block;
    u32 length = lengths.of_tile(u32(first_tile % TILE_BLOCK) / 32, &start_in_block);
    const u64 tile_begin = bundle_begin + lane * TILE;
    const u32 n = tile_begin < chars ? u32(min(u64(TILE), chars - tile_begin)) : 0;
    u64 start = block_start + start_in_block;
    if (length > n || start > codes_nbytes || length > codes_nbytes - start) length = 0, start = 0;

    u8* to = to_begin + bundle_begin;
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
        codec.decode_row(shared, codes_at, u32(start - origin), length, row_at, skew, n);
      open &= ~batch;
      __syncwarp();
    }

    const u64 begin = max(bundle_begin, char_begin), end = min(min(bundle_begin + 32 * TILE, chars), char_end);
    write_chars(reinterpret_cast<const uint4*>(shared + mine), to, u32(begin - bundle_begin), u32(end - bundle_begin));
    __syncwarp();
  }
}
