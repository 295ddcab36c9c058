// Automata of rows that run over the tiles of any codec of text: where rows end, as bits; of bits, the answers. TILE is the tile size.
//
// Work unit: a warp has a piece of 32 consecutive tiles, one tile a lane. First the warp unpacks the lengths of the piece's rows, and sets a bit in
// shared memory where one ends. Then each lane runs the codec's automaton over the codes of its tile, and on until the row ends that began
// last in it. The bits where a row ends that counts are the result. Last the warp unpacks the lengths again, and writes the answers of all
// rows that begin in the piece.
//
//            tile 0 of the piece     tile 1                      tile 31                 the next tile
//   bits     w w w w w w w w copy    w w w w w w w w copy  ...   w w w w w w w w copy    w w w w w w w w -
//
// The word behind each tile's spreads them over the banks. It is a copy of the next one, so that a window may reach over a tile's end.
//
// Rows that end undecided are rare. A piece that has some is run twice: then their bits are those that count.
// Rows of more than MOST_ROW bytes are left undecided: a lane alone would be at work too long.
#pragma once

#include "row_lengths.cuh"
#include "text_tiles.cuh"

typedef long long i64;

#define TILE_WORDS (TILE / 32)
// Words of bits of a piece and its next tile, and behind them what makes them whole vectors.
#define BITS_WORDS (33 * (TILE_WORDS + 1) + 3)
// Characters that these have bits of; from here less a window on there is but one row's end that counts.
#define BITS_CHARS (33 * TILE)
#define NEAR_CHARS (BITS_CHARS - 32)

// Where word i of the bits lies.
__device__ __forceinline__ u32 place_of_word(u32 i) { return i + i / TILE_WORDS; }

// A lane on its way: places are counted from the first character of the piece.
struct Walk {
  const u32* ends;  // bits where rows end
  u32* found;       // and where rows end that count
  u32 at, stop;     // the next character, and the one behind the last row
  u32 beyond;       // not 0: the row counts that ends behind all bits
  u32 undecided;    // not 0: a row is

  // Where rows end in the next 32 characters. near: `stop` is at most NEAR_CHARS.
  template <bool near>
  __device__ __forceinline__ u32 window() const {
    if (!near && at >= NEAR_CHARS) return stop - 1 - at < 32 ? 1u << (stop - 1 - at) : 0;
    const u32* word = ends + place_of_word(at / 32);
    return __funnelshift_r(word[0], word[1], at);
  }
  // Bit b of `some`: the row counts that ends behind character `at` + b.
  template <bool near>
  __device__ __forceinline__ void set(u32 some) {
    if (!near && at >= NEAR_CHARS) beyond |= some;
    const u32 place = at / 32, low = __funnelshift_l(0, some, at), high = __funnelshift_l(some, 0, at);
    if (low != 0 && (near || at < BITS_CHARS)) atomicOr(found + place_of_word(place), low);
    if (high != 0 && (near || at < NEAR_CHARS)) atomicOr(found + place_of_word(place + 1), high);
  }
};

// Gives `take` the row blocks of a segment from number `block` on that begin in `chars` characters from `from` on: the number of a lane's first row,
// where its eight neighbouring rows begin, and the one behind them, counted from `from`, and whether all rows of the block have
// eight bytes or more. Of places further away it is known on which side they are. Returns the last that begins there, or just behind.
template <typename Take>
__device__ __forceinline__ u32 each_row_block(const SegmentView& s, u32 block, u64 from, u32 chars, const Take& take) {
  const u64* const all_starts = reinterpret_cast<const u64*>(s.row_starts);
  const u32 all = u32((s.rows + ROW_BLOCK - 1) / ROW_BLOCK), lane = lane_id();
  const i64 most = 1 << 29;
  u32 last = block;
  for (u32 first = block; first < all; first += 32) {  // lanes know 32 of them, one each
    const u32 mine = min(first + lane, all - 1);
    const PackedBlock own(s, mine);
    const i32 place = i32(max(min(i64(all_starts[mine] - from), most), -most));
    const u32 sound = __ballot_sync(ALL_LANES, own.width <= 8 && own.minimum < 1 << 16);
    const u32 long_rows = __ballot_sync(ALL_LANES, own.minimum >= 8 && mine != all - 1);
    for (u32 j = 0; j < min(32u, all - first); ++j) {
      const i32 here = __shfl_sync(ALL_LANES, place, j);
      const u32 b = first + j;
      if (b > block && here > i32(chars)) return last;
      last = b;
      if (b > block && here == i32(chars)) continue;
      const PackedBlock packed(own, j);
      const u32 row = b * ROW_BLOCK + ROWS_PER_LANE * lane;
      i32 starts[ROWS_PER_LANE + 1];
      if (sound >> j & 1) {
        const u32 minimum = u32(packed.minimum), width = packed.width, mask = (1u << width) - 1;
        u32 near, far;
        packed.eight_rows(lane, &near, &far);
        const u32 sum = ROWS_PER_LANE * minimum + packed.sum_of(near, 4) + packed.sum_of(far, 4);
        starts[0] = here + i32(warp_inclusive_sum(sum) - sum);
#pragma unroll
        for (u32 k = 0; k < ROWS_PER_LANE; ++k)
          starts[k + 1] = starts[k] + i32(minimum + ((k < 4 ? near : far) >> (k % 4 * width) & mask));
      } else {
        // Lengths are looked up twice: they would take many registers. Damaged ones are so short that no sum wraps, so rows ascend.
        const i64 limit = 1ll << 60;
        const auto length = [&](u32 k) { return min(packed.length(ROWS_PER_LANE * lane + k), 1ull << 40); };
        u64 sum = 0;
#pragma unroll
        for (u32 k = 0; k < ROWS_PER_LANE; ++k) sum += length(k);
        i64 at = max(min(i64(all_starts[b] - from), limit), -limit) + i64(warp_inclusive_sum(sum) - sum);
#pragma unroll
        for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
          starts[k] = i32(max(min(at, most), -most));
          at += i64(length(k));
        }
        starts[ROWS_PER_LANE] = i32(max(min(at, most), -most));
      }
      if (b == all - 1) {  // there may be less rows
#pragma unroll
        for (u32 k = 0; k < ROWS_PER_LANE; ++k)
          if (u64(row) + k >= s.rows) starts[k + 1] = starts[k];
      }
      take(row, starts, bool(long_rows >> j & 1));
    }
  }
  return last;
}

// What a warp knows of the rows of its piece.
struct RowEnds {
  u32 crossing;     // the number of the row that ends behind the piece, ~0: there is none
  i32 begin, end;   // its characters
  bool at_start;    // whether a row begins at the first character
  bool in_symbols;  // whether rows may begin and end in one symbol

  __device__ __forceinline__ bool too_long() const { return end - begin > i32(MOST_ROW); }

  // Takes eight neighbouring rows of a piece of `chars` characters, and sets the bits where they end. bits: zeros before. Where rows have no
  // bytes, these are set again.
  __device__ __forceinline__ void note(u32 row, const i32* starts, bool long_rows, u32 chars, u32* bits) {
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
      const u32 last = u32(starts[k + 1]) - 1;
      at_start |= starts[k] == 0;
      if (last < BITS_CHARS) atomicOr(bits + place_of_word(last / 32), __funnelshift_l(0, 1, last));
    }
    if (!long_rows) {
#pragma unroll
      for (u32 k = 0; k < ROWS_PER_LANE; ++k) in_symbols |= u32(starts[k + 1] - starts[k]) - 1 < 7;
    }
    if (starts[0] < i32(chars) && starts[ROWS_PER_LANE] > i32(chars)) {
#pragma unroll
      for (u32 k = 0; k < ROWS_PER_LANE; ++k)
        if (u32(starts[k]) < chars && starts[k + 1] > i32(chars))
          crossing = row + k, begin = starts[k], end = starts[k + 1];
    }
  }
  // What one lane knows, or the other, becomes known to all.
  __device__ __forceinline__ void share() {
    at_start = __any_sync(ALL_LANES, at_start);
    in_symbols = __any_sync(ALL_LANES, in_symbols);
    const u32 who = __ballot_sync(ALL_LANES, crossing != ~0u);
    if (who == 0) return;
    const u32 source = __ffs(who) - 1;
    crossing = __shfl_sync(ALL_LANES, crossing, source);
    begin = __shfl_sync(ALL_LANES, begin, source);
    end = __shfl_sync(ALL_LANES, end, source);
  }
};

// Writes the answers to eight neighbouring rows, as far as they begin in a piece of `chars` characters. bits: where rows end that count; beyond:
// whether the one does that ends behind them. second: those that are undecided, else the others.
__device__ __forceinline__ void answer_eight_rows(const i32* starts, bool long_rows, u32 chars, const u32* bits,
                                                  bool beyond, bool second, u8* to) {
  if (starts[0] >= i32(chars) || starts[ROWS_PER_LANE] <= 0) return;
  const bool whole = long_rows && starts[0] >= 0 && starts[ROWS_PER_LANE] <= i32(chars);
  u32 mine = 0, found = 0;
  if (whole) {
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
      const u32 last = u32(starts[k + 1]) - 1, word = bits[place_of_word(last / 32)];
      found = __funnelshift_r(found, __funnelshift_r(word, word, last), 1);
    }
    mine = 255, found >>= 24;
  } else {
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
      const u32 last = u32(starts[k + 1]) - 1, place = min(last, u32(BITS_CHARS - 1));
      if (u32(starts[k]) < chars && starts[k + 1] > starts[k]) mine |= 1u << k;
      found |= (last < BITS_CHARS ? bits[place_of_word(place / 32)] >> (place % 32) & 1 : u32(beyond)) << k;
    }
  }
  if (!second && mine == 255 && (reinterpret_cast<u64>(to) & 7) == 0) {  // four bits, each to its own byte
    *reinterpret_cast<uint2*>(to) =
        make_uint2((found & 15) * 0x204081 & 0x1010101, (found >> 4) * 0x204081 & 0x1010101);
    return;
  }
  if (second) mine &= found;
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k)
    if (mine >> k & 1) to[k] = second ? 2 : found >> k & 1;
}

// Where the rows end that begin in this lane's tile, 0 where none does; begins: whether one does at its first character. The tile has `chars`
// characters.
__device__ __forceinline__ u32 stop_behind_rows(const u32* bits, const RowEnds& piece, u32 chars, bool begins) {
  const u32 lane = lane_id(), *mine = bits + lane * (TILE_WORDS + 1), last = mine[TILE_WORDS - 1];
  u32 some = last & 0x7fffffff;
#pragma unroll
  for (u32 i = 0; i + 1 < TILE_WORDS; ++i) some |= mine[i];
  if (chars == 0 || (!begins && some == 0)) return 0;
  if (chars < TILE || last >> 31) return lane * TILE + chars;
  for (u32 i = (lane + 1) * TILE_WORDS; i < 33 * TILE_WORDS; ++i) {
    const u32 word = bits[place_of_word(i)];
    if (word != 0) return 32 * i + __ffs(word);
  }
  if (piece.crossing == ~0u) return lane * TILE + chars;
  return u32(piece.too_long() ? piece.begin : piece.end);
}

// The tiles of a piece that this warp runs over: what a lane knows of its own, 0 codes where there is none.
struct WalkedTile {
  u64 start;  // the first of its codes
  u32 tile, count, chars, next_count;
};

// Runs over the codes of all tiles of a piece; gives the lane's walk. automaton: a codec's, which a lane has `run` over its tile and on.
template <typename Automaton>
__device__ __forceinline__ void walk_piece(const Automaton& automaton, const SegmentView& s, const WalkedTile& own,
                                           u32* codes_at, u32 codes_capacity, u32 entry, bool in_symbols, bool second,
                                           Walk& walk) {
  const u32 lane = lane_id();
  const u64 codes = s.codes, codes_nbytes = s.codes_nbytes;
  u32 open = __ballot_sync(ALL_LANES, own.count > 0 && walk.stop > walk.at);  // tiles still to run over
  while (open != 0) {
    const u64 base = __shfl_sync(ALL_LANES, own.start, __ffs(open) - 1);
    const u64 origin = base / 16 * 16;
    const bool fits = (open >> lane & 1) && own.start >= base && own.start + own.count - origin <= codes_capacity;
    const u32 batch = __ballot_sync(ALL_LANES, fits);
    const u64 stop = __shfl_sync(ALL_LANES, own.start + own.count, 31 - __clz(batch));
    const u64 end = min(stop + RUN_ON_NBYTES, codes_nbytes);
    stage_codes(reinterpret_cast<uint4*>(codes_at), codes, codes_nbytes, base, end);
    // The next ones are needed soon.
    if (stop + 128 * lane < codes_nbytes && lane < codes_capacity / 128) prefetch(codes + stop + 128 * lane);
    __syncwarp();
    if (fits)
      automaton.run(s, origin, codes_at, u32(end - origin) / 4, u32(own.start - origin), own, entry, in_symbols, second,
                    walk);
    open &= ~batch;
    __syncwarp();
  }
}

// Answers for the rows that begin in this warp's pieces, from tile `first_tile` on, a byte each. outside: the entry from which a lane runs that comes
// into a row that is none of its own; from 0 it begins a row. room: shared memory, 8 * BITS_WORDS bytes and the staged codes.
template <typename Automaton>
__device__ __forceinline__ void answer_by_walks(const Automaton& automaton, const SegmentView& s, u32 outside,
                                                u32 first_tile, u32 codes_capacity, u32 pieces, u32* room,
                                                u8* answers) {
  u32 *const ends = room, *const found = ends + BITS_WORDS, *const codes_at = found + BITS_WORDS;
  const u32 lane = lane_id();
  const u64 chars = s.chars, tiles = (chars + TILE - 1) / TILE;
  if (first_tile >= tiles || s.rows == 0) return;
  u32 block = warp_last_that(0u, u32((s.rows + ROW_BLOCK - 1) / ROW_BLOCK), [&](u32 b) {
    return reinterpret_cast<const u64*>(s.row_starts)[b] <= u64(first_tile) * TILE;
  });

#pragma unroll 1
  for (u32 piece = 0; piece < pieces && first_tile < tiles; ++piece, first_tile += 32) {
    const u64 from = u64(first_tile) * TILE, tile_begin = from + lane * TILE, codes_nbytes = s.codes_nbytes;
    const u32 piece_chars = u32(min(u64(32 * TILE), chars - from));
    WalkedTile own = {0, first_tile + lane, 0, 0, 0};
    own.chars = tile_begin < chars ? u32(min(u64(TILE), chars - tile_begin)) : 0;
    BlockLengths lengths;
    lengths.load(s, first_tile / TILE_BLOCK, tiles);
    u32 start_in_block;
    own.count = lengths.of_tile(first_tile % TILE_BLOCK / 32, &start_in_block);
    own.next_count = __shfl_down_sync(ALL_LANES, own.count, 1);
    if (lane == 31) own.next_count = length_of_tile(s, first_tile + 32, tiles);
    own.start = __ldg(reinterpret_cast<const u64*>(s.block_starts) + first_tile / TILE_BLOCK) + start_in_block;
    if (own.count > own.chars || own.start > codes_nbytes || own.count > codes_nbytes - own.start)
      own.count = 0, own.start = 0;

    for (u32 i = lane; i < 2 * BITS_WORDS; i += 32) ends[i] = 0;
    __syncwarp();
    RowEnds rows = {~0u, 0, 0, false, false};
    Walk walk = {ends, found, 0, 0, 0, 0};
    u32 entry = 0, stop = 0, next = block;
    // First rows are noted, then answers written, and where some are undecided written again.
#pragma unroll 1
    for (u32 step = 0;; ++step) {
      const bool beyond = __any_sync(ALL_LANES, walk.beyond != 0);
      next = each_row_block(s, block, from, piece_chars, [&](u32 row, const i32* starts, bool long_rows) {
        if (step == 0)
          rows.note(row, starts, long_rows, piece_chars, ends);
        else
          answer_eight_rows(starts, long_rows, piece_chars, found, beyond, step == 2, answers + row);
      });
      __syncwarp();
      if (step == 0) {
        rows.share();
        ends[lane * (TILE_WORDS + 1) + TILE_WORDS] = ends[(lane + 1) * (TILE_WORDS + 1)];
        __syncwarp();
        const bool begins = lane == 0 ? rows.at_start : ends[lane * (TILE_WORDS + 1) - 2] >> 31;
        stop = stop_behind_rows(ends, rows, own.chars, begins), entry = begins ? 0 : outside;
      } else {
        if (lane == 0 && rows.crossing != ~0u && rows.too_long()) answers[rows.crossing] = 2;
        if (step == 2 || !__any_sync(ALL_LANES, walk.undecided != 0)) break;
        for (u32 i = lane; i < BITS_WORDS; i += 32) found[i] = 0;
        __syncwarp();
      }
      walk = {ends, found, lane * TILE, stop, 0, 0};
      walk_piece(automaton, s, own, codes_at, codes_capacity, entry, rows.in_symbols, step == 1, walk);
    }
    block = next;
    __syncwarp();
  }
}
