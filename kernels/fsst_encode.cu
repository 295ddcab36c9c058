// FSST encode: characters of segments -> codes. Stages 2 to 4 of the pipeline (stage 1, the symbol table, is made before). A launch
// takes a wave or many (text_compress.cuh): the segments of many short columns, or one of a long column.
//
// fsst_encode   Work unit: a warp encodes a *bundle* of 32 consecutive tiles, one tile a lane (stage 2). The bundle's characters are first
//               staged in shared memory with coalesced loads, one row a tile. A lane writes its codes over the characters it
//               has consumed; then the warp writes the 32 rows back to back into the workspace, which is the transposition and
//               the gathering of ADMS 2025 (stages 3 and 4) without a trip through global memory. A bundle has a place of its
//               own there, as large as its characters; or, where WaveView::capacity says so, the next place that is free. Then
//               the codes may outgrow the workspace: they are counted, what does not fit is not written, and the host has to
//               encode the wave in another way.
//
// text_compact.cu brings the bundles to their places in the exact-size result (stage 5).
//
//   row of a lane in shared memory, ROW_WORDS = tile / 4 + 3 (odd, so lanes in lockstep hit 32 different banks):
//   | characters: tile / 4 words, and one if the tile is not aligned | 2 words: the window reads ahead |
//   | codes grow from the row's start ->
//
// Bound: look-ups in shared memory. 48 instructions a step, 96 steps a bundle (its longest tile; the mean is 82). While a block runs, 74 % of
// the cycles of shared memory are busy, more than half of these with bank conflicts, and 57 % of the issue slots (ncu). TPC-H SF 10
// l_comment on an H200, tiles of 256 bytes: 2.4 ms for both kernels on two streams. Two that lost (docs/kernels.md has the others):
// - codes gathered in a register and stored a word at a time: 62 instructions a step. A store a byte costs less: lanes write at the same
//   place of their rows unless they escape.
// - no text_compact: a warp brings a finished bundle to its place before it encodes another. 161 instead of 133 us a segment, for nothing
//   else runs beside it.
//
// Invariant: a lane writes a byte of its row only when it holds all characters up to it in registers. A lane whose codes outgrow
// that (many escapes at the start of a tile) goes on in its own 1/32 of the bundle's place in global memory, or in one that is free,
// and fetches it back at the end. Once its codes fill the tile's size the tile is raw and the lane stops.
#include "fsst.cuh"
#include "text_compress.cuh"

#define ROW_WORDS (TILE / 4 + ENCODE_ROW_EXTRA_WORDS)
static_assert(ENCODE_ROW_EXTRA_WORDS == 3, "what the window reads ahead");
#define BATCH 8  // loads a lane has under way while it stages characters

// EncodeTables lie at the start of shared memory, up to `pairs` (with it if PAIRS_IN_SHARED).
#define SHARED_TABLES_NBYTES (HASH_SLOTS * 10 + 256 + (PAIRS_IN_SHARED ? 65536 : 0))

// Copies the words that hold `words` words of characters, which start at any byte address, to rows of TILE / 4 words that lie
// ROW_WORDS apart, and after each row the first word of the next.
// `whole`: the 32 rows are full and nothing has to be guarded.
__device__ __forceinline__ void stage_words(u32* rows, u64 source, u32 words, u64 begin, u64 end, bool whole) {
  const u32 lane = lane_id(), row_data = TILE / 4;
  const u64 aligned = source & ~3ull;
  if (whole && aligned >= begin && aligned + 4 * u64(words + 1) <= end) {
    const u32* from = reinterpret_cast<const u32*>(aligned) + lane;
    const u32 next = __ldg(reinterpret_cast<const u32*>(aligned) + (lane + 1) * row_data);
    u32* to = rows + lane;
#pragma unroll 2  // more, and the kernel's registers leave no room for the blocks of text_compact beside it
    for (u32 base = 0; base < 32 * row_data; base += 32 * BATCH) {
      u32 word[BATCH];  // all loads under way before the first is used
#pragma unroll
      for (u32 k = 0; k < BATCH; ++k) word[k] = __ldg(from + 32 * k);
#pragma unroll
      for (u32 k = 0; k < BATCH; ++k) to[32 * k / row_data * ROW_WORDS + 32 * k % row_data] = word[k];
      from += 32 * BATCH;
      to += 32 * BATCH / row_data * ROW_WORDS + 32 * BATCH % row_data;
    }
    rows[lane * ROW_WORDS + row_data] = next;
  } else {
    for (u32 i = lane; i <= words; i += 32) {
      const u32 word = load_word(aligned + 4 * i, begin, end);
      if (i < 32 * row_data) rows[i / row_data * ROW_WORDS + i % row_data] = word;
      if (i > 0 && i % row_data == 0) rows[(i / row_data - 1) * ROW_WORDS + row_data] = word;
    }
  }
}

// Copies `bytes` characters of a tile, which start at any byte address, to the start of a row.
__device__ __forceinline__ void stage_raw(u32* row, u64 source, u32 bytes, u64 begin, u64 end) {
  const u64 aligned = source & ~3ull;
  const u32 shift = 8 * u32(source & 3), words = (bytes + 3) / 4;
  const bool inner = aligned >= begin && aligned + 4 * u64(words + 1) <= end;
  const u32* from = reinterpret_cast<const u32*>(aligned);
  for (u32 i = lane_id(); i < words; i += 32) {
    const u32 low = inner ? __ldg(from + i) : load_word(aligned + 4 * i, begin, end);
    const u32 high = inner ? __ldg(from + i + 1) : load_word(aligned + 4 * i + 4, begin, end);
    row[i] = __funnelshift_r(low, high, shift);
  }
}

// What a block keeps of its waves in shared memory, behind the tables: the loop over symbols has no registers for it.
struct BlockWaves {
  struct Wave {
    u64 begin, end;  // of the segment's characters
    u64 first_tile;
    u64 first_bundle;  // bundles of the waves before
  };
  const WaveView* waves;
  u64 pairs;
  u32 count, bundles;          // of all waves
  u32 next[ENCODE_GROUP * 4];  // of every warp, the bundle after this one
  Wave of[ENCODE_GROUP];
};
static_assert(sizeof(BlockWaves) == ENCODE_KEPT_NBYTES, "ENCODE_KEPT_NBYTES");
static_assert(ENCODE_GROUP * 4 * 32 >= ENCODE_THREADS, "a place for every warp");

// The number of the wave that a bundle belongs to.
__device__ __forceinline__ u32 wave_of(const volatile BlockWaves* kept, u32 bundle) {
  u32 wave = 0;
  while (wave + 1 < kept->count && kept->of[wave + 1].first_bundle <= bundle) ++wave;
  return wave;
}

// Takes `nbytes`, a multiple of 16, of a workspace that bundles share; their offset, ~0 if there is no room, which the segment is told.
__device__ __forceinline__ u64 take_room(const WaveView& wave, u64 nbytes) {
  const u64 place = atomicAdd(reinterpret_cast<u64*>(wave.used), nbytes);
  if (place + nbytes <= wave.capacity) return place;
  atomicOr(reinterpret_cast<u64*>(wave.codes_nbytes), 1ull << 63);
  return ~0ull;
}

// Where a lane whose codes do not fit its row has room for those of a tile; null if there is none.
__device__ __forceinline__ u8* spill_room(const volatile BlockWaves* kept, u32 bundle) {
  const u32 number = wave_of(kept, bundle);
  const WaveView& wave = kept->waves[number];
  u8* const slot = reinterpret_cast<u8*>(wave.slot);
  if (wave.capacity == 0) return slot + (bundle - kept->of[number].first_bundle) * (32 * TILE) + lane_id() * TILE;
  const u64 place = take_room(wave, TILE);
  return place == ~0ull ? nullptr : slot + place;
}

// A lane's place in its tile. The next 8 characters are the 64 bits from `bit` on of w0 w1 w2; w3, the word behind them, is there
// so that nobody waits for its load.
struct Cursor {
  u8* shared;  // tables first
  const u8* pairs;
  u32 two_byte_limit;
  u32 w0, w1, w2, w3;
  u32 bit;
  u32 in;   // where in `shared` the next word of the row lies
  u32 out;  // behind the place in `shared` of the next code
  u32 one;  // 1, but the compiler does not know

  // Finds the code of the next symbol in the lowest byte of `code`; `bytes`: the next characters; true for an escape.
  // `left`: bits left of the tile; it is not looked at if `inside`, where at least 64 are, nor if `last`, where 8 are.
  template <bool inside, bool last>
  __device__ __forceinline__ bool find(u32* code, u32* bytes, u32* behind, u32 left) {
    const EncodeTables* tables = reinterpret_cast<const EncodeTables*>(shared);
    const u32 lo = __funnelshift_r(w0, w1, bit);
    *bytes = lo;
    if (last) {
      *behind = bit + 8;
      *code = tables->singles[lo & 255];
      return *code == 255;
    }
    const u32 slot = ((lo & 0xffffff) * HASH_MULTIPLIER) >> HASH_SHIFT, meta = tables->meta[slot];
    const u64 symbol = tables->symbols[slot];
    *code = PAIRS_IN_SHARED ? tables->pairs[pair_place(lo)] : __ldg(pairs + (lo & 0xffff));
    // Shifts count modulo 32; this one must come after the load of `meta`, for it may have to wait for that of w2.
    const u32 hi = __funnelshift_r(w1, w2, meta * 32 + bit), unused = meta >> 8;
    const bool match = (u64(hi) << 32 | lo) << unused == symbol && (inside || left + unused >= 64);
    const bool escape = *code == 255 && !match;
    *behind = bit + (*code < two_byte_limit ? 16 : 8);
    if (match) {
      *behind = bit + 64 - unused;
      *code = meta * one;
    }
    return escape;
  }

  // Moves on to bit `behind`. `load`: reads the words behind the window; else there is nothing of the tile in them.
  template <bool load>
  __device__ __forceinline__ void advance(u32 behind) {
    if (!load) {
      if (behind >= 32) w0 = w1, w1 = w2, w2 = w3;
      if (behind >= 64) w0 = w1, w1 = w2;
    } else {
      in = (behind >> 5) * (4 * one) + in;
#ifdef __CUDA_ARCH__
      // As below, but the moves are multiplications by one: their pipe is idle, that of the integers is what the loop waits for.
      // No "memory" is named: what is read lies behind all that the lane has written.
      const u32 at = in + u32(__cvta_generic_to_shared(shared));
      asm volatile(
          "{ .reg .pred p, q, r;\n"
          "setp.ge.u32 p, %4, 32; setp.ge.u32 q, %4, 64; setp.lt.and.u32 r, %4, 64, p;\n"
          "@p mad.lo.u32 %0, %1, %6, 0; @p mad.lo.u32 %1, %2, %6, 0;\n"
          "@q mad.lo.u32 %0, %1, %6, 0; @q mad.lo.u32 %1, %3, %6, 0;\n"
          "@r mad.lo.u32 %2, %3, %6, 0; @p ld.shared.u32 %3, [%5 + -4]; @q ld.shared.u32 %2, [%5 + -8]; }"
          : "+r"(w0), "+r"(w1), "+r"(w2), "+r"(w3)
          : "r"(behind), "r"(at), "r"(one));
#else
      const bool p = behind >= 32, q = behind >= 64, r = behind < 64 && p;
      if (p) w0 = w1, w1 = w2;
      if (q) w0 = w1, w1 = w3;
      if (r) w2 = w3;
      if (p) w3 = *reinterpret_cast<const u32*>(shared + in - 4);
      if (q) w2 = *reinterpret_cast<const u32*>(shared + in - 8);
#endif
    }
    bit = behind & 31;
  }

  // Encodes one symbol into the row; returns the bits taken.
  template <bool inside, bool last>
  __device__ __forceinline__ u32 step(u32 left) {
    u32 code, bytes, behind;
    const bool escape = find<inside, last>(&code, &bytes, &behind, left);
    const u32 taken = behind - bit;
    shared[out - 1] = u8(code);
    if (escape) {
      shared[out] = u8(bytes);
      out = one * one + out;
    }
    out = one * one + out;
    advance<inside>(behind);
    return taken;
  }
};

// Encodes the `n` characters of a lane's row, which lies at byte `row_at` of shared memory; they start at bit `bit` of its data.
// Returns the number of code bytes, or n if the tile is to be stored raw. `spill` becomes where all codes are, unless they are in the
// row or there is no room for them anywhere.
__device__ __forceinline__ u32 encode_row(u8* shared, const u8* pairs, u32 two_byte_limit, u32 row_at, u32 n, u32 bit,
                                          u32 one, const volatile BlockWaves* kept, u32 bundle, const u8** spill) {
  const u32* row = reinterpret_cast<const u32*>(shared + row_at);
  Cursor cursor = {shared, pairs, two_byte_limit, row[0], row[1], row[2], row[3], bit, row_at + 16, row_at + 1, one};
  const u32 inside = keep_in_register(row_at + 4 + (bit / 8 + n & ~3u));  // up to here all of w2 belongs to the tile
#pragma unroll 2
  while (cursor.in <= inside && cursor.out < cursor.in) cursor.step<true, false>(0);
  u32 left = 8 * (n - (cursor.in - 16 - row_at)) + bit - cursor.bit;
  if (cursor.in > inside) {  // all that is left is in the window
    while (left > 8 && cursor.out < cursor.in) left -= cursor.step<false, false>(left);
    if (cursor.out >= cursor.in) return n;  // codes fill more than the tile has
    if (left > 0) cursor.step<false, true>(left);
    return min(cursor.out - 1 - row_at, n);
  }
  u32 total = cursor.out - 1 - row_at;
  if (total >= n) return n;
  u8* const room = spill_room(kept, bundle);
  if (room != nullptr)
    for (u32 i = 0; i < total; ++i) room[i] = shared[row_at + i];
  while (left > 0) {
    u32 code, bytes, behind;
    const bool escape = left > 8 ? cursor.find<false, false>(&code, &bytes, &behind, left)
                                 : cursor.find<false, true>(&code, &bytes, &behind, left);
    if (total + (escape ? 2 : 1) >= n) return n;
    if (room != nullptr) {
      room[total] = u8(code);
      if (escape) room[total + 1] = u8(bytes);
    }
    total += escape ? 2 : 1;
    left -= behind - cursor.bit;
    if (cursor.in <= inside)
      cursor.advance<true>(behind);
    else
      cursor.advance<false>(behind);
  }
  *spill = room;
  return total;
}

// Writes the codes of the 32 rows back to back to `slot`; the lane's row holds `length` bytes, which end at `end` there.
// A word of the slot that two rows share belongs to the second: a tile but the segment's last has at least 16 codes, so no word
// is shared by three. Every lane writes the first word of its row; half a warp a row writes the others.
__device__ __forceinline__ void write_rows(const u32* rows, u32 length, u32 end, u32* slot) {
  const u32 lane = lane_id(), total = __shfl_sync(ALL_LANES, end, 31);
  const u32* row = rows + lane * ROW_WORDS;
  const u32 start = end - length, first = start / 4, shift = 8 * (start & 3);
  const u32 whole = end / 4 - first;  // words before the one that the row's end lies in
  const u32 mine = length == 0 ? 0 : end == total ? (end + 3) / 4 - first : whole;
  u32 open = 0;  // that word, if the end does
  if (length > 0 && (end & 3) != 0)
    open = __funnelshift_l(whole > 0 ? row[whole - 1] : 0, row[whole], shift) & ((1u << (8 * (end & 3))) - 1);
  const u32 before = __shfl_up_sync(ALL_LANES, open, 1);
  if (mine > 0) slot[first] = (whole > 0 ? row[0] << shift : open) | (shift != 0 ? before : 0);
  const u32 column = lane % 16;
#pragma unroll 4
  for (u32 pair = 0; pair < 32; pair += 2) {
    const u32 r = pair + lane / 16;
    const u32 count = __shfl_sync(ALL_LANES, mine, r), by = __shfl_sync(ALL_LANES, shift, r);
    u32* to = slot + __shfl_sync(ALL_LANES, first, r) + column;
    const u32* from = rows + r * ROW_WORDS + column;
    if (column + 1 < count) to[1] = __funnelshift_l(from[0], from[1], by);
    if (column + 17 < count) to[17] = __funnelshift_l(from[16], from[17], by);
    for (u32 w = 33; column + w < count; w += 16) to[w] = __funnelshift_l(from[w - 1], from[w], by);
  }
}

// grid: x any, y = groups of `per_group` waves, at most ENCODE_GROUP, which share the tables and, if they have a capacity, their
// workspace; block: a multiple of 32 threads; shared memory: SHARED_TABLES_NBYTES, a BlockWaves, then ROW_WORDS words a thread. The bytes of
// all codes are added to the segment's. Tiles behind tile_limit are left to another wave. The first wave's `taken` has to be 0.
extern "C" __global__ void __launch_bounds__(ENCODE_THREADS, 1)
    fsst_encode(const WaveView* __restrict__ waves, u32 per_group) {
  DYNAMIC_SHARED(u64, shared_memory);
  const u32 warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = lane_id();
  u8* shared = reinterpret_cast<u8*>(shared_memory);
  volatile BlockWaves* const kept = reinterpret_cast<volatile BlockWaves*>(shared + SHARED_TABLES_NBYTES);
  {
    const WaveView* const group = waves + blockIdx.y * per_group;
    u64 bundles = 0;
    for (u32 i = 0; i < per_group; ++i) {
      const WaveView& wave = group[i];
      const u64 chars = *reinterpret_cast<const u64*>(wave.first_char);
      const u64 begin = chars + reinterpret_cast<const u64*>(wave.bounds)[0];
      const u64 end = chars + reinterpret_cast<const u64*>(wave.bounds)[1];
      if (threadIdx.x == 0) {
        kept->of[i].begin = begin, kept->of[i].end = end;
        kept->of[i].first_tile = wave.tile_begin, kept->of[i].first_bundle = bundles;
      }
      bundles += (min((end - begin + TILE - 1) / TILE - wave.tile_begin, wave.tile_limit) + 31) / 32;
    }
    if (blockIdx.x >= bundles) return;
    const u64* tables = reinterpret_cast<const u64*>(group->tables);
#pragma unroll 8
    for (u32 i = threadIdx.x; i < SHARED_TABLES_NBYTES / 8; i += blockDim.x) shared_memory[i] = __ldg(tables + i);
    if (threadIdx.x == 0) {
      kept->pairs = reinterpret_cast<u64>(reinterpret_cast<const EncodeTables*>(tables)->pairs);
      kept->waves = group;
      kept->count = per_group, kept->bundles = u32(bundles);
    }
  }
  __syncthreads();

  const u8* pairs = reinterpret_cast<const u8*>(kept->pairs);
  const u32 two_byte_limit = u32(reinterpret_cast<const EncodeTables*>(kept->waves->tables)->two_byte_limit);
  const u32 rows_at = u32(SHARED_TABLES_NBYTES + sizeof(BlockWaves)) + 4 * ROW_WORDS * 32 * warp;
  u32* rows = reinterpret_cast<u32*>(shared + rows_at);
  u32* row = rows + lane * ROW_WORDS;
  const u32 row_at = keep_in_register(rows_at + 4 * ROW_WORDS * lane);
  const u32 one = __ffs(__ballot_sync(ALL_LANES, true));

  // Neighbouring bundles belong to different blocks: few bundles, and the last ones, keep as many multiprocessors busy as there are. A
  // warp takes its next bundle as soon as it begins one, to ask for its characters meanwhile.
  for (u32 bundle = blockIdx.x + gridDim.x * warp; bundle < kept->bundles; bundle = kept->next[warp]) {
    __syncwarp();
    if (lane == 0)
      kept->next[warp] = gridDim.x * warps + u32(atomicAdd(reinterpret_cast<u64*>(kept->waves->taken), 1ull));
    const u32 number = wave_of(kept, bundle);
    const u64 begin = kept->of[number].begin, end = kept->of[number].end;
    const u32 of_wave = bundle - u32(kept->of[number].first_bundle);
    const u64 source = begin + (kept->of[number].first_tile + 32 * u64(of_wave)) * TILE;
    const u32 bundle_chars = u32(min(end - source, u64(32 * TILE)));
    stage_words(rows, source, (bundle_chars + 3) / 4, begin, end, bundle_chars == 32 * TILE);
    __syncwarp();
    const u64 next = source + (kept->next[warp] - bundle) * u64(32 * TILE) + lane * TILE;
    for (u32 line = 0; line < TILE; line += 128)
      if (next + line < end) prefetch(next + line);

    const u32 lane_start = lane * TILE;
    const u32 n = lane_start < bundle_chars ? min(TILE, bundle_chars - lane_start) : 0;
    const u8* spill = nullptr;
    const u32 length =
        encode_row(shared, pairs, two_byte_limit, row_at, n, 8 * u32(source & 3), one, kept, bundle, &spill);
    if (spill != nullptr)
      for (u32 i = 0; i < length; ++i) reinterpret_cast<u8*>(row)[i] = spill[i];
    __syncwarp();

    u32 raw = __ballot_sync(ALL_LANES, n > 0 && length == n);
    while (raw != 0) {
      const u32 r = __ffs(raw) - 1;
      const u32 bytes = __shfl_sync(ALL_LANES, n, r);
      raw &= raw - 1;
      stage_raw(rows + r * ROW_WORDS, source + r * TILE, bytes, kept->of[number].begin, kept->of[number].end);
    }
    __syncwarp();

    const WaveView& wave = kept->waves[number];
    const u32 inclusive = warp_inclusive_sum(length);
    u64 place = of_wave * u64(32 * TILE);
    if (wave.capacity != 0) {
      if (lane == 31) place = take_room(wave, (inclusive + 15) & ~15u);
      place = __shfl_sync(ALL_LANES, place, 31);
    }
    if (place != ~0ull) write_rows(rows, length, inclusive, reinterpret_cast<u32*>(wave.slot + place));
    if (lane == 31) {
      u32* const lengths = reinterpret_cast<u32*>(wave.bundle_lengths);
      lengths[of_wave] = inclusive;
      if (wave.capacity != 0) lengths[wave.tile_limit / 32 + of_wave] = u32(place / 16);
      atomicAdd(reinterpret_cast<u64*>(wave.codes_nbytes), u64(inclusive));
    }
    if (n > 0) {
      const u64 tile = 32 * u64(of_wave) + lane;
      if (TILE <= 256)
        reinterpret_cast<u8*>(wave.tile_lengths)[tile] = u8(length - 1);
      else
        reinterpret_cast<u16*>(wave.tile_lengths)[tile] = u16(length - 1);
    }
    __syncwarp();
  }
}
