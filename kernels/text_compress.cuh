// What the kernels of compression get from the host, and from each other. Every field is 64 bits wide: the host fills arrays of
// words (cudf_fsst/codecs/text/views.py).
#pragma once

#include "text.cuh"

// A column to compress.
struct ColumnView {
  u64 chars;    // address that the offsets count from
  u64 offsets;  // address
  u64 wide;     // whether offsets have 64 bits
  u64 rows;
  u64 validity;  // address, 0: no nulls
  u64 validity_offset;
  u64 segment_chars;
  u64 segments;         // as planned; some may get no rows
  u64 found;            // address, see Found
  u64 row_words;        // address, u32 for every row block
  u64 first_row_block;  // row blocks of the launch before this column's
};

// What is found of a column, 7 * segments + 4 numbers.
struct Found {
  u64* rows_begin;   // [segments + 1]
  u64* chars_begin;  // [segments + 1], from the column's first character on
  u64* nulls;        // [segments]
  u64* words;        // [segments], of packed row lengths
  u64* codes;        // [segments], bytes
  u64* used;         // [segments], see WaveView
  u64* taken;        // [segments], likewise
  u64* null_chars;   // characters under nulls
  u64* first_char;   // address of the column's first character

  __device__ __forceinline__ Found(u64 address, u64 segments) {
    rows_begin = reinterpret_cast<u64*>(address);
    chars_begin = rows_begin + segments + 1;
    nulls = chars_begin + segments + 1;
    words = nulls + segments;
    codes = words + segments;
    used = codes + segments;
    taken = used + segments;
    null_chars = taken + segments;
    first_char = null_chars + 1;
  }
};

// The scope of a table: segments of a column that share it.
struct ScopeView {
  u64 found, segments;  // of the column
  u64 first;            // the scope's first segment, of those that have rows
  u64 most;             // segments of the scope at most, of those that have rows
  u64 tables_form;      // of what the encoder reads of the table: fsst: whether EncodeTables::pairs is mixed
};

// Tiles of a segment that are encoded together: all, unless it is longer than a slot.
struct WaveView {
  u64 first_char;  // address of the address of the column's first character
  u64 bounds;      // address of where the segment's characters begin and end in the column's
  u64 tables;      // address of EncodeTables or MaxTables
  u64 staged;      // of MaxTables: bytes that lie in shared memory
  u64 tile_begin;  // of the segment
  u64 tile_limit;  // tiles that the slot holds
  u64 slot, bundle_lengths,
      tile_lengths;  // addresses; behind the lengths of bundles as many places, in units of 16 bytes
  u64 codes_nbytes;  // address of the segment's bytes of codes so far; bit 63: some had no room
  u64 capacity;      // bytes of the slot, where bundles share it and have places; 0: it is as large as the characters
  u64 used;          // address of how many of them are taken
  u64 taken;         // address of how many bundles warps have taken, beside their first
  u64 tiles;         // of the wave; from here on for text_compact
  u64 before;        // bytes of codes of the segment's waves before
  u64 block_starts, stored_lengths, codes;  // addresses in the result, of the wave
};

// A segment whose row lengths are packed.
struct PackView {
  u64 offsets;  // address of the first row's
  u64 wide, rows, chars;
  u64 words;            // address, u32 for every row block: as row_lengths_scan left them
  u64 first_row_block;  // row blocks of the launch before this segment's
  u64 validity;         // address of the column's, 0: no nulls
  u64 validity_offset;  // of the segment's first row
  u64 tile_shift;       // log2(tile_size)
  u64 row_bits_words;   // entries of row_bits
  u64 block_starts, row_starts, row_minima, row_words, tile_lengths, row_bits, stored_validity;  // addresses in `meta`
};
