// Shared by all kernels of text: the segment descriptor, small device functions.
//
// Constants that host code needs too are compile options (cudf_fsst/codecs/text/launch.py), so that they have one definition: TILE_BLOCK,
// ROW_BLOCK, and where text_tiles.cuh is included TILE, the tile size in bytes (a module is compiled for each that is used).
#pragma once

#include "common.cuh"

// What a kernel needs to know of one segment (docs/format.md). Every field is 64 bits wide: the host fills a numpy record array
// (cudf_fsst/codecs/text/launch.py, SEGMENT_VIEW). Sections of `meta` are given by address.
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
  u64 table;           // address of what the codec's kernels read of a table
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
