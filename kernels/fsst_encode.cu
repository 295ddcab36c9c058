// FSST encode: characters of one segment -> codes. Stages 2 to 5 of the pipeline (stage 1, the symbol table, is made before).
//
// fsst_encode   A warp encodes a *piece* of 32 consecutive tiles, one tile a lane (stage 2). The piece's characters are first
//               staged in shared memory with coalesced loads, one row a tile. A lane writes its codes over the characters it
//               has consumed; then the warp writes the 32 rows back to back into the piece's slot of the workspace, which is
//               the transposition and the gathering of ADMS 2025 (stages 3 and 4) without a trip through global memory.
// fsst_scan     Exclusive prefix sum of the pieces' sizes -> block_starts and the place of every piece (stage 5, first half).
// fsst_compact  Copies the pieces from their slots to their places in the exact-size result (stage 5, second half).
//
//   row of a lane in shared memory, row_words = tile / 4 + 5 (odd, so lanes in lockstep hit 32 different banks):
//   | GAP: 2 words | characters: tile / 4 words | 3 words nobody writes: the window reads ahead |
//   | codes grow from the row's start ->
//
// Invariant: a lane writes row word w only when it holds all characters up to w in registers. A lane whose codes outgrow that
// (many escapes at the start of a tile) goes on in its own 1/32 of the piece's slot in global memory and fetches it back at the
// end. Once its codes fill the tile's size the tile is raw and the lane stops.
#include "fsst.cuh"

#define GAP 2
#define ROW_EXTRA 5  // GAP + 3

// Place of the tables, in global memory and at the start of shared memory (there without `pairs`, but with the ASCII pairs).
struct EncodeTables {
  u64 symbols[HASH_SLOTS];
  u32 meta[HASH_SLOTS];  // code | length << 8 | (64 - 8 * length) << 16
  u8 singles[256];       // code of the one-byte symbol, else 255
  u8 pairs[65536];       // b0 | b1 << 8 -> code of the two-byte symbol, else as `singles`
};
struct SharedTables {
  u64 symbols[HASH_SLOTS];
  u32 meta[HASH_SLOTS];
  u8 singles[256];
  u8 ascii_pairs[128 * 128];  // b0 | b1 << 7
};

__device__ __forceinline__ void load_tables(SharedTables* shared, const EncodeTables* tables) {
  const u32* from = reinterpret_cast<const u32*>(tables);
  u32* to = reinterpret_cast<u32*>(shared);
  const u32 head = (sizeof(SharedTables) - sizeof(shared->ascii_pairs)) / 4;
  for (u32 i = threadIdx.x; i < head; i += blockDim.x) to[i] = from[i];
  for (u32 i = threadIdx.x; i < 128 * 128 / 4; i += blockDim.x)
    to[head + i] = *reinterpret_cast<const u32*>(&tables->pairs[(4 * i & 127) | (4 * i >> 7) << 8]);
}

// Copies `words` words of characters, starting at any byte address, into rows of `row_data` words.
__device__ __forceinline__ void stage_words(u32* rows, u32 row_words, u32 row_data_shift, u64 source, u32 words, u64 begin,
                                            u64 end) {
  const u64 aligned = source & ~3ull;
  const u32 shift = 8 * u32(source & 3);
  const u32 column_mask = (1u << row_data_shift) - 1;
  if (aligned >= begin && aligned + 4 * u64(words + 1) <= end) {
    const u32* from = reinterpret_cast<const u32*>(aligned);
#pragma unroll 8
    for (u32 i = lane_id(); i < words; i += 32)
      rows[(i >> row_data_shift) * row_words + (i & column_mask)] = __funnelshift_r(from[i], from[i + 1], shift);
  } else {
    for (u32 i = lane_id(); i < words; i += 32)
      rows[(i >> row_data_shift) * row_words + (i & column_mask)] =
          __funnelshift_r(load_word(aligned + 4 * i, begin, end), load_word(aligned + 4 * i + 4, begin, end), shift);
  }
}

// Encodes the `n` characters of a lane's row. Returns the number of code bytes, or n if the tile is to be stored raw.
// `spilled` becomes the number of words in `spill` (0: all codes are in the row).
__device__ __forceinline__ u32 encode_row(const SharedTables* tables, const u8* pairs, u32 two_byte_limit, u32* row, u32 n,
                                          u32* spill, u32* spilled) {
  const u32* in = row + GAP;
  u32 w0 = in[0], w1 = in[1], w2 = in[2];
  u32 loaded = GAP + 2;  // row words up to here are in registers or consumed
  u32 bit = 0;           // cursor in w0
  u32 left = n;
  u32 out = 0, fill = 0, word = 0;  // words written, bits in `word`
  bool in_row = true;
  while (left > 0) {
    const u32 lo = __funnelshift_r(w0, w1, bit), hi = __funnelshift_r(w1, w2, bit);
    const u32 slot = ((lo & 0xffffff) * HASH_MULTIPLIER) >> HASH_SHIFT;
    const u64 symbol = tables->symbols[slot];
    const u32 meta = tables->meta[slot];
    u32 code = (lo & 0x8080) == 0 ? tables->ascii_pairs[(lo & 127) | (lo >> 8 & 127) << 7] : pairs[lo & 0xffff];
    if (left == 1) code = tables->singles[lo & 255];
    u32 length = code < two_byte_limit ? 2 : 1;
    const u64 difference = (symbol ^ (u64(hi) << 32 | lo)) << (meta >> 16);
    const u32 long_length = meta >> 8 & 255;
    if (difference == 0 && long_length <= left) {
      code = meta & 255;
      length = long_length;
    }
    const bool escape = code == 255;
    const u32 bytes = escape ? 255 | (lo & 255) << 8 : code;
    word |= bytes << fill;
    const u32 carry = __funnelshift_l(bytes, 0, fill);
    fill += escape ? 16 : 8;
    if (fill >= 32) {
      if (4 * out + 4 >= n) return n;
      if (in_row && out > loaded) {
        for (u32 i = 0; i < out; ++i) spill[i] = row[i];
        in_row = false;
      }
      (in_row ? row : spill)[out] = word;
      ++out;
      word = carry;
      fill -= 32;
    }
    left -= length;
    bit += 8 * length;
    if (bit >= 32) {
      w0 = w1;
      w1 = w2;
      w2 = row[++loaded];
      bit -= 32;
      if (bit >= 32) {
        w0 = w1;
        w1 = w2;
        w2 = row[++loaded];
        bit -= 32;
      }
    }
  }
  const u32 total = 4 * out + fill / 8;
  if (total >= n) return n;
  if (fill > 0) {
    if (in_row)
      row[out] = word;
    else
      spill[out++] = word;
  }
  *spilled = in_row ? 0 : out;
  return total;
}

// Writes the codes of the 32 rows back to back to `slot`; `length` and `start` are the lane's.
__device__ __forceinline__ void write_rows(const u32* rows, u32 row_words, u32 length, u32 start, u32* slot) {
  u32 carry = 0;  // bytes of the word that the next row continues
  u32 end = 0;
  for (u32 r = 0; r < 32; ++r) {
    const u32 row_start = __shfl_sync(ALL_LANES, start, r), row_length = __shfl_sync(ALL_LANES, length, r);
    if (row_length == 0) continue;
    const u32* row = rows + r * row_words;
    const u32 shift = 8 * (row_start & 3);
    end = row_start + row_length;
    const u32 first = row_start / 4, last = end / 4;  // words first .. last - 1 become complete
    u32 next_carry = 0;
    for (u32 base = first; base <= last; base += 32) {
      const u32 i = base + lane_id();
      u32 value = 0;
      if (i <= last) {
        const u32 w = i - first;
        // The last word may start past the row's codes: then only the bytes shifted in from the word before count.
        const u32 high = 4 * w < row_length ? row[w] : 0;
        value = w == 0 ? high << shift | carry : __funnelshift_l(row[w - 1], high, shift);
        if (i < last) slot[i] = value;
      }
      if (last - base < 32) next_carry = __shfl_sync(ALL_LANES, value, last - base);
    }
    carry = next_carry & ((1u << (8 * (end & 3))) - 1);
  }
  if ((end & 3) != 0 && lane_id() == 0) slot[end / 4] = carry;
}

// grid: any; block: a multiple of 32 threads; shared memory: SharedTables, then blockDim / 32 * 32 * row_words words.
// Tiles tile_begin .. tile_begin + tile_count - 1 of the segment; `slots` and `piece_lengths` start at tile_begin.
extern "C" __global__ void __launch_bounds__(1024, 1)
    fsst_encode(const u8* __restrict__ chars, u64 chars_nbytes, u32 tile_shift, u64 tile_begin, u64 tile_count,
                const u8* __restrict__ tables, u32 two_byte_limit, u8* slots, u32* piece_lengths, u8* tile_lengths) {
  DYNAMIC_SHARED(u64, shared_memory);
  SharedTables* shared = reinterpret_cast<SharedTables*>(shared_memory);
  const EncodeTables* global = reinterpret_cast<const EncodeTables*>(tables);
  load_tables(shared, global);
  __syncthreads();

  const u32 tile = 1u << tile_shift, row_words = tile / 4 + ROW_EXTRA;
  const u32 warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = lane_id();
  u32* rows = reinterpret_cast<u32*>(shared + 1) + warp * 32 * row_words;
  u32* row = rows + lane * row_words;
  const u64 begin = reinterpret_cast<u64>(chars), end = begin + chars_nbytes;
  const u64 pieces = (tile_count + 31) / 32;

  for (u64 piece = blockIdx.x * u64(warps) + warp; piece < pieces; piece += u64(gridDim.x) * warps) {
    const u64 first_tile = tile_begin + 32 * piece;
    const u64 source = begin + (first_tile << tile_shift);
    const u32 in_wave = u32(min(tile_count - 32 * piece, u64(32)));
    const u32 piece_chars = u32(min(end - source, u64(in_wave) << tile_shift));
    stage_words(rows + GAP, row_words, tile_shift - 2, source, (piece_chars + 3) / 4, begin, end);
    __syncwarp();

    const u32 lane_start = lane << tile_shift;
    const u32 n = lane_start < piece_chars ? min(tile, piece_chars - lane_start) : 0;
    u32* slot = reinterpret_cast<u32*>(slots + (piece << (tile_shift + 5)));
    u32* spill = slot + lane * (tile / 4);
    u32 spilled = 0;
    const u32 length = encode_row(shared, global->pairs, two_byte_limit, row, n, spill, &spilled);
    for (u32 i = 0; i < spilled; ++i) row[i] = spill[i];
    __syncwarp();

    u32 raw = __ballot_sync(ALL_LANES, n > 0 && length == n);
    while (raw != 0) {
      const u32 r = __ffs(raw) - 1;
      const u32 bytes = __shfl_sync(ALL_LANES, n, r);
      raw &= raw - 1;
      stage_words(rows + r * row_words, row_words, 31, source + (u64(r) << tile_shift), (bytes + 3) / 4, begin, end);
    }
    __syncwarp();

    const u32 inclusive = warp_inclusive_sum(length);
    write_rows(rows, row_words, length, inclusive - length, slot);
    if (lane == 31) piece_lengths[piece] = inclusive;
    if (n > 0) {
      if (tile <= 256)
        tile_lengths[first_tile + lane] = u8(length - 1);
      else
        reinterpret_cast<u16*>(tile_lengths)[first_tile + lane] = u16(length - 1);
    }
    __syncwarp();
  }
}

// grid: 1 block of 1024 threads. `total` holds the bytes before this wave and is advanced; `block_starts` belongs to the
// wave's first block of tiles (a wave starts at a block's start).
extern "C" __global__ void __launch_bounds__(1024, 1)
    fsst_scan(const u32* __restrict__ piece_lengths, u64 pieces, u64* piece_starts, u64* block_starts, u64* total) {
  __shared__ u64 warp_sums[32];
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  u64 before = *total;
  __syncthreads();
  for (u64 base = 0; base < pieces; base += 1024) {
    const u64 i = base + threadIdx.x;
    const u64 value = i < pieces ? piece_lengths[i] : 0;
    u64 inclusive = warp_inclusive_sum(value);
    if (lane == 31) warp_sums[warp] = inclusive;
    __syncthreads();
    if (warp == 0) warp_sums[lane] = warp_inclusive_sum(warp_sums[lane]);
    __syncthreads();
    if (warp > 0) inclusive += warp_sums[warp - 1];
    const u64 start = before + inclusive - value;
    if (i < pieces) {
      piece_starts[i] = start;
      if (i % (TILE_BLOCK / 32) == 0) block_starts[i / (TILE_BLOCK / 32)] = start;
    }
    before += warp_sums[31];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    block_starts[(pieces + TILE_BLOCK / 32 - 1) / (TILE_BLOCK / 32)] = before;
    *total = before;
  }
}

// A warp copies a piece: whole words of the destination by all lanes, the bytes at both ends one by one.
extern "C" __global__ void __launch_bounds__(256)
    fsst_compact(const u8* __restrict__ slots, u32 tile_shift, const u32* __restrict__ piece_lengths,
                 const u64* __restrict__ piece_starts, u64 pieces, u8* codes) {
  const u64 piece = blockIdx.x * u64(blockDim.x / 32) + threadIdx.x / 32;
  if (piece >= pieces) return;
  const u32* from = reinterpret_cast<const u32*>(slots + (piece << (tile_shift + 5)));
  const u8* from_bytes = reinterpret_cast<const u8*>(from);
  u8* to = codes + piece_starts[piece];
  const u32 length = piece_lengths[piece];
  const u32 head = min(length, u32(-reinterpret_cast<u64>(to) & 3));
  const u32 words = (length - head) / 4, shift = 8 * head;
  const u32 lane = lane_id();
  if (lane < head) to[lane] = from_bytes[lane];
  u32* to_words = reinterpret_cast<u32*>(to + head);
#pragma unroll 4
  for (u32 i = lane; i < words; i += 32) to_words[i] = __funnelshift_r(from[i], shift ? from[i + 1] : 0, shift);
  const u32 done = head + 4 * words;
  if (done + lane < length) to[done + lane] = from_bytes[done + lane];
}
