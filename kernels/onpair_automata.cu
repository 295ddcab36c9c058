// Automata of bytes -> automata of OnPair's codes, which onpair_search.cu runs.
//
// Of a state and a code there are an entry of 16 bits and, for each of two planes, 16 bits of ends: bit i is set where a match ends behind
// byte i of the symbol. An entry has, from its lowest bit: the bytes of the symbol (8 bits), for each plane whether there are ends (2 bits), and
// the next state (6 bits). An automaton has all entries, then all ends of the first plane, then those of the second one, each `states << bits`.
//
// A thread looks up byte after byte of a symbol, each of which waits for the one before, so that many threads have few codes each. Events around
// the launch on an H200: 24 to 28 us for "special", instead of 32 to 43 with all codes of a state in one block.
#include "onpair.cuh"
#include "text_match.cuh"

// Makes the automata of codes of `tables`, addresses of OnpairTables of at most `most_bits`, one for each machine and table. Blocks behind
// the states of all machines write zeros (write_zeros). grid: x covers the most states of a machine, AUTOMATA_PARTS blocks each, and
// `zero_blocks` blocks, y = tables, z = machines; block: any.
extern "C" __global__ void __launch_bounds__(256)
    onpair_automata(const Machine* __restrict__ machines, const u64* __restrict__ tables, u32 zero_blocks, u64 zeros_to,
                    u64 zero_stops, u64 stride, u32 most_bits) {
  const u32 states_there = gridDim.x - zero_blocks, row = blockIdx.x / AUTOMATA_PARTS;
  if (blockIdx.x >= states_there) return write_zeros(states_there, zeros_to, zero_stops, stride);
  const Machine& machine = machines[blockIdx.z];
  const u32 states = u32(machine.states);
  if (row >= states) return;
  const u8* following = reinterpret_cast<const u8*>(machine.following);
  const OnpairTable& table = *reinterpret_cast<const OnpairTable*>(tables[blockIdx.y]);
  const u32 bits = min(table.bits, most_bits), all = states << bits;
  u16* const entries = reinterpret_cast<u16*>(machine.automata + u64(blockIdx.y) * 6 * (states << most_bits));
  const u32 first = blockIdx.x % AUTOMATA_PARTS * blockDim.x + threadIdx.x;
  for (u32 code = first; code < 1u << bits; code += AUTOMATA_PARTS * blockDim.x) {
    u64 low, high;
    u32 nbits;
    table.symbol(code, &low, &high, &nbits);
    const u32 length = nbits / 8;
    u32 state = row, ends = 0;
    for (u32 place = 0; place < length; ++place) {
      const u32 byte = u32(low & 255);
      low = low >> 8 | high << 56, high >>= 8;
      state = __ldg(following + 256 * state + byte);
      const u32 planes = machine.planes_at(state, byte);
      ends |= ((planes & 1) | (planes & 2) << 15) << place;
    }
    const u32 i = row << bits | code, one = ends & 0xffff, two = ends >> 16;
    entries[i] = u16(length | u32(one != 0) << 8 | u32(two != 0) << 9 | state << 10);
    entries[all + i] = u16(one);
    entries[2 * all + i] = u16(two);
  }
}
