// FSST row edges: an automaton that tells a row by its first bytes, run over codes; an answer for each row, many segments in one launch.
//
// Work unit: a warp has a piece of 32 consecutive tiles, and answers for the rows that *begin* in it. Its codes are staged as fsst_decode
// does it. Then it changes sides: what comes first is the work of a lane a tile, what follows that of a lane a row.
//
// 1. Lane = tile. The lane adds up the lengths of its codes, and notes for every character whether a code begins there, a bit each; and
//    for every 32 characters how many codes began before. Raw tiles need no such notes.
// 2. Lane = row. Lengths of a block of rows are unpacked, and give where each row begins. In which code that is, and behind which byte of
//    its symbol, follows from the bits: by counting them. From there the lane runs the automaton over the codes of its row.
//
//                    0               32              64
//    characters      f u r i o u s l y   f i n a l   d e p o s i t s ...
//    codes begin     x       x         x x         x   x         x
//    a row begins                                  ^   is in the code number (bits up to here) - 1, behind no byte of it
//
// An escape stands before a code of one byte, and is no code that begins: words of bits with escapes are marked, and rows that begin
// there add up lengths instead. Where the automaton has decided for good, a row needs no more of its codes: of an order or a beginning
// that is after one or two. `restarts` has the state behind the symbol for a row that begins inside. Rows that begin and end in one
// symbol go byte by byte.
//
// Rows of more than MOST_ROW bytes are left undecided, and so are blocks of rows whose lengths have no sum of 31 bits.
//
// Invariant: whatever the codes, nothing outside the staged codes, the notes and the answers is touched: starts and lengths are clamped
// to `codes_nbytes`; rows in tiles whose codes do not add up to their characters are not answered; every step reads a code at least; and
// a row stops at a tile that does not end where it should.
#include "fsst_rows.cuh"
#include "row_lengths.cuh"
#include "text_tiles.cuh"

// Thread blocks on a multiprocessor: as many as give the code so many registers that nothing is spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define EDGES_BLOCKS 2
#else
#define EDGES_BLOCKS 1
#endif

// Words of notes of a tile; the spare one spreads the tiles over the banks.
#define TILE_NOTES (TILE / 32 + 1)
// Words of where the rows of a block begin, and where the last one ends.
#define START_WORDS ((PADDED_ROWS + 1 + 3) / 4 * 4)

// What the codes of a segment add: an entry has the length in its lowest bits, whether a literal byte follows in bit 8, and in bit 16 that
// a code is no symbol: an escape, the byte behind it, or a code that stands for nothing. Entries can be added up.
#define NO_SYMBOL 0x10000u
struct CodeLengths {
  const u32* entries;  // 256 of codes, 256 of literal bytes
  // That of byte `i` of `four`, behind a code whose entry is `before`.
  __device__ __forceinline__ u32 at(u32 before, u32 four, u32 i) const {
#ifdef __CUDA_ARCH__
    // The upper bytes are copies of the sign of the byte that has the length.
    u32 place;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(place) : "r"(before), "r"(four), "r"(0x8814 + i));
    return entries[place];
#else
    return entries[(before & 256) | (four >> (8 * i) & 255)];
#endif
  }
};
__device__ __forceinline__ u32 code_length(u32 entry) { return entry & 15; }

__device__ __forceinline__ u32 length_entry(const DecodeTable& table, u32 entry) {
  const u32 length = table.bits_of(entry) / 8;
  return length | (entry == 255 ? 256 : 0) | (entry > 255 || length == 0 ? NO_SYMBOL : 0);
}

// Notes of 32 characters: where codes begin, a bit each; and the codes that began before (10 bits), how far before the last of them did
// (4 bits), the mark.
#define NOTED_CODES 0x3ffu
#define NOTED_BACK_SHIFT 10
#define NOTED_MARK 0x8000u

// The notes of a tile, as its lane writes them.
struct Notes {
  uint2* words;
  u32 position, set, mark, word;  // behind the codes so far; of the word under way

  // `count` codes of `four`, the first of which is number `index`, go by; `entry` is that of the code before.
  template <bool whole>
  __device__ __forceinline__ void pass(const CodeLengths& lengths, u32 four, u32 index, u32 count, u32& entry) {
    u32 sum = 0, found = 0, before[4], its[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      before[i] = sum, its[i] = 0;
      if (!whole && i >= count) continue;
      entry = lengths.at(entry, four, i);
      found |= __funnelshift_l(0, 1, sum);  // by the lowest 5 bits
      its[i] = entry;
      sum += entry;
    }
    const u32 odd = sum >> 16, shift = position & 31, low = found << shift, after = position + (sum & 255);
    set |= low;
    mark |= odd;
    if ((position ^ after) >= 32) {
      words[min(position / 32, u32(TILE_NOTES - 1))] = make_uint2(set, word | (mark != 0 ? NOTED_MARK : 0));
      u32 begun = index + __popc(low);
      if (odd != 0) {
#pragma unroll
        for (u32 i = 0; i < 4; ++i)
          if (code_length(its[i]) > 0 && shift + (before[i] & 31) < 32) begun = index + i + 1;
      }
      word = (begun & NOTED_CODES) | (u32(__clz(int(low))) + 1) << NOTED_BACK_SHIFT;
      set = __funnelshift_l(found, 0, shift);
      mark = odd;
    }
    position = after;
  }
};

// Writes the notes of a tile whose `count` codes begin at byte `at` of the staged ones; returns how many characters they stand for.
__device__ __forceinline__ u32 note_codes(const CodeLengths& lengths, const u32* staged, u32 at, u32 count,
                                          uint2* words) {
  Notes notes = {words, 0, 0, 0, 0};
  const u32* next = staged + at / 4;
  const u32 shift = 8 * (at & 3);
  u32 previous = *next, entry = 0, index = 0;
  for (; index + 4 <= count; index += 4) {
    const u32 following = *++next;
    notes.pass<true>(lengths, __funnelshift_r(previous, following, shift), index, 4, entry);
    previous = following;
  }
  if (index < count) notes.pass<false>(lengths, __funnelshift_r(previous, *++next, shift), index, count - index, entry);
  words[min(notes.position / 32, u32(TILE_NOTES - 1))] =
      make_uint2(notes.set, notes.word | (notes.mark != 0 ? NOTED_MARK : 0));
  return notes.position;
}

// Codes of a segment from a byte on: the first `staged` of them in shared memory.
struct EdgeCodes {
  const u32* words;
  u32 staged;
  u64 address;

  // The word in which byte `at` lies, and the next one: at least five bytes from `at` on.
  __device__ __forceinline__ uint2 two(const SegmentView& s, u32 at) const {
    if (at + 5 <= staged) return make_uint2(words[at / 4], words[at / 4 + 1]);
    const u64 word = (address + at) / 4 * 4, end = s.codes + s.codes_nbytes;
    return make_uint2(load_word(word, 0, end), load_word(word + 4, 0, end));
  }
  // Of those that are staged.
  __device__ __forceinline__ u32 one(u32 at) const { return reinterpret_cast<const u8*>(words)[at]; }
};

// A place in a tile's codes.
struct Place {
  u32 code;    // its number
  u32 behind;  // bytes of its symbol that are before the place
};

// Where character `at` of a tile is, whose `count` codes begin at byte `start` of the staged ones.
__device__ __forceinline__ Place find_place(const CodeLengths& lengths, const EdgeCodes& codes, u32 start, u32 count,
                                            const uint2* words, u32 at) {
  const uint2 two = words[at / 32];
  const u32 word = two.x, noted = two.y, in_word = at % 32, begun = noted & NOTED_CODES;
  const u32 upto = word << (31 - in_word);  // the bit of the character is the highest
  if (upto == 0 || (noted & NOTED_MARK) == 0)
    return {begun + __popc(upto) - 1, upto == 0 ? in_word + (noted >> NOTED_BACK_SHIFT & 15) : u32(__clz(int(upto)))};
  u32 entry = 0, index = begun, position = at - in_word + __ffs(int(word)) - 1;
  for (; index < count; ++index) {
    const u32 next = lengths.at(entry, codes.one(start + index), 0), length = code_length(next);
    if (position + length > at) break;
    position += length;
    entry = next;
  }
  return {index - (entry >> 8 & 1), at - position};
}

#define NO_ANSWER 3u

// What a row is that begins and ends in a code's symbol.
__device__ __forceinline__ u32 inside_symbol(const SegmentView& s, const u32* entries, u32 states, u32 code, u32 behind,
                                             u32 size) {
  const DecodeTable& table = *reinterpret_cast<const DecodeTable*>(s.table);
  u64 symbol = table.entries[code];
  split_entry(symbol, table.is_eight(code));
  u32 entry = 0;
  for (u32 i = behind; i < behind + size; ++i)
    entry = entries[(states << 8) + ((entry & STATE_PLACE) | u32(symbol >> (8 * i) & 255))];
  return verdict_of(entry, 1);
}

// What a row of `size` bytes is that begins at character `begin` of a tile, behind `behind` bytes of the symbol of the code at byte `at` of
// the staged ones, which `count` - 1 more of the tile follow. The segment has `chars` characters from the tile on.
__device__ __forceinline__ u32 answer_row(const Automaton& automaton, const CodeLengths& lengths, const SegmentView& s,
                                          const EdgeCodes& codes, u32 tile, u32 at, u32 count, bool raw, u32 behind,
                                          u32 begin, u32 size, u32 chars) {
  const u32* const entries = automaton.entries;
  const u32 raw_place = automaton.states << 8;
  const uint2 two = codes.two(s, at);
  u32 place = 0, left = size, shift = 8 * (at & 3);
  if (behind > 0) {
    const u32 code = __funnelshift_r(two.x, two.y, shift) & 255, length = code_length(lengths.at(0, code, 0));
    if (behind >= length) return NO_ANSWER;
    if (behind + size <= length) return inside_symbol(s, entries, automaton.states, code, behind, size);
    const u32 restart = automaton.restarts[8 * code + behind - 1];
    if ((restart & RESTART_DECIDED) != 0) return restart >> RESTART_VERDICT_SHIFT & 3;
    place = (restart & RESTART_STATE) << 8, left -= length - behind, ++at, --count, shift += 8;
  }
  u32 four = __funnelshift_rc(two.x, two.y, shift);
  u32 base = raw ? raw_place : 0, end = min(u32(TILE), chars) - begin;  // bytes of the row to the end of the tile
  for (;;) {
    if (count == 0) {
      ++tile;
      const u64 first = u64(tile) * TILE, all_chars = s.chars;
      if (size - left != end || place >= raw_place || first >= all_chars) return NO_ANSWER;
      count = length_of_tile(s, tile, ~0ull);
      const u32 more = u32(min(u64(TILE), all_chars - first));
      if (count > more) return NO_ANSWER;
      base = count == more ? raw_place : 0;
      end += more;
    }
    // A row that has been decided stays so: without branches, as lanes do not agree on where they have decided.
    u32 entry[4], sum[4], before = 0;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      entry[i] = entries[base + ((i == 0 ? place : entry[i - 1] & STATE_PLACE) | (four >> (8 * i) & 255))];
      sum[i] = before += entry[i] >> LENGTH_SHIFT;
    }
    const bool whole = count >= 4;  // else one code of them
    const u32 taken = whole ? 4 : 1, all = whole ? sum[3] : sum[0], last = whole ? entry[3] : entry[0];
    if (all >= left) {
      u32 ends = entry[0];
      before = 0;
#pragma unroll
      for (u32 i = 1; i < 4; ++i)
        if (sum[i - 1] < left) ends = entry[i], before = sum[i - 1];
      return verdict_of(ends, left - before);
    }
    if ((last & DECIDED) != 0) return verdict_of(last, last >> LENGTH_SHIFT);
    left -= all;
    place = last & STATE_PLACE;
    at += taken, count -= taken;
    const uint2 next = codes.two(s, at);
    four = __funnelshift_r(next.x, next.y, 8 * (at & 3));
  }
}

// Rows of a segment from one block to another, in order.
struct EdgeRows {
  u32* starts;  // of the block's rows, counted from that of the first
  u64 block_start, block, last;
  u32 next, here;  // the next row of the block, and how many it has

  __device__ __forceinline__ u64 start(u32 row) const { return block_start + starts[padded(row)]; }

  // Unpacks the lengths of the block; rows whose lengths have no sum are left undecided.
  __device__ __forceinline__ void load(const SegmentView& s, u8* answers) {
    const PackedBlock packed(s, block);
    block_start = reinterpret_cast<const u64*>(s.row_starts)[block];
    here = u32(min(u64(ROW_BLOCK), s.rows - block * ROW_BLOCK)), next = 0;
    __syncwarp();
    if (packed.sums_fit()) {
      const u32 end = stage_starts(packed, starts);
      if (lane_id() == 31) starts[padded(ROW_BLOCK)] = end;
    } else {
      for (u32 row = lane_id(); row < here; row += 32) answers[block * ROW_BLOCK + row] = 2;
      next = here;
    }
    __syncwarp();
  }
  // The first row that begins at character `begin` or behind.
  __device__ __forceinline__ void seek(u64 begin) {
    u32 before = 0;
#pragma unroll 1
    for (u32 row = lane_id(); row < ROW_BLOCK; row += 32)
      before += __popc(__ballot_sync(ALL_LANES, row < here && start(row) < begin));
    next = max(next, before);
  }
};

// staged_automaton: it fits shared memory.
template <bool staged_automaton>
__device__ __forceinline__ void answer_row_edges(const SegmentView* __restrict__ segments,
                                                 const RowsView* __restrict__ views,
                                                 const u32* __restrict__ first_units, u32 segment_count, u64 automata,
                                                 u64 all_restarts, u32 states, u32 codes_capacity, u32 pieces,
                                                 u8* answers) {
  DYNAMIC_SHARED(u32, shared);
  const u32 k = find_unit(first_units, segment_count, blockIdx.x);
  const SegmentView& s = segments[k];
  const u32 entry_words = 512 * states, words = entry_words + 1024, lane = lane_id(), warp = threadIdx.x / 32;
  const u32* stored = reinterpret_cast<const u32*>(automata) + views[k].automaton * entry_words;
  const u32* restarts = reinterpret_cast<const u32*>(all_restarts) + views[k].automaton * 1024;
  for (u32 i = threadIdx.x; i < 512; i += blockDim.x)
    shared[i] = length_entry(*reinterpret_cast<const DecodeTable*>(s.table), i);
  const CodeLengths lengths = {shared};
  u32* const tables = shared + 512;
  if (staged_automaton) {
    for (u32 i = threadIdx.x; i < words / 4; i += blockDim.x)
      reinterpret_cast<uint4*>(tables)[i] = 4 * i < entry_words
                                                ? __ldg(reinterpret_cast<const uint4*>(stored) + i)
                                                : __ldg(reinterpret_cast<const uint4*>(restarts) + i - entry_words / 4);
  }
  const Automaton automaton = {staged_automaton ? tables : stored,
                               reinterpret_cast<const u16*>(staged_automaton ? tables + entry_words : restarts),
                               states};
  const u32 note_words = 64 * TILE_NOTES, codes_words = (codes_capacity + RUN_ON_NBYTES + 16) / 4;
  u32* const starts = tables + (staged_automaton ? words : 0) + warp * (START_WORDS + note_words + codes_words);
  uint2* const notes = reinterpret_cast<uint2*>(starts + START_WORDS);
  u32* const codes_at = starts + START_WORDS + note_words;
  __syncthreads();

  const u64 chars = s.chars, tiles = (chars + TILE - 1) / TILE, row_blocks = (s.rows + ROW_BLOCK - 1) / ROW_BLOCK;
  u64 first_tile = (u64(blockIdx.x - first_units[k]) * blockDim.x + 32 * warp) * pieces;
  if (first_tile >= tiles || row_blocks == 0) return;
  const u64 block = first_tile / TILE_BLOCK;
  BlockLengths tile_lengths;
  tile_lengths.load(s, block, tiles);
  const u64 codes = s.codes, codes_nbytes = s.codes_nbytes;
  const u64 block_start = __ldg(reinterpret_cast<const u64*>(s.block_starts) + block);
  u8* const mine = answers + s.first_row;

  // The last block of rows that begins before a character: searched by the same steps for all warps, so their blocks ascend, whatever
  // stands there.
  const auto block_before = [&](u64 at) {
    const u64* row_starts = reinterpret_cast<const u64*>(s.row_starts);
    return warp_last_that(u64(0), row_blocks, [&](u64 b) { return __ldg(row_starts + b) < at; });
  };
  const u64 warp_begin = first_tile * TILE;
  EdgeRows rows = {starts, 0, block_before(warp_begin), block_before(min(warp_begin + u64(32 * TILE) * pieces, chars)),
                   0,      0};
  rows.load(s, mine);
  rows.seek(warp_begin);

  for (u32 piece = 0; piece < pieces && first_tile < tiles; ++piece, first_tile += 32) {
    const u64 piece_begin = first_tile * TILE, tile_begin = piece_begin + lane * TILE;
    const u32 left_chars = u32(min(chars - piece_begin, u64(32 * TILE)));
    const u32 n = tile_begin < chars ? u32(min(u64(TILE), chars - tile_begin)) : 0;
    u32 start_in_block;
    u32 length = tile_lengths.of_tile(u32(first_tile % TILE_BLOCK) / 32, &start_in_block);
    u64 start = block_start + start_in_block;
    if (length > n || start > codes_nbytes || length > codes_nbytes - start) length = 0, start = 0;

    u32 open = __ballot_sync(ALL_LANES, length > 0);  // tiles still to answer for
    while (open != 0) {
      const u64 base = __shfl_sync(ALL_LANES, start, __ffs(int(open)) - 1);
      const u64 origin = base / 16 * 16;
      const bool fits = (open >> lane & 1) && start >= base && start + length - origin <= codes_capacity;
      const u32 batch = __ballot_sync(ALL_LANES, fits), last = 31 - __clz(int(batch));
      const u64 stop = __shfl_sync(ALL_LANES, start + length, last);
      const u64 end = min(stop + RUN_ON_NBYTES, codes_nbytes);
      stage_codes(reinterpret_cast<uint4*>(codes_at), codes, codes_nbytes, base, end);
      // The next ones are needed soon.
      if (stop + 128 * lane < codes_nbytes && lane < codes_capacity / 128) prefetch(codes + stop + 128 * lane);
      __syncwarp();
      const EdgeCodes staged = {codes_at, u32(end - origin), codes + origin};
      const u32 at = u32(start - origin);
      bool right = fits;
      if (fits && length < n) right = note_codes(lengths, codes_at, at, length, notes + lane * TILE_NOTES) == n;
      // What lanes ask of a tile: where its codes begin, how many there are, whether they are raw, whether it is answered for.
      const u32 about = at | length << 16 | (length == n ? 1u << 27 : 0) | (right ? 1u << 28 : 0);
      __syncwarp();

      const i32 batch_end = i32((last + 1) * TILE);
      for (;;) {
        if (rows.next >= rows.here) {
          if (rows.block >= rows.last) break;
          ++rows.block;
          rows.load(s, mine);
          continue;
        }
        // Positions from the piece's first character: of rows before it they are negative. Those of damaged segments may be anything.
        const u32 row = min(rows.next + lane, rows.here - 1), place_of = padded(row);
        const u32 begin_in_block = starts[place_of], end_in_block = starts[padded(row + 1)];
        const i32 from = i32(u32(rows.block_start - piece_begin) + begin_in_block);
        const u32 inside = __ballot_sync(ALL_LANES, rows.next + lane < rows.here && from < batch_end);
        if (inside == 0) break;
        const u32 own = u32(from) / TILE % 32, its = __shfl_sync(ALL_LANES, about, own);
        const u32 size = end_in_block - begin_in_block;
        if (size > 0 && (inside >> lane & 1) && u32(from) < 32 * TILE && its >> 28 != 0) {
          u32 answer = 2;
          if (size <= MOST_ROW) {
            const u32 in_tile = u32(from) % TILE, its_at = its & 0xffff, its_count = its >> 16 & 0x7ff;
            const bool raw = (its >> 27 & 1) != 0;
            Place place = {in_tile, 0};
            if (!raw) place = find_place(lengths, staged, its_at, its_count, notes + own * TILE_NOTES, in_tile);
            answer = NO_ANSWER;
            if (place.code < its_count)
              answer = answer_row(automaton, lengths, s, staged, u32(first_tile) + own, its_at + place.code,
                                  its_count - place.code, raw, place.behind, in_tile, size, left_chars - own * TILE);
          }
          if (answer != NO_ANSWER) mine[rows.block * ROW_BLOCK + row] = u8(answer);
        }
        rows.next += __popc(inside);
      }
      open &= ~batch;
      __syncwarp();
    }
  }
}

// One kernel for each place of the automaton. block: a multiple of 32 threads, `pieces` (1, 2 or 4) pieces a warp, of
// one block of tiles. grid: as many blocks as cover the tiles of every segment; segment k has those from first_units[k] on, or none where
// the next one begins there too. automata, restarts: addresses of what fsst_rows_lift made; answers: a byte for each row of the column,
// what a row of no bytes is before. shared memory: 2048 bytes, the automaton and its restarts, if they are there, then a warp
// 4 * START_WORDS + 256 * TILE_NOTES + codes_capacity + RUN_ON_NBYTES + 16 bytes. codes_capacity >= TILE + 16, a multiple of 16.
#define ROWS(name, staged_automaton)                                                                            \
  extern "C" __global__ void __launch_bounds__(EDGES_THREADS, EDGES_BLOCKS)                                     \
      name(const SegmentView* segments, const RowsView* views, const u32* first_units, u32 segment_count,       \
           u64 automata, u64 restarts, u32 states, u32 codes_capacity, u32 pieces, u8* answers) {               \
    answer_row_edges<staged_automaton>(segments, views, first_units, segment_count, automata, restarts, states, \
                                       codes_capacity, pieces, answers);                                        \
  }
ROWS(fsst_row_edges, true)
ROWS(fsst_row_edges_large, false)
