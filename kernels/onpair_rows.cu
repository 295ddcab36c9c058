// OnPair rows: an automaton that begins anew with every row, run over codes; an answer for each row, many segments in one launch.
//
// Work unit: text_rows.cuh. A lane reads two codes at a time, which stand for 32 characters at most. For a code there is one look-up, of 32
// bits, through the L1. It says for every byte of the symbol what a row is that ends behind it; of these bits those count where one ends. Where
// that is in the symbol, the state is then that of `restarts`, which depends on the code alone. Rows that begin and end in one symbol, and those
// that may be undecided, go byte by byte. Raw tiles are codes of 8 bits: codes 0 to 255 are the single bytes.
//
// TPC-H l_comment SF 10 on an H200 (60 M rows): 1.18 to 1.20 ms, whatever is looked for. Two that lost:
// - bits where rows end that count, and row lengths unpacked again for the answers: 1.41 to 1.51 ms.
// - in that form, the first states in shared memory, so that one block is on a multiprocessor: 1.61 instead of 1.51 ms for "fur.*ly".
//
// Invariant: as text_rows.cuh has it; a code is less than 2^bits.
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
  u32 states, bits;  // of a code

  __device__ __forceinline__ OnpairRowAutomaton(const SegmentView& s, u64 stored, u32 states, u32 bits)
      : entries(reinterpret_cast<const u32*>(stored)),
        restarts(reinterpret_cast<const u16*>(entries + (states << bits))),
        table(*reinterpret_cast<const OnpairTable*>(s.table)),
        states(states),
        bits(bits) {}

  __device__ __forceinline__ u32 place_of(u32 entry, u32 code) const {
    return (entry << (bits - STATE_SHIFT) & STATES_MASK << bits) | code;
  }
  // What comes behind a code in whose symbol rows end: `ends`, of which the highest bit is that of the last byte.
  __device__ __forceinline__ u32 restart(u32 ends, u32 code) const {
    return __ldg(restarts + (u32(__clz(i32(ends))) << bits | code));
  }

  // Runs from `entry` over a code byte by byte, whatever comes, and gives what comes behind it. second: it is said of undecided rows.
  __device__ __forceinline__ u32 step_bytes(u32 entry, u32 code, bool second, Way& way) const {
    const u32 window = way.window<false>();
    u64 low, high;
    u32 nbits;
    table.symbol(code, &low, &high, &nbits);
#pragma unroll 1
    for (u32 i = 0; i < nbits / 8; ++i) {  // codes 0 to 255 are the single bytes
      const u32 place = place_of(entry, u32(low & 255));
      low = low >> 8 | high << 56, high >>= 8;
      entry = __ldg(entries + place);
      if (!(window >> i & 1)) continue;
      const u32 undecided = entry & SOME_UNDECIDED;
      way.undecided |= undecided;
      if (second ? undecided != 0 : entry >> 31 != 0) way.put(second ? SAID_UNDECIDED : 1);
      ++way.said;
      entry = 0;
    }
    way.at += nbits / 8;
    return entry;
  }

  // Runs from `entry` over the `count` (1 or 2) codes of `code_bits` that `two` begins with, which stand for 32 characters at most; gives what comes
  // behind them.
  __device__ __forceinline__ u32 step_two(u32 entry, u32 two, u32 code_bits, u32 count, Way& way) const {
    u32 window = way.window<true>();
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
      if (i < count) {
        const u32 code = (i == 0 ? two : two >> code_bits) & ((1u << code_bits) - 1);
        const u32 next = __ldg(entries + place_of(entry, code));
        const u32 ends = __funnelshift_r(0, window, next);
        if ((next & SOME_UNDECIDED) != 0 || (ends & (ends - 1)) != 0) {
          entry = step_bytes(entry, code, false, way);
          window = way.window<true>();
        } else {
          window = __funnelshift_r(window, 0, next);
          way.at += next & LENGTH_MASK;
          entry = next;
          if ((ends & next) != 0) way.put(1);
          if (ends != 0) ++way.said, entry = restart(ends, code);
        }
      }
    }
    return entry;
  }

  // See text_rows.cuh.
  __device__ __forceinline__ void run_tile(const CodeWords& codes, u32 at, bool begins, u32 tile, u32 nbytes, u32 chars,
                                           bool, bool second, Way& way) const {
    const SegmentView& s = codes.s;
    u32 entry = begins ? 0 : (states - 1) << STATE_SHIFT, end = way.at + chars;
    const bool fast = !second && way.stop <= NEAR_CHARS;
    for (;;) {
      const bool raw = nbytes == chars;
      const u32 code_bits = raw ? 8 : bits;
      u32 bit = 8 * at;
#pragma unroll 1
      for (u32 left = raw ? nbytes : 8 * nbytes / bits; left > 0 && way.at < way.stop;) {
        const u32 count = fast ? min(left, 2u) : 1, i = bit / 32;
        const u32 two = __funnelshift_r(codes.word(i), codes.word(i + 1), bit);
        if (fast)
          entry = step_two(entry, two, code_bits, count, way);
        else
          entry = step_bytes(entry, two & ((1u << code_bits) - 1), second, way);
        bit += count * code_bits, left -= count;
      }
      if (way.at >= way.stop || way.at != end) return;
      ++tile, at += nbytes;
      const u64 begin = u64(tile) * TILE, all = s.chars;
      if (begin >= all) return;
      chars = u32(min(u64(TILE), all - begin)), nbytes = length_of_tile(s, tile, ~0ull), end += chars;
      if (nbytes > chars) return;
    }
  }
};

// block: a multiple of 32 threads, `bundles` (1, 2 or 4) bundles a warp, of one block of tiles. grid: as many blocks as cover the tiles of every
// segment; segment k has those from first_units[k] on, or none where the next one begins there too. automata: address of what onpair_rows_lift
// made, for codes of at most `most_bits`, of which segment k has number numbers[k]. answers: address of a byte for each row of the column; of
// rows without bytes nothing is written. shared memory: rows_room a warp. codes_capacity >= TILE + 16, a multiple of 16.
extern "C" __global__ void __launch_bounds__(ROWS_THREADS, ROWS_BLOCKS)
    onpair_rows(const SegmentView* segments, const u64* numbers, const u32* first_units, u32 segment_count,
                u64 automata, u32 states, u32 codes_capacity, u32 said_capacity, u32 bundles, u64 answers,
                u32 most_bits) {
  DYNAMIC_SHARED(u32, shared);
  const u32 k = find_unit(first_units, segment_count, blockIdx.x), warp = threadIdx.x / 32;
  const SegmentView& s = segments[k];
  const u32 bits = __ldg(&reinterpret_cast<const OnpairTable*>(s.table)->bits);
  if (bits > most_bits) return;
  const OnpairRowAutomaton automaton(s, automata + numbers[k] * automaton_nbytes(states, most_bits), states, bits);
  const u32 first_tile = ((blockIdx.x - first_units[k]) * blockDim.x + 32 * warp) * bundles;
  answer_rows(automaton, s, first_tile, codes_capacity, said_capacity, bundles,
              shared + warp * (rows_room(codes_capacity, said_capacity) / 4), answers);
}
