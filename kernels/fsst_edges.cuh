// What rows are asked of fsst_edges.cu, and a portion of codes for it: their lengths added up by a warp, and the code where a lane has an edge.
#pragma once

#include "fsst.cuh"
#include "text_codes.cuh"

// Codes of a step, and of a lane; of a portion, which has EDGES_STEPS, the chunks of a lane's codes.
#define STEP 1024
#define LANE_CODES (STEP / 32)
#define CHUNKS (32 * EDGES_STEPS)

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

// x >> n, 0 for n of 32 and more (the hardware clamps, C++ does not).
__device__ __forceinline__ u32 shift_away(u32 x, u32 n) {
#ifdef __CUDA_ARCH__
  u32 result;
  asm("shr.u32 %0, %1, %2;" : "=r"(result) : "r"(x), "r"(n));
  return result;
#else
  return n > 31 ? 0 : x >> n;
#endif
}

// Of the highest byte of a word, and the first three of the next one: 255 where its highest bit is set, else 0.
__device__ __forceinline__ u32 signs_before(u32 previous, u32 word) {
#ifdef __CUDA_ARCH__
  u32 signs;
  asm("prmt.b32 %0, %1, %2, 0xedcb;" : "=r"(signs) : "r"(previous), "r"(word));
  return signs;
#else
  return ((previous >> 31) | (word << 1 & 0x1010100)) * 255;
#endif
}

// What a lane looks up in shared memory: an entry for each code in a bank of its own, and behind those of all lanes the symbols of the codes.
// Places are looked up by address, which takes an instruction, in another pipe than most others.
//
// An entry has the bytes of the symbol in its lower half. Above them it has a bit for each byte of the symbol: whether the pattern, begun there, ends in
// the symbol; and eight more, whether the symbol ends first, so that the next codes decide.
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
    return u32(__popc((place * 0x010101 + (0x80808080 - sums)) & 0x808080));
  }
  // The one before number `i`, or 0.
  __device__ __forceinline__ u32 before(u32 i) const { return pick(sums, 0x444f + i); }
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
  u32 place;  // twice that of a byte in its symbol, and 1 more if the code may be a byte behind an escape
  bool some;  // whether there is one

  // Whether the pattern is there.
  __device__ __forceinline__ bool has(const Symbols& lookup, const EdgeTest& test, const Codes& codes) const {
    CodeBytes bytes(codes, code & ~3u, code & 3);
    bool literal = false;
    if (place & 1)  // it is if it has an odd number of escapes right before it
      for (u32 i = code; i > codes.begin && load<u8>(codes.base + i - 1) == 255; --i) literal = !literal;
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

// A warp's portion of codes, in shared memory. Chunks follow each other as their codes do.
struct Portion {
  // Of each chunk the sums of one, two, three and four groups of four codes, a byte each; and of the next one, two and three.
  uint2 sums[CHUNKS];
  // Its codes, the first half of all chunks before the second of all: bytes behind escapes have become the literal code.
  uint4 codes[2][CHUNKS];
  // The characters before it.
  u16 starts[128];
};

// What a warp does with a portion. literal: a code of one byte, by which those behind escapes are replaced, four times in a word.
struct PortionOf {
  Portion& kept;
  const Symbols& lookup;
  u32 literal;

  // Adds up the codes from `at` on, at least up to `end`, and gives their characters. escaped: its highest bit says in lane 0 whether the code before them is an escape; then the same of the
  // next ones.
  __device__ __forceinline__ u32 add_up(const Codes& codes, u32 at, u32 end, u32& escaped) const {
    const u32 lane = lane_id();
    u32 low = 0, high = 0;  // the characters of a lane's chunks, of the last four
#pragma unroll 1
    for (u32 chunk = lane; chunk < CHUNKS; chunk += 32) {
      if (at + LANE_CODES * (chunk - lane) >= end) {
        low = __byte_perm(low, high, 0x5432), high >>= 16;
        continue;
      }
      const u32 own = at + LANE_CODES * chunk, before = escaped;
      u32 words[LANE_CODES / 4];
      load_words(codes, at, own, chunk, words);
      if (__any_sync(ALL_LANES, replace(words, escaped) >> 31)) {
        load_words(codes, at, own, chunk, words);
        keep_words(chunk, words);
        escaped = replace_one_by_one(chunk, before);
        kept_words(chunk, words);
      }
      keep_words(chunk, words);
      u32 sums[LANE_CODES / 4];
#pragma unroll
      for (u32 i = 0; i < LANE_CODES / 4; ++i) {
        const u32 some = i % 4 == 0 ? 0 : sums[i - 1];
        sums[i] =
            some + lookup.of(words[i], 0) + lookup.of(words[i], 1) + (lookup.of(words[i], 2) + lookup.of(words[i], 3));
      }
      kept.sums[chunk] =
          make_uint2(bytes_of<0>(sums[0], sums[1], sums[2], sums[3]), bytes_of<0>(sums[4], sums[5], sums[6], 0));
      low = __byte_perm(low, high, 0x5432);
      high = __byte_perm(high, sums[3] + sums[7], 0x5432);
    }
    u32 all = 0;
#pragma unroll
    for (u32 two = EDGES_STEPS > 2 ? 0 : 2; two < 4; two += 2) {
      const u32 both = two == 0 ? low : high, inclusive = sum_up_to(both), before = inclusive - both;
      const u32 of_all = __shfl_sync(ALL_LANES, inclusive, 31);
#pragma unroll
      for (u32 k = 0; k < 2; ++k) {
        if (two + k + EDGES_STEPS < 4) continue;
        kept.starts[32 * (two + k + EDGES_STEPS - 4) + lane] = u16(all + (before >> 16 * k));
        all += of_all >> 16 * k & 0xffff;
      }
    }
    return all;
  }

  // The codes of a chunk, from `own` on. Of the first codes of a run, `at` 0, those before it are zeros.
  __device__ __forceinline__ void load_words(const Codes& codes, u32 at, u32 own, u32 chunk, u32* words) const {
    if (own + LANE_CODES <= codes.nbytes) {
#pragma unroll
      for (u32 i = 0; i < LANE_CODES / 16; ++i) {
        const uint4 four = load<uint4>(codes.base + own + 16 * i);
        words[4 * i] = four.x, words[4 * i + 1] = four.y, words[4 * i + 2] = four.z, words[4 * i + 3] = four.w;
      }
    } else {
#pragma unroll 1
      for (u32 i = 0; i < LANE_CODES / 4; ++i)
        reinterpret_cast<u32*>(&kept.codes[i / 4][chunk])[i % 4] = codes.last_word(own + 4 * i);
      kept_words(chunk, words);
    }
    if (at == 0) {
#pragma unroll
      for (u32 i = 0; i < 4; ++i) words[i] &= codes.before_run(own + 4 * i);
    }
  }
  __device__ __forceinline__ void keep_words(u32 chunk, const u32* words) const {
    kept.codes[0][chunk] = make_uint4(words[0], words[1], words[2], words[3]);
    kept.codes[1][chunk] = make_uint4(words[4], words[5], words[6], words[7]);
  }
  __device__ __forceinline__ void kept_words(u32 chunk, u32* words) const {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      const uint4 four = kept.codes[i][chunk];
      words[4 * i] = four.x, words[4 * i + 1] = four.y, words[4 * i + 2] = four.z, words[4 * i + 3] = four.w;
    }
  }

  // Replaces the bytes behind escapes; the highest bit of the result: that has gone wrong, for one of them is 255.
  __device__ __forceinline__ u32 replace(u32* words, u32& escaped) const {
    u32 wrong = 0, previous = words[LANE_CODES / 4 - 1];
    previous = __shfl_sync(ALL_LANES, previous & ~(previous + 0x1010101), lane_id() + 31 & 31);
    const u32 last = previous;
    if (lane_id() == 0) previous = escaped;
#pragma unroll
    for (u32 i = 0; i < LANE_CODES / 4; ++i) {
      // The highest bit of each byte says whether that is 255, or 254 behind one that is.
      const u32 word = words[i], all_ones = word & ~(word + 0x1010101), behind = signs_before(previous, all_ones);
      wrong |= all_ones & behind;
      words[i] = (word & ~behind) | (literal & behind);
      previous = all_ones;
    }
    escaped = last;
    return (wrong & 0x80808080) == 0 ? 0 : 1u << 31;
  }

  // The same for any bytes, in the chunks that are kept. All lanes take part; returns `escaped` for the next ones.
  __device__ __forceinline__ u32 replace_one_by_one(u32 chunk, u32 escaped) const {
    const auto byte = [&](u32 i) -> u8& { return reinterpret_cast<u8*>(&kept.codes[i / 16][chunk])[i % 16]; };
    u32 count = 0;  // escapes at the end of the lane's codes
    while (count < LANE_CODES && byte(LANE_CODES - 1 - count) == 255) ++count;
    const u32 odd = __ballot_sync(ALL_LANES, count & 1), whole = __ballot_sync(ALL_LANES, count == LANE_CODES);
    const u32 first = __shfl_sync(ALL_LANES, escaped, 0) >> 31;
    const auto behind = [&](u32 lanes) {  // whether the code behind these lanes' is a byte behind an escape
      const u32 known = ~whole & lanes;
      return known == 0 ? first : odd >> (31 - __clz(int(known))) & 1;
    };
    bool is_literal = behind((1u << lane_id()) - 1);
#pragma unroll 1
    for (u32 i = 0; i < LANE_CODES; ++i) {
      const u32 code = byte(i);
      if (is_literal) byte(i) = u8(literal);
      is_literal = !is_literal && code == 255;
    }
    return behind(ALL_LANES) << 31;
  }

  // The chunk that has a place.
  __device__ __forceinline__ u32 find_chunk(u32 place) const {
#ifdef __CUDA_ARCH__
    const u32 first = u32(__cvta_generic_to_shared(kept.starts));
    u32 at = first;
    if (CHUNKS > 64) pass_starts<64>(at, place);
    if (CHUNKS > 32) pass_starts<32>(at, place);
    pass_starts<16>(at, place), pass_starts<8>(at, place), pass_starts<4>(at, place), pass_starts<2>(at, place);
    pass_starts<1>(at, place);
    return (at - first) / 2;
#else
    u32 chunk = 0;
    for (u32 step = 64; step > 0; step /= 2)
      if (chunk + step < CHUNKS && kept.starts[chunk + step] <= place) chunk += step;
    return chunk;
#endif
  }
#ifdef __CUDA_ARCH__
  // Passes so many chunks if the place is behind them.
  template <u32 count>
  __device__ __forceinline__ static void pass_starts(u32& at, u32 place) {
    asm volatile(
        "{\n\t.reg .pred there;\n\t.reg .u16 half;\n\t.reg .u32 start;\n\tld.shared.u16 half, [%0 + %2];\n\t"
        "cvt.u32.u16 start, half;\n\tsetp.le.u32 there, start, %1;\n\t@there add.u32 %0, %0, %2;\n\t}"
        : "+r"(at)
        : "r"(place), "n"(2 * count));
  }
#endif

  // What the code at a `place` of the characters, whose first codes are those at `at`, says of the pattern there: its first bit, whether it is there; its
  // ninth, that more codes decide, for which `open` says where it begins.
  __device__ __forceinline__ u32 verdict_at(u32 at, u32 place, Open& open) const {
    const u32 chunk = find_chunk(place);
    place -= kept.starts[chunk];
    const uint2 both = kept.sums[chunk];
    const u32 half = both.x >> 24;
    const bool second = place >= half;
    if (second) place -= half;
    const ThreeSums groups = {second ? both.y : both.x};
    const u32 group = groups.passed(place);
    place -= groups.before(group);
    const u32 word = reinterpret_cast<const u32*>(&kept.codes[second][chunk])[group];
    const u32 one = lookup.of(word, 0), two = one + lookup.of(word, 1), three = two + lookup.of(word, 2);
    const ThreeSums ends = {bytes_of<0>(one, two, three, 0)};
    const u32 count = ends.passed(place), rest = word >> 8 * count;
    place -= ends.before(count);
    open.code = at + LANE_CODES * chunk + (second ? LANE_CODES / 2 : 0) + 4 * group + count;
    open.place = place << 1 | ((rest ^ literal) & 255) == 0;
    return shift_away(lookup.of(rest, 0), 16 + place);  // nobody asks for a place that is none, where codes are damaged
  }
};
