// Shared by the FSST kernels: the segment descriptor, layouts of tables, small device functions.
//
// Constants that host code needs too are compile options (cudf_fsst/codecs/fsst/launch.py), so that they have one definition:
// TILE_BLOCK, ROW_BLOCK, HASH_SLOTS, HASH_SHIFT, HASH_MULTIPLIER, PAIR_MULTIPLIER, and in fsst_encode.cu and fsst_decode.cu TILE, the tile size
// in bytes (a module is compiled for each that is used).
#pragma once

#include "common.cuh"

// What a kernel needs to know of one segment (docs/format.md). Every field is 64 bits wide: the host fills a numpy record array
// (cudf_fsst/codecs/fsst/launch.py, SEGMENT_VIEW). Sections of `meta` are given by address.
struct SegmentView {
  u64 codes;  // address
  u64 codes_nbytes;
  u64 chars;  // uncompressed bytes
  u64 rows;
  u64 block_starts;    // address, u64[blocks + 1]
  u64 tile_lengths;    // address, u8 or u16 [tiles]
  u64 row_starts;      // address, u64[row_blocks + 1]
  u64 row_minima;      // address, u32[row_blocks]
  u64 row_words;       // address, u32[row_blocks + 1]
  u64 row_bits;        // address, u32[]
  u64 row_bits_words;  // entries of row_bits
  u64 validity;        // address, 0: no nulls
  u64 table;           // address of a DecodeTable
  u64 tile_shift;      // log2(tile_size)
  u64 first_row;       // of the segment in its column
  // The part of the segment that one call works on, and where its output goes.
  u64 char_begin, char_end;  // characters wanted
  u64 row_begin, row_end;    // rows wanted
  u64 out_char;              // characters of the column's output before character `char_begin`
  u64 out_row;               // rows of the column's output before row `row_begin`
  u64 out_bit;  // the same, but counted through the validity of all columns, which begin at multiples of 32
  u64 chars_to, offsets_to;  // addresses of the column's output
  u64 validity_to;           // address that bit 0 of all columns' validity would have, if it lay before the column's
  u64 nulls_to;              // address of a u64 that the column's nulls are added to, 0: nobody asks
  u64 wide_offsets;          // whether offsets have 64 bits
  u64 last;                  // whether it is the last segment of its column in this call
  u64 first_row_block;       // row blocks of the launch before this segment's; some may be spare
};

// The number of bits of an entry of a DecodeTable, which becomes the symbol.
__device__ __forceinline__ u32 split_entry(u64& entry, bool eight) {
  const u32 bits = eight ? 64 : u32(entry >> 56);
  entry = eight ? entry : entry & ~0ull >> 8;
  return bits;
}

// Entry k < 255 is the symbol of code k, 255 (the escape) has no bytes, 256 + b is the literal byte b. The highest byte of an entry
// is the number of its bits, but symbols of eight bytes fill theirs: their codes are consecutive (docs/format.md, section 5).
struct DecodeTable {
  u64 entries[512];
  u32 first_eight, eights;  // code of the first symbol of eight bytes, and how many there are
  u64 unused;               // what follows it in shared memory begins at a multiple of 16 bytes

  __device__ __forceinline__ bool is_eight(u32 entry) const { return entry - first_eight < eights; }
  __device__ __forceinline__ u32 bits_of(u32 entry) const {
    u64 symbol = entries[entry];
    return split_entry(symbol, is_eight(entry));
  }
};

// What the encoder looks symbols up in (docs/format.md, section 6).
struct EncodeTables {
  // Of three or more bytes, shifted left by what they leave free; an empty slot has one that belongs to another slot.
  u64 symbols[HASH_SLOTS];
  u16 meta[HASH_SLOTS];  // code | (64 - 8 * length) << 8
  u8 singles[256];       // code of the one-byte symbol, else 255
  // Of the pair b0 | b1 << 8: code of the two-byte symbol, else as `singles`. Mixed: at `pair_place`.
  u8 pairs[65536];
  u64 two_byte_limit;  // codes below it stand for two-byte symbols
};

// Where the pair in the low half of `bytes` lies in a mixed table. As they are, pairs share banks of shared memory: in English the
// first letter leaves 8 of 32 to choose from, in Chinese UTF-8 two.
__device__ __forceinline__ u32 pair_place(u32 bytes) { return __byte_perm(bytes * (PAIR_MULTIPLIER << 16), 0, 0x4423); }

// The last of views whose `field` is <= value; the fields ascend and the first is <= value.
template <auto field, typename View>
__device__ __forceinline__ u32 find_view(const View* views, u32 count, u64 value) {
  return last_that(0u, count, [&](u32 i) { return views[i].*field <= value; });
}

// The 32-bit word at the aligned `address`; bytes outside [begin, end) read as 0, their memory is not touched.
__device__ __forceinline__ u32 load_word(u64 address, u64 begin, u64 end) {
  if (address >= begin && address + 4 <= end) return *reinterpret_cast<const u32*>(address);
  u32 word = 0;
  for (u32 i = 0; i < 4; ++i)
    if (address + i >= begin && address + i < end) word |= u32(*reinterpret_cast<const u8*>(address + i)) << (8 * i);
  return word;
}
