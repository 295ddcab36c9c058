// FSST search: codes -> planes, a bit for each character, set where a match ends; many segments in one launch.
//
// Work unit: a warp searches a bundle of 32 consecutive tiles, one tile a lane; its codes are staged as fsst_decode does it. A lane runs the
// automaton of codes over those of its tile, from state 0, and then on into the next tile's, until no match that began in its own can
// be under way: in state 0, or `run_on` bytes further. What it finds there the next lane may find as well; both set the same bit.
//
// For a code there is one look-up, `entry = automaton[state << 8 | code]`. An escape leads to the upper half of the states, in which a
// code is a literal byte; raw tiles have the upper half for every byte. Bits are only made where one of four entries has some.
// Matches of a single byte need no state, and no next tile: fsst_search_alone stores each word of bits once, without atomic operations. TPC-H
// l_comment SF 10 on an H200: 0.44 ms for "." and "e", instead of 0.53 and 0.55.
//
//            tile 0 of the bundle    tile 1                      tile 31                 behind the bundle
//   bits     w w w w w w w w pad     w w w w w w w w pad  ...    w w w w w w w w pad     o o o (o)
//
// A warp's bits lie in shared memory, and a word of padding behind each tile's spreads them over the banks. They go to the plane with
// coalesced stores. The overhang o, and the first words of every bundle, which another warp's overhang may reach, go there by atomic
// operations: fsst_automata has set these to zero.
//
// What matches cost is the bits, not the look-ups. Two that lost, TPC-H l_comment SF 10 on an H200 (docs/kernels.md has the others):
// - a word's bits put together in registers and stored once, instead of an atomic operation for each four codes with a match: 0.53 instead
//   of 0.51 ms for "furiously", 0.49 instead of 0.47 for "special".
// - 4, 8 and 16 copies of the automaton, so that fewer lanes meet in a bank: 0.58, 0.59 and 0.77 instead of 0.57 ms for endswith ".".
//
// Invariant: whatever the codes, nothing outside the warp's bits and the staged codes is touched: starts and lengths are clamped to
// `codes_nbytes`, and places of bits to the bundle and its overhang.
#include "text_match.cuh"
#include "text_search.cuh"

// Thread blocks on a multiprocessor: as many as give the code so many registers that nothing is spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define SEARCH_BLOCKS 2
#else
#define SEARCH_BLOCKS 1
#endif

// state << 8 | code, where `entry` has the state and `four` the code, as its byte `i`.
__device__ __forceinline__ u32 transition_index(u32 entry, u32 four, u32 i) {
#ifdef __CUDA_ARCH__
  // The upper bytes are copies of the sign of the byte that is the symbol's length.
  u32 place;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(place) : "r"(entry), "r"(four), "r"(0x9904 + i));
  return place;
#else
  return (entry & 255) << 8 | (four >> (8 * i) & 255);
#endif
}

// The bits that an entry has for a plane.
template <u32 planes>
__device__ __forceinline__ u32 ends_of(u32 entry, u32 plane) {
  return planes == 1 || plane == 1 ? entry >> (16 + 8 * plane) : entry >> 16 & 255;
}

// What a lane has to set bits in, and where it is.
struct Bits {
  u32* words;  // of the warp's first plane
  u32 at;      // of the bundle's characters, the next one

  // Bit b of `found`: character `at` + b of the bundle.
  __device__ __forceinline__ void set(u32 plane, u32 found) {
    const u32 place = min(at, u32(32 * TILE + 32 * (OVERHANG_WORDS - 2))), word = place / 32;
    const u32 low = found << (place % 32), high = __funnelshift_l(found, 0, place % 32);
    u32* mine = words + plane * WARP_WORDS;
    if (low != 0) atomicOr(mine + padded_word(word), low);
    if (high != 0) atomicOr(mine + padded_word(word + 1), high);
  }

  // The bytes of an entry's symbol are behind the lane.
  __device__ __forceinline__ void pass(u32 entry) { at = __dp4a(entry, 0x100u, at); }

  // Sets what one entry has, and passes it.
  template <u32 planes>
  __device__ __forceinline__ void take(u32 entry) {
    if (entry >> 16 != 0) {
#pragma unroll
      for (u32 plane = 0; plane < planes; ++plane) set(plane, ends_of<planes>(entry, plane));
    }
    pass(entry);
  }
};

// A lane's place in staged codes.
struct Staged {
  const u32* word;  // the next one to read
  u32 previous;     // the one before
  u32 shift;        // where in it the next code lies

  __device__ __forceinline__ Staged(const u32* staged, u32 at)
      : word(staged + at / 4 + 1), previous(staged[at / 4]), shift(8 * (at & 3)) {}
  __device__ __forceinline__ u32 four() {
    const u32 next = *word++, four = __funnelshift_r(previous, next, shift);
    previous = next;
    return four;
  }
};

// Runs from `entry` over four codes, and gives the last entry. raw: they are bytes.
template <u32 planes, bool raw>
__device__ __forceinline__ u32 run_four(const u32* automaton, u32 states, u32 entry, u32 four, Bits& bits) {
  u32 entries[4];
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    entry = automaton[transition_index(raw ? entry + states : entry, four, i)];
    entries[i] = entry;
  }
  const u32 one = __dp4a(entries[0], 0x100u, 0u), two = __dp4a(entries[1], 0x100u, one);
  const u32 three = __dp4a(entries[2], 0x100u, two);
  if ((entries[0] | entries[1] | entries[2] | entries[3]) >> 16 != 0) {
#pragma unroll
    for (u32 plane = 0; plane < planes; ++plane) {
      const u32 found = ends_of<planes>(entries[0], plane) | ends_of<planes>(entries[1], plane) << one |
                        ends_of<planes>(entries[2], plane) << two | ends_of<planes>(entries[3], plane) << three;
      bits.set(plane, found);
    }
  }
  bits.at = __dp4a(entries[3], 0x100u, bits.at + three);
  return entry;
}

// Runs over the `count` codes of a tile from byte `at` of the staged ones on, and then on into the next tile, which is neither raw nor
// missing: the last four may be of both. Damaged codes may have no bytes, so what is read is counted too.
template <u32 planes>
__device__ __forceinline__ void run_on_into(const u32* automaton, u32 states, const u32* staged, u32 at, u32 count,
                                            u32 run_on, u32 limit, Bits& bits) {
  Staged codes(staged, at);
  u32 entry = 0;
  for (u32 fours = (count + 3) / 4; fours > 0; --fours)
    entry = run_four<planes, false>(automaton, states, entry, codes.four(), bits);
  for (u32 read = 0; (entry & 255) != 0 && bits.at < limit && read < 2 * run_on; read += 4)
    entry = run_four<planes, false>(automaton, states, entry, codes.four(), bits);
}

// Runs over `count` codes from byte `at` of the staged ones on, and gives the last entry. raw: they are bytes.
template <u32 planes, bool raw>
__device__ __forceinline__ u32 run(const u32* automaton, u32 states, const u32* staged, u32 at, u32 count, Bits& bits) {
  u32 entry = 0;
  Staged codes(staged, at);
  for (u32 fours = count / 4; fours > 0; --fours)
    entry = run_four<planes, raw>(automaton, states, entry, codes.four(), bits);
  const u8* bytes = reinterpret_cast<const u8*>(staged) + at;
  for (u32 i = count / 4 * 4; i < count; ++i) {
    entry = automaton[transition_index(raw ? entry + states : entry, bytes[i], 0)];
    bits.take<planes>(entry);
  }
  return entry;
}

// Runs from `entry` on into the next tile, which has `count` codes from byte `at` of the staged ones on.
template <u32 planes>
__device__ __forceinline__ void run_into_next(const u32* automaton, u32 states, u32 entry, const u32* staged, u32 at,
                                              u32 count, bool raw, u32 limit, Bits& bits) {
  const u8* bytes = reinterpret_cast<const u8*>(staged) + at;
  u32 state = entry & 255;
  if (state >= states) state -= states;  // an escape ends with its tile
  for (u32 i = 0; i < count && state != 0 && bits.at < limit; ++i) {
    entry = automaton[(state + (raw ? states : 0)) << 8 | bytes[i]];
    bits.take<planes>(entry);
    state = entry & 255;
  }
}

// Runs over four codes as `run_four` does, with one plane, or, unless they are `whole`, over the first `count`.
template <bool raw, bool whole>
__device__ __forceinline__ u32 run_four_alone(const u32* automaton, u32 entry, u32 four, u32 count, TileBits& bits) {
  u32 found = 0, nbytes = 0;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    entry = automaton[transition_index(raw ? 1 : entry, four, i)];
    const u32 own = whole || i < count ? entry : entry & 255;
    found |= (own >> 16) << nbytes;
    nbytes = __dp4a(own, 0x100u, nbytes);
  }
  bits.take(found, nbytes);
  return entry;
}

// Runs over the `count` codes of a tile from byte `at` of the staged ones on, with an automaton of one state, whose matches are of one byte
// each: a tile has nothing to do with the next one.
template <bool raw>
__device__ __forceinline__ void run_alone(const u32* automaton, const u32* staged, u32 at, u32 count, TileBits bits) {
  Staged codes(staged, at);
  u32 entry = 0;
  for (u32 fours = count / 4; fours > 0; --fours)
    entry = run_four_alone<raw, true>(automaton, entry, codes.four(), 4, bits);
  run_four_alone<raw, false>(automaton, entry, codes.four(), count % 4, bits);
  bits.store();
}

// planes: 1 or 2. staged_automaton: it fits shared memory. alone: see `run_alone`.
template <u32 planes, bool staged_automaton, bool alone>
__device__ __forceinline__ void search_tiles(const SegmentView* __restrict__ segments,
                                             const SearchView* __restrict__ views, const u32* __restrict__ first_units,
                                             u32 segment_count, u64 automata, u32 states, u32 run_on,
                                             u32 codes_capacity, u32 bundles, u64 to, u64 plane_words, u64 seen) {
  DYNAMIC_SHARED(u32, shared);
  const u32 k = find_unit(first_units, segment_count, blockIdx.x);
  const SegmentView& s = segments[k];
  const SearchView& view = views[k];
  const u32 automaton_words = 512 * states, lane = lane_id(), warp = threadIdx.x / 32;
  const u32* stored = reinterpret_cast<const u32*>(automata) + view.automaton * automaton_words;
  if (staged_automaton)
    for (u32 i = threadIdx.x; i < automaton_words / 4; i += blockDim.x)
      copy_16_async(reinterpret_cast<uint4*>(shared) + i, reinterpret_cast<const uint4*>(stored) + i);
  const u32* automaton = staged_automaton ? shared : stored;
  u32* words = shared + (staged_automaton ? automaton_words : 0) +
               warp * (planes * WARP_WORDS + (codes_capacity + RUN_ON_NBYTES + 16) / 4);
  u32* codes_at = words + planes * WARP_WORDS;
  for (u32 i = lane; i < planes * WARP_WORDS; i += 32) words[i] = 0;
  wait_for_copies();
  __syncthreads();

  const u64 chars = s.chars, tiles = (chars + TILE - 1) / TILE;
  u64 first_tile = (u64(blockIdx.x - first_units[k]) * blockDim.x + 32 * warp) * bundles;
  if (first_tile >= tiles) return;
  const u64 block = first_tile / TILE_BLOCK;
  BlockLengths lengths;
  lengths.load(s, block, tiles);
  const u64 codes = s.codes, codes_nbytes = s.codes_nbytes;
  const u64 block_start = __ldg(reinterpret_cast<const u64*>(s.block_starts) + block);
  u32* const out = reinterpret_cast<u32*>(to) + view.first_word;

  for (u32 bundle = 0; bundle < bundles && first_tile < tiles; ++bundle, first_tile += 32) {
    const u64 tile_begin = (first_tile + lane) * TILE;
    const u32 n = tile_begin < chars ? u32(min(u64(TILE), chars - tile_begin)) : 0;
    const u32 next_n = tile_begin + TILE < chars ? u32(min(u64(TILE), chars - tile_begin - TILE)) : 0;
    u32 start_in_block;
    u32 length = lengths.of_tile(u32(first_tile % TILE_BLOCK) / 32, &start_in_block);
    u32 next_length = __shfl_down_sync(ALL_LANES, length, 1);
    if (lane == 31) next_length = length_of_tile(s, first_tile + 32, tiles);
    u64 start = block_start + start_in_block;
    if (length > n || start > codes_nbytes || length > codes_nbytes - start) length = 0, start = 0;

    u32 open = __ballot_sync(ALL_LANES, length > 0);  // tiles still to search
    while (open != 0) {
      const u64 base = __shfl_sync(ALL_LANES, start, __ffs(open) - 1);
      const u64 origin = base / 16 * 16;
      const bool fits = (open >> lane & 1) && start >= base && start + length - origin <= codes_capacity;
      const u32 batch = __ballot_sync(ALL_LANES, fits);
      const u64 stop = __shfl_sync(ALL_LANES, start + length, 31 - __clz(batch));
      stage_codes(reinterpret_cast<uint4*>(codes_at), codes, codes_nbytes, base,
                  min(stop + 2 * run_on + 4, codes_nbytes));
      // The next ones are needed soon.
      if (stop + 128 * lane < codes_nbytes && lane < codes_capacity / 128) prefetch(codes + stop + 128 * lane);
      __syncwarp();
      // Of raw tiles alone, lanes would all read from one bank: then each has four bytes more than a tile, but for the last one.
      const bool flat = TILE >= 256 && batch == ALL_LANES && __all_sync(ALL_LANES, length == TILE);
      if (fits) {
        if (alone && !flat) {
          const u32 at = u32(start - origin);
          if (length == n)
            run_alone<true>(automaton, codes_at, at, length, TileBits(words, lane));
          else
            run_alone<false>(automaton, codes_at, at, length, TileBits(words, lane));
        } else {
          const u32 skew = flat ? 4 * lane : 0, first = lane * TILE + skew, at = u32(start - origin) + skew;
          const u32 last = flat ? min(first + TILE + 4, 32 * TILE) : (lane + 1) * TILE, limit = last + run_on;
          Bits bits = {words, first};
          if (length < n && next_length < next_n) {
            run_on_into<planes>(automaton, states, codes_at, at, length, run_on, limit, bits);
          } else {
            const u32 count = flat ? last - first : length;
            const u32 entry = length == n ? run<planes, true>(automaton, states, codes_at, at, count, bits)
                                          : run<planes, false>(automaton, states, codes_at, at, count, bits);
            bits.at = last;
            const bool within = flat && lane < 31;
            run_into_next<planes>(automaton, states, entry, codes_at, at + count,
                                  min(within ? 32 * TILE - last : next_length, 2 * run_on),
                                  within || next_length == next_n, limit, bits);
          }
        }
      }
      open &= ~batch;
      __syncwarp();
    }

    bool found = false;
#pragma unroll
    for (u32 plane = 0; plane < planes; ++plane)
      found = write_bits(words + plane * WARP_WORDS, out + plane * plane_words + first_tile * TILE_WORDS,
                         first_tile + 32 < tiles);
    if (seen != 0 && found) *reinterpret_cast<u32*>(seen) = 1;
    __syncwarp();
  }
}

// One kernel for each number of planes and place of the automaton, and one for automata of a single state and one plane. block: a
// multiple of 32 threads, `bundles` (1, 2 or 4) bundles a warp, of one block of tiles. grid: as many blocks as cover the tiles of every segment; segment k has those from first_units[k] on, or
// none where the next one begins there too. automata: address of those of this search; to: address of its first plane, `plane_words`
// words before the next; seen: address of a word that becomes 1 where the last plane has a bit, or 0. run_on: at most RUN_ON_NBYTES / 2
// bytes. shared memory: the automaton, if it is there, then a warp 4 * planes * WARP_WORDS + codes_capacity + RUN_ON_NBYTES + 16 bytes.
// codes_capacity >= TILE + 16, a multiple of 16.
#define SEARCH(name, planes, staged_automaton, alone)                                                                  \
  extern "C" __global__ void __launch_bounds__(SEARCH_THREADS, SEARCH_BLOCKS)                                          \
      name(const SegmentView* segments, const SearchView* views, const u32* first_units, u32 segment_count,            \
           u64 automata, u32 states, u32 run_on, u32 codes_capacity, u32 bundles, u64 to, u64 plane_words, u64 seen) { \
    search_tiles<planes, staged_automaton, alone>(segments, views, first_units, segment_count, automata, states,       \
                                                  run_on, codes_capacity, bundles, to, plane_words, seen);             \
  }
SEARCH(fsst_search, 1, true, false)
SEARCH(fsst_search_alone, 1, true, true)
SEARCH(fsst_search_two, 2, true, false)
SEARCH(fsst_search_large, 1, false, false)
SEARCH(fsst_search_two_large, 2, false, false)
