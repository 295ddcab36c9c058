// Shared by the kernels that run an automaton of rows over codes.
//
// NARROW_SHIFT and WIDE_SHIFT, where in an entry the state is, are compile options (cudf_fsst/codecs/fsst/launch.py).
//
// An entry of such an automaton has, from its lowest bit: 5 of the symbol's length; 11 of the next state, of which 8 are used where the
// automaton is narrow, the upper ones; 8 that are set where a row is left undecided that ends behind a byte of the symbol, and 8 where such a
// row counts. The highest bit of these is that of the symbol's last byte. There are 256 entries a state, 2 * states states: in the upper half the
// code is a byte that stands for itself. Of each half the last state is that of rows that are none of the lane's: it stays, and says no.
#pragma once

#include "fsst.cuh"

// Where a symbol's last byte has its bits.
#define ROW_COUNTS 31
#define ROW_UNDECIDED 23
