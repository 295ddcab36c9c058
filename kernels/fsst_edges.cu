// FSST edges: whether rows begin, or end, with some bytes; an answer for each row, many segments in one launch. Only the lengths of symbols are
// looked up for all codes, and symbols where a row has its edge.
//
// Work unit: a warp has some consecutive row blocks, whose codes follow each other: lanes have 32 neighbouring codes each, tiles or not. The
// lengths of these are summed up, of four codes, of lanes, of the warp. Then a lane has an edge: it looks for the lane whose characters have
// it, for the four codes there, and for the code; from there on it compares symbols with the pattern.
//
//   lane     0                       1                       ...
//   codes    cccc cccc cccc cccc     cccc cccc cccc cccc     32 a lane, which begin at a multiple of 16 bytes
//   sums     <--- of four, in bytes of two words --->
//
// Each lane has a table of lengths of its own, in a bank of its own: a look-up takes a cycle of shared memory, whatever the codes.
//
// A code behind an escape is a byte. Where one of a warp's codes is an escape lanes go through theirs once more, one by one. Tiles that are
// raw are found before: they end a run of codes, and in them an edge lies where it says.
//
// Rows that the first symbol does not decide wait until a warp has 32 of them. Those whose pattern crosses into another run go last, each lane its
// own. What lies far before the next edge is passed.
//
// Invariant: whatever the codes, nothing but the codes of the segment is read: places are clamped to `codes_nbytes`. A run has no more codes
// than characters.
//
// What binds is instructions: of URLs 888 of a warp for 1,024 codes, at 2.97 a cycle. A row takes more of them than codes do, so this is for long
// rows and raw tiles (cudf_fsst/codecs/fsst/launch.py): "ends with" 0.46 ms for lines of Chinese instead of 0.58 of a search, 0.35 for random
// bytes instead of 0.77 (H200, 1 GB each). Two that lost (docs/kernels.md has the other):
// - URLs, of 55 bytes on average: 0.57 instead of 0.57 ms; TPC-H l_comment, of 26: 0.93 instead of 0.60.
// - addresses by shifts and masks, and symbols compared as rows are found, in a loop: 0.55 instead of 0.51 ms for Chinese, 0.68 for URLs.
#include "fsst.cuh"
#include "row_lengths.cuh"
#include "text_codes.cuh"

// Thread blocks on a multiprocessor: as many as give the code so many registers that nothing is spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define EDGES_BLOCKS 2
#else
#define EDGES_BLOCKS 1
#endif

// Codes of a step, and of a lane.
#define STEP 1024
#define LANE_CODES (STEP / 32)
// An entry has the bytes of the symbol, and of an escape, which has none, ESCAPED.
#define ESCAPED 0x1000000u
// Tiles of a unit that are looked at before whether they are raw, and of a run where there are more.
#define MANY_TILES 512
// Characters that are rather passed by a new run.
#define FAR_CHARS (1 << 14)
// The answer for a row, for a while, that is left to a lane.
#define LEFT 2
// Characters of a unit at most.
#define MOST_CHARS (1 << 29)

// Words of the tables of a thread block.
#define TABLE_WORDS (256 * 32 + 512)

// What is asked: bytes of a row at least and at most; whether its edge is its start, or so many bytes before its end; these bytes, the first
// eight of them, and where all are, and at least eight more.
struct EdgeTest {
  u32 least, most, from_start, length;
  u64 start;
  const u32* pattern;

  // Eight bytes of the pattern from number `at` on.
  __device__ __forceinline__ u64 from(u32 at) const {
    const u32* word = pattern + at / 4;
    const u32 low = __ldg(word), middle = __ldg(word + 1), high = __ldg(word + 2), shift = 8 * (at & 3);
    return __funnelshift_r(low, middle, shift) | u64(__funnelshift_r(middle, high, shift)) << 32;
  }
};

// What a selector says of a word's bytes and four zeros.
__device__ __forceinline__ u32 pick(u32 word, u32 selector) {
#ifdef __CUDA_ARCH__
  u32 found;  // __byte_perm would mask the selector
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(found) : "r"(word), "r"(selector));
  return found;
#else
  return __byte_perm(word, 0, selector);
#endif
}

// What a lane looks up in shared memory: an entry for each code in a bank of its own, and behind those of all lanes the symbols of the codes.
// Places are looked up by address, which takes an instruction, in another pipe than most others.
struct Symbols {
#ifdef __CUDA_ARCH__
  u32 at;  // of the lane's first entry

  __device__ __forceinline__ explicit Symbols(const u32* shared)
      : at(u32(__cvta_generic_to_shared(shared)) + 4 * lane_id()) {}
  // The entry of the code that is byte `i` of a word.
  __device__ __forceinline__ u32 of(u32 word, u32 i) const {
    u32 found;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(found) : "r"(__dp4a(word, 128u << (8 * i), at)));
    return found;
  }
  // The symbol of the code that is byte 0 of a word.
  __device__ __forceinline__ u64 symbol(u32 word) const {
    u64 found;
    asm volatile("ld.shared.u64 %0, [%1 + 32768];" : "=l"(found) : "r"(__dp4a(word, 8u, at - 4 * lane_id())));
    return found;
  }
#else
  const u32* shared;

  explicit Symbols(const u32* shared) : shared(shared) {}
  u32 of(u32 word, u32 i) const { return shared[32 * (word >> (8 * i) & 255) + lane_id()]; }
  u64 symbol(u32 word) const { return reinterpret_cast<const u64*>(shared + 32 * 256)[word & 255]; }
#endif
};

// How many bytes at the end of a word are escapes.
__device__ __forceinline__ u32 escapes_at_end(u32 word) { return u32(__clz(int(~word))) / 8; }

// The codes of a run, and what else of the segment's lies behind the first at a multiple of 16 bytes.
struct Codes {
  u64 base;           // address of that
  u32 begin, nbytes;  // of the run, and of all

  // The word at a multiple of four. Those behind the codes have zeros, and so has what is before the run, if it is the `first` step.
  __device__ __forceinline__ u32 word(u32 at, bool first = true) const {
    const u32 found = at + 4 <= nbytes ? load<u32>(base + at) : last_word(at);
    return first ? found & before_run(at) : found;
  }
  __device__ __forceinline__ u32 last_word(u32 at) const {
    u32 found = 0;
#pragma unroll 1
    for (u32 i = 0; i < 4 && at + i < nbytes; ++i) found |= u32(load<u8>(base + at + i)) << (8 * i);
    return found;
  }
  // A mask without what is before the run in a word.
  __device__ __forceinline__ u32 before_run(u32 at) const { return shift_left(~0u, 8 * (max(begin, at) - at)); }
};

// Codes one after another, from number `skip` of those at a multiple of four on.
struct CodeBytes {
  const Codes& codes;
  u32 next, left;
  u64 window;

  __device__ __forceinline__ CodeBytes(const Codes& codes, u32 at, u32 skip) : codes(codes), next(at) {
    fill();
    window >>= 8 * skip, left -= skip;
  }
  __device__ __forceinline__ void fill() {
    window = codes.word(next) | u64(codes.word(next + 4)) << 32;
    next += 8, left = 8;
  }
  __device__ __forceinline__ u32 code() const { return u32(window) & 255; }
  __device__ __forceinline__ void pass() {
    window >>= 8;
    if (--left == 0) fill();
  }
};

// Whether the bytes from the `skip`-th of a symbol of `length` on are those of the pattern from `done` on, as far as both go, which
// becomes how far that is.
__device__ __forceinline__ bool same(u64 symbol, u32 length, u32 skip, u64 pattern, u32 all, u32& done) {
  if (length <= skip) return false;  // damaged
  const u32 n = min(length - skip, all - done);
  done += n;
  return (((symbol >> (8 * skip)) ^ pattern) << (64 - 8 * n)) == 0;
}

// Whether the bytes from `at` on, below MOST_CHARS, are the pattern.
__device__ __forceinline__ bool is_byte_for_byte(const Codes& codes, u32 at, const EdgeTest& test) {
  if (at + test.length > codes.nbytes) return false;
#pragma unroll 1
  for (u32 i = 0; i < test.length; ++i)
    if (load<u8>(codes.base + at + i) != (test.from(i) & 255)) return false;
  return true;
}

// Whether the pattern is at `place` of a segment, by a single lane, whatever the tiles.
__device__ __forceinline__ bool is_there(const SegmentView& s, const Symbols& lookup, const EdgeTest& test, u64 place) {
  const u32 shift = u32(s.tile_shift), length = test.length;
  const u64 chars = s.chars;
  u32 done = 0, skip = u32(place & ((1u << shift) - 1));
#pragma unroll 1
  for (u64 tile = place >> shift; (tile << shift) < chars; ++tile, skip = 0) {
    u64 begin;
    u32 count;
    const u32 before = done, n = u32(min(u64(1) << shift, chars - (tile << shift)));
    if (!find_codes(s, tile, &begin, &count) || count > n) return false;
    const u8* const codes = reinterpret_cast<const u8*>(s.codes) + begin;
#pragma unroll 1
    for (u32 i = count == n ? skip : 0; i < count;) {
      u32 code = codes[i++], bytes = 1;
      u64 symbol = code;
      if (count == n) {
        skip = 0;
      } else if (code == 255) {
        if (i == count) return false;
        symbol = codes[i++];
      } else {
        bytes = lookup.of(code, 0) & 255, symbol = lookup.symbol(code);
      }
      if (skip >= bytes) {
        skip -= bytes;
        continue;
      }
      if (!same(symbol, bytes, skip, test.from(done), length, done)) return false;
      if (done == length) return true;
      skip = 0;
    }
    if (done == before) return false;
  }
  return false;
}

// Up to three sums, less than 128 each, in the bytes of a word.
struct ThreeSums {
  u32 sums;

  // How many of them are at most `place`, which is less than 128.
  __device__ __forceinline__ u32 passed(u32 place) const {
    return ((place * 0x010101 + (0x80808080 - sums)) & 0x808080) * 0x020202 >> 24;
  }
  // The one before number `i`, or 0.
  __device__ __forceinline__ u32 before(u32 i) const { return pick(sums << 8, 0x4440 + i); }
};

// Byte `i` of four words.
template <u32 i>
__device__ __forceinline__ u32 bytes_of(u32 a, u32 b, u32 c, u32 d) {
  return __byte_perm(__byte_perm(a, b, i | (4 + i) << 4), __byte_perm(c, d, i | (4 + i) << 4), 0x5410);
}

// The sum of the values of the lanes up to this one, as warp_inclusive_sum: an instruction less each time.
__device__ __forceinline__ u32 sum_up_to(u32 value) {
#ifdef __CUDA_ARCH__
#pragma unroll
  for (u32 delta = 1; delta < 32; delta *= 2)
    asm volatile(
        "{\n\t.reg .pred there;\n\t.reg .u32 other;\n\tshfl.sync.up.b32 other|there, %0, %1, 0, 0xffffffff;\n\t"
        "@there add.u32 %0, %0, other;\n\t}"
        : "+r"(value)
        : "r"(delta));
  return value;
#else
  return warp_inclusive_sum(value);
#endif
}

// A row that is not decided yet.
struct Open {
  u32 code;   // the place of a code
  u32 place;  // twice that of a byte in its symbol, and 1 more if the code is a byte behind an escape
  bool some;  // whether there is one

  // Whether the pattern is there.
  __device__ __forceinline__ bool has(const Symbols& lookup, const EdgeTest& test, const Codes& codes) const {
    CodeBytes bytes(codes, code & ~3u, code & 3);
    bool literal = place & 1;
    u32 done = 0, skip = place >> 1;
#pragma unroll 1
    for (;;) {
      const u32 one = bytes.code();
      bytes.pass();
      if (one == 255 && !literal) {
        literal = true;
        continue;
      }
      u64 symbol = one;
      u32 length = 1;
      if (!literal) symbol = lookup.symbol(one), length = lookup.of(one, 0) & 255;
      if (!same(symbol, length, skip, done == 0 ? test.start : test.from(done), test.length, done)) return false;
      if (done == test.length) return true;
      skip = 0, literal = false;
    }
  }
};

// What 32 lanes know of their codes in a step.
struct Step {
  u32 before;  // characters before the lane's
  u32 all;     // of the step
  // Sums of one, two, three and four groups of four codes of the lane, a byte each; and of the next one, two and three. Their highest byte has a
  // bit for each group, set where its first code is a byte behind an escape.
  u32 near, far;

  // carry: the last code of the step before is an escape, then that of this one.
  __device__ __forceinline__ void add_up(const Symbols& lookup, const Codes& codes, u32 at, u32& carry) {
    const u32 own = at + LANE_CODES * lane_id();
    u32 words[LANE_CODES / 4];
    if (own + LANE_CODES <= codes.nbytes) {
#pragma unroll
      for (u32 i = 0; i < LANE_CODES / 16; ++i) {
        const uint4 four = load<uint4>(codes.base + own + 16 * i);
        words[4 * i] = four.x, words[4 * i + 1] = four.y, words[4 * i + 2] = four.z, words[4 * i + 3] = four.w;
      }
    } else {
#pragma unroll
      for (u32 i = 0; i < LANE_CODES / 4; ++i) words[i] = codes.last_word(own + 4 * i);
    }
    if (at == 0) {
#pragma unroll
      for (u32 i = 0; i < 4; ++i) words[i] &= codes.before_run(own + 4 * i);
    }
    bool literal = false;
    const u32 ending = __ballot_sync(ALL_LANES, words[LANE_CODES / 4 - 1] >= 255u << 24);
    if (ending != 0 || carry != 0) literal = begins_behind_escape(words, carry);
    u32 sum = 0, literals = 0;
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      const u32* const four = words + LANE_CODES / 8 * half;
      u32 entries[LANE_CODES / 2], sums[LANE_CODES / 8], total = 0;
#pragma unroll
      for (u32 k = 0; k < LANE_CODES / 2; ++k) entries[k] = lookup.of(four[k / 4], k % 4);
#pragma unroll
      for (u32 k = 0; k < LANE_CODES / 2; ++k) {
        total += entries[k];
        if (k % 4 == 3) sums[k / 4] = total;
      }
      if (__any_sync(ALL_LANES, total >= ESCAPED || literal)) {
        total = 0;
#pragma unroll
        for (u32 k = 0; k < LANE_CODES / 2; ++k) {
          if (k % 4 == 0) literals |= u32(literal) << (LANE_CODES / 8 * half + k / 4);
          const u32 own = literal ? 1 : entries[k];
          literal = own >= ESCAPED;
          total += own;
          if (k % 4 == 3) sums[k / 4] = total;
        }
        total %= ESCAPED;
      }
      // Sums are at most 128.
      (half == 0 ? near : far) = bytes_of<0>(sums[0], sums[1], sums[2], sums[3]);
      sum += total;
    }
    far = __byte_perm(far, literals, 0x4210);
    const u32 inclusive = sum_up_to(sum);
    all = __shfl_sync(ALL_LANES, inclusive, 31);
    before = inclusive - sum;
  }

  // Whether the lane's first code is a byte behind an escape.
  __device__ __forceinline__ static bool begins_behind_escape(const u32* words, u32& carry) {
    u32 count = 0;
#pragma unroll
    for (u32 i = LANE_CODES / 4; i-- > 0;)
      if (count == LANE_CODES - 4 - 4 * i) count += escapes_at_end(words[i]);
    const u32 odd = __ballot_sync(ALL_LANES, count & 1), whole = __ballot_sync(ALL_LANES, count == LANE_CODES);
    const u32 known = ~whole & ((1u << lane_id()) - 1);
    const bool literal = known == 0 ? carry : odd >> (31 - __clz(int(known))) & 1;
    __syncwarp();
    if (lane_id() == 0 && ~whole != 0) carry = odd >> (31 - __clz(int(~whole))) & 1;
    __syncwarp();
    return literal;
  }

  // Where a lane's `place` of the step's characters is: moves `at`, the first of the codes, to the group of four, and `place` to what is left in
  // it; says whether the first code of the group is a byte behind an escape. All lanes take part.
  __device__ __forceinline__ void find_group(u32& at, u32& place, bool& literal) const {
    u32 lane = 16;
#pragma unroll
    for (u32 step = 8; step > 0; step /= 2) lane += __shfl_sync(ALL_LANES, before, lane) <= place ? step : 0 - step;
    if (__shfl_sync(ALL_LANES, before, lane) > place) --lane;
    place -= __shfl_sync(ALL_LANES, before, lane);
    u32 sums = __shfl_sync(ALL_LANES, near, lane), first = 24;
    const u32 others = __shfl_sync(ALL_LANES, far, lane);
    const u32 half = sums >> 24;
    at += LANE_CODES * lane;
    if (place >= half) at += LANE_CODES / 2, place -= half, sums = others, first += LANE_CODES / 8;
    const ThreeSums groups = {sums};
    const u32 group = groups.passed(place);
    at += 4 * group, place -= groups.before(group), literal = others >> (first + group) & 1;
  }

  // Which of four codes has the character at `place`, which becomes its place in the symbol.
  // literal: the first one is a byte behind an escape, then that one is.
  __device__ __forceinline__ static u32 find_code(const Symbols& lookup, u32 word, u32& place, bool& literal) {
    const u32 one = lookup.of(word, 0), two = one + lookup.of(word, 1), three = two + lookup.of(word, 2);
    if (__any_sync(ALL_LANES, literal || three >= ESCAPED)) {
      u32 ends = 0, before = 0, count = 0;
#pragma unroll
      for (u32 i = 0; i < 3; ++i) {
        const u32 entry = literal ? 1 : lookup.of(word, i);
        ends += entry & 255;
        if (place >= ends) before = ends, ++count, literal = entry >= ESCAPED;
      }
      place -= before;
      return count;
    }
    const ThreeSums codes = {bytes_of<0>(one, two, three, 0)};
    const u32 count = codes.passed(place);
    place -= codes.before(count);
    return count;
  }

  // Whether the pattern is at a lane's `place` of the characters of this step, whose codes are those from `at` on. All lanes take part. Most rows
  // are decided by four bytes of the first symbol; of others `open` says where these bytes are.
  __device__ __forceinline__ bool has(const Symbols& lookup, const EdgeTest& test, const Codes& codes, u32 at,
                                      u32 place, Open& open) const {
    bool literal;
    const bool first = at == 0;
    find_group(at, place, literal);
    const u32 word = codes.word(at, first), count = find_code(lookup, word, place, literal), rest = word >> 8 * count;
    u64 symbol = lookup.symbol(rest);
    u32 length = lookup.of(rest, 0);
    if (literal) symbol = rest & 255, length = 1;
    const u32 all = test.length, n = u32(min(i32(length - place), i32(min(all, 4u))));
    const u32 some = __byte_perm(u32(symbol), u32(symbol >> 32), 0x3210 + 0x1111 * place);
    const bool found = shift_left(some ^ u32(test.start), 32 - 8 * n) == 0;
    open.code = at + count, open.place = place << 1 | literal;
    open.some = found && n != all;
    return found;
  }
};

// What a warp keeps in shared memory, for registers are few.
struct Kept {
  u64 origin;      // the unit's first character
  u64 begin;       // where the codes of the next run begin in the segment
  u64 answers;     // address of that of the segment's first row
  u32 tile, last;  // the first tile of the next run, and the last of the unit
  u32 mixed;       // whether tiles may be raw
  u32 raw, carry;  // whether the run is, and whether the last code of the step before is an escape
  u32 end;         // behind the codes of the run
  i32 run_end;     // and behind its characters
  i32 crossing;    // from where on a pattern goes on into another run
  u32 left;        // a bit for each block with rows that are left to lanes
  u32 open_count;  // rows that are not decided yet: where, and their numbers from the unit's first on above 4 bits
  u32 open_code[64], open_row[64];
};

// The rows of a unit, block by block.
struct UnitRows {
  const SegmentView& s;
  const EdgeTest& test;
  u32*
      staged;  // of each row of the block twice where its edge is, counted from the unit's first character, and 1 more if it is wanted
  const Kept& kept;
  u32 block, end_block, next, rows;

  __device__ __forceinline__ void begin_block() {
    const u32 lane = lane_id();
    const u64 first = u64(block) * ROW_BLOCK;
    next = 0;
    rows = u32(min(s.rows - first, u64(ROW_BLOCK)));
    u32 ends[ROWS_PER_LANE], valid = ~0u;
    if (s.validity != 0 && ROWS_PER_LANE * lane < rows) valid = load<u8>(s.validity + first / 8 + lane);
    const u32 start =
        eight_ends(PackedBlock(s, block), ends, u32(load<u64>(s.row_starts + 8 * u64(block)) - kept.origin));
    const u32 from_start = test.from_start, shift = test.length;
    __syncwarp();
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
      const u32 before = k == 0 ? start : ends[k - 1], bytes = ends[k] - before;
      const bool wanted = bytes >= test.least && bytes <= test.most && (valid >> k & 1);
      staged[ROWS_PER_LANE * lane + k] = 2 * (from_start ? before : ends[k] - shift) + wanted;
    }
    __syncwarp();
  }

  // Hands on, 32 at a time, the rows whose edge is before `behind`: `take(row, edge, wanted, ready, count)`, with their numbers in the block, all
  // lanes at once, of which `count` are ready. false: there are no more rows.
  template <typename Take>
  __device__ __forceinline__ bool pass(i32 behind, const Take& take) {
#pragma unroll 1
    for (;;) {
      const u32 own = next + lane_id();
      const i32 edge = i32(staged[own]);
      const bool ready = own < rows && edge < 2 * behind;
      const u32 count = __popc(__ballot_sync(ALL_LANES, ready));
      if (count > 0) {
        take(own, edge >> 1, edge & 1, ready, count);
        next += count;
      }
      if (next < rows) {
        if (count < 32) return true;
        continue;
      }
      if (++block == end_block) return false;
      begin_block();
    }
  }
};

// Code bytes of a tile, of any tile size.
__device__ __forceinline__ u32 codes_of(const SegmentView& s, u64 tile) {
  return 1u + (s.tile_shift <= 8 ? u32(load<u8>(s.tile_lengths + tile)) : u32(load<u16>(s.tile_lengths + 2 * tile)));
}

// The codes of a unit, run by run and step by step. The tiles of a run are alike: all are raw, or none is.
struct UnitCodes {
  const SegmentView& s;
  Kept& kept;
  Codes codes;  // of the run
  u32 next;     // the first codes of the next step
  i32 at;       // where its characters begin, counted from the unit's first

  __device__ __forceinline__ UnitCodes(const SegmentView& s, Kept& kept, u64 stop) : s(s), kept(kept), codes{0, 0, 0} {
    const u32 lane = lane_id(), first = u32(kept.origin >> s.tile_shift), last = u32((stop - 1) >> s.tile_shift);
    bool some = last - first >= MANY_TILES;  // else they are looked at
    if (!some) {
#pragma unroll 4
      for (u32 i = first + lane; i <= last; i += 32) some |= is_raw(i);
    }
    const u32 mixed = __any_sync(ALL_LANES, some);
    if (lane == 0) kept.last = last, kept.mixed = mixed, kept.raw = 0;
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
      kept.tile = behind, kept.carry = 0, kept.run_end = run_end;
      kept.crossing = behind > kept.last ? run_end : run_end - i32(length) + 1;
      kept.end = min(codes.nbytes, codes.begin + u32(run_end - at));  // a run has no more codes than characters
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
  // A step of so many characters is over.
  __device__ __forceinline__ void pass(u32 chars) { at += i32(chars), next += STEP; }
  // Adds up the next step.
  __device__ __forceinline__ void add_up(Step& step, const Symbols& lookup) {
    step.add_up(lookup, codes, next, kept.carry);
    // The next ones are needed soon.
    const u32 soon = next + STEP + 128 * lane_id();
    if (lane_id() < STEP / 128 && soon < codes.nbytes) prefetch(codes.base + soon);
  }
};

// Where the rows of a unit end, 0: they are damaged, or there are no characters. Keeps where they begin.
__device__ __forceinline__ u64 begin_unit(const SegmentView& s, u32 block, u32 end_block, u64 answers, Kept& kept) {
  const u64* const starts = reinterpret_cast<const u64*>(s.row_starts);
  const u64 origin = starts[block], stop = starts[end_block];
  __syncwarp();
  if (lane_id() == 0) kept.origin = origin, kept.answers = answers, kept.left = kept.open_count = 0;
  __syncwarp();
  return origin < stop && stop <= s.chars && stop - origin < MOST_CHARS ? stop : 0;
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

// Answers for the rows of a unit: whether they have their edge.
__device__ __forceinline__ void find_edges(const SegmentView& s, const Symbols& lookup, const EdgeTest& test, u32 block,
                                           u32 end_block, u32* staged, Kept& kept, u64 answers) {
  const u64 stop = begin_unit(s, block, end_block, answers, kept);
  UnitRows rows = {s, test, staged, kept, block, end_block};
  rows.begin_block();
  bool more = true;
  if (stop != 0) {
    UnitCodes unit(s, kept, stop);
#pragma unroll 1
    while (more) {
      if (unit.ended() && !unit.begin_run(lookup.of(0, 0) & 255, test.length)) break;
      Step step = {};
      i32 behind = kept.run_end;
      if (!kept.raw) {
        unit.add_up(step, lookup);
        behind = min(unit.at + i32(step.all), behind);
      }
      more = rows.pass(behind, [&](u32 row, i32 edge, bool wanted, bool ready, u32) {
        Open open;
        wanted &= ready && edge >= unit.at;  // a row that is damaged may have its edge before these codes
        bool found = step.has(lookup, test, unit.codes, unit.next, u32(edge - unit.at), open) && wanted;
        open.some &= found;
        u32 answer = found && !open.some;
        if (kept.mixed) {
          const bool left = wanted && edge >= kept.crossing;  // the pattern goes on into another run
          if (left) atomicOr(&kept.left, 1u << (rows.block - block));
          if (left || kept.raw) open.some = false;
          if (kept.raw) answer = wanted && !left && is_byte_for_byte(unit.codes, u32(edge - unit.at), test);
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
      if (kept.raw)
        unit.next = kept.end;
      else
        unit.pass(step.all);
      if (more) {
        const i32 edge = i32(rows.staged[rows.next]) >> 1;
        if (edge >= unit.at + FAR_CHARS && u64(edge) < stop - kept.origin)
          unit.seek(u32((kept.origin + u32(edge)) >> s.tile_shift));
      }
      if ((!more || unit.ended()) && kept.open_count != 0) close_rows(lookup, test, unit.codes, block, kept);
    }
  }
  // Those that are left have no edge in their characters, or are damaged. Of damaged rows some get no answer.
  u8* const to = reinterpret_cast<u8*>(answers);
  if (more)
    rows.pass(MOST_CHARS, [&](u32 row, i32, bool, bool ready, u32) {
      if (ready) to[u64(rows.block) * ROW_BLOCK + row] = 0;
    });
  // Rows whose pattern goes on into another run.
  __syncwarp();
#pragma unroll 1
  for (u32 left = kept.left; left != 0; left &= left - 1) {
    rows.block = block + __ffs(int(left)) - 1;
    rows.begin_block();
    rows.end_block = rows.block + 1;
    rows.pass(MOST_CHARS, [&](u32 row, i32 edge, bool wanted, bool ready, u32) {
      u8* const own = to + u64(rows.block) * ROW_BLOCK + row;
      if (ready && *own == LEFT) *own = wanted && is_there(s, lookup, test, kept.origin + u32(edge));
    });
  }
}

// Has the table of a block made, and each of its warps do `work(symbols, first, last, staged, kept)` for units of row blocks.
template <typename Work>
__device__ __forceinline__ void each_unit(const SegmentView& s, u32* shared, u32 block, u32 unit, u32 units,
                                          const Work& work) {
  u32& taken = shared[TABLE_WORDS];
  const DecodeTable& table = *reinterpret_cast<const DecodeTable*>(s.table);
  const u32 lane = lane_id(), warp = threadIdx.x / 32, warps = blockDim.x / 32;
  u64* const symbols = reinterpret_cast<u64*>(shared + 256 * 32);
  for (u32 code = warp; code < 256; code += warps) {
    u64 symbol = table.entries[code];
    const u32 length = split_entry(symbol, table.is_eight(code)) / 8;
    if (lane == 0) symbols[code] = symbol;
    shared[32 * code + lane] = code == 255 ? ESCAPED : length;
  }
  if (threadIdx.x == 0) taken = 0;
  __syncthreads();
  u32* const room = shared + TABLE_WORDS + 4 + warp * EDGES_WARP_WORDS;
  Kept& kept = *reinterpret_cast<Kept*>(room);
  const Symbols lookup(shared);
  const u32 row_blocks = u32((s.rows + ROW_BLOCK - 1) / ROW_BLOCK), first = block * units * warps * unit;
  for (;;) {
    u32 number = 0;
    if (lane == 0) number = atomicAdd(&taken, 1);
    number = __shfl_sync(ALL_LANES, number, 0);
    const u32 begin = first + number * unit;
    if (number >= units * warps || begin >= row_blocks) return;
    work(lookup, begin, min(begin + unit, row_blocks), room + sizeof(Kept) / 4, kept);
    __syncwarp();
  }
}

// The segment of a thread block.
__device__ __forceinline__ u32 segment_of(const u32* first_blocks, u32 segment_count) {
  return last_that(0u, segment_count, [&](u32 i) { return __ldg(first_blocks + i) <= blockIdx.x; });
}

// Whether rows begin or end with a pattern. block: EDGES_THREADS threads. grid: as many blocks as cover the row blocks of every segment, `unit` of
// them a warp at a time and `units` such for a warp on average; segment k has those from first_blocks[k] on. least to pattern: what EdgeTest
// says. answers: address of that of the column's first row. shared memory: EDGES_NBYTES.
extern "C" __global__ void __launch_bounds__(EDGES_THREADS, EDGES_BLOCKS)
    fsst_edges(const SegmentView* __restrict__ segments, const u32* __restrict__ first_blocks, u32 segment_count,
               u32 unit, u32 units, u32 least, u32 most, u32 from_start, u32 length, u64 start,
               const u32* __restrict__ pattern, u64 answers) {
  DYNAMIC_SHARED(u32, shared);
  const u32 k = segment_of(first_blocks, segment_count);
  const SegmentView& s = segments[k];
  const EdgeTest test = {least, most, from_start, length, start, pattern};
  const u64 to = answers + s.first_row;
  each_unit(s, shared, blockIdx.x - first_blocks[k], unit, units,
            [&](const Symbols& lookup, u32 block, u32 end_block, u32* staged, Kept& kept) {
              find_edges(s, lookup, test, block, end_block, staged, kept, to);
            });
}
