// Shared by the kernels that find strings in codes: what cudf_fsst/codecs/text/search.py says, as they read it.
#pragma once

#include "text.cuh"

// What a search needs to know of a segment besides its SegmentView. Filled as that (cudf_fsst/codecs/text/launch.py, SEARCH_VIEW).
struct SearchView {
  u64 first_word;  // where its bits begin in a plane, in words
  u64 automaton;   // number of the automaton of its symbol table
};

// An automaton of bytes, by addresses, and where those of codes belong that are made of it, one a symbol table.
struct Machine {
  u64 states;
  u64 following;  // u8[states][256]
  u64 accepts;    // u8[states]
  u64 classes;    // u8[256]
  u64 automata;

  // The planes of which a match ends behind a byte that led to a state, a bit each.
  __device__ __forceinline__ u32 planes_at(u32 state, u32 byte) const {
    return reinterpret_cast<const u8*>(accepts)[state] | reinterpret_cast<const u8*>(classes)[byte];
  }
};

// What the blocks behind the first `first_block` of a kernel that makes automata do: they write zeros, four words of every `stride`, to the
// planes from `to` on, `stops` times.
__device__ __forceinline__ void write_zeros(u32 first_block, u64 to, u64 stops, u64 stride) {
  if (blockIdx.y > 0 || blockIdx.z > 0) return;
  const u64 step = u64(gridDim.x - first_block) * blockDim.x;
  for (u64 i = u64(blockIdx.x - first_block) * blockDim.x + threadIdx.x; i < stops; i += step)
    *reinterpret_cast<uint4*>(to + 4 * i * stride) = make_uint4(0, 0, 0, 0);
}
