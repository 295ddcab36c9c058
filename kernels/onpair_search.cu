// OnPair search: codes -> planes, a bit for each character, set where a match ends; many segments in one launch.
//
// Work unit: a warp searches a bundle of 32 consecutive tiles, one tile a lane; its codes are staged. A lane runs the automaton of codes
// (onpair_automata.cu) over those of its tile, from state 0, and then on into the next tile's, until no match that began in its own can be
// under way: in state 0, or `run_on` bytes further. What it finds there the next lane may find as well; both set the same bit. Where bits lie:
// text_search.cuh.
//
// Codes are taken in groups of 8, which begin at a byte. For a code there is one look-up, of 16 bits, so that an automaton of 11 bits has 4 KB
// a state in shared memory. Where a match ends inside a symbol is looked up only where an entry says that there is one; that table is in
// shared memory where it costs no warps. Raw tiles are codes of 8 bits: codes 0 to 255 are the single bytes.
// Matches of a single byte need no state, and no next tile: onpair_search_alone has one look-up of 32 bits a code, length and ends, and stores
// each word of bits once, without atomic operations. TPC-H l_comment SF 10 on an H200: 0.34 ms instead of 0.68 for "e" and 0.62 for ".".
//
// Invariant: whatever the codes, nothing outside the warp's bits and the staged codes is touched: starts and lengths are clamped to
// `codes_nbytes`, a code is less than 2^bits, and bits outside the bundle and its overhang are dropped.
#include "onpair.cuh"
#include "text_match.cuh"
#include "text_search.cuh"

// Threads of a block, as many as give the code so many registers that nothing is spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define MOST_THREADS (SEARCH_THREADS / 2)
#else
#define MOST_THREADS SEARCH_THREADS
#endif

#define GROUP 8
#define LENGTH 0xffu
#define FOUND 0x300u
#define STATE 0xfc00u

// What a lane looks up.
struct Lookup {
  const u8* entries;
  const u8* ends;    // of plane 0
  u32 plane_nbytes;  // of ends
  u32 planes;
};

__device__ __forceinline__ u32 load_two(const u8* at) { return *reinterpret_cast<const u16*>(at); }

// What a lane has to set bits in, and where it is.
struct BundleBits {
  u32* words;  // of the warp's first plane
  u32 at;      // of the bundle's characters, the next one

  __device__ __forceinline__ void set(u32 plane, u32 word, u32 bits) const {
    if (bits != 0 && word < 32 * TILE_WORDS + OVERHANG_WORDS)
      atomicOr(words + plane * WARP_WORDS + padded_word(word), bits);
  }
};

// Runs over a group of codes of `code_bits` from byte `at` of the staged ones on, or, unless it is `whole`, over its first `count`; gives the
// last entry. Automata have codes of `bits`.
template <u32 code_bits, u32 bits, bool whole>
__device__ __forceinline__ u32 run_group(const Lookup& lookup, const u32* staged, u32 at, u32 count, u32 entry,
                                         BundleBits& to) {
  const u32* word = staged + at / 4;
  const u32 shift = 8 * (at & 3);
  u32 packed[4];
#pragma unroll
  for (u32 i = 0; i < 3; ++i) packed[i] = __funnelshift_r(word[i], word[i + 1], shift);
  packed[3] = 0;
  u32 entries[GROUP], offsets[GROUP], sum = 0, any = 0;
#pragma unroll
  for (u32 k = 0; k < GROUP; ++k) {
    // Twice the code, for an entry has two bytes; of the bits beside it, all is the state's that stands above.
    const u32 bit = k == 0 ? 0 : k * code_bits - 1, of_code = (2u << code_bits) - 2;
    const u32 some = k == 0 ? packed[0] << 1 : __funnelshift_r(packed[bit / 32], packed[bit / 32 + 1], bit % 32);
    const u32 state = (code_bits == bits ? entry : entry & STATE) << (bits - 9);
    offsets[k] = (state & ~of_code) | (some & of_code);
    if (whole || k < count)
      entry = load_two(lookup.entries + offsets[k]);
    else
      entry &= STATE;
    entries[k] = entry;
    sum += entry;
    any |= entry;
  }
  if (any & FOUND) {
    u32 hits = 0, place = 0, offset = 0, before = 0;
#pragma unroll
    for (u32 k = 0; k < GROUP; ++k) {
      if (entries[k] & FOUND) ++hits, place = before, offset = offsets[k];
      before += entries[k];  // of which the lengths are the lowest byte
    }
#pragma unroll 1
    for (u32 plane = 0; plane < lookup.planes; ++plane) {
      const u8* const ends = lookup.ends + plane * lookup.plane_nbytes;
      const u32 mark = 0x100u << plane;
      if (hits == 1) {
        const u32 first = to.at + (place & LENGTH), found = load_two(ends + offset);
        to.set(plane, first / 32, found << (first % 32));
        to.set(plane, first / 32 + 1, __funnelshift_l(found, 0, first % 32));
      } else {
        u32 fill = to.at % 32, at_word = to.at / 32;
        u64 pending = 0;
#pragma unroll
        for (u32 k = 0; k < GROUP; ++k) {
          if (entries[k] & mark) pending |= u64(load_two(ends + offsets[k])) << fill;
          fill += entries[k] & LENGTH;
          if (fill >= 32) {
            to.set(plane, at_word++, u32(pending));
            pending >>= 32;
            fill -= 32;
          }
        }
        to.set(plane, at_word, u32(pending));
        to.set(plane, at_word + 1, u32(pending >> 32));
      }
    }
  }
  to.at += sum & LENGTH;
  return entry;
}

// Runs over `count` codes. on: only while a match may be under way, up to character `limit`.
template <u32 code_bits, u32 bits>
__device__ __forceinline__ u32 run_codes(const Lookup& lookup, const u32* staged, u32 at, u32 count, u32 entry, bool on,
                                         u32 limit, BundleBits& to) {
  for (; count > 0; count -= min(count, u32(GROUP)), at += code_bits) {
    if (on && ((entry & STATE) == 0 || to.at >= limit)) break;
    entry = run_group<code_bits, bits, false>(lookup, staged, at, count, entry, to);
  }
  return entry;
}

// Finds matches in a group as `run_group` does, where each is of one byte. table: of every code the bytes of its symbol, and above 16 bits its
// ends.
template <u32 code_bits, bool whole>
__device__ __forceinline__ void run_group_alone(const u32* table, const u32* staged, u32 at, u32 count,
                                                TileBits& found) {
  const u32* word = staged + at / 4;
  const u32 shift = 8 * (at & 3);
  u32 packed[4], entries[GROUP];
#pragma unroll
  for (u32 i = 0; i < 3; ++i) packed[i] = __funnelshift_r(word[i], word[i + 1], shift);
  packed[3] = 0;
#pragma unroll
  for (u32 k = 0; k < GROUP; ++k) {
    // Four times the code, for an entry has four bytes.
    const u32 bit = k * code_bits - 2;
    const u32 some = k == 0 ? packed[0] << 2 : __funnelshift_r(packed[bit / 32], packed[bit / 32 + 1], bit % 32);
    const u32 offset = some & ((4u << code_bits) - 4);
    entries[k] = whole || k < count ? *reinterpret_cast<const u32*>(reinterpret_cast<const u8*>(table) + offset) : 0;
  }
#pragma unroll
  for (u32 k = 0; k < GROUP; k += 2) {
    const u32 first = entries[k] & LENGTH;
    found.take(entries[k] >> 16 | (entries[k + 1] >> 16) << first, first + (entries[k + 1] & LENGTH));
  }
}

// Runs over the `count` codes of a tile from byte `at` of the staged ones on, with an automaton of one state and one plane, whose matches are
// of one byte each: a tile has nothing to do with the next one.
template <u32 code_bits>
__device__ __forceinline__ void run_tile_alone(const u32* table, const u32* staged, u32 at, u32 count, TileBits found) {
  for (; count >= GROUP; count -= GROUP, at += code_bits)
    run_group_alone<code_bits, true>(table, staged, at, GROUP, found);
  run_group_alone<code_bits, false>(table, staged, at, count, found);
  found.store();
}

// alone: see `run_tile_alone`.
template <u32 bits, bool alone>
__device__ __forceinline__ void search_bundles(const SegmentView& s, const Lookup& lookup, u64 first_tile, u32 run_on,
                                               u32* words, u32* codes_at, u32 codes_capacity, u32 bundles, u32* out,
                                               u64 plane_words, u64 seen) {
  const u32 lane = lane_id();
  const u64 chars = s.chars, tiles = (chars + TILE - 1) / TILE;
  if (first_tile >= tiles) return;
  const u64 block = first_tile / TILE_BLOCK;
  BlockLengths lengths;
  lengths.load(s, block, tiles);
  const u64 codes = s.codes, codes_nbytes = s.codes_nbytes;
  const u64 block_start = __ldg(reinterpret_cast<const u64*>(s.block_starts) + block);
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
                  min(stop + 2 * run_on + 16, codes_nbytes));
      // The next ones are needed soon.
      if (stop + 128 * lane < codes_nbytes && lane < codes_capacity / 128) prefetch(codes + stop + 128 * lane);
      __syncwarp();
      if (fits) {
        u32 at = u32(start - origin), size = length, entry = 0;
        bool raw = length == n;
        u32 count = raw ? size : 8 * size / bits;
        if constexpr (alone) {
          const u32* const table = reinterpret_cast<const u32*>(lookup.entries);
          if (raw)
            run_tile_alone<8>(table, codes_at, at, count, TileBits(words, lane));
          else
            run_tile_alone<bits>(table, codes_at, at, count, TileBits(words, lane));
        }
        BundleBits to = {words, lane * TILE};
        const u32 limit = (lane + 1) * TILE + run_on;
#pragma unroll 1
        for (u32 part = 0; !alone && part < 2; ++part) {
          entry = raw ? run_codes<8, bits>(lookup, codes_at, at, count, entry, part == 1, limit, to)
                      : run_codes<bits, bits>(lookup, codes_at, at, count, entry, part == 1, limit, to);
          // On into the next tile. Damaged codes may have no bytes, so they are counted, too.
          at += size;
          raw = next_length == next_n;
          count = (entry & STATE) != 0 ? min(raw ? next_length : 8 * next_length / bits, run_on) : 0;
          to.at = (lane + 1) * TILE;
        }
      }
      open &= ~batch;
      __syncwarp();
    }

    bool found = false;
#pragma unroll 1
    for (u32 plane = 0; plane < lookup.planes; ++plane)
      found = write_bits(words + plane * WARP_WORDS, out + plane * plane_words + first_tile * TILE_WORDS,
                         first_tile + 32 < tiles);
    if (seen != 0 && found) *reinterpret_cast<u32*>(seen) = 1;
    __syncwarp();
  }
}

// staged: the entries of the automaton fit shared memory. alone: so do its ends, see `run_tile_alone`.
template <bool staged, bool alone>
__device__ __forceinline__ void search_onpair(const SegmentView* __restrict__ segments,
                                              const SearchView* __restrict__ views, const u32* __restrict__ first_units,
                                              u32 segment_count, u64 automata, u32 states, u32 run_on,
                                              u32 codes_capacity, u32 bundles, u64 to, u64 plane_words, u64 seen,
                                              u32 planes, u32 staged_nbytes, u64 automaton_nbytes) {
  DYNAMIC_SHARED(u32, shared);
  const u32 k = find_unit(first_units, segment_count, blockIdx.x);
  const SegmentView& s = segments[k];
  const SearchView& view = views[k];
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  const u32 bits = __ldg(&reinterpret_cast<const OnpairTable*>(s.table)->bits), all = states << bits;
  const u8* stored = reinterpret_cast<const u8*>(automata + view.automaton * automaton_nbytes);
  Lookup lookup = {stored, stored + 2 * all, 2 * all, planes};
  if constexpr (alone) {
    const u16* const entries = reinterpret_cast<const u16*>(stored);
    for (u32 i = threadIdx.x; i < all; i += blockDim.x) shared[i] = (entries[i] & LENGTH) | u32(entries[all + i]) << 16;
    lookup.entries = reinterpret_cast<const u8*>(shared);
  } else if constexpr (staged) {
    const bool with_ends = 2 * (1 + planes) * all <= staged_nbytes;
    const u32 nbytes = 2 * (with_ends ? 1 + planes : 1) * all;
    for (u32 i = threadIdx.x; i < nbytes / 16; i += blockDim.x)
      copy_16_async(reinterpret_cast<uint4*>(shared) + i, reinterpret_cast<const uint4*>(stored) + i);
    lookup.entries = reinterpret_cast<const u8*>(shared);
    if (with_ends) lookup.ends = lookup.entries + 2 * all;
  }
  u32* words = shared + staged_nbytes / 4 + warp * (planes * WARP_WORDS + (codes_capacity + SEARCH_SPARE_NBYTES) / 4);
  for (u32 i = lane; i < planes * WARP_WORDS; i += 32) words[i] = 0;
  wait_for_copies();
  __syncthreads();
  const u64 first_tile = (u64(blockIdx.x - first_units[k]) * blockDim.x + 32 * warp) * bundles;
  u32* const out = reinterpret_cast<u32*>(to) + view.first_word;
  u32* const codes_at = words + planes * WARP_WORDS;
#define SEARCH_BUNDLES(bits)                                                                                \
  search_bundles<bits, alone>(s, lookup, first_tile, run_on, words, codes_at, codes_capacity, bundles, out, \
                              plane_words, seen)
  if (bits == 10)
    SEARCH_BUNDLES(10);
  else if (bits == 11)
    SEARCH_BUNDLES(11);
  else if (bits == 12)
    SEARCH_BUNDLES(12);
}

// block: a multiple of 32 threads, `bundles` (1, 2 or 4) bundles a warp, of one block of tiles. grid: as fsst_search's, and so are the
// arguments up to `seen`. planes: 1 or 2; staged_nbytes: shared memory for the automaton, 0 for onpair_search_large, which has none there;
// automaton_nbytes: from one automaton to the next. shared memory: staged_nbytes, then a warp 4 * planes * WARP_WORDS + codes_capacity +
// SEARCH_SPARE_NBYTES. codes_capacity >= TILE + 16, a multiple of 16.
#define ONPAIR_SEARCH(name, staged, alone)                                                                           \
  extern "C" __global__ void __launch_bounds__(MOST_THREADS, 1)                                                      \
      name(const SegmentView* segments, const SearchView* views, const u32* first_units, u32 segment_count,          \
           u64 automata, u32 states, u32 run_on, u32 codes_capacity, u32 bundles, u64 to, u64 plane_words, u64 seen, \
           u32 planes, u32 staged_nbytes, u64 automaton_nbytes) {                                                    \
    search_onpair<staged, alone>(segments, views, first_units, segment_count, automata, states, run_on,              \
                                 codes_capacity, bundles, to, plane_words, seen, planes, staged_nbytes,              \
                                 automaton_nbytes);                                                                  \
  }
ONPAIR_SEARCH(onpair_search, true, false)
ONPAIR_SEARCH(onpair_search_alone, true, true)
ONPAIR_SEARCH(onpair_search_large, false, false)
