// Rows of strings as numbers: what finds equal rows (dict_table.cuh) and what writes rows (dict_read.cu) both read.
#pragma once

#include "jobs.cuh"

__device__ __forceinline__ u64 low_bytes(u64 word, u64 count) {
  return count < 8 ? word & ~(~u64(0) << 8 * u32(count)) : word;
}

// The bytes of a row as little-endian words of 8, zeros past the end.
struct Text {
  u64 at, nbytes;
  bool inside;  // all aligned words that have a byte of it may be read

  // `low`, `high`: bytes that may be read.
  __device__ __forceinline__ Text(u64 at, u64 nbytes, u64 low, u64 high)
      : at(at), nbytes(nbytes), inside((at & ~u64(7)) >= low && (at + nbytes + 7 & ~u64(7)) <= high) {}

  __device__ __forceinline__ u64 words() const { return (nbytes + 7) / 8; }

  // Bytes from `begin` on, which is below `nbytes`.
  __device__ __forceinline__ u64 from(u64 begin) const {
    const u64 left = nbytes - begin, p = at + begin;
    if (!inside) {
      u64 word = 0;
      for (u32 i = 0; i < 8 && i < left; ++i) word |= u64(load<u8>(p + i)) << 8 * i;
      return word;
    }
    const u32 skip = u32(p) & 7;
    u64 word = load<u64>(p - skip) >> 8 * skip;
    if (skip + left > 8 && skip != 0) word |= load<u64>(p - skip + 8) << (64 - 8 * skip);
    return low_bytes(word, left);
  }

  // Of up to 8 * count bytes: all words, each byte read once. Only if `inside`.
  template <u32 count>
  __device__ __forceinline__ void all(u64 (&words)[count]) const {
    const u32 skip = u32(at) & 7, end = skip + u32(nbytes), shift = 8 * skip;
    u64 next = end > 0 ? load<u64>(at - skip) : 0;
#pragma unroll
    for (u32 w = 0; w < count; ++w) {
      words[w] = 0;
      if (8 * w < u32(nbytes)) {
        const u64 own = next;
        next = 8 * w + 8 < end ? load<u64>(at - skip + 8 * w + 8) : 0;
        words[w] = low_bytes(own >> shift | next << 1 << (63 - shift), u32(nbytes) - 8 * w);
      }
    }
  }
};
