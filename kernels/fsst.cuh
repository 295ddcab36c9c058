// Shared by the FSST kernels: layouts of tables.
//
// Constants that host code needs too are compile options (cudf_fsst/codecs/fsst/launch.py), so that they have one definition: HASH_SLOTS,
// HASH_SHIFT, HASH_MULTIPLIER, PAIR_MULTIPLIER.
#pragma once

#include "text.cuh"

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
