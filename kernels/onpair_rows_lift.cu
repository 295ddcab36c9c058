// OnPair rows, before the run (onpair_rows.cu): automata of bytes -> automata of codes.
#include "onpair.cuh"
#include "onpair_rows.cuh"

// Makes the automaton of codes for each of `tables`, addresses of OnpairTables of at most `most_bits`, of one of bytes: `following` is
// u16[states][256], `verdicts` u8[states]. Each is entries, u32[states][2^bits], and restarts, u16[16][2^bits]: of row i, the state behind a code's
// symbol of a row that begins i bytes before the symbol's end, as in an entry. A block has LIFT_CODES codes; a warp all of these and every
// eighth state. grid: x covers the codes, y = tables; block: 8 * LIFT_CODES.
extern "C" __global__ void __launch_bounds__(8 * LIFT_CODES)
    onpair_rows_lift(const u16* __restrict__ following, const u8* __restrict__ verdicts, u32 states,
                     const u64* __restrict__ tables, u64 automata, u32 most_bits) {
  const OnpairTable& table = *reinterpret_cast<const OnpairTable*>(tables[blockIdx.y]);
  const u32 bits = min(table.bits, most_bits), code = LIFT_CODES * blockIdx.x + threadIdx.x % LIFT_CODES;
  if (code >> bits != 0) return;
  u64 first_bytes, last_bytes;
  u32 nbits;
  table.symbol(code, &first_bytes, &last_bytes, &nbits);
  const u32 length = nbits / 8, warp = threadIdx.x / LIFT_CODES;
  u32* const entries = reinterpret_cast<u32*>(automata + blockIdx.y * automaton_nbytes(states, most_bits));
  u16* const restarts = reinterpret_cast<u16*>(entries + (states << bits));
  for (u32 i = warp; i < states + 16; i += 8) {
    const u32 begin = i < states ? 0 : length - min(length, i - states);
    u32 state = i < states ? i : 0, counts = 0xffffu >> length, open = 0;
    u64 low = first_bytes, high = last_bytes;
    for (u32 place = 0; place < length; ++place) {
      if (place >= begin) {
        state = following[256 * state + u32(low & 255)];
        const u32 verdict = verdicts[state];
        counts |= (verdict & 1) << (16 - length + place), open |= verdict >> 1;
      }
      low = low >> 8 | high << 56, high >>= 8;
    }
    if (i >= states) {
      restarts[(i - states) << bits | code] = u16(state << STATE_SHIFT);
      continue;
    }
    entries[i << bits | code] = counts << 16 | (open != 0 ? SOME_UNDECIDED : 0) | state << STATE_SHIFT | length;
  }
}
