// Automata of bytes -> automata of FSST's codes, which fsst_search.cu runs.
//
// An entry has, from its lowest byte: the next state, the bytes of the symbol, and for each of two planes a bit for every byte of the
// symbol, set where a match ends behind it. There are 256 entries a state, `2 * states` states: in the upper half a code is a literal byte.
#include "fsst.cuh"
#include "text_match.cuh"

// For each plane a byte, 1 where a match ends behind a byte that led to a state.
__device__ __forceinline__ u32 ends_at(const Machine& machine, u32 state, u32 byte) {
  const u32 bits = machine.planes_at(state, byte);
  return (bits & 1) | (bits & 2) << 7;
}

// Makes the automata of codes of `tables`, addresses of DecodeTables, one for each machine and table. Blocks behind the states of all
// automata write zeros (write_zeros). grid: x covers the most states of an automaton of codes and `zero_blocks` blocks, y = tables, z =
// machines; block: 256 threads, one a code.
extern "C" __global__ void __launch_bounds__(256)
    fsst_automata(const Machine* __restrict__ machines, const u64* __restrict__ tables, u32 zero_blocks, u64 zeros_to,
                  u64 zero_stops, u64 stride) {
  const u32 states_there = gridDim.x - zero_blocks, code = threadIdx.x;
  if (blockIdx.x >= states_there) return write_zeros(states_there, zeros_to, zero_stops, stride);
  const Machine& machine = machines[blockIdx.z];
  const u32 states = u32(machine.states), row = blockIdx.x;
  if (row >= 2 * states) return;
  const u8* following = reinterpret_cast<const u8*>(machine.following);
  const DecodeTable& table = *reinterpret_cast<const DecodeTable*>(tables[blockIdx.y]);
  u32 state, length = 1, ends;
  if (row >= states) {
    state = following[256 * (row - states) + code];
    ends = ends_at(machine, state, code);
  } else {
    u64 symbol = table.entries[code];
    length = split_entry(symbol, table.is_eight(code)) / 8;
    state = row, ends = 0;
    for (u32 place = 0; place < length; ++place, symbol >>= 8) {
      const u32 byte = u32(symbol & 255);
      state = following[256 * state + byte];
      ends |= ends_at(machine, state, byte) << place;
    }
    if (code == 255) state = states + row;
  }
  u32* to = reinterpret_cast<u32*>(machine.automata) + (u64(blockIdx.y) * 2 * states + row) * 256;
  to[code] = state | length << 8 | ends << 16;
}
