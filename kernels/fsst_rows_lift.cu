// FSST rows, before the run (fsst_rows.cu): automata of bytes -> automata of codes.
#include "fsst_rows.cuh"

// Makes the automaton of codes for each of `tables`, addresses of DecodeTables, of one of bytes: `following` is u16[states][256],
// `verdicts` u8[states]. Each is entries, u32[2 * states][256], and restarts, u16[8][256]: of row i, the state behind a code's symbol of a row that
// begins 7 - i bytes before the symbol's end. `place`: where in both the state is. grid: 2 * states + 1 blocks, y = tables; block: 256 threads,
// one a code.
extern "C" __global__ void __launch_bounds__(256)
    fsst_rows_lift(const u16* __restrict__ following, const u8* __restrict__ verdicts, u32 states,
                   const u64* __restrict__ tables, u32* __restrict__ automata, u32 place) {
  const u32 row = blockIdx.x, code = threadIdx.x;
  const DecodeTable& table = *reinterpret_cast<const DecodeTable*>(tables[blockIdx.y]);
  u64 symbol = table.entries[code];
  u32* const to = automata + blockIdx.y * (u64(states) * 512 + 1024) + row * 256;
  const u32 length = split_entry(symbol, table.is_eight(code)) / 8;
  if (row == 2 * states) {
    for (u32 i = 0; i < 8; ++i) {
      u32 state = 0;
      for (u32 at = length + i < 7 ? length : length + i - 7; at < length; ++at)
        state = following[256 * state + u32(symbol >> (8 * at) & 255)];
      reinterpret_cast<u16*>(to)[256 * i + code] = u16(state << place);
    }
    return;
  }
  u32 state = row, found = 0, count = length;
  if (row >= states) state = row - states, symbol = code, count = 1;
  for (u32 left = count; left > 0; symbol >>= 8) {
    state = following[256 * state + u32(symbol & 255)];
    const u32 verdict = verdicts[state];
    --left;
    found |= (verdict & 1) << (ROW_COUNTS - left) | (verdict >> 1) << (ROW_UNDECIDED - left);
  }
  if (row < states && code == 255) state = states + row;
  found |= 0xff000000u >> count & 0xff000000u;  // what stands there for other bytes stays
  to[code] = found | state << place | count;
}
