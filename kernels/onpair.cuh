// OnPair (docs/format.md, section 23): what kernels read of a table, made by the host (cudf_fsst/codecs/onpair/launch.py).
#pragma once

#include "common.cuh"

// Followed by an entry of 8 bytes for each of `codes` codes, then by the *seconds* of the long symbols, the last one's first. An entry is
// the symbol, with zeros behind it, or the first 8 bytes of a longer one; a second is what follows these. The highest byte of both is the
// number of their bits, but those of 8 bytes fill theirs. Symbols ascend by length: those of 8 bytes begin at `first_eight`, long ones at
// `first_long`, those of 16 bytes at `first_full`. Codes without a symbol stand for 16 zeros.
struct OnpairTable {
  u32 bits;   // of a code
  u32 codes;  // 2^bits
  u32 first_eight, first_long, first_full;
  u32 nbytes;  // of all of it, a multiple of 16
  u32 one;     // 1: what is multiplied by it leaves the pipe of the integers alone
  u32 unused;

  __device__ __forceinline__ const u64* entries() const { return reinterpret_cast<const u64*>(this + 1); }
  // Bits of a code's symbol.
  __device__ __forceinline__ u32 bits_of(u32 code) const {
    const bool is_long = code >= __ldg(&first_long);
    const u32 top = u32(__ldg(entries() + (is_long ? 2 * codes - 1 - code : code)) >> 56);
    const u32 before = is_long ? 64 : 0;
    const bool eight = is_long ? code >= __ldg(&first_full) : code >= __ldg(&first_eight);
    return before + (eight ? 64 : top);
  }
  // A code's symbol, with zeros behind it.
  __device__ __forceinline__ void symbol(u32 code, u64* low, u64* high, u32* nbits) const {
    *low = __ldg(entries() + code), *high = 0;
    if (code < __ldg(&first_eight)) {
      *nbits = split_entry(*low, false);
    } else {
      *nbits = 64;
      if (code >= __ldg(&first_long)) {
        *high = __ldg(entries() + 2 * codes - 1 - code);
        *nbits += split_entry(*high, code >= __ldg(&first_full));
      }
    }
  }
};

// What the encoder finds symbols in: prefixes of symbols, by a hash. Followed by buckets of two entries, then by the longest symbols that
// begin the prefixes of each code's symbol, by level (u16: code | (length - 1) << 12), then by the symbols of all codes.
//
// An entry: 17 bits of the hash, 2 of the prefix's level, a bit that says (of the first entry) that others had no room in the bucket and lie
// behind it, and 12 bits of a code whose symbol has this prefix. A level is a step of the bisection: 9 bytes are of level 0, 5 and 13
// of level 1, other odd numbers of level 2, even ones of level 3.
struct OnpairLookup {
  u32 bits;
  u32 count;  // buckets, an even number
  u32 unused;
  u32 nbytes;  // of all of it, a multiple of 16

  __device__ __forceinline__ u32 codes() const { return 1u << bits; }
  __device__ __forceinline__ const uint2* buckets() const { return reinterpret_cast<const uint2*>(this + 1); }
  __device__ __forceinline__ const u16* longest() const { return reinterpret_cast<const u16*>(buckets() + count); }
  // Bytes 1 to 15 of a symbol, then byte 0: as a window has them.
  __device__ __forceinline__ const uint4* symbols() const {
    return reinterpret_cast<const uint4*>(longest() + 4 * codes());
  }
};

#define ENTRY_HASH 15   // bits below those of the hash
#define ENTRY_LEVEL 13  // and below those of the level
#define ENTRY_MORE (1u << 12)
