// FSST edges: whether rows begin, or end, with some bytes; an answer for each row, many segments in one launch. Lengths are added up of all codes, and
// where a row has its edge its code says whether the pattern is there.
//
// Work unit: a warp has some consecutive row blocks, whose codes follow each other, a portion of EDGES_STEPS * 1,024 at a time: in each step lanes
// have chunks of 32 neighbouring codes, tiles or not. Of each chunk shared memory has the characters before it, the sums of its groups of four codes,
// and the codes. Then a lane has an edge: it looks for the chunk whose characters have it, for the group, and for the code.
//
//   lane     0                       1                       ...
//   codes    cccc cccc cccc cccc     cccc cccc cccc cccc     32 a lane, which begin at a multiple of 16 bytes
//   sums     <--- of four, in bytes of two words --->
//
// Each lane has a table of its own, in a bank of its own: a look-up takes a cycle of shared memory, whatever the codes. An entry has the length of the
// symbol, and of each of its bytes whether the pattern is there, begun there: yes, no, or that the next codes decide. Such rows wait until a warp has
// 32 of them.
//
// A byte behind an escape becomes a code of one byte before it is looked up, four at a time. Where one of them is 255 lanes go through
// their codes once more, one by one.
//
// Tiles that are raw are found before: they end a run of codes, and in them an edge lies where it says. Rows whose pattern crosses into another run go
// last, each lane its own. What lies far before the next edge is passed.
//
// The thread blocks of a symbol table, as many as run at a time, make their tables once, and warps take units from one queue.
//
// Invariant: whatever the codes, nothing but the codes of the segment is read: places are clamped to `codes_nbytes`. A run has no more codes
// than characters.
//
// What binds is instructions: by a count of the machine code about 160 of a warp for 1,024 codes and 150 for 32 rows, some two a cycle. So this is for
// rows that are not short, and raw tiles (cudf_fsst/codecs/fsst/launch.py). H200, 1 GB each: "starts with" and "ends with" 0.40 and 0.35 ms for lines
// of Chinese, 0.30 and 0.26 for lines of a log, 0.40 and 0.37 for URLs, whose search takes 0.57 and 0.52. Two that lost (docs/kernels.md has others):
// - rows that look for their codes after each step, by shuffles: 0.51, 0.46, 0.42 and 0.39 ms for Chinese and the log.
// - blocks that end after two units a warp, and make their tables anew, and portions that go on behind the codes of their run: 0.50, 0.44, 0.32 and
//   0.30 ms.
#include "fsst_edges.cuh"
#include "row_lengths.cuh"

// Tiles of a unit that are looked at before whether they are raw, and of a run where there are more.
#define MANY_TILES 512
// Characters that are rather passed by a new run.
#define FAR_CHARS (1 << 14)
// An edge that is behind all characters, twice.
#define NOWHERE 0x7ffffffeu
// The answer for a row, for a while, that is left to a lane.
#define LEFT 2
// Characters of a unit at most.
#define MOST_CHARS (1 << 29)

// Words of the tables of a thread block.
#define TABLE_WORDS (256 * 32 + 512)
// Escapes, which stand for no other bytes.
#define NO_LITERAL 0xffffffffu

// What a warp keeps in shared memory, for registers are few.
struct Kept {
  u64 origin;      // the unit's first character
  u64 begin;       // where the codes of the next run begin in the segment
  u64 answers;     // address of that of the segment's first row
  u32 tile, last;  // the first tile of the next run, and the last of the unit
  u32 mixed;       // whether tiles may be raw
  u32 codes;       // of the unit's tiles, or more
  u32 raw;         // whether the run is
  u32 escaped;     // whether the last code of the portion before is an escape, as PortionOf::add_up has it
  u32 end_block;   // behind the blocks of rows
  u32 rows;        // of the block
  u32 chars;       // of the unit, 0: its rows are damaged, or there are none
  u32 end;         // behind the codes of the run
  i32 run_end;     // and behind its characters
  i32 crossing;    // from where on a pattern goes on into another run
  u32 left;        // a bit for each block with rows that are left to lanes
  u32 group;       // of the symbol table
  u32 open_count;  // rows that are not decided yet: where, and their numbers from the unit's first on above 4 bits
  u32 open_code[64], open_row[64];
};

// The rows of a unit, block by block.
struct UnitRows {
  const SegmentView& s;
  const EdgeTest& test;
  u32*
      staged;  // of each row of the block twice where its edge is, counted from the unit's first character, and 1 more if it is wanted; behind
               // them it is far away
  Kept& kept;
  u32 block, next;

  __device__ __forceinline__ void begin_block() {
    const u32 lane = lane_id();
    const u64 first = u64(block) * ROW_BLOCK;
    next = 0;
    const u32 rows = u32(min(s.rows - first, u64(ROW_BLOCK)));
    u32 ends[ROWS_PER_LANE], valid = ~0u;
    if (s.validity != 0 && ROWS_PER_LANE * lane < rows) valid = load<u8>(s.validity + first / 8 + lane);
    const u32 start =
        eight_ends(PackedBlock(s, block), ends, u32(load<u64>(s.row_starts + 8 * u64(block)) - kept.origin));
    const u32 from_start = test.from_start, shift = test.length, least = test.least, span = test.most - least;
    __syncwarp();
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
      const u32 before = k == 0 ? start : ends[k - 1];
      const bool wanted = ends[k] - before - least <= span && (valid >> k & 1);
      staged[ROWS_PER_LANE * lane + k] = 2 * (from_start ? before : ends[k] - shift) + wanted;
    }
    if (lane == 0) kept.rows = rows;
    __syncwarp();
    if (rows < ROW_BLOCK) {
      for (u32 i = rows + lane; i < ROW_BLOCK; i += 32) staged[i] = NOWHERE;
      __syncwarp();
    }
  }

  // Hands on, 32 at a time, the rows whose edge is before `behind`: `take(row, edge, wanted, ready, count)`, with their numbers in the block, all
  // lanes at once, of which `count` are ready. false: there are no more rows.
  template <typename Take>
  __device__ __forceinline__ bool pass(i32 behind, const Take& take) {
#pragma unroll 1
    for (;;) {
      const u32 own = next + lane_id();
      const i32 edge = i32(staged[own]);
      const bool ready = edge < 2 * behind;
      const u32 count = __popc(__ballot_sync(ALL_LANES, ready));
      if (count > 0) {
        take(own, edge >> 1, edge & 1, ready, count);
        next += count;
      }
      if (count == 32 && next < ROW_BLOCK) continue;
      if (next < kept.rows) return true;
      if (++block == kept.end_block) return false;
      begin_block();
    }
  }
};

// Code bytes of a tile, of any tile size.
__device__ __forceinline__ u32 codes_of(const SegmentView& s, u64 tile) {
  return 1u + (s.tile_shift <= 8 ? u32(load<u8>(s.tile_lengths + tile)) : u32(load<u16>(s.tile_lengths + 2 * tile)));
}

// The codes of a unit, run by run and portion by portion. The tiles of a run are alike: all are raw, or none is.
struct UnitCodes {
  const SegmentView& s;
  Kept& kept;
  Codes codes;  // of the run
  u32 next;     // the first codes of the next portion
  i32 at;       // where its characters begin, counted from the unit's first

  __device__ __forceinline__ UnitCodes(const SegmentView& s, Kept& kept) : s(s), kept(kept), codes{0, 0, 0} {
    const u32 lane = lane_id(), first = u32(kept.origin >> s.tile_shift),
              last = u32((kept.origin + kept.chars - 1) >> s.tile_shift);
    bool some = last - first >= MANY_TILES;  // else they are looked at
    u32 sum = 0;
    if (!some) {
#pragma unroll 4
      for (u32 i = first + lane; i <= last; i += 32) some |= is_raw(i), sum += codes_of(s, i);
    }
    const u32 mixed = __any_sync(ALL_LANES, some);
    sum = warp_inclusive_sum(sum);
    if (lane == 31) kept.last = last, kept.mixed = mixed, kept.raw = 0, kept.codes = sum;
    at = 0;
    seek(first);
  }
  // Has the next run begin at a tile.
  __device__ __forceinline__ void seek(u32 tile) {
    const u32 lane = lane_id(), block = tile / TILE_BLOCK;
    u32 sum = 0;
#pragma unroll 1
    for (u32 i = TILE_BLOCK * block + lane; i < tile; i += 32) sum += codes_of(s, i);
    sum = warp_inclusive_sum(sum);
    __syncwarp();
    if (lane == 31)
      kept.begin = reinterpret_cast<const u64*>(s.block_starts)[block] + sum, kept.tile = tile, kept.end = 0;
    __syncwarp();
    next = 0;
  }
  __device__ __forceinline__ bool is_raw(u32 tile) const {
    return codes_of(s, tile) >= min(u64(1) << s.tile_shift, s.chars - (u64(tile) << s.tile_shift));
  }
  __device__ __forceinline__ bool ended() const { return next >= kept.end || at >= kept.run_end; }
  __device__ __forceinline__ bool is_last() const { return kept.tile > kept.last; }

  // Whether there is another run; begins it. empty: bytes of the symbol of code 0; length: those of the pattern.
  __device__ __forceinline__ bool begin_run(u32 empty, u32 length) {
    const u64 begin = kept.begin, base = begin / 16 * 16;
    if (is_last() || begin > s.codes_nbytes) return false;
    codes = {s.codes + base, u32(begin % 16), u32(min(s.codes_nbytes - base, u64(1) << 30))};
    const u32 tile = kept.tile, behind = kept.mixed ? find_run(tile, kept.last, begin) : kept.last + 1;
    const i32 run_end = i32(u32(min(u64(behind) << s.tile_shift, s.chars) - kept.origin));
    at = i32(u32((u64(tile) << s.tile_shift) - kept.origin)), next = 0;
    __syncwarp();
    if (lane_id() == 0) {
      kept.tile = behind, kept.run_end = run_end, kept.escaped = 0;
      kept.crossing = behind > kept.last ? run_end : run_end - i32(length) + 1;
      const u64 count = kept.mixed ? kept.begin - begin : kept.codes;
      kept.end = min(codes.nbytes, codes.begin + u32(min(u64(u32(run_end - at)), count)));  // no more than characters
    }
    __syncwarp();
    at -= i32(codes.begin * (kept.raw ? 1 : empty));  // those before the run read as zeros
    return true;
  }
  // The tile behind the run that begins at one. Its codes begin at `begin`; keeps where those of the next run do, and whether this one is raw.
  __device__ __forceinline__ u32 find_run(u32 tile, u32 last, u64 begin) {
    last = min(last, tile + MANY_TILES);
    bool raw = false;
#pragma unroll 1
    for (bool first = true; tile <= last; first = false) {
      const u32 own = tile + lane_id(), raws = __ballot_sync(ALL_LANES, own <= last && is_raw(own));
      if (first) raw = raws & 1;
      const u32 others = raw ? ~raws : raws;
      const u32 count = min(others == 0 ? 32u : u32(__ffs(int(others))) - 1, last - tile + 1);
      begin += __shfl_sync(ALL_LANES, warp_inclusive_sum(lane_id() < count ? codes_of(s, own) : 0), 31);
      tile += count;
      if (count < 32) break;
    }
    __syncwarp();
    if (lane_id() == 0) kept.begin = begin, kept.raw = raw;
    return tile;
  }
  // A portion is over, up to some character.
  __device__ __forceinline__ void pass(i32 behind) { at = behind, next += STEP * EDGES_STEPS; }
  // Adds up the next portion, and gives its characters.
  __device__ __forceinline__ u32 add_up(const PortionOf& portion) {
    __syncwarp();
    u32 escaped = kept.escaped;
    const u32 chars = portion.add_up(codes, next, kept.end, escaped);
    if (lane_id() == 0) kept.escaped = escaped;
    __syncwarp();
    // The next ones are needed soon.
    const u32 soon = next + STEP * EDGES_STEPS + 128 * lane_id();
    if (lane_id() < STEP * EDGES_STEPS / 128 && soon < codes.nbytes) prefetch(codes.base + soon);
    return chars;
  }
};

// Keeps where the rows of a unit begin, and how many characters they have.
__device__ __forceinline__ void begin_unit(const SegmentView& s, u32 block, u32 end_block, u64 answers, Kept& kept) {
  const u64* const starts = reinterpret_cast<const u64*>(s.row_starts);
  const u64 origin = starts[block], stop = starts[end_block];
  __syncwarp();
  if (lane_id() == 0) {
    kept.origin = origin, kept.answers = answers, kept.left = kept.open_count = 0, kept.end_block = end_block;
    kept.chars = origin < stop && stop <= s.chars && stop - origin < MOST_CHARS ? u32(stop - origin) : 0;
  }
  __syncwarp();
}

// Decides the first 32 rows that are open, which have codes of this run, and moves the others there.
__device__ __forceinline__ void close_rows(const Symbols& lookup, const EdgeTest& test, const Codes& codes, u32 block,
                                           Kept& kept) {
  const u32 lane = lane_id(), count = kept.open_count, row = kept.open_row[lane];
  const Open open = {kept.open_code[lane], row & 15, true};
  __syncwarp();
  if (lane + 32 < count)
    kept.open_code[lane] = kept.open_code[lane + 32], kept.open_row[lane] = kept.open_row[lane + 32];
  if (lane == 0) kept.open_count = max(count, 32u) - 32;
  if (lane < count && open.has(lookup, test, codes))
    reinterpret_cast<u8*>(kept.answers)[u64(block) * ROW_BLOCK + row / 16] = 1;
  __syncwarp();
}

// What is read at an address is read again, where it would be kept in registers that others need.
__device__ __forceinline__ const SegmentView* not_kept(const SegmentView* view) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+l"(view));
#endif
  return view;
}

// Answers for the rows of a unit: whether they have their edge.
__device__ __forceinline__ void find_edges(const SegmentView& s, const PortionOf& portion, const EdgeTest& test,
                                           u32 block, u32 end_block, u32* staged, Kept& kept, u64 answers) {
  const Symbols& lookup = portion.lookup;
  begin_unit(s, block, end_block, answers, kept);
  const bool apart = portion.literal == NO_LITERAL;  // then the rows are left to lanes
  UnitRows rows = {s, test, staged, kept, block};
  rows.begin_block();
  bool more = true;
  if (kept.chars != 0 && !apart) {
    UnitCodes unit(s, kept);
#pragma unroll 1
    while (more) {
      if (unit.ended() && !unit.begin_run(lookup.of(0, 0) & 255, test.length)) break;
      i32 behind = kept.run_end;
      const bool raw = kept.raw;
      if (!raw) behind = min(unit.at + i32(unit.add_up(portion)), behind);
      more = rows.pass(behind, [&](u32 row, i32 edge, bool wanted, bool ready, u32) {
        Open open;
        wanted &= ready && edge >= unit.at;  // a row that is damaged may have its edge before these codes
        u32 answer = 0;
        open.some = false;
        if (!raw) {
          if (const u32 found = portion.verdict_at(unit.next, wanted ? u32(edge - unit.at) : 0, open); wanted)
            answer = found & 1, open.some = found & 0x100;
        }
        if (kept.mixed) {
          const bool left = wanted && edge >= kept.crossing;  // the pattern goes on into another run
          if (left) atomicOr(&kept.left, 1u << (rows.block - block));
          if (left || raw) open.some = false;
          if (raw) answer = wanted && !left && is_byte_for_byte(unit.codes, u32(edge - unit.at), test);
          if (left) answer = LEFT;
        }
        if (ready) reinterpret_cast<u8*>(kept.answers)[u64(rows.block) * ROW_BLOCK + row] = answer;
        const u32 opens = __ballot_sync(ALL_LANES, open.some);
        if (opens != 0) {
          const u32 to = kept.open_count + __popc(opens & ((1u << lane_id()) - 1));
          __syncwarp();
          if (open.some) {
            kept.open_code[to] = open.code;
            kept.open_row[to] = ((rows.block - block) * ROW_BLOCK + row) << 4 | (open.place & 15);
          }
          if (lane_id() == 0) kept.open_count = to + __popc(opens);
          __syncwarp();
          if (kept.open_count >= 32) close_rows(lookup, test, unit.codes, block, kept);
        }
      });
      if (raw)
        unit.next = kept.end;
      else
        unit.pass(behind);
      if (more) {
        const i32 edge = i32(rows.staged[rows.next]) >> 1;
        if (edge >= unit.at + FAR_CHARS && u32(edge) < kept.chars)
          unit.seek(u32((kept.origin + u32(edge)) >> s.tile_shift));
      }
      if ((!more || unit.ended()) && kept.open_count != 0) close_rows(lookup, test, unit.codes, block, kept);
    }
  }
  // Those that are left have no edge in their characters, or are damaged. Of damaged rows some get no answer.
  u8* const to = reinterpret_cast<u8*>(answers);
  if (more)
    rows.pass(MOST_CHARS, [&](u32 row, i32, bool wanted, bool ready, u32) {
      const bool left = apart && kept.chars != 0 && wanted;
      if (left && ready) atomicOr(&kept.left, 1u << (rows.block - block));
      if (ready) to[u64(rows.block) * ROW_BLOCK + row] = left ? LEFT : 0;
    });
  // Rows whose pattern goes on into another run.
  __syncwarp();
#pragma unroll 1
  for (u32 left = kept.left; left != 0; left &= left - 1) {
    const SegmentView& again = *not_kept(&s);
    UnitRows others = {again, test, staged, kept, block + __ffs(int(left)) - 1};
    others.begin_block();
#pragma unroll 1
    for (u32 row = lane_id(); row < kept.rows; row += 32) {
      u8* const own = to + u64(others.block) * ROW_BLOCK + row;
      const u32 edge = staged[row];
      if (*own == LEFT) *own = (edge & 1) && is_there(again, lookup, test, kept.origin + edge / 2);
    }
  }
}

// A code that stands for bytes behind escapes, four times in a word: it has no symbol, or one of a byte. NO_LITERAL: there is none.
__device__ __forceinline__ u32 literal_code(const DecodeTable& table) {
  u32 unused = 255, single = 255;
#pragma unroll
  for (u32 i = 0; i < 8; ++i) {
    const u32 code = 32 * i + lane_id();
    u64 symbol = table.entries[code];
    const u32 length = split_entry(symbol, table.is_eight(code)) / 8;
    if (code != 255 && length == 0) unused = code;
    if (code != 255 && length == 1) single = code;
  }
  const u32 none = __ballot_sync(ALL_LANES, unused != 255), one = __ballot_sync(ALL_LANES, single != 255);
  const u32 found = none != 0 ? __shfl_sync(ALL_LANES, unused, __ffs(int(none)) - 1)
                              : __shfl_sync(ALL_LANES, single, __ffs(int(one | !one)) - 1);
  return found * 0x1010101;
}

// Bits 16 to 31 of the entry of a code of some bytes.
__device__ __forceinline__ u32 verdict(const EdgeTest& test, u64 symbol, u32 length) {
  const u32 place = lane_id(), n = min(length - place, test.length);
  const bool same = place < length && (((symbol >> 8 * (place & 7)) ^ test.start) << (64 - 8 * n)) == 0;
  const u32 ends = __ballot_sync(ALL_LANES, same && n == test.length),
            open = __ballot_sync(ALL_LANES, same && n < test.length);
  return ends << 16 | open << 24;
}

// Has the table of a block made, and each of its warps do `work(segment, portion, first, last, staged, kept)` for units of row blocks.
template <typename Work>
__device__ __forceinline__ void each_unit(const SegmentView* segments, u32 segment_count, u32* groups, u32 group_count,
                                          const EdgeTest& test, u32* shared, u32 unit, const Work& work) {
  const u32* const first_units = groups + 3 * group_count;
  const u32 group = last_that(0u, group_count, [&](u32 i) { return __ldg(groups + i) <= blockIdx.x; });
  const auto segment_of = [&](u32 number) {
    return last_that(0u, segment_count, [&](u32 i) { return __ldg(first_units + i) <= number; });
  };
  const DecodeTable& table =
      *reinterpret_cast<const DecodeTable*>(segments[segment_of(__ldg(groups + group_count + group) - 1)].table);
  const u32 lane = lane_id(), warp = threadIdx.x / 32, warps = blockDim.x / 32, literal = literal_code(table);
  u64* const symbols = reinterpret_cast<u64*>(shared + 256 * 32);
#pragma unroll 4
  for (u32 code = warp; code < 256; code += warps) {
    u64 symbol = table.entries[code];
    const u32 length = split_entry(symbol, table.is_eight(code)) / 8;
    if (lane == 0) symbols[code] = symbol;
    u32 entry = length | verdict(test, symbol, length);
    if (code == 255) entry = 0;
    if (code == literal % 256 && literal != NO_LITERAL) entry = 1 | 255u << 24;  // it may be another byte
    shared[32 * code + lane] = entry;
  }
  __syncthreads();
  u32* const room = shared + TABLE_WORDS + warp * EDGES_WARP_WORDS;
  Portion& codes = *reinterpret_cast<Portion*>(room);
  Kept& kept = *reinterpret_cast<Kept*>(room + sizeof(Portion) / 4);
  u32* const staged = room + (sizeof(Portion) + sizeof(Kept)) / 4;
  for (u32 i = CHUNKS + lane; i < 128; i += 32) codes.starts[i] = 0xffff;
  staged[ROW_BLOCK + lane] = NOWHERE;
  if (lane == 0) kept.group = group;
  __syncwarp();
  const Symbols lookup(shared);
  const PortionOf portion = {codes, lookup, literal};
  for (;;) {
    u32 number = 0;
    u32* const own = groups + group_count + kept.group;
    if (lane == 0) number = atomicAdd(own + group_count, 1);
    number = __shfl_sync(ALL_LANES, number, 0);
    if (number >= __ldg(own)) return;
    const u32 k = segment_of(number);
    const SegmentView& s = segments[k];
    const u32 row_blocks = u32((s.rows + ROW_BLOCK - 1) / ROW_BLOCK), begin = (number - __ldg(first_units + k)) * unit;
    work(s, portion, begin, min(begin + unit, row_blocks), staged, kept);
    __syncwarp();
  }
}

// Whether rows begin or end with a pattern. block: EDGES_THREADS threads. `unit` row blocks of a segment are a warp's work at a time. groups: of
// symbols tables of consecutive segments, where their thread blocks begin, where their units end, and where they begin, which becomes larger; then
// of each segment where its units begin. least to pattern: what EdgeTest says. answers: address of that of the column's first row. shared memory:
// that of `EdgesShape`.
extern "C" __global__ void __launch_bounds__(EDGES_THREADS, EDGES_BLOCKS)
    fsst_edges(const SegmentView* __restrict__ segments, u32* groups, u32 group_count, u32 segment_count, u32 unit,
               u32 least, u32 most, u32 from_start, u32 length, u64 start, const u32* __restrict__ pattern,
               u64 answers) {
  DYNAMIC_SHARED(u32, shared);
  const EdgeTest test = {least, most, from_start, length, start, pattern};
  each_unit(segments, segment_count, groups, group_count, test, shared, unit,
            [&](const SegmentView& s, const PortionOf& portion, u32 block, u32 end_block, u32* staged, Kept& kept) {
              find_edges(s, portion, test, block, end_block, staged, kept, answers + s.first_row);
            });
}
