// FSST rows: an automaton that begins anew with every row, run over codes; an answer for each row, many segments in one launch.
//
// Work unit: text_rows.cuh. Nothing in the run depends on where rows end: it has no branch for it. For a code there is one look-up,
// `entry = automaton[state << 8 | code]`. It says for every byte of the symbol what a row is that ends behind it; of these bits those count
// where one ends. Where that is in the symbol, the state is then that of `restarts`, which depends on the code alone. An escape leads to the
// upper half of the states, in which a code is a literal byte; raw tiles have the upper half for every byte. Bundles with rows that may begin
// and end in one symbol go code by code.
//
// TPC-H l_comment SF 10 on an H200 (60 M rows): 0.95 to 1.07 ms, whatever is looked for; with 24 instead of 32 warps 1.03 to 1.10. 58 % of the
// instructions are the loop's, 20 a code; beside them it waits for row lengths and codes.
#include "fsst_rows.cuh"
#include "text_rows.cuh"

// Threads of a block, as many as give the code so many registers that nothing is spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900
#define ROWS_BOUNDS ROWS_THREADS
#else
#define ROWS_BOUNDS ROWS_THREADS_90, 1
#endif

// An automaton: its entries, and behind them its restarts. wide: it is in global memory, else in shared memory. There the compiler would not find the
// way that takes the fewest instructions: an address is one, and what some lanes alone load has a predicate, and no branch.
template <bool wide>
struct Automaton {
  typedef typename AddressOf<wide>::Type Address;
  static constexpr u32 shift = wide ? WIDE_SHIFT : NARROW_SHIFT;
  Address entries;
  u32 states;

  __device__ __forceinline__ Automaton(const u32* entries, u32 states)
      : entries(AddressOf<wide>::in(entries)), states(states) {}

  // Where entries begin whose codes are bytes, if they are `raw`: in shared memory by address, else behind the first.
  __device__ __forceinline__ u32 half(bool raw) const {
    const u32 behind = raw ? states << 10 : 0;
#ifdef __CUDA_ARCH__
    if (!wide) return u32(entries) + behind;
#endif
    return behind;
  }
  // The restarts, less those of a highest bit below 24.
  __device__ __forceinline__ Address restarts() const { return entries + (states << 11) - 24 * 512; }

  // The entry behind one, for a code that is byte `i` of `four`.
  __device__ __forceinline__ u32 next(u32 half, u32 entry, u32 four, u32 i) const {
#ifdef __CUDA_ARCH__
    u32 found;
    if (wide) {
      found = __ldg(
          reinterpret_cast<const u32*>(entries + (half + ((entry & 0xffe0) << 5 | (four >> (8 * i) & 255) << 2))));
    } else {  // the upper bytes of the place are copies of the sign of the lowest, which is a length
      asm("{\n\t.reg .u32 place;\n\tprmt.b32 place, %1, %2, %3;\n\tmad.lo.u32 place, place, 4, %4;\n\t"
          "ld.shared.u32 %0, [place];\n\t}"
          : "=r"(found)
          : "r"(entry), "r"(four), "r"(0x8814 + i), "r"(u32(half)));
    }
    return found;
#else
    return reinterpret_cast<const u32*>(entries + half)[((entry & 0xffff) >> shift) << 8 | (four >> (8 * i) & 255)];
#endif
  }
  // Adds the length of the symbol of an entry, and 64 times what it has of undecided rows.
  __device__ __forceinline__ static u32 add(u32 entry, u32 total) {
    return wide ? total + (entry & 31) + (entry >> 10 & 0x3fc0) : __dp4a(entry, 0x400001u, total);
  }
  __device__ __forceinline__ bool literal(u32 entry) const { return (entry & 0xffff) >> shift >= states; }
  // Takes the place of the entry where rows end in a symbol: `ends`, of which the highest bit is that of the last byte; 0: none does.
  __device__ __forceinline__ void restart(u32& entry, u32 ends, u32 four, u32 i) const {
#ifdef __CUDA_ARCH__
    if (!wide) {
      asm("{\n\t.reg .pred some;\n\t.reg .u32 place;\n\tsetp.ne.u32 some, %1, 0;\n\tbfind.u32 place, %1;\n\t"
          "prmt.b32 place, place, %2, %3;\n\tmad.lo.u32 place, place, 2, %4;\n\t@some ld.shared.u16 %0, [place];\n\t}"
          : "+r"(entry)
          : "r"(ends), "r"(four), "r"(0x8804 + i), "r"(u32(restarts())));
      return;
    }
#endif
    if (ends != 0)
      entry = reinterpret_cast<const u16*>(restarts())[u32(31 - __clz(i32(ends))) << 8 | (four >> (8 * i) & 255)];
  }
  // Where a row ends, if `ends` is not 0, it counts if it is among those of `entry`, and the place of that is taken by what comes behind it.
  __device__ __forceinline__ void pass_ends(u32& entry, u32 ends, u32 four, u32 i, Way& way) const {
#ifdef __CUDA_ARCH__
    if (!wide) {  // stores and loads with predicates: branches take more instructions
      asm volatile(
          "{\n\t.reg .pred some, yes;\n\t.reg .u32 place;\n\tand.b32 place, %2, %0;\n\tsetp.ne.u32 yes, place, 0;\n\t"
          "setp.ne.u32 some, %2, 0;\n\t@yes st.shared.u8 [%1], %0;\n\t@some add.u32 %1, %1, 1;\n\t"
          "bfind.u32 place, %2;\n\tprmt.b32 place, place, %3, %4;\n\tmad.lo.u32 place, place, 2, %5;\n\t"
          "@some ld.shared.u16 %0, [place];\n\t}"
          : "+r"(entry), "+r"(way.said)
          : "r"(ends), "r"(four), "r"(0x8804 + i), "r"(u32(restarts())));
      return;
    }
#endif
    if ((ends & entry) != 0) way.put(entry & 31);
    way.said += ends != 0;
    restart(entry, ends, four, i);
  }

  // See text_rows.cuh.
  __device__ __forceinline__ void run_tile(const CodeWords& words, u32 at, bool begins, u32 tile, u32 count, u32 chars,
                                           bool single, bool second, Way& way) const;
};

// Codes, four at a time or one.
struct Reader : CodeWords {
  u32 next, previous, shift;

  __device__ __forceinline__ Reader(const CodeWords& codes, u32 at)
      : CodeWords(codes), next(at / 4 + 1), shift(8 * (at & 3)) {
    previous = word(at / 4);
  }
  __device__ __forceinline__ u32 four() {
    const u32 last = previous;
    previous = word(next++);
    return __funnelshift_r(last, previous, shift);
  }
  // Of four codes how often `near_four` gives them: words that are staged.
  __device__ __forceinline__ u32 near() const { return max(staged, next) - next; }
  __device__ __forceinline__ u32 near_four() {
    const u32 last = previous;
    previous = words[next++];
    return __funnelshift_r(last, previous, shift);
  }
  __device__ __forceinline__ u32 one() {
    const u32 code = previous >> shift & 255;
    shift += 8;
    if (shift == 32) shift = 0, previous = word(next++);
    return code;
  }
};

// Runs from `entry` over four codes, and gives what comes behind the last entry.
template <bool wide, bool near>
__device__ __forceinline__ u32 step_four(const Automaton<wide>& automaton, u32 half, u32 entry, u32 four, Way& way) {
  const u32 window = way.window<near>(), first = entry;
  u32 left = window, total = 0;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    entry = automaton.next(half, entry, four, i);
    const u32 ends = __funnelshift_r(0, left, entry);  // of rows, in the symbol, whose last byte has the highest bit
    left = __funnelshift_r(left, 0, entry);
    total = automaton.add(entry, total);
    automaton.pass_ends(entry, ends, four, i, way);
  }
  way.at += total & 63;
  if (total >= 64) {
    u32 again = first;
    left = window;
#pragma unroll 1
    for (u32 i = 0; i < 4; ++i) {
      again = automaton.next(half, again, four >> (8 * i), 0);
      const u32 ends = __funnelshift_r(0, left, again);
      way.undecided |= ends & again << 8;
      left = __funnelshift_r(left, 0, again);
      automaton.restart(again, ends, four >> (8 * i), 0);
    }
  }
  return entry;
}

// Runs from `entry` over a code, of whose rows several may begin and end in its symbol, and gives what comes behind it. second: of rows that are
// undecided it is said.
template <bool wide>
__device__ __forceinline__ u32 step_one(const Automaton<wide>& automaton, const SegmentView& s, u32 entry, u32 code,
                                        bool raw, bool second, Way& way) {
  const u32 bytes = automaton.half(true);
  const u32 before = entry;
  entry = automaton.next(automaton.half(raw), entry, code, 0);
  const u32 length = entry & 31, ends = __funnelshift_r(0, way.window<false>(), length);
  way.at += length;
  if ((ends & (ends - 1)) == 0) {
    if (ends != 0) {
      const bool undecided = (ends & entry << 8) != 0;
      way.undecided |= undecided;
      if (undecided && second) way.put(SAID_UNDECIDED);
      if ((ends & entry) != 0 && !second) way.put(1);
      ++way.said;
    }
    automaton.restart(entry, ends, code, 0);
    return entry;
  }
  const DecodeTable& table = *reinterpret_cast<const DecodeTable*>(s.table);
  u64 symbol = table.entries[code];
  split_entry(symbol, table.is_eight(code));
  entry = before;
  for (u32 bit = 32 - length; bit < 32; ++bit, symbol >>= 8) {
    entry = automaton.next(bytes, entry, u32(symbol & 255), 0);
    if (!(ends >> bit & 1)) continue;
    const bool undecided = entry >> ROW_UNDECIDED & 1;
    way.undecided |= undecided;
    if (undecided && second) way.put(SAID_UNDECIDED);
    if (entry >> ROW_COUNTS && !second) way.put(1);
    ++way.said;
    entry = 0;
  }
  return entry;
}

template <bool wide>
__device__ __forceinline__ void Automaton<wide>::run_tile(const CodeWords& words, u32 at, bool begins, u32 tile,
                                                          u32 count, u32 chars, bool single, bool second,
                                                          Way& way) const {
  const SegmentView& s = words.s;
  Reader codes(words, at);
  u32 entry = begins ? 0 : (states - 1) << shift;
  u32 end = way.at + chars;
  bool raw = count == chars;
  for (;;) {
    if (!raw && way.stop > end) {
      const u64 behind = u64(tile + 1) * TILE, all = s.chars;
      const u32 more = behind < all ? u32(min(u64(TILE), all - behind)) : 0;
      const u32 next_count = more > 0 ? length_of_tile(s, tile + 1, ~0ull) : 0;
      if (next_count < more) count += next_count, end += more, ++tile;  // then both are one
    }
    const u32 from = half(raw);
    if (!single) {
      if (way.stop <= NEAR_CHARS) {
        u32 fours = min(count / 4, codes.near());
        count -= 4 * fours;
        for (; fours > 0 && way.at < way.stop; --fours)
          entry = step_four<wide, true>(*this, from, entry, codes.near_four(), way);
        count += 4 * fours;
      }
      for (; count >= 4 && way.at < way.stop; count -= 4)
        entry = step_four<wide, false>(*this, from, entry, codes.four(), way);
    }
    for (; count > 0 && way.at < way.stop; --count)
      entry = step_one<wide>(*this, s, entry, codes.one(), raw, second, way);
    if (way.at >= way.stop || way.at != end || literal(entry)) return;
    ++tile;
    const u64 begin = u64(tile) * TILE, all = s.chars;
    if (begin >= all) return;
    chars = u32(min(u64(TILE), all - begin)), count = length_of_tile(s, tile, ~0ull), end += chars;
    if (count > chars) return;
    raw = count == chars;
  }
}

// staged_automaton: it fits shared memory, and is narrow.
template <bool staged_automaton>
__device__ __forceinline__ void answer_by_automaton(const SegmentView* __restrict__ segments,
                                                    const u64* __restrict__ numbers,
                                                    const u32* __restrict__ first_units, u32 segment_count,
                                                    u64 automata, u32 states, u32 codes_capacity, u32 said_capacity,
                                                    u32 bundles, u64 answers) {
  constexpr bool wide = !staged_automaton;
  DYNAMIC_SHARED(u32, shared);
  const u32 k = find_unit(first_units, segment_count, blockIdx.x);
  const SegmentView& s = segments[k];
  const u32 words = 512 * states + 1024, warp = threadIdx.x / 32;
  if (staged_automaton) {
    const u32* const stored = reinterpret_cast<const u32*>(automata) + numbers[k] * words;
    for (u32 i = threadIdx.x; i < words / 4; i += blockDim.x)
      copy_16_async(reinterpret_cast<uint4*>(shared) + i, reinterpret_cast<const uint4*>(stored) + i);
  }
  u32* const room = shared + (staged_automaton ? words : 0) + warp * (rows_room(codes_capacity, said_capacity) / 4);
  wait_for_copies();
  __syncthreads();
  const Automaton<wide> automaton(
      staged_automaton ? shared : reinterpret_cast<const u32*>(automata) + numbers[k] * words, states);
  const u32 first_tile = ((blockIdx.x - first_units[k]) * blockDim.x + 32 * warp) * bundles;
  answer_rows(automaton, s, first_tile, codes_capacity, said_capacity, bundles, room, answers);
}

// One kernel for each place of the automaton. block: a multiple of 32 threads, `bundles` (1, 2 or 4) bundles a warp, of one block of
// tiles. grid: as many blocks as cover the tiles of every segment; segment k has those from first_units[k] on, or none where the next
// one begins there too. automata: address of what fsst_rows_lift made, of which segment k has number numbers[k]: narrow in shared memory, else
// wide. answers: address of a byte for each row of the column; of rows without bytes nothing is written. shared memory: the automaton, if
// it is there, then rows_room a warp. codes_capacity >= TILE + 16, a multiple of 16.
#define ROWS(name, staged_automaton, ...)                                                                            \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__)                                                          \
      name(const SegmentView* segments, const u64* numbers, const u32* first_units, u32 segment_count, u64 automata, \
           u32 states, u32 codes_capacity, u32 said_capacity, u32 bundles, u64 answers) {                            \
    answer_by_automaton<staged_automaton>(segments, numbers, first_units, segment_count, automata, states,           \
                                          codes_capacity, said_capacity, bundles, answers);                          \
  }
ROWS(fsst_rows, true, ROWS_BOUNDS)
ROWS(fsst_rows_large, false, ROWS_THREADS)
