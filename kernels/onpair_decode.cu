// OnPair decode: codes -> characters, many segments in one launch.
//
// Work unit: a warp decodes a piece of 32 consecutive tiles. Their codes are taken in *groups* of 8 codes of a tile, which begin at a byte, a group a
// lane: whatever tiles the groups are of, 32 of them are decoded together. So no lane waits for a tile that has more codes than its own. A
// scan of the lengths says where each lane's bytes go. The lane appends its symbols in words of 8 bytes, in the warp's room in shared memory;
// a word that two lanes share is put together by a shuffle. What is complete goes to memory with 16-byte stores.
//
//   tiles:   |aaaaaaaabbbbbbbbcc|aaaaaaaabbb|...    8 codes are `bits` bytes, so a group begins at a byte
//   lanes:    0       1       2  3       4
//
// Raw tiles are groups of 8 codes of 8 bits: codes 0 to 255 are the single bytes.
//
// Invariant: whatever the codes, nothing outside the codes, the warp's room and the wanted characters is touched: lengths and starts of tiles are
// clamped, and a group has 8 symbols of 16 bytes at most. A damaged tile moves what is behind it in the piece.
#include "onpair.cuh"
#include "text_tiles.cuh"

#define GROUP 8
// Blocks of a multiprocessor: two have room with tables of 11 bits where there are 228 KB of shared memory.
#if STAGED && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
#define BLOCKS 2
#else
#define BLOCKS 1
#endif
#define ROOM_NBYTES (32 * GROUP * 16 + 32)  // of a warp: all symbols of 32 groups, and what is left over from before

// The lane's 12 bytes from `address` on, as far as they lie before `end`.
__device__ __forceinline__ void load_codes(u64 address, u64 end, u32 words[3]) {
  const u64 aligned = address & ~3ull;
  const u32 shift = 8 * u32(address & 3);
  u32 w[4];
  if (aligned + 16 <= end) {
    const u32* from = reinterpret_cast<const u32*>(aligned);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) w[i] = __ldg(from + i);
  } else {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) w[i] = load_word(aligned + 4 * i, aligned, end);
  }
#pragma unroll
  for (u32 i = 0; i < 3; ++i) words[i] = __funnelshift_r(w[i], w[i + 1], shift);
}

// The tiles of a piece, one a lane.
struct Tiles {
  u32 start;   // of its codes, from the first of the block of tiles on
  u32 bits;    // of a code, 8 if the tile is raw
  u32 count;   // codes
  u32 before;  // groups of the tiles before
  u32 groups;  // of all tiles
};

// Writes `nbytes` of the room to `to` + `at`, multiples of 16, as far as that lies from `to` + `low` up to `to` + `high`.
__device__ __forceinline__ void write_out(const u8* room, u8* to, u32 at, u32 nbytes, u32 low, u32 high) {
  for (u32 byte = 16 * lane_id(); byte < nbytes; byte += 512) {
    if (byte + 16 <= nbytes && at + byte >= low && at + byte + 16 <= high) {
      *reinterpret_cast<uint4*>(to + at + byte) = *reinterpret_cast<const uint4*>(room + byte);
    } else {
      for (u32 i = byte; i < byte + 16; ++i)
        if (i < nbytes && at + i >= low && at + i < high) to[at + i] = room[i];
    }
  }
}

__device__ __forceinline__ u32 length_of_entry(const uint4* entries, u32 first_full, u32 code) {
  return code >= first_full ? 16 : entries[code].w >> 27;
}

// Bytes of a code's symbol; `of_codes` has those of all codes, if STAGED.
__device__ __forceinline__ u32 symbol_length(const uint4* entries, const u8* of_codes, u32 first_full, u32 code) {
  if (STAGED) return of_codes[code];
  return length_of_entry(entries, first_full, code);
}

// Decodes 32 groups to the room, behind `held` bytes that are there already; returns the bytes that are there then. `carry`: of the
// last bytes, those in a word that is not complete. `last`: nothing follows, so that word is written, too.
__device__ __forceinline__ u32 decode_groups(const uint4* entries, const u8* of_codes, u32 first_full, u8* room,
                                             u32 held, u64& carry, const u32 words[3], u32 bits, u32 count, bool last) {
  const u32 lane = lane_id();
  // Lengths first, of a byte each; entries when they are appended: kept, they would take half of the registers.
  u32 lengths[GROUP / 4] = {0, 0}, sum = 0;
  const u32 mask = (1u << bits) - 1;
  u32 w0 = words[0], w1 = words[1], w2 = words[2];
#pragma unroll
  for (u32 k = 0; k < GROUP; ++k) {
    const u32 length = k < count ? symbol_length(entries, of_codes, first_full, w0 & mask) : 0;
    w0 = __funnelshift_r(w0, w1, bits);
    w1 = __funnelshift_r(w1, w2, bits);
    w2 >>= bits;
    lengths[k / 4] |= length << (8 * (k % 4));
    sum += 8 * length;
  }
  const u32 inclusive = warp_inclusive_sum(sum);
  const u32 total = held + __shfl_sync(ALL_LANES, inclusive, 31) / 8;
  const u32 at = 8 * held + inclusive - sum;
  u64* const first = reinterpret_cast<u64*>(room + at / 64 * 8);
  u64* out = first;
  u32 fill = at & 63;
  u64 pending = 0, head = 0;
  w0 = words[0], w1 = words[1], w2 = words[2];
#pragma unroll
  for (u32 k = 0; k < GROUP; ++k) {
    const u32 length = lengths[k / 4] >> (8 * (k % 4)) & 255;
    const uint4 entry = entries[w0 & mask];
    w0 = __funnelshift_r(w0, w1, bits);
    w1 = __funnelshift_r(w1, w2, bits);
    w2 >>= bits;
    u64 low = u64(entry.y) << 32 | entry.x, high = u64(length == 16 ? entry.w : entry.w & 0xffffff) << 32 | entry.z;
    if (length == 0) low = high = 0;
    const u32 end = fill + 8 * length;
    const u64 a = pending | low << fill, b = shift_right(low, 64 - fill) | high << fill;
    if (end >= 64) {
      if (out == first)
        head = a;
      else
        *out = a;
    }
    if (end >= 128) out[1] = b;
    pending = end >= 128 ? shift_right(high, 64 - fill) : end >= 64 ? b : a;
    out += end / 64;
    fill = end & 63;
  }
  // A lane whose bytes all lie in the word that lanes before it began passes theirs on. Two such lanes follow each other at the end of a
  // segment at most; where codes are damaged, bytes are lost.
  const bool crossed = out != first;
  u64 mine = pending;
#pragma unroll
  for (u32 i = 0; i < 2; ++i) {
    const u64 before = __shfl_sync(ALL_LANES, mine, (lane + 31) & 31);
    if (!crossed) mine = pending | (lane == 0 ? carry : before);
  }
  const u64 rotated = __shfl_sync(ALL_LANES, mine, (lane + 31) & 31);
  if (crossed) *first = head | (lane == 0 ? carry : rotated);
  if (last) {
    const u32 having = __ballot_sync(ALL_LANES, sum > 0);
    if (having != 0 && lane == u32(31 - __clz(int(having))) && fill != 0) *out = mine;
  }
  carry = rotated;
  return total;
}

// block: a multiple of 32 threads, `pieces` (1, 2 or 4) pieces a warp, of one block of tiles. grid: as fsst_decode's. shared memory: if STAGED
// room for the largest table and the lengths of its symbols, table_nbytes (else 0), then ROOM_NBYTES a warp.
extern "C" __global__ void __launch_bounds__(DECODE_THREADS, BLOCKS)
    onpair_decode(const SegmentView* __restrict__ segments, const u32* __restrict__ first_units, u32 segment_count,
                  u32 table_nbytes, u32 pieces) {
  DYNAMIC_SHARED(uint4, shared_memory);
  const u32 k = find_unit(first_units, segment_count, blockIdx.x);
  const SegmentView& s = segments[k];
  const OnpairTable* table = reinterpret_cast<const OnpairTable*>(s.table);
  const u8* of_codes = nullptr;
  if (STAGED) {
    const uint4* from = reinterpret_cast<const uint4*>(table);
    const u32 nbytes = min(table->nbytes, table_nbytes);
    for (u32 i = threadIdx.x; i < nbytes / 16; i += blockDim.x) shared_memory[i] = __ldg(from + i);
    table = reinterpret_cast<const OnpairTable*>(shared_memory);
    __syncthreads();
    u8* const lengths = reinterpret_cast<u8*>(shared_memory) + nbytes;
    const u32 codes = min(table->codes, min(nbytes / 16, table_nbytes - nbytes));
    for (u32 i = threadIdx.x; i < codes; i += blockDim.x)
      lengths[i] = u8(length_of_entry(reinterpret_cast<const uint4*>(table + 1), table->first_full, i));
    of_codes = lengths;
  }
  __syncthreads();
  const uint4* const entries = reinterpret_cast<const uint4*>(table + 1);
  const u32 table_bits = table->bits, first_full = table->first_full;
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  u8* const room = reinterpret_cast<u8*>(shared_memory) + table_nbytes + warp * ROOM_NBYTES;

  const u64 chars = s.chars, char_begin = s.char_begin, char_end = s.char_end;
  const u64 tiles = (chars + TILE - 1) / TILE;
  const u64 first_block = char_begin / TILE / TILE_BLOCK;
  u64 first_tile = first_block * TILE_BLOCK + (u64(blockIdx.x - first_units[k]) * blockDim.x + 32 * warp) * pieces;
  if (first_tile >= tiles || first_tile * TILE >= char_end) return;
  const u64 block = first_tile / TILE_BLOCK;
  BlockLengths lengths;
  lengths.load(s, block, tiles);
  const u64 block_start = __ldg(reinterpret_cast<const u64*>(s.block_starts) + block), codes_nbytes = s.codes_nbytes;
  const u64 codes = s.codes + min(block_start, codes_nbytes);
  const u32 most = block_start < codes_nbytes ? u32(min(codes_nbytes - block_start, u64(TILE_BLOCK) * TILE)) : 0;
  u8* const to_begin = reinterpret_cast<u8*>(s.chars_to + s.out_char - char_begin);  // where character 0 would go

  for (u32 piece = 0; piece < pieces; ++piece, first_tile += 32) {
    const u64 piece_begin = first_tile * TILE;
    if (first_tile >= tiles || piece_begin >= char_end) return;
    if (piece_begin + 32 * TILE <= char_begin) continue;
    Tiles t;
    {
      u32 start_in_block;
      u32 length = lengths.of_tile(u32(first_tile % TILE_BLOCK) / 32, &start_in_block);
      const u64 tile_begin = piece_begin + lane * TILE;
      const u32 n = tile_begin < chars ? u32(min(u64(TILE), chars - tile_begin)) : 0;
      if (length > n || start_in_block > most || length > most - start_in_block) length = 0, start_in_block = 0;
      const bool raw = length == n;
      t.start = start_in_block;
      t.bits = raw ? 8 : table_bits;
      t.count = raw ? length : 8 * length / table_bits;
      const u32 groups = (t.count + GROUP - 1) / GROUP, inclusive = warp_inclusive_sum(groups);
      t.before = inclusive - groups;
      t.groups = __shfl_sync(ALL_LANES, inclusive, 31);
    }
    // From here on bytes of the output are counted from the multiple of 16 that the piece's first lies behind.
    u32 held = u32(reinterpret_cast<u64>(to_begin + piece_begin) & 15), at = 0;
    u8* const to = to_begin + piece_begin - held;
    const u32 low = held + (char_begin > piece_begin ? u32(char_begin - piece_begin) : 0);
    const u32 high = held + u32(min(min(u64(32 * TILE), chars - piece_begin), char_end - piece_begin));
    u64 carry = 0;
    if (lane < 2) reinterpret_cast<u64*>(room)[lane] = 0;
    __syncwarp();

    u32 words[3] = {0, 0, 0}, bits = 8, count = 0;
    for (u32 base = 0; base < t.groups; base += 32) {
      // The group's tile is the last one that begins at or before it; those without groups begin where the next one does.
      const u32 group = min(base + lane, t.groups - 1);
      u32 tile = 0;
#pragma unroll
      for (u32 step = 16; step > 0; step /= 2)
        if (__shfl_sync(ALL_LANES, t.before, tile + step) <= group) tile += step;
      const u32 number = group - __shfl_sync(ALL_LANES, t.before, tile);
      const u32 start = __shfl_sync(ALL_LANES, t.start, tile);
      bits = __shfl_sync(ALL_LANES, t.bits, tile);
      count = __shfl_sync(ALL_LANES, t.count, tile) - GROUP * number;
      count = base + lane < t.groups ? min(count, u32(GROUP)) : 0;
      load_codes(codes + start + number * bits, codes + most, words);
      const bool last = base + 32 >= t.groups;
      const u32 total = decode_groups(entries, of_codes, first_full, room, held, carry, words, bits, count, last);
      __syncwarp();
      const u32 whole = last ? total : total / 16 * 16;
      write_out(room, to, at, whole, low, high);
      const u64 moved = *reinterpret_cast<const u64*>(room + total / 16 * 16);
      __syncwarp();
      held = total & 15;
      at += total / 16 * 16;
      // Of what is left, a complete word lies in the room, the rest is carried.
      if (lane == 0 && held >= 8) *reinterpret_cast<u64*>(room) = moved;
      __syncwarp();
    }
    // Codes of a damaged piece may stand for fewer bytes than it has.
    for (u32 byte = max(at + held, low) + lane; byte < high; byte += 32) to[byte] = 0;
    __syncwarp();
  }
}
