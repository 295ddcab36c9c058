// Automata of rows that begin anew with every row, run over the codes of any codec of text: an answer for each row. TILE is the tile size.
//
// Work unit: a warp has a bundle of 32 consecutive tiles, one tile a lane; its codes are staged. First the warp unpacks the
// lengths of the bundle's rows, and sets a bit in shared memory where one ends. Then each lane runs the automaton over the codes of its tile, and on
// until the row ends that began last in it. Where a row ends it says in shared memory what the row is, a byte each. Last these bytes go
// out, coalesced; where rows have no bytes their lengths are looked at again.
//
// A lane in whose tile no row begins at the first character begins in a state that says nothing until a row ends.
//
//            tile 0 of the bundle    tile 1                      tile 31                 the next tile
//   bits     w w w w w w w w copy    w w w w w w w w copy  ...   w w w w w w w w copy    w w w w w w w w -
//
// The word behind each tile's spreads them over the banks. It is a copy of the next one, so that a window may reach over a tile's end.
//
// Rows that end undecided are rare. Tiles that have some are run over twice.
// Rows of more than MOST_ROW bytes are left undecided: a lane alone would be at work too long.
//
// Two that lost, TPC-H l_comment SF 10 on an H200 (docs/kernels.md has another):
// - bits where rows end that count, instead of bytes, and row lengths unpacked again for the answers: 1.56 to 1.93 ms.
// - lanes that take row after row, with a branch where one ends, and codes behind an end that are read once more: 1.80 to 1.93 ms. Each lane
//   of a warp ends its rows at other codes, so all lanes took the branch nearly always: 55 instructions a code.
//
// Invariant: whatever the codes, nothing outside the staged codes, the bits and the answers is touched: starts and lengths are clamped to
// `codes_nbytes`, a lane that does not end a tile where it should stops, and every step reads a code at least.
#pragma once

#include "row_lengths.cuh"
#include "text_tiles.cuh"

typedef long long i64;

#define TILE_WORDS (TILE / 32)
// Words of bits of a bundle and its next tile, and behind them what makes them whole vectors.
#define BITS_WORDS (33 * (TILE_WORDS + 1) + 3)
// Characters that these have bits of; from here less a window on there is but one row's end that counts.
#define BITS_CHARS (33 * TILE)
#define NEAR_CHARS (BITS_CHARS - 32)

// What is said of a row that is undecided; of one that counts it is less, but not 0.
#define SAID_UNDECIDED 16

// The answers for what is said of four rows, a byte each.
__device__ __forceinline__ u32 answers_of(u32 said) {
  return ((said | said >> 1 | said >> 2 | said >> 3) & 0x01010101) | (said >> 3 & 0x02020202);
}

// Where word i of the bits lies.
__device__ __forceinline__ u32 spread_word(u32 i) { return i + i / TILE_WORDS; }

// Addresses of shared memory have 32 bits.
template <bool global>
struct AddressOf {
#ifdef __CUDA_ARCH__
  typedef u32 Type;
  __device__ __forceinline__ static u32 in(const void* memory) { return u32(__cvta_generic_to_shared(memory)); }
#else
  typedef u64 Type;
  static u64 in(const void* memory) { return reinterpret_cast<u64>(memory); }
#endif
};
template <>
struct AddressOf<true> {
  typedef u64 Type;
  __device__ __forceinline__ static u64 in(const void* memory) { return reinterpret_cast<u64>(memory); }
};

// Where the codes of a tile's block begin.
__device__ __forceinline__ u64 block_start(const SegmentView& s, u32 tile) {
  return __ldg(reinterpret_cast<const u64*>(s.block_starts) + tile / TILE_BLOCK);
}

// Codes of a segment from a byte on, by words: the first `staged` of them in shared memory.
struct CodeWords {
  const SegmentView& s;
  u32 tile, base;  // the first staged code is behind so many of the tile's block
  const u32* words;
  u32 staged;

  __device__ __forceinline__ u32 word(u32 i) const {
    if (i < staged) return words[i];
    const u64 codes = s.codes, origin = (block_start(s, tile) + base) / 16 * 16;
    return load_word(codes + origin + 4 * u64(i), 0, codes + s.codes_nbytes);
  }
};

// A lane on its way: places are counted from the first character of the bundle.
struct Way {
  const u32* ends;              // bits where rows end
  AddressOf<false>::Type said;  // where something is said of the next row that ends
  u32 at, stop;                 // the next character, and the one behind the last row
  u32 undecided;                // not 0: a row is

  // Where rows end in the next 32 characters. near: `stop` is at most NEAR_CHARS.
  template <bool near>
  __device__ __forceinline__ u32 window() const {
    if (!near && at >= NEAR_CHARS) return stop - 1 - at < 32 ? 1u << (stop - 1 - at) : 0;
    const u32* word = ends + spread_word(at / 32);
    return __funnelshift_r(word[0], word[1], at);
  }
  // Of the next row it is said what it is: SAID_UNDECIDED, or less if it counts, such as the length of the symbol that it ends in.
  __device__ __forceinline__ void put(u32 what) const {
#ifdef __CUDA_ARCH__
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(said), "r"(what));
#else
    *reinterpret_cast<u8*>(said) = u8(what);
#endif
  }
};

// Gives `take` the row blocks of a segment from number `block` on that begin in `chars` characters from `from` on: the number of a lane's first row,
// where its eight neighbouring rows begin, and the one behind them, counted from `from`, and whether all rows of the block have
// eight bytes or more. Of places further away it is known on which side they are. Returns the last that begins there, or just behind.
template <typename Take>
__device__ __forceinline__ u32 each_block(const SegmentView& s, u32 block, u64 from, u32 chars, const Take& take) {
  const u64* const all_starts = reinterpret_cast<const u64*>(s.row_starts);
  const u32 all = u32((s.rows + ROW_BLOCK - 1) / ROW_BLOCK), lane = lane_id();
  const i64 most = 1 << 29;
  u32 last = block;
  for (u32 first = block; first < all; first += 32) {  // lanes know 32 of them, one each
    const u32 mine = min(first + lane, all - 1);
    PackedBlock own(s, mine);
    if (own.width > 48) own.width = 0;  // damaged: sums of such lengths may wrap, and rows have to ascend
    const i32 place = i32(max(min(i64(all_starts[mine] - from), most), -most));
    if (lane > 0 && lane < 6 && own.width > 0) {  // those of this bundle and the next one
      prefetch(reinterpret_cast<u64>(own.bits));
      prefetch(reinterpret_cast<u64>(own.bits + 8 * own.width - 1));
    }
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
        u64 sum = 0;  // lengths are looked up twice: they would take many registers
#pragma unroll
        for (u32 k = 0; k < ROWS_PER_LANE; ++k) sum += packed.length(ROWS_PER_LANE * lane + k);
        i64 at = (i64((all_starts[b] - from) << 2) >> 2) + i64(warp_inclusive_sum(sum) - sum);
#pragma unroll
        for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
          starts[k] = i32(max(min(at, most), -most));
          at += i64(packed.length(ROWS_PER_LANE * lane + k));
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

// What a warp knows of the rows of its bundle.
struct BundleRows {
  u32 first;        // the number of the first row that begins in it
  u32 crossing;     // the number of the row that ends behind the bundle, ~0: there is none
  i32 begin, end;   // its characters
  bool at_start;    // whether a row begins at the first character
  bool in_symbols;  // whether rows may begin and end in one symbol
  bool gaps;        // whether rows may have no bytes

  __device__ __forceinline__ bool too_long() const { return crossing != ~0u && end - begin > i32(MOST_ROW); }

  // Takes eight neighbouring rows of a bundle of `chars` characters, and sets the bits where they end. bits: zeros before. Where rows have no
  // bytes, these are set again.
  __device__ __forceinline__ void note(u32 row, const i32* starts, bool long_rows, u32 chars, u32* bits) {
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
      const u32 last = u32(starts[k + 1]) - 1;
      at_start |= starts[k] == 0;
      if (last < BITS_CHARS) atomicOr(bits + spread_word(last / 32), __funnelshift_l(0, 1, last));
    }
    if (!long_rows) {
#pragma unroll
      for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
        in_symbols |= u32(starts[k + 1] - starts[k]) - 1 < 7;
        gaps |= starts[k] == starts[k + 1];
      }
    }
    if (starts[0] < i32(chars) && starts[ROWS_PER_LANE] > i32(chars)) {
#pragma unroll
      for (u32 k = 0; k < ROWS_PER_LANE; ++k)
        if (u32(starts[k]) < chars && starts[k + 1] > i32(chars))
          crossing = row + k, begin = starts[k], end = starts[k + 1];
    }
    if (first != ~0u) return;
    u32 before = 0;
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k) before += starts[k] < 0;
    first = __shfl_sync(ALL_LANES, row, 0) + __shfl_sync(ALL_LANES, warp_inclusive_sum(before), 31);
  }
  // What one lane knows, or the other, becomes known to all.
  __device__ __forceinline__ void share() {
    at_start = __any_sync(ALL_LANES, at_start);
    in_symbols = __any_sync(ALL_LANES, in_symbols);
    gaps = __any_sync(ALL_LANES, gaps);
    const u32 who = __ballot_sync(ALL_LANES, crossing != ~0u);
    if (who == 0) return;
    const u32 source = __ffs(who) - 1;
    crossing = __shfl_sync(ALL_LANES, crossing, source);
    begin = __shfl_sync(ALL_LANES, begin, source);
    end = __shfl_sync(ALL_LANES, end, source);
  }
};

// What a lane knows of its tile.
struct LaneTile {
  u32 start, count, chars;  // the first of its codes, counted from that of its block, and how many; characters
  u32 rows, before;         // that begin in it, and in those of the lanes before
  u32 stop;                 // where the rows end that begin in it, 0: none does
  bool begins;              // whether one begins at its first character
};

// Finds out about the rows of the lane's tile. bits: where rows end.
__device__ __forceinline__ void find_begins(LaneTile& own, const u32* bits, const BundleRows& bundle) {
  const u32 lane = lane_id(), *mine = bits + lane * (TILE_WORDS + 1), last = mine[TILE_WORDS - 1];
  own.begins = own.chars > 0 && (lane == 0 ? bundle.at_start : mine[-2] >> 31);
  // A row that ends with the tile is followed by one of the next tile, or by none.
  u32 rows = own.begins;
#pragma unroll
  for (u32 i = 0; i < TILE_WORDS; ++i) rows += __popc(mine[i]);
  if (own.chars < TILE)
    rows -= min(rows, own.chars > 0 ? mine[(own.chars - 1) / 32] >> (own.chars - 1) % 32 & 1 : rows);
  else
    rows -= last >> 31;
  if (bundle.too_long() && rows > 0 && u32(bundle.begin) - lane * TILE < TILE) --rows;  // it is left out
  own.rows = rows;
  own.before = warp_inclusive_sum(rows) - rows;
  own.stop = lane * TILE + own.chars;
  if (rows == 0) own.stop = 0;
  if (rows == 0 || own.chars < TILE || last >> 31) return;
  for (u32 i = (lane + 1) * TILE_WORDS; i < 33 * TILE_WORDS; ++i) {
    const u32 word = bits[spread_word(i)];
    if (word != 0) {
      own.stop = 32 * i + __ffs(word);
      return;
    }
  }
  if (bundle.crossing != ~0u) own.stop = u32(bundle.too_long() ? bundle.begin : bundle.end);
}

// Writes what is said of `count` rows, the first of them number `from` of the bundle's rows, to the column's `answers`. It lies in shared memory as
// it does there modulo 4.
__device__ __forceinline__ void write_said(const SegmentView& s, const BundleRows& bundle, u32 from, u32 count,
                                           const u8* said, u64 column_answers) {
  const u32 lane = lane_id();
  u8* const answers = reinterpret_cast<u8*>(column_answers) + s.first_row;
  u8* const to = answers + bundle.first + from;
  const u32 skew = u32(reinterpret_cast<u64>(to) & 3);
  count = u32(min(u64(count), s.rows - min(s.rows, u64(bundle.first) + from)));
  if (!bundle.gaps) {
    for (u32 i = 4 * lane; i < skew + count; i += 128) {
      if (i >= skew && i + 4 <= skew + count) {
        *reinterpret_cast<u32*>(to - skew + i) = answers_of(*reinterpret_cast<const u32*>(said + i));
      } else {
#pragma unroll
        for (u32 k = 0; k < 4; ++k)
          if (i + k >= skew && i + k < skew + count) to[i + k - skew] = u8(answers_of(said[i + k]));
      }
    }
    return;
  }
  u32 seen = 0;
#pragma unroll 1
  for (u64 row = bundle.first + lane; seen < from + count && row - lane < s.rows; row += 32) {
    const bool there = row < s.rows && PackedBlock(s, row / ROW_BLOCK).length(u32(row % ROW_BLOCK)) != 0;
    const u32 some = __ballot_sync(ALL_LANES, there), at = seen + __popc(some & ((1u << lane) - 1)) - from;
    if (there && at < count) answers[row] = u8(answers_of(said[skew + at]));
    seen += __popc(some);
  }
}

// Bytes of shared memory of a warp.
__device__ __forceinline__ u32 rows_room(u32 codes_capacity, u32 said_capacity) {
  return 4 * BITS_WORDS + said_capacity + codes_capacity + RUN_ON_NBYTES + 16;
}

// Answers for the rows that begin in this warp's bundles, from tile `first_tile` on; answers: address of those of the column. A codec's automaton
// has run_tile(codes, at, begins, tile, count, chars, single, second, way): over the `count` bytes of codes of a tile, from byte `at` of
// `codes` on, which stand for `chars` characters, and on over the next tiles' codes as far as the lane has to. begins: a row begins with the tile; single: rows may
// begin and end in eight characters; second: it is said of undecided rows that they are, else of those that count.
template <typename Automaton>
__device__ __forceinline__ void answer_rows(const Automaton& automaton, const SegmentView& s, u32 first_tile,
                                            u32 codes_capacity, u32 said_capacity, u32 bundles, u32* room,
                                            u64 answers) {
  const u32 lane = lane_id();
  u32 *const ends = room, *const codes_at = ends + BITS_WORDS + said_capacity / 4;
  u8* const said = reinterpret_cast<u8*>(ends + BITS_WORDS);
  if (u64(first_tile) * TILE >= s.chars || s.rows == 0) return;
  u32 block = warp_last_that(0u, u32((s.rows + ROW_BLOCK - 1) / ROW_BLOCK), [&](u32 b) {
    return reinterpret_cast<const u64*>(s.row_starts)[b] <= u64(first_tile) * TILE;
  });
  // Codes of earlier tiles of the block: in shared memory, for there are few registers.
  u32& kept = ends[BITS_WORDS - 1];
  {
    u32 before = 0;
#pragma unroll 1
    for (u32 tile = first_tile / TILE_BLOCK * TILE_BLOCK + lane; tile < first_tile; tile += 32)
      before += length_of_tile(s, tile, ~0ull);
    before = warp_inclusive_sum(before);
    if (lane == 31) kept = before;
  }
  __syncwarp();

#pragma unroll 1
  for (bool more = true; more;) {  // bundles
    const u64 from = u64(first_tile) * TILE;
    LaneTile own;
    u32 bundle_chars, length;
    {
      const u64 chars = s.chars, tile_begin = from + lane * TILE, codes_nbytes = s.codes_nbytes;
      bundle_chars = u32(min(u64(32 * TILE), chars - from));
      own.chars = tile_begin < chars ? u32(min(u64(TILE), chars - tile_begin)) : 0;
      own.count = length = length_of_tile(s, first_tile + lane, (chars + TILE - 1) / TILE);
      const u32 behind = kept + warp_inclusive_sum(own.count);
      own.start = behind - own.count;
      const u64 start = block_start(s, first_tile) + own.start;
      if (own.count > own.chars || start > codes_nbytes || own.count > codes_nbytes - start) own.count = 0;
    }
    __syncwarp();
#pragma unroll 1
    for (u32 i = lane; i < BITS_WORDS / 4; i += 32) reinterpret_cast<uint4*>(ends)[i] = make_uint4(0, 0, 0, 0);
    __syncwarp();
    if (lane == 31) kept = own.start + length;
    BundleRows rows = {~0u, ~0u, 0, 0, false, false, false};
    block = each_block(s, block, from, bundle_chars, [&](u32 row, const i32* starts, bool long_rows) {
      rows.note(row, starts, long_rows, bundle_chars, ends);
    });
    rows.share();
    __syncwarp();
    ends[lane * (TILE_WORDS + 1) + TILE_WORDS] = ends[(lane + 1) * (TILE_WORDS + 1)];
    __syncwarp();
    find_begins(own, ends, rows);
    if (rows.too_long() && lane == 0) reinterpret_cast<u8*>(answers)[s.first_row + rows.crossing] = 2;

    u32 open = __ballot_sync(ALL_LANES, own.count > 0 && own.rows > 0);  // tiles still to run over
    while (open != 0) {
      u32 batch, staged, at;
      {
        const u32 leader = __ffs(open) - 1, start = __shfl_sync(ALL_LANES, own.start, leader);
        const u64 codes = s.codes, codes_nbytes = s.codes_nbytes, base = block_start(s, first_tile) + start;
        at = own.start - start + u32(base & 15);
        const u32 rows_behind = own.before + own.rows - __shfl_sync(ALL_LANES, own.before, leader);
        batch = __ballot_sync(ALL_LANES, (open >> lane & 1) && at + own.count <= codes_capacity &&
                                             rows_behind + SAID_SPARE <= said_capacity);
        const u32 stop = __shfl_sync(ALL_LANES, at + own.count, 31 - __clz(batch));
        const u64 first = base / 16 * 16, end = min(first + stop + RUN_ON_NBYTES, codes_nbytes);
        staged = u32(end - first) / 4;
        stage_codes(reinterpret_cast<uint4*>(codes_at), codes, codes_nbytes, base, end);
        // The next ones are needed soon.
        if (first + stop + 128 * lane < codes_nbytes && lane < codes_capacity / 128)
          prefetch(codes + first + stop + 128 * lane);
      }
#pragma unroll 1
      for (u32 i = lane; i < said_capacity / 16; i += 32) reinterpret_cast<uint4*>(said)[i] = make_uint4(0, 0, 0, 0);
      __syncwarp();
#pragma unroll 1
      for (bool second = false;; second = true) {
        const u32 leader = __ffs(open) - 1, start = __shfl_sync(ALL_LANES, own.start, leader);
        const u32 first_row = __shfl_sync(ALL_LANES, own.before, leader);
        const u32 skew = u32(answers + s.first_row + rows.first + first_row) & 3;
        Way way = {ends, AddressOf<false>::in(said) + skew + own.before - first_row - !own.begins, lane * TILE,
                   own.stop, 0};
        if (batch >> lane & 1) {
          automaton.run_tile(CodeWords{s, first_tile, start, codes_at, staged}, at, own.begins, first_tile + lane,
                             own.count, own.chars, rows.in_symbols || second, second, way);
        }
        __syncwarp();
        if (second || !__any_sync(ALL_LANES, way.undecided != 0)) break;
      }
      const u32 first_row = __shfl_sync(ALL_LANES, own.before, __ffs(open) - 1);
      const u32 count = __shfl_sync(ALL_LANES, own.before + own.rows, 31 - __clz(batch)) - first_row;
      write_said(s, rows, first_row, count, said, answers);
      open &= ~batch;
      __syncwarp();
    }
    first_tile += 32;
    more = first_tile % (32 * bundles) != 0 && u64(first_tile) * TILE < s.chars;
  }
}
