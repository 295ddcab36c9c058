// Single tiles: how a thread reads their codes.
#pragma once

#include "onpair.cuh"
#include "text_codes.cuh"

// The codes of a tile, one by one or four at a time.
struct OnpairCodes {
  struct Symbol {
    u64 low, high;
  };

  u64 words, end;  // addresses of the word in which the first code begins, and behind all codes of the segment
  u32 bit;         // of the next code, counted from there
  u32 bits;        // of a code
  u32 left;
  u64 held;  // codes that are loaded
  u32 have;  // and how many

  __device__ __forceinline__ OnpairCodes(const SegmentView& s, u64 at, u32 nbytes)
      : words((s.codes + at) / 4 * 4),
        end(s.codes + s.codes_nbytes),
        bit(8 * u32((s.codes + at) % 4)),
        bits(__ldg(&reinterpret_cast<const OnpairTable*>(s.table)->bits)),
        left(8 * nbytes / bits),
        held(0),
        have(0) {}

  // The next 64 bits. Codes begin at a multiple of four, so a word that has some of them may be read.
  __device__ __forceinline__ u64 peek() const {
    const u64 word = words + bit / 32 * 4;
    const u32 near = load_word(word, 0, end), middle = load_word(word + 4, 0, end), far = load_word(word + 8, 0, end);
    return u64(__funnelshift_r(middle, far, bit % 32)) << 32 | __funnelshift_r(near, middle, bit % 32);
  }
  // Steps over codes, as long as what they stand for ends at `until` or before.
  __device__ __forceinline__ void skip(const OnpairTable& table, u32& position, u32 until) {
    const u32 mask = (1u << bits) - 1;
    have = 0;
    while (left >= 4) {
      const u64 four = peek();
      u32 sum = 0;
#pragma unroll
      for (u32 i = 0; i < 4; ++i) sum += table.bits_of(u32(four >> (i * bits)) & mask);
      if (position + sum / 8 > until) break;
      position += sum / 8;
      bit += 4 * bits;
      left -= 4;
    }
  }
  // The next code's symbol, with zeros behind it; `left` must not be 0.
  __device__ __forceinline__ Symbol next(const OnpairTable* table, u32* nbits) {
    if (have == 0) held = peek(), have = 4;
    const u32 code = u32(held) & ((1u << bits) - 1);
    held >>= bits, bit += bits, --have, --left;
    Symbol symbol;
    table->symbol(code, &symbol.low, &symbol.high, nbits);
    return symbol;
  }
};
