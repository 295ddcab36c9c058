// Shared by the kernels that run an automaton of rows over codes: what cudf_fsst/codecs/fsst/rows.py says, as they read it.
//
// An entry of such an automaton has, from its lowest bit: 8 that are set where a row counts that ends behind the first, second ...
// byte of the symbol, 12 of the next state, 8 where such a row is left undecided, and 4 of the symbol's length. It has 256 entries a
// state, 2 * states states: in the upper half the code is a byte that stands for itself.
#pragma once

#include "fsst.cuh"

#define STATE_PLACE 0xfff00u  // the next state, times 256
#define UNDECIDED_SHIFT 20
#define LENGTH_SHIFT 28

// What these kernels need to know of a segment besides its SegmentView. Filled as that (cudf_fsst/codecs/fsst/launch.py, ROWS_VIEW).
struct RowsView {
  u64 first_tile;  // number of its first tile among those of the launch
  u64 automaton;   // number of the automaton of its symbol table
};

// What a row is that ends behind byte `place` (1 to 8) of an entry's symbol: 0 no, 1 yes, 2 undecided.
__device__ __forceinline__ u32 verdict_of(u32 entry, u32 place) {
  return (entry >> (place - 1) & 1) | (entry >> (UNDECIDED_SHIFT - 1 + place) & 1) << 1;
}
