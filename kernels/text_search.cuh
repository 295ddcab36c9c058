// A search's bits: those of 32 tiles in a warp's shared memory, and of a bundle in a plane, for kernels that search codes.
//
//            tile 0 of the bundle    tile 1                      tile 31                 behind the bundle
//   bits     w w w w w w w w pad     w w w w w w w w pad  ...    w w w w w w w w pad     o o o o
//
// A word of padding behind each tile's spreads them over the banks. They go to the plane with coalesced stores. The overhang o, and the first
// words of every bundle, which another warp's overhang may reach, go there by atomic operations: whoever made the automata has set these
// to zero (write_zeros).
#pragma once

#include "text_tiles.cuh"

#define TILE_WORDS (TILE / 32)
// Words of a plane's bits in a warp's shared memory: of 32 tiles, and of the next one as far as it has overhang.
#define WARP_WORDS (32 * (TILE_WORDS + 1) + OVERHANG_WORDS)

// Where word i of the bundle's bits lies in shared memory.
__device__ __forceinline__ u32 padded_word(u32 i) { return i + i / TILE_WORDS; }

// A tile's bits, of a lane that finds all of them from its first one on: a word is stored when it is full.
struct TileBits {
  u32* words;   // of the tile
  u32 at;       // of its characters, the next one
  u32 pending;  // bits of the word that has it

  __device__ __forceinline__ TileBits(u32* bundle, u32 tile)
      : words(bundle + padded_word(tile * TILE_WORDS)), at(0), pending(0) {}

  // Bit b of `found`: character `at` + b. Then `nbytes` characters, at most 32, are behind the lane.
  __device__ __forceinline__ void take(u32 found, u32 nbytes) {
    const u32 next = at + nbytes;
    pending |= found << (at % 32);
    if ((at ^ next) >= 32) {
      store();
      pending = __funnelshift_l(found, 0, at % 32);
    }
    at = next;
  }
  // Damaged codes may have more characters than the tile.
  __device__ __forceinline__ void store() const {
    if (at < TILE) words[at / 32] = pending;
  }
};

// Writes a plane's bits of a bundle to `to`, and zeros in their place; says whether this lane saw some. next: a bundle follows.
__device__ __forceinline__ bool write_bits(u32* words, u32* to, bool next) {
  const u32 lane = lane_id();
  u32 seen = 0;
#pragma unroll
  for (u32 i = 0; i < TILE_WORDS; ++i) {
    const u32 word = 32 * i + lane;
    u32* from = words + padded_word(word);
    const u32 value = *from;
    *from = 0;
    seen |= value;
    if (word >= OVERHANG_WORDS)
      to[word] = value;
    else if (value != 0)
      atomicOr(to + word, value);
  }
  if (lane < OVERHANG_WORDS) {
    u32* from = words + padded_word(TILE) + lane;
    const u32 value = *from;
    *from = 0;
    if (next && value != 0) atomicOr(to + TILE + lane, value);
  }
  return seen != 0;
}
