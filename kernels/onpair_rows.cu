// OnPair rows: an automaton that begins anew with every row, run over codes; an answer for each row, many segments in one launch.
//
// Work unit: text_rows.cuh. A lane reads two codes at a time, which stand for 32 characters at most. For a code there is one look-up, of 32
// bits, through the L1. It says for every byte of the symbol what a row is that ends behind it; of these bits those count where one ends. Where
// that is in the symbol, the state is then that of `restarts`, which depends on the code alone. Rows that begin and end in one symbol go byte
// by byte. Raw tiles are codes of 8 bits: codes 0 to 255 are the single bytes. A lane in whose tile no row begins at the first character
// begins in the last state, which says no until a row ends.
//
// TPC-H l_comment SF 10 on an H200 (60 M rows): 1.51 to 1.58 ms, whatever is looked for; 1.43 to 1.50 with 28 warps a multiprocessor instead of
// 24, which spilled. Lost: the first states in shared memory, so that one block is on a multiprocessor, 1.61 instead of 1.51 ms for "fur.*ly".
//
// Invariant: whatever the codes, nothing outside the staged codes, the bits and the answers is touched: starts and lengths are clamped to
// `codes_nbytes`, a code is less than 2^bits, and a lane that does not end a tile where it should stops.
#include "onpair.cuh"
#include "onpair_rows.cuh"
#include "text_rows.cuh"

// Thread blocks on a multiprocessor: as many as give the code so many registers that nothing is spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define ROWS_BLOCKS 2
#else
#define ROWS_BLOCKS 1
#endif

// An automaton of codes, and what belongs to it.
struct OnpairRowAutomaton {
  const u32* entries;
  const u16* restarts;
  const OnpairTable& table;
  u32 bits;  // of a code

  __device__ __forceinline__ OnpairRowAutomaton(const SegmentView& s, u64 stored, u32 states, u32 bits)
      : entries(reinterpret_cast<const u32*>(stored)),
        restarts(reinterpret_cast<const u16*>(entries + (states << bits))),
        table(*reinterpret_cast<const OnpairTable*>(s.table)),
        bits(bits) {}

  __device__ __forceinline__ u32 place_of(u32 entry, u32 code) const {
    return (entry << (bits - STATE_SHIFT) & STATES_MASK << bits) | code;
  }
  // What comes behind a code in whose symbol rows end: `ends`, of which the highest bit is that of the last byte.
  __device__ __forceinline__ u32 restart(u32 ends, u32 code) const {
    return __ldg(restarts + (u32(__clz(i32(ends))) << bits | code));
  }

  // Runs from `entry` over the `count` (1 or 2) codes of `code_bits` that `two` begins with, which stand for 32 characters at most, as far as it
  // goes without a look at single bytes; gives what comes behind them, or ~0.
  __device__ __forceinline__ u32 step_two(u32 entry, u32 two, u32 code_bits, u32 count, Walk& walk) const {
    u32 window = walk.window<true>(), at = walk.at, rare = 0;
    // Bits of characters that are behind come to its highest ones, and there only those stay where a row ends that counts.
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      if (i < count) {
        const u32 code = (i == 0 ? two : two >> code_bits) & ((1u << code_bits) - 1);
        entry = __ldg(entries + place_of(entry, code));
        const u32 ends = __funnelshift_r(0, window, entry);
        window = __funnelshift_r(window, window, entry) & (entry | 0xffff);
        at += entry & LENGTH_MASK;
        rare |= (entry & SOME_UNDECIDED) | (ends & (ends - 1));
        if (ends != 0) entry = restart(ends, code);
      }
    }
    if (rare != 0) return ~0u;
    const u32 found = __funnelshift_r(window, 0, walk.at - at);
    if (found != 0) walk.set<true>(found);
    walk.at = at;
    return entry;
  }

  // As step_two, whatever comes. second: undecided rows count.
  __device__ __forceinline__ u32 step_any(u32 entry, u32 two, u32 code_bits, u32 count, bool second, Walk& walk) const {
#pragma unroll 1
    for (; count > 0; --count, two >>= code_bits) {
      const u32 window = walk.window<false>();
      u64 low, high;
      u32 nbits, found = 0;
      table.symbol(two & ((1u << code_bits) - 1), &low, &high, &nbits);
#pragma unroll 1
      for (u32 i = 0; i < nbits / 8; ++i) {  // codes 0 to 255 are the single bytes
        const u32 place = place_of(entry, u32(low & 255));
        low = low >> 8 | high << 56, high >>= 8;
        entry = __ldg(entries + place);
        if (!(window >> i & 1)) continue;
        const u32 open = entry & SOME_UNDECIDED ? 1 : 0;
        walk.undecided |= open;
        found |= (second ? open : entry >> 31) << i;
        entry = 0;
      }
      if (found != 0) walk.set<false>(found);
      walk.at += nbits / 8;
    }
    return entry;
  }

  // Runs from `entry` over the codes of a tile, whose first byte is number `at` of those from `origin` on, and on over the next tiles' codes as far
  // as the lane has to. The first `staged` words are `words`. second: undecided rows count.
  __device__ __forceinline__ void run(const SegmentView& s, u64 origin, const u32* words, u32 staged, u32 at,
                                      const WalkedTile& own, u32 entry, bool, bool second, Walk& walk) const {
    u32 tile = own.tile, nbytes = own.count, chars = own.chars, end = walk.at + chars;
    const bool fast = !second && walk.stop <= NEAR_CHARS;
    for (;;) {
      const bool raw = nbytes == chars;
      const u32 code_bits = raw ? 8 : bits;
      u32 bit = 8 * at;
#pragma unroll 1
      for (u32 left = raw ? nbytes : 8 * nbytes / bits; left > 0 && walk.at < walk.stop; left -= min(left, 2u)) {
        const u32 i = bit / 32, count = min(left, 2u);
        u32 low, high, next = ~0u;
        if (i + 1 < staged) {
          low = words[i], high = words[i + 1];
        } else {
          const u64 from = s.codes + origin + 4 * u64(i), behind = s.codes + s.codes_nbytes;
          low = load_word(from, 0, behind), high = load_word(from + 4, 0, behind);
        }
        const u32 two = __funnelshift_r(low, high, bit);
        if (fast) next = step_two(entry, two, code_bits, count, walk);
        entry = next != ~0u ? next : step_any(entry, two, code_bits, count, second, walk);
        bit += 2 * code_bits;
      }
      if (walk.at >= walk.stop || walk.at != end) return;
      ++tile, at += nbytes;
      const u64 begin = u64(tile) * TILE, all = s.chars;
      if (begin >= all) return;
      chars = u32(min(u64(TILE), all - begin)), nbytes = length_of_tile(s, tile, ~0ull), end += chars;
      if (nbytes > chars) return;
    }
  }
};

// block: a multiple of 32 threads, `pieces` (1, 2 or 4) pieces a warp, of one block of tiles. grid: as many blocks as cover the tiles of every
// segment; segment k has those from first_units[k] on, or none where the next one begins there too. automata: address of what onpair_rows_lift
// made, for codes of at most `most_bits`, of which segment k has number numbers[k]. answers: address of a byte for each row of the column; of
// rows without bytes nothing is written. shared memory: a warp 8 * BITS_WORDS + codes_capacity + RUN_ON_NBYTES + 16 bytes. codes_capacity >= TILE +
// 16, a multiple of 16.
extern "C" __global__ void __launch_bounds__(ROWS_THREADS, ROWS_BLOCKS)
    onpair_rows(const SegmentView* segments, const u64* numbers, const u32* first_units, u32 segment_count,
                u64 automata, u32 states, u32 codes_capacity, u32 pieces, u64 answers, u32 most_bits) {
  DYNAMIC_SHARED(u32, shared);
  const u32 k = find_unit(first_units, segment_count, blockIdx.x), warp = threadIdx.x / 32;
  const SegmentView& s = segments[k];
  const u32 bits = __ldg(&reinterpret_cast<const OnpairTable*>(s.table)->bits);
  if (bits > most_bits) return;
  const u64 stored = automata + numbers[k] * automaton_nbytes(states, most_bits);
  u32* const room = shared + warp * (2 * BITS_WORDS + (codes_capacity + RUN_ON_NBYTES + 16) / 4);
  const u32 first_tile = ((blockIdx.x - first_units[k]) * blockDim.x + 32 * warp) * pieces;
  const OnpairRowAutomaton automaton(s, stored, states, bits);
  answer_by_walks(automaton, s, (states - 1) << STATE_SHIFT, first_tile, codes_capacity, pieces, room,
                  reinterpret_cast<u8*>(answers) + s.first_row);
}
