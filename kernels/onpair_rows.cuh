// Shared by the kernels that run an automaton of rows over OnPair's codes.
//
// An entry of such an automaton has, from its lowest bit: 5 of the symbol's length; 10 of the next state; one that is set where a row is
// left undecided that ends behind some byte of the symbol; and 16 that are set where a row counts that ends behind one. The highest bit of these is
// that of the symbol's last byte; bits of no byte are set. The last state is that of rows that are none of the lane's: it stays, and says no.
#pragma once

#include "common.cuh"

#define LENGTH_MASK 31u
#define STATE_SHIFT 5
#define STATES_MASK 1023u
#define SOME_UNDECIDED 0x8000u

// Entries of so many states, and behind them the restarts: 16 of each code, of 16 bits.
__device__ __forceinline__ u64 automaton_nbytes(u32 states, u32 bits) { return (4ull * states + 32) << bits; }
