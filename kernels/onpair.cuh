// OnPair (docs/format.md, section 23): what kernels read of a table, made by the host (cudf_fsst/codecs/onpair/launch.py).
#pragma once

#include "common.cuh"

// Followed by an entry of 16 bytes for each of `codes` codes: the symbol, with zeros behind it. The highest byte of an entry is the number
// of its bits. Symbols of 16 bytes fill theirs; they are the last ones, from `first_full` on.
struct OnpairTable {
  u32 bits;   // of a code
  u32 codes;  // 2^bits
  u32 first_full;
  u32 nbytes;  // of all of it, a multiple of 16
};

// What the encoder finds symbols in: prefixes of symbols, by a hash. Followed by 2 * codes buckets of two entries, then by the longest
// symbol that begins each of their prefixes (u16: code | (length - 1) << 12), then by the symbols of all codes.
//
// An entry: 19 bits of the hash, a bit that says (of the first entry) that others had no room in the bucket and lie behind it, and 12 bits of a
// code whose symbol begins with the prefix.
struct OnpairLookup {
  u32 bits;
  u32 shift;   // of a hash, to its bucket
  u32 mask;    // buckets less one
  u32 nbytes;  // of all of it, a multiple of 16

  __device__ __forceinline__ u32 codes() const { return 1u << bits; }
  __device__ __forceinline__ const uint2* buckets() const { return reinterpret_cast<const uint2*>(this + 1); }
  __device__ __forceinline__ const u16* longest() const {
    return reinterpret_cast<const u16*>(buckets() + 2 * codes());
  }
  // Bytes 1 to 15 of a symbol, then byte 0: as a window has them.
  __device__ __forceinline__ const uint4* symbols() const {
    return reinterpret_cast<const uint4*>(longest() + 4 * codes());
  }
};
