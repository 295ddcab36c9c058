// Shared by the kernels that find strings in codes: what cudf_fsst/codecs/text/search.py says, as they read it.
//
// An entry of an automaton of codes has, from its lowest byte: the next state, the bytes of the symbol, and for each of two planes a
// bit for every byte of the symbol, set where a match ends behind it. It has 256 entries a state, `2 * states` states.
#pragma once

#include "fsst.cuh"

// What a search needs to know of a segment besides its SegmentView. Filled as that (cudf_fsst/codecs/fsst/launch.py, SEARCH_VIEW).
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
};
