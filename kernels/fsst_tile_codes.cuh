// Single tiles: where their codes lie, and how a thread reads them.
#pragma once

#include "fsst.cuh"

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

// The sum of `count` bytes, each times the byte of `weights` that stands at its place in its word. 16-byte aligned, and readable as far
// as that goes; four loads are under way at once.
template <u32 weights>
__device__ __forceinline__ u32 sum_of_bytes(const u8* bytes, u32 count) {
  const uint4* chunks = reinterpret_cast<const uint4*>(bytes);
  u32 sum = 0;
  for (u32 first = 0; 16 * first < count; first += 4) {
    uint4 found[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i)
      found[i] = 16 * (first + i) < count ? __ldg(chunks + first + i) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 here = 16 * (first + i), inside = count > here ? min(count - here, 16u) : 0;
      const u64 low = shift_right(~0ull, 64 - 8 * min(inside, 8u)),
                high = shift_right(~0ull, 64 - 8 * (max(inside, 8u) - 8));
      sum = __dp4a(found[i].x & u32(low), weights, __dp4a(found[i].y & u32(low >> 32), weights, sum));
      sum = __dp4a(found[i].z & u32(high), weights, __dp4a(found[i].w & u32(high >> 32), weights, sum));
    }
  }
  return sum;
}

// Where the codes of a tile lie, counted from the segment's first, and how many they are; false: damaged.
__device__ __forceinline__ bool find_codes(const SegmentView& s, u64 tile, u64* begin, u32* count) {
  const u64 block = tile / TILE_BLOCK;
  const u32 in_block = u32(tile % TILE_BLOCK);
  u64 at = reinterpret_cast<const u64*>(s.block_starts)[block] + in_block;
  if (s.tile_shift <= 8) {
    const u8* lengths = reinterpret_cast<const u8*>(s.tile_lengths) + block * TILE_BLOCK;
    *count = u32(lengths[in_block]) + 1;
    at += sum_of_bytes<0x01010101u>(lengths, in_block);
  } else {
    const u16* lengths = reinterpret_cast<const u16*>(s.tile_lengths) + block * TILE_BLOCK;
    *count = u32(lengths[in_block]) + 1;
    const u8* bytes = reinterpret_cast<const u8*>(lengths);
    at += sum_of_bytes<0x00010001u>(bytes, 2 * in_block) + (sum_of_bytes<0x01000100u>(bytes, 2 * in_block) << 8);
  }
  *begin = at;
  return at <= s.codes_nbytes && *count <= s.codes_nbytes - at;
}
