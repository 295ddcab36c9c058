// gpuLZ (Zhang et al., ICS 2023): LZSS on symbols of 1, 2, 4 or 8 bytes, chunk by chunk (docs/format.md, section 13).
//
// gpulz_encode    A chunk is searched by one warp, or several where it has more than 32 * SEARCH_WORDS symbols; then its matches are
//                 chosen in order, and literals, lengths, offsets and flags are written to the chunk's slot of the workspace. (I)
// gpulz_scan      Sums of the chunks' sizes, by blocks of CHUNK_BLOCK chunks, become starts. (II)
// gpulz_compact   Copies the slots to their places. (III)
// gpulz_decode    A warp decodes a chunk.
//
// Search: lane l of a warp has symbols 32 * k + l, k = 0 ... SEARCH_WORDS - 1. For an offset d one ballot says which of 32 symbols
// equal the one d before them; a lane's match is as long as the ones that follow from its bit on, which are found with an
// addition. So 32 symbols and an offset cost some ten instructions, whatever the lengths, and nothing is shared. A length above 32
// (WINDOW > 32 only) counts as 32 at first; it is found exactly for matches that are chosen.
// Choice: from each of 32 positions, which others a walk that starts there visits (5 doublings by shuffles); so the choice in
// order takes two shuffles for each 32 symbols.
//
// Decode: a position's source is `offset` before it, so the offset is spread over the positions of its match, in place of the values
// to come. Then words of 32 positions in order: sources in the same word are followed by pointer doubling in shuffles
// (at most 5), all others are there already.
//
// Bound: instructions, on sm_90 with S = 4, W = 32: 10 for 32 symbols and an offset that has a match among them, else 4. On an H200, 268 MB
// of l_orderkey as int32: the call 297 GB/s, decoding 680 to 730, whatever the warps of a block. Two that lost (docs/kernels.md has the
// others): groups of 4 instead of 8 words 248, a warp for 8 instead of 16 words 225.
#include "common.cuh"

#define SYMBOLS (CHUNK / SYMBOL)
#define MIN_LENGTH (SYMBOL <= 2 ? 2 : 1)

template <u32 size>
struct Unsigned;
template <>
struct Unsigned<1> {
  typedef u8 type;
};
template <>
struct Unsigned<2> {
  typedef u16 type;
};
template <>
struct Unsigned<4> {
  typedef u32 type;
};
template <>
struct Unsigned<8> {
  typedef u64 type;
};
typedef Unsigned<SYMBOL>::type Symbol;

// What `counts` says of a chunk.
struct Chunk {
  u32 nbytes;  // of its values
  u32 tokens, matches;
  u32 size;  // of its codes
  bool raw;

  __device__ __forceinline__ Chunk(u64 values_nbytes, u64 chunk, u32 count) {
    nbytes = u32(min(values_nbytes - chunk * CHUNK, u64(CHUNK)));
    tokens = count & 0xffff;
    matches = count >> 16;
    raw = tokens == 0;
    size = (raw ? nbytes : SYMBOL * (tokens - matches) + 2 * matches + (tokens + 7) / 8) + 3 & ~3u;
  }
};

__device__ __forceinline__ u32 lanes_below() { return (1u << lane_id()) - 1; }

// Copies `nbytes` bytes between memory and shared memory (16-byte aligned), by the widest words that `address` is aligned to.
// thread of `threads`. `to_shared`: the direction.
template <bool to_shared>
__device__ __forceinline__ void copy_chunk(u8* shared, u64 address, u32 nbytes, u32 thread, u32 threads) {
  u32 done = 0;
  if (address % 16 == 0) {
    uint4* memory = reinterpret_cast<uint4*>(address);
    uint4* here = reinterpret_cast<uint4*>(shared);
#pragma unroll 4
    for (u32 i = thread; i < nbytes / 16; i += threads) {
      if (to_shared)
        here[i] = memory[i];
      else
        memory[i] = here[i];
    }
    done = nbytes & ~15u;
  } else if (address % 4 == 0) {
    u32* memory = reinterpret_cast<u32*>(address);
    u32* here = reinterpret_cast<u32*>(shared);
#pragma unroll 8
    for (u32 i = thread; i < nbytes / 4; i += threads) {
      if (to_shared)
        here[i] = memory[i];
      else
        memory[i] = here[i];
    }
    done = nbytes & ~3u;
  }
  u8* memory = reinterpret_cast<u8*>(address);
#pragma unroll 4
  for (u32 i = done + thread; i < nbytes; i += threads) {
    if (to_shared)
      shared[i] = memory[i];
    else
      memory[i] = shared[i];
  }
}

#ifdef WINDOW

#define WORDS SEARCH_WORDS
#define WARPS (SYMBOLS / 32 / WORDS)  // that a chunk has
#define CHUNKS (WARPS == 1 ? ENCODE_CHUNKS : 1)
#define ENCODE_THREADS (32 * WARPS * CHUNKS)
#define MANY_REGISTERS (WARPS <= 16)  // a thread may have more than 64
#define WINDOW_NBYTES ((WINDOW * SYMBOL + 15) / 16 * 16)
static_assert(WORDS % GROUP == 0 && WORDS * WARPS * 32 == SYMBOLS, "a warp has whole groups of words");

struct State {
  u32 at;  // the symbol that the next token starts with
  u32 tokens, matches;
  u32 unused;
};

__device__ __forceinline__ void sync_chunk() {
  if (WARPS == 1)
    __syncwarp();
  else
    __syncthreads();
}

// best[k] = length << 8 | 255 - offset of the longest match for the lane's symbol of word k, the nearest of these; a length above 32
// reads as 32. `mine`: the lane's symbol of word 0, symbol `first + lane` of its chunk, which has `count`.
template <bool whole>
__device__ __forceinline__ void find_matches(const Symbol* mine, u32 first, u32 count, bool last_warp, u32* best) {
  const u32 lane = lane_id();
  Symbol symbol[WORDS];
#pragma unroll
  for (u32 k = 0; k < WORDS; ++k) {
    if (MANY_REGISTERS) symbol[k] = mine[32 * k];
    best[k] = 0;
  }
  const u32 from_start = first == 0 ? ~0u : 0;
#pragma unroll 1
  for (u32 offset = 1; offset <= WINDOW; ++offset) {
    const Symbol* other = mine - offset;
    const Symbol* again = mine + keep_in_register(0);        // or the compiler would keep them after all
    const u32 cap = offset < 32 ? (1u << offset) - 1 : ~0u;  // no longer than the offset
    u32 next = 0;
    if (WARPS > 1 && !last_warp)
      next = __ballot_sync(ALL_LANES,
                           mine[32 * WORDS] == other[32 * WORDS] && (whole || first + 32 * WORDS + lane < count));
#pragma unroll
    for (int group = WORDS - GROUP; group >= 0; group -= GROUP) {
      u32 equal[GROUP], any = 0;
#pragma unroll
      for (u32 g = 0; g < GROUP; ++g) {
        const u32 k = group + g;
        const Symbol own = MANY_REGISTERS ? symbol[k] : again[32 * k];
        equal[g] = __ballot_sync(ALL_LANES, own == other[32 * k] && (whole || first + 32 * k + lane < count));
        if (32 * k < WINDOW && offset > 32 * k) {  // some of the chunk's first symbols have none so far before them
          const u32 none = offset - 32 * k;
          equal[g] &= ~from_start | (none < 32 ? ~0u << none : 0);
        }
        any |= equal[g];
      }
      if (any == 0) {
        next = 0;
        continue;
      }
#pragma unroll
      for (int g = GROUP - 1; g >= 0; --g) {
        const u32 ahead = __funnelshift_r(equal[g], next, lane);
        const u32 run = __popc(ahead & ~(ahead + 1) & cap);
        best[group + g] = max(best[group + g], run * 256 + (255 - offset));
        next = equal[g];
      }
    }
  }
}

// The best match of symbol `at`, whose best so far is `best`, with lengths above 32.
__device__ __forceinline__ u32 search_long(const Symbol* chunk, u32 at, u32 count, u32 best) {
  for (u32 base = 33; base <= min(u32(WINDOW), at); base += 32) {
    const u32 offset = base + lane_id();
    if (offset > WINDOW || offset > at) continue;
    const u32 most = min(offset, count - at);
    u32 length = 0;
    while (length < most && chunk[at + length] == chunk[at + length - offset]) ++length;
    best = max(best, length << 8 | 255 - offset);
  }
  for (u32 delta = 16; delta > 0; delta /= 2) best = max(best, __shfl_xor_sync(ALL_LANES, best, delta));
  return best;
}

__device__ __forceinline__ bool is_match(u32 best) { return best >> 8 >= MIN_LENGTH; }

// Bit j: a walk from the lane's symbol visits symbol j of the same word.
__device__ __forceinline__ u32 visited(u32 best) {
  const u32 lane = lane_id();
  u32 visits = 1u << lane, next = lane + (is_match(best) ? best >> 8 : 1);
#pragma unroll
  for (u32 step = 1; step < 32; step *= 2) {
    const u32 visits_there = __shfl_sync(ALL_LANES, visits, next & 31);
    const u32 next_there = __shfl_sync(ALL_LANES, next, next & 31);
    if (next < 32) visits |= visits_there, next = next_there;
  }
  return visits;
}

// grid: covers the chunks, CHUNKS a block; block: WARPS * CHUNKS warps; shared memory: see launch.encode_shape.
// `slots`: CHUNK bytes for each chunk; sums[b] += bytes of the codes of the chunks of block b.
extern "C" __global__ void __launch_bounds__(ENCODE_THREADS, ENCODE_THREADS < 800 ? 800 / ENCODE_THREADS : 1)
    gpulz_encode(const u8* values, u64 values_nbytes, u8* slots, u32* counts, u32* sums) {
  DYNAMIC_SHARED(u8, shared_memory);
  const u32 lane = lane_id(), in_block = threadIdx.x / (32 * WARPS);
  const u32 thread = threadIdx.x % (32 * WARPS), warp = thread / 32;
  const u64 chunk = blockIdx.x * u64(CHUNKS) + in_block;
  if (chunk * CHUNK >= values_nbytes) return;
  const u32 nbytes = u32(min(values_nbytes - chunk * CHUNK, u64(CHUNK))), count = (nbytes + SYMBOL - 1) / SYMBOL;
  u8* shared = shared_memory + in_block * (WINDOW_NBYTES + CHUNK + SYMBOLS + 16) + WINDOW_NBYTES;
  const Symbol* symbols = reinterpret_cast<const Symbol*>(shared);
  u8* matched = shared + CHUNK;  // of each token
  State* state = reinterpret_cast<State*>(matched + SYMBOLS);

  copy_chunk<true>(shared, reinterpret_cast<u64>(values) + chunk * CHUNK, nbytes, thread, 32 * WARPS);
  for (u32 i = nbytes + thread; i < CHUNK; i += 32 * WARPS) shared[i] = 0;
  if (thread == 0) *state = {0, 0, 0, 0};
  sync_chunk();

  const u32 first = 32 * WORDS * warp;
  const Symbol* mine = symbols + first + lane;
  u32 best[WORDS], visits[WORDS];
  if (count == SYMBOLS)
    find_matches<true>(mine, first, count, warp == WARPS - 1, best);
  else
    find_matches<false>(mine, first, count, warp == WARPS - 1, best);
#pragma unroll
  for (u32 k = 0; k < WORDS; ++k) visits[k] = MANY_REGISTERS ? visited(best[k]) : 0;

  // The walk over the chunk, one warp after another. Lane k keeps `starts` of word k: a token starts at the symbols that are set.
  u32 starts_of_lane = 0;
  State now;
  u32 tokens = 0, matches = 0;  // before the warp
#pragma unroll 1
  for (u32 turn = 0; turn < WARPS; ++turn) {
    if (turn == warp) {
      now = *state;
      const u32 warp_begin = keep_in_register(first);  // or the compiler computes what follows from it before the loop
      tokens = now.tokens, matches = now.matches;
#pragma unroll
      for (u32 k = 0; k < WORDS; ++k) {
        const u32 begin = warp_begin + 32 * k, end = min(begin + 32, count);
        if (now.at >= end) continue;
        const u32 inside = end - begin < 32 ? (1u << (end - begin)) - 1 : ~0u;
        if (!MANY_REGISTERS) visits[k] = visited(best[k]);
        const u32 starts = __shfl_sync(ALL_LANES, visits[k], now.at - begin) & inside;
        if (lane == k) starts_of_lane = starts;
        const u32 last = 31 - __clz(starts);
        u32 last_best = __shfl_sync(ALL_LANES, best[k], last);
        if (WINDOW > 32 && last_best >> 8 == 32) {
          last_best = search_long(symbols, begin + last, count, last_best);
          if (lane == last) best[k] = last_best;
        }
        now.at = begin + last + (is_match(last_best) ? last_best >> 8 : 1);
        now.tokens += __popc(starts);
        now.matches += __popc(starts & __ballot_sync(ALL_LANES, is_match(best[k])));
      }
      __syncwarp();
      if (lane == 0) *state = now;
    }
    sync_chunk();
  }
  if (WARPS > 1) now = *state;

  const u32 literals = now.tokens - now.matches, lengths_at = SYMBOL * literals, offsets_at = lengths_at + now.matches;
  const u32 flags_at = offsets_at + now.matches, end = flags_at + (now.tokens + 7) / 8, size = end + 3 & ~3u;
  const u32 raw_size = nbytes + 3 & ~3u;
  const bool raw = size >= raw_size;
  if (thread == 0) {
    counts[chunk] = raw ? 0 : now.tokens | now.matches << 16;
    atomicAdd(&sums[chunk / CHUNK_BLOCK], raw ? raw_size : size);
  }
  u8* slot = slots + chunk * CHUNK;
  if (raw) {  // what follows the values in shared memory is zero
    copy_chunk<false>(shared, reinterpret_cast<u64>(slot), raw_size, thread, 32 * WARPS);
    return;
  }
#pragma unroll
  for (u32 k = 0; k < WORDS; ++k) {
    const u32 starts = __shfl_sync(ALL_LANES, starts_of_lane, k);
    const bool start = starts >> lane & 1, match = is_match(best[k]);
    const u32 all_matches = __ballot_sync(ALL_LANES, start && match);
    const u32 token = tokens + __popc(starts & lanes_below()), at = matches + __popc(all_matches & lanes_below());
    if (start) {
      matched[token] = match;
      if (match) {
        slot[lengths_at + at] = u8(best[k] >> 8);
        slot[offsets_at + at] = u8(255 - (best[k] & 255));
      } else {
        reinterpret_cast<Symbol*>(slot)[token - at] = mine[32 * k];
      }
    }
    tokens += __popc(starts);
    matches += __popc(all_matches);
  }
  sync_chunk();
  for (u32 base = 32 * warp; base < now.tokens; base += 32 * WARPS) {
    const u32 flags = __ballot_sync(ALL_LANES, base + lane < now.tokens && matched[base + lane] != 0);
    if (lane < 4 && base + 8 * lane < now.tokens) slot[flags_at + base / 8 + lane] = u8(flags >> 8 * lane);
  }
  if (thread < size - end) slot[end + thread] = 0;
}

#else

// sums of chunk blocks -> starts[b], where the codes of block b start, and starts[blocks], which is *total. grid: one block of 1024
// threads.
extern "C" __global__ void __launch_bounds__(1024) gpulz_scan(const u32* sums, u64 blocks, u64* starts, u64* total) {
  __shared__ u64 warp_sums[32];
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  u64 before = 0;
  for (u64 base = 0; base < blocks; base += 1024) {
    const u64 i = base + threadIdx.x;
    const u64 value = i < blocks ? sums[i] : 0;
    u64 inclusive = warp_inclusive_sum(value);
    if (lane == 31) warp_sums[warp] = inclusive;
    __syncthreads();
    if (warp == 0) warp_sums[lane] = warp_inclusive_sum(warp_sums[lane]);
    __syncthreads();
    if (warp > 0) inclusive += warp_sums[warp - 1];
    if (i < blocks) starts[i] = before + inclusive - value;
    before += warp_sums[31];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    starts[blocks] = before;
    *total = before;
  }
}

// grid: a thread block for each block of chunks; block: whole warps.
extern "C" __global__ void __launch_bounds__(256)
    gpulz_compact(const u8* slots, u64 values_nbytes, u64 chunks, const u64* starts, const u32* counts, u8* codes) {
  const u64 first = blockIdx.x * u64(CHUNK_BLOCK);
  const u32 lane = lane_id();
  const u64 chunk = first + lane;
  const u32 size = chunk < chunks ? Chunk(values_nbytes, chunk, counts[chunk]).size : 0;
  const u32 before = warp_inclusive_sum(size) - size;
  const u32 here = u32(min(chunks - first, u64(CHUNK_BLOCK)));
  u32* block_codes = reinterpret_cast<u32*>(codes + starts[blockIdx.x]);
  for (u32 c = threadIdx.x / 32; c < here; c += blockDim.x / 32) {
    const u32* from = reinterpret_cast<const u32*>(slots + (first + c) * CHUNK);
    u32* to = block_codes + __shfl_sync(ALL_LANES, before, c) / 4;
    const u32 words = __shfl_sync(ALL_LANES, size, c) / 4;
#pragma unroll 8
    for (u32 i = lane; i < words; i += 32) to[i] = __ldg(from + i);
  }
}

// What of a chunk's values is wanted to memory: bytes `begin` to `end` - 1 of all chunks' go to `values`; `spread` 2: every 8 bytes to the
// next 16.
__device__ __forceinline__ void store_chunk(u8* shared, u64 chunk, u32 nbytes, u64 begin, u64 end, u64 values,
                                            u32 spread) {
  const u64 first = chunk * CHUNK, to = values + (first - begin) * spread;
  const u32 lower = begin > first ? u32(begin - first) : 0, upper = u32(min(end - first, u64(nbytes)));
  if (spread == 2) {
    const u64* from = reinterpret_cast<const u64*>(shared);
    for (u32 i = lower / 8 + lane_id(); i < upper / 8; i += 32) reinterpret_cast<u64*>(to)[2 * i] = from[i];
  } else if (lower == 0) {
    copy_chunk<false>(shared, to, upper, lane_id(), 32);
  } else {
    for (u32 i = lower + lane_id(); i < upper; i += 32) reinterpret_cast<u8*>(to)[i] = shared[i];
  }
}

// Bytes `begin` to `end` - 1 of the values, or, of these, the chunks that are touched: a byte for each from the first on, nullptr: all.
// A warp a chunk. block: DECODE_WARPS warps; shared memory: 2 * CHUNK bytes a warp. A damaged chunk that would lead elsewhere is left out.
extern "C" __global__ void __launch_bounds__(32 * DECODE_WARPS, 48 / DECODE_WARPS)
    gpulz_decode(const u8* codes, u64 codes_nbytes, const u64* starts, const u32* counts, u64 chunks, u64 values_nbytes,
                 const u8* touched, u64 begin, u64 end, u64 values, u32 spread) {
  DYNAMIC_SHARED(u8, shared_memory);
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  const u64 unit = blockIdx.x * u64(DECODE_WARPS) + warp, chunk = begin / CHUNK + unit;
  if (chunk * CHUNK >= end || (touched != nullptr && touched[unit] == 0)) return;
  u8* staged = shared_memory + warp * (2 * CHUNK);
  Symbol* out = reinterpret_cast<Symbol*>(staged + CHUNK);

  const u64 first = chunk / CHUNK_BLOCK * CHUNK_BLOCK;
  const u64 of_lane = min(first + lane, chunks - 1);
  const u32 count_of_lane = counts[of_lane];
  u32 before = of_lane < chunk ? Chunk(values_nbytes, of_lane, count_of_lane).size : 0;
  for (u32 delta = 16; delta > 0; delta /= 2) before += __shfl_xor_sync(ALL_LANES, before, delta);
  const Chunk mine(values_nbytes, chunk, __shfl_sync(ALL_LANES, count_of_lane, u32(chunk - first)));
  const u64 start = starts[chunk / CHUNK_BLOCK];
  const u64 at = start + before;
  if (start > codes_nbytes || at % 4 != 0 || at > codes_nbytes || mine.size > codes_nbytes - at) return;
  if (mine.size > CHUNK || mine.matches > mine.tokens) return;

  copy_chunk<true>(staged, reinterpret_cast<u64>(codes) + at, mine.size, lane, 32);
  __syncwarp();
  if (mine.raw) {
    store_chunk(staged, chunk, mine.nbytes, begin, end, values, spread);
    return;
  }

  // Offsets of all positions, 0 for a literal.
  const u32 count = (mine.nbytes + SYMBOL - 1) / SYMBOL, literals = mine.tokens - mine.matches;
  const u8* lengths = staged + SYMBOL * literals;
  const u8* offsets = lengths + mine.matches;
  const u8* flags = offsets + mine.matches;
  u32 position = 0, matches = 0;
  for (u32 base = 0; base < mine.tokens; base += 32) {
    const u32 token = base + lane;
    const bool live = token < mine.tokens, match = live && (flags[token / 8] >> (token % 8) & 1);
    const u32 all_matches = __ballot_sync(ALL_LANES, match), which = matches + __popc(all_matches & lanes_below());
    u32 length = live, offset = 0;
    if (match && which < mine.matches) length = lengths[which], offset = offsets[which];
    const u32 inclusive = warp_inclusive_sum(length), begin = position + inclusive - length;
    const u32 end = min(begin + length, count);
    for (u32 i = begin; i < end; ++i) out[i] = Symbol(offset);
    position += __shfl_sync(ALL_LANES, inclusive, 31);
    matches += __popc(all_matches);
  }
  __syncwarp();

  u32 used = 0;  // literals
  for (u32 begin = 0; begin < count; begin += 32) {
    const u32 i = begin + lane;
    const u32 offset = i < count ? u32(out[i]) : 1;
    const u32 all_literals = __ballot_sync(ALL_LANES, offset == 0);
    const bool in_word = offset != 0 && offset <= lane;
    u32 source = in_word ? lane - offset : lane;
    while (true) {
      const u32 further = __shfl_sync(ALL_LANES, source, source);
      const bool moved = further != source;
      source = further;
      if (!__any_sync(ALL_LANES, moved)) break;
    }
    Symbol value = 0;
    if (offset == 0) {
      const u32 literal = used + __popc(all_literals & lanes_below());
      if (literal < literals) {
        if (SYMBOL == 8) {
          const uint2 both = reinterpret_cast<const uint2*>(staged)[literal];
          value = Symbol(u64(both.y) << 16 << 16 | both.x);
        } else {
          value = reinterpret_cast<const Symbol*>(staged)[literal];
        }
      }
    } else if (!in_word && offset <= i && i < count) {
      value = out[i - offset];
    }
    value = Symbol(__shfl_sync(ALL_LANES, value, source));
    __syncwarp();
    if (i < count) out[i] = value;
    used += __popc(all_literals);
    __syncwarp();
  }
  store_chunk(reinterpret_cast<u8*>(out), chunk, mine.nbytes, begin, end, values, spread);
}

#endif
