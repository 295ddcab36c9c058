// FSST rows: an automaton that begins anew with every row, run over codes; an answer for each row, many segments in one launch.
//
// Work unit: a warp has a piece of 32 consecutive tiles, one tile a lane; its codes are staged as fsst_decode does it. A lane answers for the rows
// that *begin* in its tile, which fsst_rows_starts has found. What stands before the first of them counts as a row whose answer is not
// written. Behind its tile the lane runs on until its last row ends, in the next tiles' codes: those behind the staged ones it reads
// from memory, one by one.
//
// Codes are read four at a time, and for a code there is one look-up, `entry = automaton[state << 8 | code]`. An escape leads to the
// upper half of the states, in which a code is a literal byte; raw tiles have the upper half for every byte. The entry says for every
// byte of the symbol what a row is that ends behind it. So where a row ends inside a symbol, nothing is run again: `restarts` has
// the state in which the next row is behind the symbol. Of four codes those behind the row's end are read once more. Only rows that
// begin and end in one symbol go byte by byte.
//
// Rows of more than MOST_ROW bytes are left undecided: a lane alone would be at work too long.
//
// TPC-H l_comment SF 10 on an H200 (60 M rows), nine automata of 7 to 38 states: 1.39 to 1.50 ms, whatever they look for; beside it
// 0.16 ms of fsst_rows_starts and 0.04 of the rest of fsst_rows_lift.cu. With 24 warps a multiprocessor instead of 32 it is 1.60, with 20
// warps 1.79. The automaton of 34 states in shared memory, which then has room for fewer warps, took 1.70; in global memory 1.49.
//
// Invariant: whatever the codes, nothing outside the staged codes and the answers is touched: starts and lengths are clamped to `codes_nbytes`, a
// lane that does not end a tile where it should stops, and every step reads a code at least.
#include "fsst_rows.cuh"
#include "row_lengths.cuh"
#include "text_tiles.cuh"

// Thread blocks on a multiprocessor: as many as give the code so many registers that nothing is spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define ROWS_BLOCKS 2
#else
#define ROWS_BLOCKS 1
#endif

// The rows of a segment, one after another; the length of the next is asked for while one is under way.
struct Rows {
  const SegmentView& s;
  const u32* bits;  // of the row block
  u32 width, minimum;
  u32 next, ahead;  // number of the next row, and its length

  __device__ __forceinline__ Rows(const SegmentView& s, u32 first) : s(s), next(first) {
    load();
    look();
  }
  __device__ __forceinline__ void load() {
    const PackedBlock block(s, next / ROW_BLOCK);
    bits = block.bits, width = block.width, minimum = u32(block.minimum);
  }
  __device__ __forceinline__ void look() {
    const u32 bit = next % ROW_BLOCK * width, shift = bit & 31;
    const u32* word = bits + bit / 32;
    if (width == 0) {
      ahead = minimum;
    } else if (width < 32) {
      ahead = minimum +
              (__funnelshift_r(__ldg(word), shift + width > 32 ? __ldg(word + 1) : 0, shift) & ((1u << width) - 1));
      if (ahead < minimum) ahead = ~0u;
    } else {
      ahead = u32(min(PackedBlock(s, next / ROW_BLOCK).length(next % ROW_BLOCK), u64(0xffffffff)));
    }
  }
  __device__ __forceinline__ bool left() const { return next < s.rows; }
  __device__ __forceinline__ u32 take() {
    const u32 length = ahead;
    ++next;
    if (left()) {
      if (next % ROW_BLOCK == 0) load();
      look();
    }
    return length;
  }
};

// An automaton and what belongs to it.
struct Automaton {
  const u32* entries;
  const u16* restarts;
  u32 states;
};

// Codes of a segment from a byte on: the first `staged` of them in shared memory.
struct Codes {
  const u32* words;
  u32 staged;
  u64 address;

  __device__ __forceinline__ u32 four(const SegmentView& s, u32 at) const {
    u32 low, high;
    if (at + 4 <= staged) {
      low = words[at / 4], high = words[at / 4 + 1];
    } else {
      const u64 word = (address + at) / 4 * 4, end = s.codes + s.codes_nbytes;
      low = load_word(word, 0, end), high = load_word(word + 4, 0, end);
    }
    return __funnelshift_r(low, high, 8 * (at & 3));
  }
};

// The row that is under way.
struct Row {
  u32 begin, size;  // its first character, counted from that of the lane's tile, and its bytes
  u32 left;         // of these, those that are still to be read
  u32 number;       // in its segment; ~0: its answer is not written

  __device__ __forceinline__ u32 read() const { return begin + size - left; }

  // Goes on with the row that begins behind byte `behind` of a code's symbol, of `length` bytes; gives the state, times 256, or ~0 where
  // no row begins in the tile's `chars` characters any more. Answers for rows that end in the symbol, too.
  __device__ __forceinline__ u32 open(Rows& rows, const Automaton& automaton, u32 code, u32 length, u32 behind,
                                      u32 chars, u8* answers) {
    for (;;) {
      begin += size;
      if (begin >= chars || !rows.left()) return ~0u;
      number = rows.next;
      size = rows.take();
      if (size == 0) continue;
      if (size > MOST_ROW) {
        answers[number] = 2;
        return ~0u;
      }
      if (behind + size > length) break;
      const DecodeTable& table = *reinterpret_cast<const DecodeTable*>(rows.s.table);
      u64 symbol = table.entries[code];
      split_entry(symbol, table.is_eight(code));
      u32 entry = 0;
      for (u32 i = behind; i < behind + size; ++i)
        entry = automaton.entries[(automaton.states << 8) + ((entry & STATE_PLACE) | u32(symbol >> (8 * i) & 255))];
      answers[number] = u8(verdict_of(entry, 1));
      behind += size;
    }
    left = size - (length - behind);
    return behind < length ? u32(automaton.restarts[8 * code + behind - 1]) << 8 : 0;
  }
};

// Answers for the rows that begin in a tile: `packed` says which is the first, and where. Its `count` codes begin at byte `at` of the
// codes; it stands for `chars` characters.
__device__ __forceinline__ void run_rows(const Automaton& automaton, const SegmentView& s, const Codes& codes,
                                         u64 packed, u32 tile, u32 at, u32 count, u32 chars, u8* answers) {
  const u32* const entries = automaton.entries;
  const u32 raw_place = automaton.states << 8;
  Rows rows(s, u32(packed) - 1);
  Row row = {0, u32(packed >> 32), u32(packed >> 32), ~0u};
  u32 place = 0;  // the state, times 256
  if (row.size == 0) place = row.open(rows, automaton, 0, 0, 0, chars, answers);
  if (place == ~0u) return;
  u32 base = count == chars ? raw_place : 0, end = chars;
  for (;;) {
    const u32 four = codes.four(s, at);
    u32 code[4], entry[4], sum[4];
    u32 before = 0;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      code[i] = four >> (8 * i) & 255;
      entry[i] = entries[base + ((i == 0 ? place : entry[i - 1] & STATE_PLACE) | code[i])];
      sum[i] = before += entry[i] >> LENGTH_SHIFT;
    }
    const bool whole = count >= 4;  // else one code of them
    u32 taken = whole ? 4 : 1;
    const u32 all = whole ? sum[3] : sum[0];
    if (all < row.left) {
      row.left -= all;
      place = (whole ? entry[3] : entry[0]) & STATE_PLACE;
    } else {
      u32 ends = entry[0], its = code[0];
      before = 0, taken = 1;
#pragma unroll
      for (u32 i = 1; i < 4; ++i)
        if (sum[i - 1] < row.left) ends = entry[i], its = code[i], before = sum[i - 1], taken = i + 1;
      const u32 behind = row.left - before;
      if (row.number != ~0u) answers[row.number] = u8(verdict_of(ends, behind));
      place = row.open(rows, automaton, its, ends >> LENGTH_SHIFT, behind, chars, answers);
      if (place == ~0u) return;
    }
    at += taken;
    count -= taken;
    if (count == 0) {
      ++tile;
      const u64 begin = u64(tile) * TILE, all_chars = s.chars;
      if (row.read() != end || place >= raw_place || begin >= all_chars) return;
      count = length_of_tile(s, tile, ~0ull);
      const u32 more = u32(min(u64(TILE), all_chars - begin));
      if (count > more) return;
      base = count == more ? raw_place : 0;
      end += more;
    }
  }
}

// staged_automaton: it fits shared memory.
template <bool staged_automaton>
__device__ __forceinline__ void answer_rows(const SegmentView* __restrict__ segments,
                                            const RowsView* __restrict__ views, const u32* __restrict__ first_units,
                                            u32 segment_count, u64 automata, u64 all_restarts, u32 states,
                                            u32 codes_capacity, u32 pieces, const u64* __restrict__ first_rows,
                                            u8* answers) {
  DYNAMIC_SHARED(u32, shared);
  const u32 k = find_unit(first_units, segment_count, blockIdx.x);
  const SegmentView& s = segments[k];
  const RowsView& view = views[k];
  const u32 entry_words = 512 * states, words = entry_words + 1024, lane = lane_id(), warp = threadIdx.x / 32;
  const u32* stored = reinterpret_cast<const u32*>(automata) + view.automaton * entry_words;
  const u32* restarts = reinterpret_cast<const u32*>(all_restarts) + view.automaton * 1024;
  if (staged_automaton) {
    for (u32 i = threadIdx.x; i < words / 4; i += blockDim.x)
      reinterpret_cast<uint4*>(shared)[i] = 4 * i < entry_words
                                                ? __ldg(reinterpret_cast<const uint4*>(stored) + i)
                                                : __ldg(reinterpret_cast<const uint4*>(restarts) + i - entry_words / 4);
  }
  const Automaton automaton = {staged_automaton ? shared : stored,
                               reinterpret_cast<const u16*>(staged_automaton ? shared + entry_words : restarts),
                               states};
  u32* const codes_at = shared + (staged_automaton ? words : 0) + warp * ((codes_capacity + RUN_ON_NBYTES + 16) / 4);
  __syncthreads();

  const u64 chars = s.chars, tiles = (chars + TILE - 1) / TILE;
  u64 first_tile = (u64(blockIdx.x - first_units[k]) * blockDim.x + 32 * warp) * pieces;
  if (first_tile >= tiles) return;
  const u64 block = first_tile / TILE_BLOCK;
  BlockLengths lengths;
  lengths.load(s, block, tiles);
  const u64 codes = s.codes, codes_nbytes = s.codes_nbytes;
  const u64 block_start = __ldg(reinterpret_cast<const u64*>(s.block_starts) + block);
  u8* const mine = answers + s.first_row;

  for (u32 piece = 0; piece < pieces && first_tile < tiles; ++piece, first_tile += 32) {
    const u64 tile = first_tile + lane, tile_begin = tile * TILE;
    const u32 n = tile_begin < chars ? u32(min(u64(TILE), chars - tile_begin)) : 0;
    const u64 packed = n > 0 ? first_rows[view.first_tile + tile] : 0;
    u32 start_in_block;
    u32 length = lengths.of_tile(u32(first_tile % TILE_BLOCK) / 32, &start_in_block);
    u64 start = block_start + start_in_block;
    if (length > n || start > codes_nbytes || length > codes_nbytes - start) length = 0, start = 0;

    u32 open = __ballot_sync(ALL_LANES, length > 0);  // tiles still to answer for
    while (open != 0) {
      const u64 base = __shfl_sync(ALL_LANES, start, __ffs(open) - 1);
      const u64 origin = base / 16 * 16;
      const bool fits = (open >> lane & 1) && start >= base && start + length - origin <= codes_capacity;
      const u32 batch = __ballot_sync(ALL_LANES, fits);
      const u64 stop = __shfl_sync(ALL_LANES, start + length, 31 - __clz(batch));
      const u64 end = min(stop + RUN_ON_NBYTES, codes_nbytes);
      stage_codes(reinterpret_cast<uint4*>(codes_at), codes, codes_nbytes, base, end);
      // The next ones are needed soon.
      if (stop + 128 * lane < codes_nbytes && lane < codes_capacity / 128) prefetch(codes + stop + 128 * lane);
      __syncwarp();
      if (fits && packed != 0) {
        const Codes some = {codes_at, u32(end - origin), codes + origin};
        run_rows(automaton, s, some, packed, u32(tile), u32(start - origin), length, n, mine);
      }
      open &= ~batch;
      __syncwarp();
    }
  }
}

// One kernel for each place of the automaton. block: a multiple of 32 threads, `pieces` (1, 2 or 4) pieces a warp, of one block of
// tiles. grid: as many blocks as cover the tiles of every segment; segment k has those from first_units[k] on, or none where the next
// one begins there too. automata, restarts: addresses of what fsst_rows_lift made; first_rows: of what fsst_rows_starts made; answers:
// a byte for each row of the column, zeros before. shared memory: the automaton and its restarts, if they are there, then a warp
// codes_capacity + RUN_ON_NBYTES + 16 bytes. codes_capacity >= TILE + 16, a multiple of 16.
#define ROWS(name, staged_automaton)                                                                               \
  extern "C" __global__ void __launch_bounds__(ROWS_THREADS, ROWS_BLOCKS) name(                                    \
      const SegmentView* segments, const RowsView* views, const u32* first_units, u32 segment_count, u64 automata, \
      u64 restarts, u32 states, u32 codes_capacity, u32 pieces, const u64* first_rows, u8* answers) {              \
    answer_rows<staged_automaton>(segments, views, first_units, segment_count, automata, restarts, states,         \
                                  codes_capacity, pieces, first_rows, answers);                                    \
  }
ROWS(fsst_rows, true)
ROWS(fsst_rows_large, false)
