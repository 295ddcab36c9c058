// FSST encode: characters of one segment -> codes. Stages 2 to 5 of the pipeline (stage 1, the symbol table, is made before).
//
// fsst_encode   A warp encodes a *piece* of 32 consecutive tiles, one tile a lane (stage 2). The piece's characters are first
//               staged in shared memory with coalesced loads, one row a tile. A lane writes its codes over the characters it
//               has consumed; then the warp writes the 32 rows back to back into the piece's slot of the workspace, which is
//               the transposition and the gathering of ADMS 2025 (stages 3 and 4) without a trip through global memory.
// fsst_compact  Copies the pieces from their slots to their places in the exact-size result, and writes block_starts (stage 5).
//
//   row of a lane in shared memory, ROW_WORDS = tile / 4 + 5 (odd, so lanes in lockstep hit 32 different banks):
//   | GAP: 2 words | characters: tile / 4 words | 3 words nobody writes: the window reads ahead |
//   | codes grow from the row's start ->
//
// What was tried, TPC-H SF 10 l_comment on an H200, 256-byte tiles (now 3.2 to 3.5 ms for both kernels, overlapped):
// - staging without several loads under way at once, and a branch for every refill and flush: 6.2 ms for fsst_encode alone; with
//   loads in batches and predicates 4.4.
// - in these, only pairs of ASCII characters lay in shared memory and the others went through the L1, so that 23 instead of 17 warps
//   fit, for nine more instructions a step. All pairs in shared memory, and full rows staged without tests: 3.1 ms.
// - writing row after row with the whole warp, carrying the word that two rows share: 163 us a segment, now 148 (with the loads of
//   the tables in batches too).
// - a scan kernel of one thread block between the two: 12 us a segment.
// - both kernels on one stream: 3.8 ms.
// Where it stands (ncu): 62 instructions a step, 96 steps a piece (its longest tile; the mean is 82). Integer instructions issue at
// half rate: an estimate from the samples is that the loop's 41 of them keep their pipe busy for 3/4 of its time. 40 % of the
// shared memory's cycles are busy, most of them with bank conflicts.
//
// Invariant: a lane writes row word w only when it holds all characters up to w in registers. A lane whose codes outgrow that
// (many escapes at the start of a tile) goes on in its own 1/32 of the piece's slot in global memory and fetches it back at the
// end. Once its codes fill the tile's size the tile is raw and the lane stops.
#include "fsst.cuh"

#define GAP 2
#define ROW_WORDS (TILE / 4 + GAP + 3)
#define BATCH 8  // loads a lane has under way while it stages characters

// EncodeTables lie at the start of shared memory, up to `pairs` (with it if PAIRS_IN_SHARED).
#define SHARED_TABLES_NBYTES (HASH_SLOTS * 12 + 256 + (PAIRS_IN_SHARED ? 65536 : 0))

// Copies characters, starting at any byte address, to rows of `row_data` words that lie ROW_WORDS apart.
// `whole`: the 32 rows are full and nothing has to be guarded.
template <u32 row_data>
__device__ __forceinline__ void stage_words(u32* rows, u64 source, u32 words, u64 begin, u64 end, bool whole) {
  const u64 aligned = source & ~3ull;
  const u32 shift = 8 * u32(source & 3);
  if (whole && aligned >= begin && aligned + 4 * u64(words + 1) <= end) {
    const u32* from = reinterpret_cast<const u32*>(aligned) + lane_id();
    u32* to = rows + lane_id();
    for (u32 base = 0; base < 32 * row_data; base += 32 * BATCH) {
      u32 low[BATCH], high[BATCH];  // all loads under way before the first is used
#pragma unroll
      for (u32 k = 0; k < BATCH; ++k) {
        low[k] = __ldg(from + 32 * k);
        high[k] = __ldg(from + 32 * k + 1);
      }
#pragma unroll
      for (u32 k = 0; k < BATCH; ++k)
        to[32 * k / row_data * ROW_WORDS + 32 * k % row_data] = __funnelshift_r(low[k], high[k], shift);
      from += 32 * BATCH;
      to += 32 * BATCH / row_data * ROW_WORDS + 32 * BATCH % row_data;
    }
  } else {
    for (u32 i = lane_id(); i < words; i += 32)
      rows[i / row_data * ROW_WORDS + i % row_data] =
          __funnelshift_r(load_word(aligned + 4 * i, begin, end), load_word(aligned + 4 * i + 4, begin, end), shift);
  }
}

// A lane's place in its tile. The next 8 characters are the 64 bits from `bit` on of w0 w1 w2.
struct Cursor {
  u8* shared;  // tables first
  const u8* pairs;
  u32 two_byte_limit;
  u32 w0, w1, w2;
  u32 bit;
  u32 in;          // where in `shared` the next word of the row lies
  u32 left;        // bits
  u32 word, fill;  // codes not yet written, and how many bits

  __device__ __forceinline__ u32 next_word() {
    const u32 at = in;
    in += 4;
    return *reinterpret_cast<const u32*>(shared + at);
  }

  // Encodes one symbol; `last`: no more than one character is left. True if `full_word` is complete and must be written.
  template <bool last>
  __device__ __forceinline__ bool step(u32* full_word) {
    const EncodeTables* tables = reinterpret_cast<const EncodeTables*>(shared);
    const u32 lo = __funnelshift_r(w0, w1, bit), hi = __funnelshift_r(w1, w2, bit);
    const u32 slot = ((lo & 0xffffff) * HASH_MULTIPLIER) >> HASH_SHIFT;
    const u64 symbol = tables->symbols[slot];
    const u32 meta = tables->meta[slot];
    u32 code = last              ? tables->singles[lo & 255]
               : PAIRS_IN_SHARED ? tables->pairs[lo & 0xffff]
                                 : __ldg(pairs + (lo & 0xffff));
    u32 taken = !last && code < two_byte_limit ? 16 : 8;
    const u32 unused = meta & 255;
    const u64 difference = (symbol ^ (u64(hi) << 32 | lo)) << unused;
    if (!last && difference == 0 && left + unused >= 64) {
      code = meta >> 8;
      taken = 64 - unused;
    }
    left -= taken;

    const bool escape = code == 255;
    const u32 bytes = escape ? __byte_perm(code, lo, 0x1140) : code;  // code, then the character
    *full_word = word | bytes << fill;
    const u32 carry = __funnelshift_l(bytes, 0, fill);
    fill += escape ? 16 : 8;
    const bool full = fill >= 32;
    word = full ? carry : *full_word;
    fill &= 31;

    bit += taken;
    if (bit >= 32) {
      w0 = w1;
      w1 = w2;
      w2 = next_word();
    }
    if (bit >= 64) {
      w0 = w1;
      w1 = w2;
      w2 = next_word();
    }
    bit &= 31;
    return full;
  }
};

// Encodes the `n` characters of a lane's row, which lies at byte `row_at` of shared memory. Returns the number of code bytes, or
// n if the tile is to be stored raw. `spilled` becomes the number of words in `spill` (0: all codes are in the row).
__device__ __forceinline__ u32 encode_row(u8* shared, const u8* pairs, u32 two_byte_limit, u32 row_at, u32 n,
                                          u32* spill, u32* spilled) {
  u32* row = reinterpret_cast<u32*>(shared + row_at);
  Cursor cursor = {
      shared, pairs, two_byte_limit, row[GAP], row[GAP + 1], row[GAP + 2], 0, row_at + 4 * (GAP + 3), 8 * n, 0, 0};
  u32 out = row_at, full_word;
  while (cursor.left > 8 && out < cursor.in) {
    if (cursor.step<false>(&full_word)) {
      *reinterpret_cast<u32*>(shared + out) = full_word;
      out += 4;
    }
  }
  u32 words = (out - row_at) / 4;
  const bool in_row = cursor.left <= 8;
  if (!in_row) {
    if (4 * words >= n) return n;
    for (u32 i = 0; i < words; ++i) spill[i] = row[i];
    while (cursor.left > 8) {
      if (!cursor.step<false>(&full_word)) continue;
      if (4 * words + 4 >= n) return n;
      spill[words++] = full_word;
    }
  }
  if (cursor.left > 0 && cursor.step<true>(&full_word)) {
    if (4 * words + 4 >= n) return n;
    (in_row ? row : spill)[words++] = full_word;
  }
  const u32 total = 4 * words + cursor.fill / 8;
  if (total >= n) return n;
  if (cursor.fill > 0) (in_row ? row : spill)[words++] = cursor.word;
  if (!in_row) *spilled = words;
  return total;
}

// Writes the codes of the 32 rows back to back to `slot`; the lane's row holds `length` bytes, which end at `end` there.
// Every lane first shifts its own row so that its words are words of the slot. A word that two rows share moves to the second: a
// tile but the segment's last has at least 16 codes, so no word is shared by three.
__device__ __forceinline__ void write_rows(u32* rows, u32 length, u32 end, u32* slot) {
  const u32 lane = lane_id();
  u32* row = rows + lane * ROW_WORDS;
  const u32 start = end - length, first = start / 4, shift = 8 * (start & 3);
  const u32 words = length > 0 ? (end + 3) / 4 - first : 0;
  u32 previous = 0;
#pragma unroll 2
  for (u32 w = 0; w < words; ++w) {
    const u32 word = row[w];
    row[w] = __funnelshift_l(previous, word, shift);
    previous = word;
  }
  if (words > 0 && (end & 3) != 0) row[words - 1] &= (1u << (8 * (end & 3))) - 1;
  __syncwarp();
  const u32 words_before = __shfl_up_sync(ALL_LANES, words, 1);
  if (lane > 0 && words > 0 && shift != 0) row[0] |= rows[(lane - 1) * ROW_WORDS + words_before - 1];
  const u32 total = __shfl_sync(ALL_LANES, end, 31);
  const u32 mine = length == 0 ? 0 : end == total ? words : end / 4 - first;
  __syncwarp();
#pragma unroll 8
  for (u32 r = 0; r < 32; ++r) {
    const u32 count = __shfl_sync(ALL_LANES, mine, r);
    u32* to = slot + __shfl_sync(ALL_LANES, first, r) + lane;
    const u32* from = rows + r * ROW_WORDS + lane;
    if (lane < count) *to = *from;
    if (count > 32) {
#pragma unroll 1
      for (u32 w = 32; w + lane < count; w += 32) to[w] = from[w];
    }
  }
}

// grid: any; block: a multiple of 32 threads; shared memory: SHARED_TABLES_NBYTES, then ROW_WORDS words a thread.
// Tiles tile_begin .. tile_begin + tile_count - 1 of the segment; `slots` and `piece_lengths` start at tile_begin. The bytes of
// all codes are added to `total`.
extern "C" __global__ void __launch_bounds__(ENCODE_THREADS, 1)
    fsst_encode(const u8* __restrict__ chars, u64 chars_nbytes, u64 tile_begin, u64 tile_count,
                const u8* __restrict__ tables, u8* slots, u32* __restrict__ piece_lengths, u64* total,
                u8* __restrict__ tile_lengths) {
  DYNAMIC_SHARED(u64, shared_memory);
#pragma unroll 8
  for (u32 i = threadIdx.x; i < SHARED_TABLES_NBYTES / 8; i += blockDim.x)
    shared_memory[i] = __ldg(reinterpret_cast<const u64*>(tables) + i);
  __syncthreads();

  const u32 warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = lane_id();
  u8* shared = reinterpret_cast<u8*>(shared_memory);
  const u8* pairs = reinterpret_cast<const EncodeTables*>(tables)->pairs;
  const u32 two_byte_limit = reinterpret_cast<const EncodeTables*>(tables)->two_byte_limit;
  const u32 rows_at = u32(SHARED_TABLES_NBYTES) + 4 * ROW_WORDS * 32 * warp;
  u32* rows = reinterpret_cast<u32*>(shared + rows_at);
  u32* row = rows + lane * ROW_WORDS;
  const u32 row_at = keep_in_register(rows_at + 4 * ROW_WORDS * lane);
  const u64 begin = reinterpret_cast<u64>(chars), end = begin + chars_nbytes;
  const u64 pieces = (tile_count + 31) / 32;

  for (u64 piece = blockIdx.x * u64(warps) + warp; piece < pieces; piece += u64(gridDim.x) * warps) {
    const u64 first_tile = tile_begin + 32 * piece;
    const u64 source = begin + first_tile * TILE;
    const u32 in_wave = u32(min(tile_count - 32 * piece, u64(32)));
    const u32 piece_chars = u32(min(end - source, u64(in_wave * TILE)));
    stage_words<TILE / 4>(rows + GAP, source, (piece_chars + 3) / 4, begin, end, piece_chars == 32 * TILE);
    __syncwarp();

    const u32 lane_start = lane * TILE;
    const u32 n = lane_start < piece_chars ? min(TILE, piece_chars - lane_start) : 0;
    u32* slot = reinterpret_cast<u32*>(slots + piece * (32 * TILE));
    u32* spill = slot + lane * (TILE / 4);
    u32 spilled = 0;
    const u32 length = encode_row(shared, pairs, two_byte_limit, row_at, n, spill, &spilled);
    for (u32 i = 0; i < spilled; ++i) row[i] = spill[i];
    __syncwarp();

    u32 raw = __ballot_sync(ALL_LANES, n > 0 && length == n);
    while (raw != 0) {
      const u32 r = __ffs(raw) - 1;
      const u32 bytes = __shfl_sync(ALL_LANES, n, r);
      raw &= raw - 1;
      stage_words<1u << 31>(rows + r * ROW_WORDS, source + r * TILE, (bytes + 3) / 4, begin, end, false);
    }
    __syncwarp();

    const u32 inclusive = warp_inclusive_sum(length);
    write_rows(rows, length, inclusive, slot);
    if (lane == 31) {
      piece_lengths[piece] = inclusive;
      atomicAdd(total, u64(inclusive));
    }
    if (n > 0) {
      if (TILE <= 256)
        tile_lengths[first_tile + lane] = u8(length - 1);
      else
        reinterpret_cast<u16*>(tile_lengths)[first_tile + lane] = u16(length - 1);
    }
    __syncwarp();
  }
}

// Copies the pieces of a wave to their places: 8 pieces a thread block of 256 threads, a piece a warp; whole words of the
// destination by all lanes, the bytes at both ends one by one. Every block sums the lengths of the pieces before its own by
// itself (some 40 KB from the L2); a scan kernel of one block before this one took 12 us a segment, 0.25 ms of l_comment's 3.9.
// `before`: bytes of the segment's waves before this one. `block_starts` belongs to the wave's first block of tiles (a wave
// starts at a block's start).
extern "C" __global__ void __launch_bounds__(256)
    fsst_compact(const u8* __restrict__ slots, const u32* __restrict__ piece_lengths, u64 pieces, u64 before,
                 u64* __restrict__ block_starts, u8* __restrict__ codes) {
  __shared__ u64 warp_sums[8];
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  const u64 first = blockIdx.x * u64(8);
  u64 sum = 0;
#pragma unroll 4
  for (u64 i = threadIdx.x; i < first; i += 256) sum += __ldg(piece_lengths + i);
  sum = warp_inclusive_sum(sum);
  if (lane == 31) warp_sums[warp] = sum;
  __syncthreads();
  const u64 piece = first + warp;
  if (piece >= pieces) return;
  u64 start = before;
  for (u32 i = 0; i < 8; ++i) start += warp_sums[i];
  for (u64 i = first; i < piece; ++i) start += __ldg(piece_lengths + i);
  const u32 length = __ldg(piece_lengths + piece);
  if (lane == 0) {
    const u32 per_block = TILE_BLOCK / 32;
    if (piece % per_block == 0) block_starts[piece / per_block] = start;
    if (piece + 1 == pieces) block_starts[piece / per_block + 1] = start + length;
  }

  const u32* from = reinterpret_cast<const u32*>(slots + piece * (32 * TILE));
  const u8* from_bytes = reinterpret_cast<const u8*>(from);
  u8* to = codes + start;
  const u32 head = min(length, u32(-reinterpret_cast<u64>(to) & 7));
  const u32 pairs = (length - head) / 8, skip = head / 4, shift = 8 * (head & 3);
  if (lane < head) to[lane] = from_bytes[lane];
  uint2* to_pairs = reinterpret_cast<uint2*>(to + head);
#pragma unroll 4
  for (u32 i = lane; i < pairs; i += 32) {
    const u32* w = from + skip + 2 * i;
    const u32 a = __ldg(w), b = __ldg(w + 1), c = shift ? __ldg(w + 2) : 0;
    to_pairs[i] = make_uint2(__funnelshift_r(a, b, shift), __funnelshift_r(b, c, shift));
  }
  const u32 done = head + 8 * pairs;
  if (done + lane < length) to[done + lane] = from_bytes[done + lane];
}
