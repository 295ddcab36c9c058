// What rows are asked of fsst_edges.cu, and a step of it: the lengths of 1,024 codes added up by a warp, and the code where a lane has an edge.
#pragma once

#include "fsst.cuh"
#include "text_codes.cuh"

// Codes of a step, and of a lane.
#define STEP 1024
#define LANE_CODES (STEP / 32)
// An entry has the bytes of the symbol, and of an escape, which has none, ESCAPED.
#define ESCAPED 0x1000000u

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
