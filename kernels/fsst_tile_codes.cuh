// Single tiles: how a thread reads their codes.
#pragma once

#include "fsst.cuh"
#include "text_codes.cuh"

// Codes of a tile, one by one or four at a time.
struct TileCodes {
  u64 address, end;  // of the next code, and behind all codes of the segment, which begin at a multiple of four
  u32 left;
  u32 half;        // which half of the table the next code belongs to
  u32 held, have;  // codes that are loaded, and how many

  __device__ __forceinline__ u32 load(u64 word) const { return load_word(word, 0, end); }
  // Steps over codes, as long as what they stand for ends at `until` or before. lengths: gives the bits of entries of a DecodeTable.
  template <typename Lengths>
  __device__ __forceinline__ void skip(const Lengths& lengths, u32& position, u32 until) {
    have = 0;
    u64 word = address / 4 * 4;
    const u32 shift = 8 * u32(address % 4);
    u32 low = load(word), high = load(word + 4);
    while (left >= 4) {
      const u32 four = __funnelshift_r(low, high, shift);
      word += 4;
      low = high;
      high = load(word + 4);
      u32 bits = 0, after = half;
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        const u32 entry = (four >> (8 * i) & 255) | after;
        after = entry == 255 ? 256 : 0;
        bits += lengths.bits_of(entry);
      }
      if (position + bits / 8 > until) break;
      position += bits / 8;
      address += 4;
      left -= 4;
      half = after;
    }
  }
  // The next code's symbol; `left` must not be 0.
  __device__ __forceinline__ u64 next(const DecodeTable* table, u32* bits) {
    if (have == 0) {
      const u64 word = address / 4 * 4;
      held = __funnelshift_r(load(word), load(word + 4), 8 * u32(address % 4));
      have = 4;
    }
    const u32 entry = (held & 255) | half;
    half = entry == 255 ? 256 : 0;
    held >>= 8, --have, ++address, --left;
    u64 symbol = table->entries[entry];
    *bits = split_entry(symbol, table->is_eight(entry));
    return symbol;
  }
};
