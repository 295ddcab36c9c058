// FSST training: the sample of every table's scope -> its symbol table, lookup tables of the encoder included (stage 1).
//
// One thread block a scope. It does what cudf_fsst/codecs/fsst/train.py does, which is the definition, with the same result: a
// table depends on sums and on a total order only, never on the order in which things are found. A generation:
//
//   match    every position of the chunks taken: the symbol the encoder would find there, all positions at once
//   walk     a lane a chunk hops from match to match and packs those it touches, the tokens, to the front of the chunk's row
//   count    tokens, and pairs of neighbours, with atomics in shared memory; pairs that find no room there in the L2
//   list     the pairs seen often enough, with their counts, whose place the candidates take then
//   offer    these pairs, and tokens seen often enough, go to a hash table that sums the gains of equal symbols: the candidates
//   slots    of candidates that share a slot of the encoder's hash table the best stays
//   select   of these the best 255, digit by digit
//
// Whose place in the table a symbol has does not matter until the end, so only the last generation sorts.
//
// A candidate is named by how it was found, `first << 9 | second` (two codes that met) or `ALONE << 9 | code`, and its bytes are
// put together from the current symbols when they are needed: that fits 32 bits with a fingerprint, so one atomic operation
// claims a place of the hash table; a symbol and its length have more than 64.
//
// Measured on one H200: 203 us for a sample of text comments, with 1 and with 8 scopes alike; 356 for noise, 334 for hex digits, 116
// for zeros. Of the comments' time matching takes 25 %, counting 19, walking 16, writing the tables 9, selecting 7.
//
// What was tried:
// - training on threads of the CPU: 1.2 ms a table, half of compress().
// - all pairs counted in the L2, the atomic operations of two tokens under way together, and one position matched at a time; no
//   times were kept. Now most pairs find room in shared memory, and four positions share their loads.
#include "fsst_train.cuh"

#define CODES 512  // 0 to 255 are escaped bytes, 256 and up symbols
#define ALONE 511
#define CODE_BITS 9  // a match is code | length << 9
#define MAX_SYMBOLS 255
#define EMPTY_META (40u | 255u << 8)  // three bytes, escape
#define SHORT_SLOTS 1024              // of the hash table of two-byte symbols
#define CANDIDATE_SLOTS 8192          // there are fewer candidates: tests/test_fsst_train_emulated.py counts
// Entries that a chunk has in `matches`: 261 words, so that lanes at one place of their chunks hit different banks.
#define ROW (SAMPLE_CHUNK + 10)
#define WALKERS_APART 4  // 8 walking lanes a warp, for the banks too

// In shared memory. Some places have several uses in a generation (its phases: above; `set` is before them). Blank: not in use; 0:
// cleared for a phase that follows.
//
//                       | set    | match   | walk   | count  | list     | offer  | slots              | select
// hash_*, short_symbols | lookup | lookup  |        |        | pairs    | pairs  | best of every slot |
// counts                |        |         | 0      | tokens | tokens   | tokens |                    |
// above                 |        |         | 0      |        |          |        |                    | candidates, a digit's
// bin, in_bin           |        |         |        |        |          |        |                    | a digit's
// histogram             |        |         |        |        |          |        |                    | a digit's
// best_*                | now    |         |        |        |          |        |                    | next
//                       and what lies behind this struct or in global memory:
// rows of matches       |        | matches | tokens | tokens | tokens   | tokens | candidates' places | candidates' places
// behind these rows     |        |         |        |        | times    | times  |                    |
// Candidates            |        |         | 0      | pairs  | pairs, 0 | gains  | gains, then keys   | keys
//
// (Candidates in global memory: pairs are counted in pair_counts alone.) After the last generation hash_* and short_symbols are the
// lookup with the codes that are stored, and histogram has the groups of code_of.
struct Training {
  u64 sample[SAMPLE_CHUNKS * SAMPLE_CHUNK / 8 + 1];  // chunks, and what is read behind the last
  // As the lookup; meta is 64 - 8 * length | code << 8.
  u64 hash_symbols[HASH_SLOTS];
  u32 hash_meta[HASH_SLOTS];
  u32 short_symbols[SHORT_SLOTS];  // symbol | (code + 1) << 16, 0: empty
  u64 symbols[CODES];
  u64 best_symbols[MAX_SYMBOLS + 1];
  u32 best_keys[MAX_SYMBOLS + 1];
  u32 counts[CODES];
  u32 histogram[256];
  u64 chunk_starts[SAMPLE_CHUNKS];  // addresses
  u64 start, stop;                  // of the scope, in the call's characters
  u32 frequent, count, best, bin, above, in_bin, taken;
  u16 byte_codes[256];
  u16 tokens[SAMPLE_CHUNKS];
  u8 lengths[CODES];
  u8 chunks[SAMPLE_CHUNKS];  // those that the generation takes
};
static_assert(sizeof(Training) <= TRAIN_TABLES_NBYTES, "TRAIN_TABLES_NBYTES");
static_assert(2 * (ROW * SAMPLE_CHUNKS + CANDIDATE_SLOTS) == TRAIN_MATCHES_NBYTES, "TRAIN_MATCHES_NBYTES");
static_assert(8 * CANDIDATE_SLOTS == TRAIN_CANDIDATES_NBYTES, "TRAIN_CANDIDATES_NBYTES");
static_assert(SAMPLE_CHUNK * SAMPLE_CHUNKS <= 32 * TRAIN_THREADS, "a thread keeps a bit for every token it counts");

struct Symbol {
  u64 bytes;
  u32 length;
};

__device__ __forceinline__ u32 slot_of(u64 window) {
  return ((u32(window) & 0xffffff) * HASH_MULTIPLIER) >> HASH_SHIFT;
}

__device__ __forceinline__ u32 short_slot_of(u32 symbol) { return (symbol * 0x9E3779B1u) >> 22; }

// Takes `count` consecutive numbers of `counter`, one atomic operation a warp; returns the first.
__device__ __forceinline__ u32 take_places(u32* counter, u32 count) {
  const u32 inclusive = warp_inclusive_sum(count);
  u32 first = 0;
  if (lane_id() == 31 && inclusive > 0) first = atomicAdd(counter, inclusive);
  return __shfl_sync(ALL_LANES, first, 31) + inclusive - count;
}

// Copies the sample of the characters at addresses `begin` to `end` to shared memory. By all threads.
__device__ __forceinline__ void stage_sample(Training* t, u64 begin, u64 end) {
  constexpr u32 batch = 4, chunk_words = SAMPLE_CHUNK / 4;
  const u64 chars = end - begin;
  const u32 words = u32(min((chars + 3) / 4, u64(SAMPLE_CHUNKS * chunk_words)));
  if (threadIdx.x < SAMPLE_CHUNKS)
    t->chunk_starts[threadIdx.x] = begin + chunk_start(threadIdx.x, chars, SAMPLE_CHUNKS, 0);
  __syncthreads();
  auto source = [&](u32 i) { return t->chunk_starts[i / chunk_words] + 4 * (i % chunk_words); };
  auto inside = [&](u64 aligned) { return aligned >= begin && aligned + 8 <= end; };
#pragma unroll 1
  for (u32 first = threadIdx.x; first < words; first += batch * TRAIN_THREADS) {
    u32 low[batch], high[batch];  // all loads under way before the first is used
#pragma unroll
    for (u32 k = 0; k < batch; ++k) {
      const u32 i = min(first + k * TRAIN_THREADS, words - 1);
      const u64 aligned = source(i) & ~3ull;
      low[k] = inside(aligned) ? __ldg(reinterpret_cast<const u32*>(aligned)) : 0;
      high[k] = inside(aligned) ? __ldg(reinterpret_cast<const u32*>(aligned) + 1) : 0;
    }
#pragma unroll
    for (u32 k = 0; k < batch; ++k) {
      const u32 i = min(first + k * TRAIN_THREADS, words - 1);
      const u64 aligned = source(i) & ~3ull;
      if (!inside(aligned)) {
        low[k] = load_word(aligned, begin, end);
        high[k] = load_word(aligned + 4, begin, end);
      }
      if (first + k * TRAIN_THREADS < words)
        reinterpret_cast<u32*>(t->sample)[i] = __funnelshift_r(low[k], high[k], 8 * u32(source(i) & 3));
    }
  }
}

// The lookup tables of no symbols.
__device__ __forceinline__ void clear_lookup(Training* t, bool training) {
  for (u32 i = threadIdx.x; i < HASH_SLOTS; i += TRAIN_THREADS) {
    t->hash_symbols[i] = i == 0;
    t->hash_meta[i] = EMPTY_META;
  }
  for (u32 i = threadIdx.x; i < SHORT_SLOTS; i += TRAIN_THREADS) t->short_symbols[i] = 0;
  if (threadIdx.x < 256) t->byte_codes[threadIdx.x] = training ? threadIdx.x : 255;
}

// Adds a symbol to them; the trained symbols of three or more bytes have different slots.
__device__ __forceinline__ void add_to_lookup(Training* t, Symbol symbol, u32 code) {
  if (symbol.length == 1) {
    t->byte_codes[symbol.bytes] = u16(code);
  } else if (symbol.length == 2) {
    u32 slot = short_slot_of(u32(symbol.bytes));
    const u32 entry = u32(symbol.bytes) | (code + 1) << 16;
    while (atomicCAS(&t->short_symbols[slot], 0, entry) != 0) slot = (slot + 1) % SHORT_SLOTS;
  } else {
    const u32 slot = slot_of(symbol.bytes);
    t->hash_symbols[slot] = symbol.bytes;
    t->hash_meta[slot] = (64 - 8 * symbol.length) | code << 8;
  }
}

// The symbol that the encoder finds where the next eight bytes are `lo`, `hi` and the chunk has `left`.
__device__ __forceinline__ u32 match_of(const Training* t, u32 lo, u32 hi, u32 left) {
  const u32 slot = slot_of(lo);
  const u32 meta = t->hash_meta[slot], unused = meta & 255, length = 8 - unused / 8;
  if (length <= left && ((u64(hi) << 32 | lo) ^ t->hash_symbols[slot]) << unused == 0)
    return meta >> 8 | length << CODE_BITS;
  if (left >= 2) {
    u32 place = short_slot_of(lo & 0xffff), entry;
    while ((entry = t->short_symbols[place]) != 0) {
      if ((entry & 0xffff) == (lo & 0xffff)) return ((entry >> 16) - 1) | 2u << CODE_BITS;
      place = (place + 1) % SHORT_SLOTS;
    }
  }
  return t->byte_codes[lo & 255] | 1u << CODE_BITS;
}

// Packs the tokens of a chunk of `nbytes` to the front of its row of matches; returns their number. A hop costs what a load from
// shared memory takes, so the next is under way, maybe behind the chunk's end, before it is known whether it is needed.
__device__ __forceinline__ u32 walk(u16* row, u32 nbytes) {
  u32 tokens = 0, at = 0, match = row[0];
  while (true) {
    at += match >> CODE_BITS;
    const u32 next = row[at];
    row[tokens++] = u16(match);
    if (at >= nbytes) return tokens;
    match = next;
  }
}

// The symbol of a candidate, see above.
__device__ __forceinline__ Symbol symbol_of(const Training* t, u32 name) {
  const u32 first = name >> 9 & 511, second = name & 511;
  Symbol symbol = {t->symbols[second], t->lengths[second]};
  if (first != ALONE) {
    const u32 length = t->lengths[first];  // less than 8
    symbol.bytes = symbol.bytes << (8 * length) | t->symbols[first];
    symbol.length = min(8u, symbol.length + length);
  }
  return symbol;
}

// The hash table of candidates. An entry is fingerprint << 19 | name << 1 | 1, 0: empty.
struct Candidates {
  u32 entries[CANDIDATE_SLOTS];
  u32 gains[CANDIDATE_SLOTS];  // while selecting: keys
};

__device__ __forceinline__ void clear_candidates(Candidates* candidates, u32 thread, u32 threads) {
  uint4* words = reinterpret_cast<uint4*>(candidates);
  for (u32 i = thread; i < sizeof(Candidates) / 16; i += threads) words[i] = make_uint4(0, 0, 0, 0);
}

__device__ __forceinline__ void offer(const Training* t, Candidates* candidates, u32 name, u32 times) {
  const Symbol symbol = symbol_of(t, name);
  const u64 hash = (symbol.bytes ^ u64(symbol.length) << 59) * 0x9E3779B97F4A7C15ull;
  const u32 entry = u32(hash >> 38) << 19 | name << 1 | 1;
  u32 slot = u32(hash >> 51);
  for (;; slot = (slot + 1) % CANDIDATE_SLOTS) {
    const u32 there = atomicCAS(&candidates->entries[slot], 0, entry);
    if (there == 0) break;
    if ((there ^ entry) >> 19 != 0) continue;
    const Symbol other = symbol_of(t, there >> 1);
    if (other.bytes == symbol.bytes && other.length == symbol.length) break;
  }
  atomicAdd(&candidates->gains[slot], times * symbol.length);
}

// Counts of pairs while the tokens are counted. In the memory of the candidates, which come later, where that is shared memory:
// buckets of four entries `tag << 16 | count`. Bucket and tag together are the scrambled name of the pair, so no entry needs more.
// A pair that finds its bucket full, and every pair where the candidates lie in global memory, is counted there, in the L2. Which
// pairs these are depends on the order; but entries stay, so all of a pair is counted in one place.
struct PairCounts {
  u32* buckets;
  u32* overflow;  // two counts a word

  static __device__ __forceinline__ u32 scramble(u32 pair) { return pair * 0x9E3779B1u & (CODES * CODES - 1); }

  // Adds one; true if that made the pair frequent. Sets `bit` in `global` if the pair is the first time in global memory.
  __device__ __forceinline__ bool add(u32 pair, u32 threshold, u32 bit, u32* global) const {
    if (TRAIN_CANDIDATES_IN_SHARED) {
      const u32 scrambled = scramble(pair), tag = scrambled % 64 + 1;
      u32* bucket = buckets + scrambled / 64 * 4;
      for (u32 i = 0; i < 4; ++i) {
        u32 there = bucket[i];
        if (there == 0) there = atomicCAS(bucket + i, 0, tag << 16 | 1);
        if (there == 0) return threshold == 1;
        if (there >> 16 == tag) return (atomicAdd(bucket + i, 1) & 0xffff) + 1 == threshold;
      }
    }
    const u32 shift = 16 * (pair & 1);
    const u32 before = atomicAdd(overflow + pair / 2, 1u << shift) >> shift & 0xffff;
    if (before == 0) *global |= bit;
    return before + 1 == threshold;
  }

  __device__ __forceinline__ u32 count(u32 pair) const {
    if (TRAIN_CANDIDATES_IN_SHARED) {
      const u32 scrambled = scramble(pair);
      for (u32 i = 0; i < 4; ++i) {
        const u32 there = buckets[scrambled / 64 * 4 + i];
        if (there >> 16 == scrambled % 64 + 1) return there & 0xffff;
      }
    }
    return reinterpret_cast<const u16*>(overflow)[pair];
  }

  // Sets the count in global memory back to 0.
  __device__ __forceinline__ void forget(u32 pair) const { reinterpret_cast<u16*>(overflow)[pair] = 0; }
};
static_assert(CODES * CODES / 64 * 4 * 4 <= TRAIN_CANDIDATES_NBYTES, "buckets lie where the candidates will");

// Gain, then length, as 32 bits in the same order. An exponent goes first, so that the first digit tells many candidates apart:
// most gains are small. Below 2^27, hence exact: 4 bytes' weight and 8 bytes a token make it less than 2^23.
__device__ __forceinline__ u32 key_of(u32 gain, u32 length) {
  const u32 rank = gain << 3 | (length - 1);
  const u32 exponent = 31 - __clz(rank);
  return exponent << 27 | ((rank << (27 - exponent)) & 0x7ffffff);
}

__device__ __forceinline__ u32 key_length(u32 key) {
  return (((key & 0x7ffffff) | 1u << 27) >> (27 - (key >> 27)) & 7) + 1;
}

// A thread's candidates are those at threadIdx.x + TRAIN_THREADS * bit of `list`.
#define FOR_EACH_BIT(bits, bit) \
  for (u32 rest = (bits), bit = 0; rest != 0 && ((bit = __ffs(rest) - 1), true); rest &= rest - 1)

// A generation, phase by phase; all threads take part in each, and the kernel has the barriers between them.

// The chunks that a generation takes: `part` / 128 of the sample. By one warp.
__device__ __forceinline__ void take_chunks(Training* t, u32 sample_nbytes, u32 part) {
  const u32 sample_chunks = (sample_nbytes + SAMPLE_CHUNK - 1) / SAMPLE_CHUNK;
  u32 taken = 0;
  for (u32 i = threadIdx.x; i < SAMPLE_CHUNKS; i += 32) {
    const bool take = i < sample_chunks && (u64(i) * TRAIN_SPREAD >> 7 & 127) < part;
    const u32 ballot = __ballot_sync(ALL_LANES, take);
    if (take) t->chunks[taken + __popc(ballot & ((1u << threadIdx.x) - 1))] = u8(i);
    taken += __popc(ballot);
  }
  if (threadIdx.x == 0) t->taken = taken;
}

// Bytes of the `i`-th chunk taken.
__device__ __forceinline__ u32 chunk_nbytes(const Training* t, u32 sample_nbytes, u32 i) {
  return min(SAMPLE_CHUNK, sample_nbytes - t->chunks[i] * SAMPLE_CHUNK);
}

// The best symbols of the generation before get codes, and their places in the lookup tables, which are clear.
__device__ __forceinline__ void set_symbols(Training* t, u32 used) {
  if (threadIdx.x < used) {
    const Symbol symbol = {t->best_symbols[threadIdx.x], key_length(t->best_keys[threadIdx.x])};
    t->symbols[256 + threadIdx.x] = symbol.bytes;
    t->lengths[256 + threadIdx.x] = u8(symbol.length);
    add_to_lookup(t, symbol, 256 + threadIdx.x);
  }
}

// match: four positions at once, which share three words.
__device__ __forceinline__ void match_chunks(const Training* t, u16* matches, u32 sample_nbytes, u32 taken) {
  for (u32 i = threadIdx.x; i < taken * (SAMPLE_CHUNK / 4); i += TRAIN_THREADS) {
    const u32 chunk = i / (SAMPLE_CHUNK / 4), at = 4 * (i % (SAMPLE_CHUNK / 4));
    const u32 nbytes = chunk_nbytes(t, sample_nbytes, chunk);
    const u32* words = reinterpret_cast<const u32*>(t->sample) + (t->chunks[chunk] * SAMPLE_CHUNK + at) / 4;
    const u32 a = words[0], b = words[1], c = words[2];
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      const u32 lo = __funnelshift_r(a, b, 8 * k), hi = __funnelshift_r(b, c, 8 * k);
      if (at + k < nbytes) matches[chunk * ROW + at + k] = u16(match_of(t, lo, hi, nbytes - at - k));
    }
  }
}

// walk: by the first warps; the others clear meanwhile what counting needs.
__device__ __forceinline__ void walk_chunks(Training* t, u16* matches, Candidates* candidates, u32 sample_nbytes,
                                            u32 taken, u32 used) {
  constexpr u32 walkers = WALKERS_APART * SAMPLE_CHUNKS;
  static_assert(walkers % 32 == 0 && walkers < TRAIN_THREADS, "");
  if (threadIdx.x < walkers) {
    const u32 chunk = threadIdx.x / WALKERS_APART;
    if (threadIdx.x % WALKERS_APART == 0 && chunk < taken)
      t->tokens[chunk] = u16(used == 0 ? chunk_nbytes(t, sample_nbytes, chunk)
                                       : walk(matches + chunk * ROW, chunk_nbytes(t, sample_nbytes, chunk)));
  } else {
    clear_candidates(candidates, threadIdx.x - walkers, TRAIN_THREADS - walkers);
    for (u32 i = threadIdx.x - walkers; i < CODES; i += TRAIN_THREADS - walkers) t->counts[i] = 0;
    if (threadIdx.x == walkers) t->frequent = t->count = t->best = t->above = 0;
  }
}

// The tokens that a thread counts: of one chunk every `step`-th. In words of bits, bit i stands for the i-th of these and the one
// before it, a pair; the second of two words for the pair with the token's first byte alone.
struct Share {
  u32 chunk, first, step;

  // Of the list of pairs: chunk, number of the second token, and whether it is its first byte alone.
  __device__ __forceinline__ u32 entry(u32 bit, u32 byte) const {
    return chunk << 10 | (first + bit * step) << 1 | byte;
  }
};
static_assert(SAMPLE_CHUNK == 512 && SAMPLE_CHUNKS <= 64, "an entry has 16 bits");

// The pair of an entry of the list.
__device__ __forceinline__ u32 pair_of(const Training* t, const u16* matches, u32 entry) {
  const u16* at = matches + (entry >> 10) * ROW + (entry >> 1 & 511);
  const u32 second = at[0] & 511;
  return (at[-1] & 511u) << 9 | ((entry & 1) != 0 ? u32(t->symbols[second]) & 255 : second);
}

// count: tokens, their first bytes alone, and pairs of neighbours, unless the first has eight bytes. Sets bits of pairs that the
// thread made frequent, so that it lists them, and of those it was the first to count in global memory, so that it clears these.
__device__ __forceinline__ void count_tokens(Training* t, const u16* matches, PairCounts pairs, Share share,
                                             u32 threshold, u32* frequent, u32* global) {
  const u16* row = matches + share.chunk * ROW;
  const u32 tokens = share.first < share.step ? t->tokens[share.chunk] : 0;
  for (u32 i = share.first, bit = 1; i < tokens; i += share.step, bit <<= 1) {
    const u32 match = row[i], code = match & 511, byte = u32(t->symbols[code]) & 255;
    const bool several = match >> CODE_BITS > 1;
    atomicAdd(&t->counts[code], 1);
    if (several) atomicAdd(&t->counts[byte], 1);
    const u32 previous = i > 0 ? row[i - 1] : 8u << CODE_BITS;
    if (previous >> CODE_BITS < 8) {
      const u32 before = (previous & 511) << 9;
      if (pairs.add(before | code, threshold, bit, &global[0])) frequent[0] |= bit;
      if (several && pairs.add(before | byte, threshold, bit, &global[1])) frequent[1] |= bit;
    }
  }
}

// list: the frequent pairs and their counts. With a barrier, after which the counts in shared memory are not needed any more.
__device__ __forceinline__ void list_pairs(Training* t, const u16* matches, PairCounts pairs, Share share,
                                           const u32* frequent, const u32* global, u16* pair_list, u16* pair_times) {
  u32 place = take_places(&t->frequent, __popc(frequent[0]) + __popc(frequent[1]));
#pragma unroll
  for (u32 byte = 0; byte < 2; ++byte) {
    FOR_EACH_BIT(frequent[byte], bit) {
      const u32 entry = share.entry(bit, byte);
      pair_list[place] = u16(entry);
      pair_times[place++] = u16(pairs.count(pair_of(t, matches, entry)));
    }
  }
  __syncthreads();
#pragma unroll
  for (u32 byte = 0; byte < 2; ++byte)
    FOR_EACH_BIT(global[byte], bit) pairs.forget(pair_of(t, matches, share.entry(bit, byte)));
}

// offer: symbols, bytes and pairs seen at least `threshold` times.
__device__ __forceinline__ void offer_all(const Training* t, const u16* matches, Candidates* candidates,
                                          const u16* pair_list, const u16* pair_times, u32 used, u32 threshold) {
  if (threadIdx.x < 256 + used) {
    const u32 times = t->counts[threadIdx.x] * (t->lengths[threadIdx.x] == 1 ? TRAIN_BYTE_WEIGHT : 1);
    if (times >= threshold) offer(t, candidates, ALONE << 9 | threadIdx.x, times);
  }
  for (u32 i = threadIdx.x; i < t->frequent; i += TRAIN_THREADS)
    offer(t, candidates, pair_of(t, matches, pair_list[i]), pair_times[i]);
}

// slots: lists the candidates; of those of three or more bytes that share a slot only the best stays. Returns a thread's bits of
// those that stay. With barriers.
__device__ __forceinline__ u32 best_of_slots(Training* t, Candidates* candidates, u16* list) {
  u64* smallest = t->hash_symbols;
  u32* largest_key = t->hash_meta;
  for (u32 i = threadIdx.x; i < HASH_SLOTS; i += TRAIN_THREADS) {
    smallest[i] = ~0ull;
    largest_key[i] = 0;
  }
  u32 filled = 0;
  for (u32 i = 0; i < CANDIDATE_SLOTS / TRAIN_THREADS; ++i)
    filled |= u32(candidates->entries[threadIdx.x + TRAIN_THREADS * i] != 0) << i;
  u32 place = take_places(&t->count, __popc(filled));
  FOR_EACH_BIT(filled, bit) list[place++] = u16(threadIdx.x + TRAIN_THREADS * bit);
  __syncthreads();

  const u32 count = t->count;
  for (u32 i = threadIdx.x; i < count; i += TRAIN_THREADS) {
    const Symbol symbol = symbol_of(t, candidates->entries[list[i]] >> 1);
    const u32 key = key_of(candidates->gains[list[i]], symbol.length);
    candidates->gains[list[i]] = key;
    if (symbol.length > 2) atomicMax(&largest_key[slot_of(symbol.bytes)], key);
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < count; i += TRAIN_THREADS) {
    const Symbol symbol = symbol_of(t, candidates->entries[list[i]] >> 1);
    const u32 slot = slot_of(symbol.bytes);
    if (symbol.length > 2 && largest_key[slot] == candidates->gains[list[i]]) atomicMin(&smallest[slot], symbol.bytes);
  }
  __syncthreads();
  u32 alive = 0;
  for (u32 i = threadIdx.x, bit = 1; i < count; i += TRAIN_THREADS, bit <<= 1) {
    const Symbol symbol = symbol_of(t, candidates->entries[list[i]] >> 1);
    const u32 slot = slot_of(symbol.bytes);
    if (symbol.length <= 2 || (largest_key[slot] == candidates->gains[list[i]] && smallest[slot] == symbol.bytes))
      alive |= bit;
  }
  return alive;
}

// select: of the candidates chosen by `alive` the best MAX_SYMBOLS; returns a thread's bits. With barriers.
__device__ __forceinline__ u32 select_best(Training* t, const Candidates* candidates, const u16* list, u32 alive) {
  take_places(&t->above, __popc(alive));
  __syncthreads();
  u32 chosen = 0, wanted = MAX_SYMBOLS, key = 0, count = t->above;
  __syncthreads();
  // 4 digits of the key, then (the keys are equal) as many of the symbol as it has bytes: the smaller is the better.
  for (u32 digit = 0; count > wanted; ++digit) {
    if (digit == 2 && key >> 11 <= 11) {  // an exponent of 11 or less: nothing but zeros follows
      digit = 4;
      key <<= 16;
    }
    if (digit == 4) digit += 8 - key_length(key);
    for (u32 i = threadIdx.x; i < 256; i += TRAIN_THREADS) t->histogram[i] = 0;
    __syncthreads();
    const u32 shift = 8 * (digit < 4 ? 3 - digit : 11 - digit);
    auto digit_of = [&](u32 bit) {
      const u32 slot = list[threadIdx.x + TRAIN_THREADS * bit];
      if (digit < 4) return candidates->gains[slot] >> shift & 255;
      return ~u32(symbol_of(t, candidates->entries[slot] >> 1).bytes >> shift) & 255;
    };
    FOR_EACH_BIT(alive, bit) atomicAdd(&t->histogram[digit_of(bit)], 1);
    __syncthreads();
    if (threadIdx.x < 32) find_bin(t->histogram, wanted, &t->bin, &t->above, &t->in_bin);
    __syncthreads();
    const u32 bin = t->bin;
    wanted -= t->above;
    count = t->in_bin;
    key = key << 8 | bin;
    u32 kept = 0;
    FOR_EACH_BIT(alive, bit) {
      const u32 value = digit_of(bit);
      if (value > bin) chosen |= 1u << bit;
      if (value == bin) kept |= 1u << bit;
    }
    alive = kept;
  }
  return chosen | alive;
}

// Puts the chosen candidates where the next generation finds its symbols.
__device__ __forceinline__ void keep_best(Training* t, const Candidates* candidates, const u16* list, u32 chosen) {
  u32 place = take_places(&t->best, __popc(chosen));
  FOR_EACH_BIT(chosen, bit) {
    const u32 slot = list[threadIdx.x + TRAIN_THREADS * bit];
    t->best_symbols[place] = symbol_of(t, candidates->entries[slot] >> 1).bytes;
    t->best_keys[place++] = candidates->gains[slot];
  }
}

// Code of every best symbol: lengths 2, 3, .. 8, 1, two-byte symbols that begin no longer one before those that do, and the better
// before the less good. Four lanes a symbol. Returns the code for symbol threadIdx.x / 4.
__device__ __forceinline__ u32 code_of(Training* t, u32 count) {
  const u32 own = threadIdx.x / 4, part = threadIdx.x % 4;
  const u32 key = own < count ? t->best_keys[own] : 1u << 27, length = key_length(key);
  const u64 bytes = t->best_symbols[own];
  u32 begins = 0;
  if (length == 2 && own < count)
    for (u32 i = part; i < count; i += 4)
      begins |= key_length(t->best_keys[i]) > 2 && (t->best_symbols[i] & 0xffff) == bytes;
  begins |= __shfl_xor_sync(ALL_LANES, begins, 1);
  begins |= __shfl_xor_sync(ALL_LANES, begins, 2);
  const u32 group = length == 1 ? 9 : length == 2 ? begins : length;
  u32* groups = t->histogram;
  if (part == 0) groups[own] = group;
  __syncthreads();
  u32 before = 0;
  for (u32 i = part; i < count; i += 4) {
    const u32 other = t->best_keys[i];
    before += groups[i] != group ? groups[i] < group : other != key ? other > key : t->best_symbols[i] < bytes;
  }
  before += __shfl_xor_sync(ALL_LANES, before, 1);
  before += __shfl_xor_sync(ALL_LANES, before, 2);
  return before;
}
static_assert(TRAIN_THREADS >= 4 * 256, "code_of: four lanes a symbol");

// Writes the encoder's tables: from the lookup tables, where the codes are final. By all threads.
__device__ __forceinline__ void write_tables(const Training* t, EncodeTables* tables, u32 two_byte_limit, bool mixed) {
  for (u32 i = threadIdx.x; i < HASH_SLOTS; i += TRAIN_THREADS) {
    const u32 unused = t->hash_meta[i] & 255, code = t->hash_meta[i] >> 8;
    tables->symbols[i] = t->hash_symbols[i] << unused;
    tables->meta[i] = u16(code | unused << 8);
  }
  if (threadIdx.x < 256) tables->singles[threadIdx.x] = u8(t->byte_codes[threadIdx.x]);
  if (threadIdx.x == 0) tables->two_byte_limit = two_byte_limit;
  if (mixed) {
    // Places with the same high byte have the same low byte of PAIR_MULTIPLIER times the pair, so the same first byte.
    for (u32 b = threadIdx.x / 4; b < 256; b += TRAIN_THREADS / 4) {
      u32* words = reinterpret_cast<u32*>(tables->pairs + (pair_place(b) & 0xff00));
      for (u32 i = threadIdx.x % 4; i < 64; i += 4) words[i] = t->byte_codes[b] * 0x01010101u;
    }
  } else {
    const u32 b = threadIdx.x % 64 * 4;  // a thread's words of `pairs` begin with the same four bytes
    static_assert(TRAIN_THREADS % 64 == 0, "");
    const u32 word =
        t->byte_codes[b] | t->byte_codes[b + 1] << 8 | t->byte_codes[b + 2] << 16 | t->byte_codes[b + 3] << 24;
    for (u32 i = threadIdx.x; i < 65536 / 4; i += TRAIN_THREADS) reinterpret_cast<u32*>(tables->pairs)[i] = word;
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < SHORT_SLOTS; i += TRAIN_THREADS) {
    const u32 entry = t->short_symbols[i], pair = entry & 0xffff;
    if (entry != 0) tables->pairs[mixed ? pair_place(pair) : pair] = u8((entry >> 16) - 1);
  }
}

// grid: a block a scope; block: TRAIN_THREADS; shared memory: TRAIN_TABLES_NBYTES, then the matches and the candidates as far as
// TRAIN_MATCHES_IN_SHARED and TRAIN_CANDIDATES_IN_SHARED say.
// pair_counts: CODES * CODES numbers of 16 bits a scope, zeros before and after. scratch: TRAIN_SCRATCH_NBYTES a scope, for what is
// not in shared memory.
extern "C" __global__ void __launch_bounds__(TRAIN_THREADS, 1)
    fsst_train(const ScopeView* __restrict__ scopes, u32* pair_counts, u8* scratch, EncodeTables* tables,
               TrainedTable* trained) {
  DYNAMIC_SHARED(u64, shared_memory);
  Training* t = reinterpret_cast<Training*>(shared_memory);
  u8* shared_rest = reinterpret_cast<u8*>(shared_memory) + TRAIN_TABLES_NBYTES;
  u8* global_rest = scratch + u64(blockIdx.x) * TRAIN_SCRATCH_NBYTES;
  u16* matches = reinterpret_cast<u16*>(TRAIN_MATCHES_IN_SHARED ? shared_rest : global_rest);
  Candidates* candidates = reinterpret_cast<Candidates*>(
      TRAIN_CANDIDATES_IN_SHARED ? shared_rest + TRAIN_MATCHES_NBYTES
                                 : global_rest + (TRAIN_MATCHES_IN_SHARED ? 0 : TRAIN_MATCHES_NBYTES));
  // Further names of the same memory: comment at `Training`.
  u16* pair_list = reinterpret_cast<u16*>(t->hash_symbols);
  static_assert(2 * CANDIDATE_SLOTS <= sizeof(t->hash_symbols) + sizeof(t->hash_meta) + sizeof(t->short_symbols), "");
  u16* pair_times = matches + ROW * SAMPLE_CHUNKS;
  u16* list = matches;
  const PairCounts pairs = {candidates->entries, pair_counts + u64(blockIdx.x) * (CODES * CODES / 2)};
  const u32 thread = threadIdx.x;

  const ScopeView& scope = scopes[blockIdx.x];
  if (thread < 32) find_scope(scope, &t->start, &t->stop);
  for (u32 i = thread; i < 256; i += TRAIN_THREADS) {
    t->symbols[i] = i;
    t->lengths[i] = 1;
  }
  __syncthreads();
  const u64 chars = *Found(scope.found, scope.segments).first_char;
  const u64 begin = chars + t->start, end = chars + t->stop;
  stage_sample(t, begin, end);
  const u32 sample_nbytes = u32(min(end - begin, u64(SAMPLE_CHUNKS * SAMPLE_CHUNK)));

  u32 used = 0;
  for (u32 generation = 0; sample_nbytes > 0 && generation < TRAIN_GENERATIONS; ++generation) {
    const u32 part = u32(TRAIN_PARTS >> (8 * generation)) & 255;  // in 1/128
    const u32 threshold = max(1u, (TRAIN_MIN_COUNT * part + 127) / 128);
    clear_lookup(t, true);
    if (thread < 32) take_chunks(t, sample_nbytes, part);
    __syncthreads();
    set_symbols(t, used);
    __syncthreads();
    const u32 taken = t->taken;
    match_chunks(t, matches, sample_nbytes, taken);
    __syncthreads();
    walk_chunks(t, matches, candidates, sample_nbytes, taken, used);
    __syncthreads();
    const Share share = {thread % taken, thread / taken, TRAIN_THREADS / taken};
    u32 frequent[2] = {0, 0}, global[2] = {0, 0};
    count_tokens(t, matches, pairs, share, threshold, frequent, global);
    __syncthreads();
    list_pairs(t, matches, pairs, share, frequent, global, pair_list, pair_times);
    if (TRAIN_CANDIDATES_IN_SHARED) clear_candidates(candidates, thread, TRAIN_THREADS);  // they held counts of pairs
    __syncthreads();
    offer_all(t, matches, candidates, pair_list, pair_times, used, threshold);
    __syncthreads();
    const u32 alive = best_of_slots(t, candidates, list);
    const u32 chosen = select_best(t, candidates, list, alive);
    keep_best(t, candidates, list, chosen);
    __syncthreads();
    used = t->best;
  }

  clear_lookup(t, false);
  const u32 code = code_of(t, used);  // with a barrier
  TrainedTable* result = trained + blockIdx.x;
  u32 two_bytes = 0;
  if (thread % 4 == 0 && thread / 4 < used) {
    const Symbol symbol = {t->best_symbols[thread / 4], key_length(t->best_keys[thread / 4])};
    add_to_lookup(t, symbol, code);
    result->symbols[code] = symbol.bytes;
    result->lengths[code] = u8(symbol.length);
    two_bytes = symbol.length == 2;
  }
  if (thread == 0) result->count = used;
  const u32 two_byte_limit = __syncthreads_count(two_bytes);
  write_tables(t, tables + blockIdx.x, two_byte_limit, scopes[blockIdx.x].pairs_mixed != 0);
}
