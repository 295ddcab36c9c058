// Training of symbol tables: what one thread block (fsst_train.cu) and a cluster of them (fsst_train_cluster.cu) have in common.
#pragma once

#include "fsst.cuh"
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

// In shared memory. Some places have several uses in a generation (its phases: fsst_train.cu; `set` is before them). Blank: not in
// use; 0: cleared for a phase that follows. In fsst_train:
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
// lookup with the codes that are stored, and histogram has the groups of rank_symbols. fsst_train_cluster has room for all but two: its
// digits are counted in `counts`, which has the codes of symbols at the end.
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
  u32 frequent, count, best, bin, above, in_bin, taken, finalists;
  u16 byte_codes[256];
  u16 tokens[SAMPLE_CHUNKS];
  u8 lengths[CODES];
  u8 chunks[SAMPLE_CHUNKS];  // those that the generation takes
};
static_assert(sizeof(Training) <= TRAIN_TABLES_NBYTES, "TRAIN_TABLES_NBYTES");
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

// A table of the 256 bytes alone, and the sample of a scope, of as many bytes as the result says. By all threads.
__device__ __forceinline__ u32 begin_training(Training* t, const ScopeView& scope) {
  if (threadIdx.x < 32) find_scope(scope, &t->start, &t->stop);
  for (u32 i = threadIdx.x; i < 256; i += TRAIN_THREADS) {
    t->symbols[i] = i;
    t->lengths[i] = 1;
  }
  __syncthreads();
  const u64 chars = *Found(scope.found, scope.segments).first_char;
  const u64 begin = chars + t->start, end = chars + t->stop;
  stage_sample(t, begin, end);
  return u32(min(end - begin, u64(SAMPLE_CHUNKS * SAMPLE_CHUNK)));
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

// The chunks that a generation takes: `part` / 128 of the sample, of which every `blocks`-th, from number `rank` on, is this block's.
// By one warp.
__device__ __forceinline__ void take_chunks(Training* t, u32 sample_nbytes, u32 part, u32 rank, u32 blocks) {
  const u32 sample_chunks = (sample_nbytes + SAMPLE_CHUNK - 1) / SAMPLE_CHUNK;
  u32 taken = 0;
  for (u32 i = threadIdx.x; i < SAMPLE_CHUNKS; i += 32) {
    const bool take = i < sample_chunks && (u64(i) * TRAIN_SPREAD >> 7 & 127) < part;
    const u32 ballot = __ballot_sync(ALL_LANES, take);
    const u32 number = taken + __popc(ballot & ((1u << threadIdx.x) - 1));
    if (take && number % blocks == rank) t->chunks[number / blocks] = u8(i);
    taken += __popc(ballot);
  }
  if (threadIdx.x == 0) t->taken = (taken + blocks - 1 - rank) / blocks;
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

// The tokens that a thread counts: of one chunk every `step`-th. In words of bits, bit i stands for the i-th of these and the one
// before it, a pair; the second of two words for the pair with the token's first byte alone.
struct TokenShare {
  u32 chunk, first, step;

  // Of the list of pairs: chunk, number of the second token, and whether it is its first byte alone.
  __device__ __forceinline__ u32 entry(u32 bit, u32 byte) const {
    return chunk << 10 | (first + bit * step) << 1 | byte;
  }
};
static_assert(SAMPLE_CHUNK == 512 && SAMPLE_CHUNKS <= 64, "an entry has 16 bits");

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

// Writes the encoder's tables: from the lookup tables, where the codes are final. Block `rank` of `blocks` writes one part of each.
// By all threads.
__device__ __forceinline__ void write_tables(Training* t, EncodeTables* tables, u32 two_byte_limit, bool mixed,
                                             u32 rank, u32 blocks) {
  const u32 own = rank * TRAIN_THREADS + threadIdx.x, all = blocks * TRAIN_THREADS;
  for (u32 i = own; i < HASH_SLOTS; i += all) {
    const u32 unused = t->hash_meta[i] & 255, code = t->hash_meta[i] >> 8;
    tables->symbols[i] = t->hash_symbols[i] << unused;
    tables->meta[i] = u16(code | unused << 8);
  }
  if (own < 256) tables->singles[own] = u8(t->byte_codes[own]);
  if (own == 0) tables->two_byte_limit = two_byte_limit;
  // Places of a mixed table with the same high byte have the same low byte of PAIR_MULTIPLIER times the pair, so the same first byte.
  // In one that is not, all words of a thread begin with the same byte.
  u8* first_bytes = t->lengths;
  if (mixed && threadIdx.x < 256) first_bytes[pair_place(threadIdx.x) >> 8] = u8(threadIdx.x);
  __syncthreads();
  constexpr u32 words = 65536 / 8;
  static_assert(TRAIN_THREADS % 32 == 0, "32 words of 8 bytes have the codes of all bytes");
  u64 codes = 0;
  if (!mixed)
    for (u32 i = 8; i-- > 0;) codes = codes << 8 | t->byte_codes[threadIdx.x % 32 * 8 + i];
  u64* pairs = reinterpret_cast<u64*>(tables->pairs);
  for (u32 i = own; i < words; i += all)
    pairs[i] = mixed ? t->byte_codes[first_bytes[i / 32]] * 0x0101010101010101ull : codes;
  __syncthreads();
  for (u32 i = threadIdx.x; i < SHORT_SLOTS; i += TRAIN_THREADS) {
    const u32 entry = t->short_symbols[i], pair = entry & 0xffff, place = mixed ? pair_place(pair) : pair;
    if (entry != 0 && place / 8 % all / TRAIN_THREADS == rank) tables->pairs[place] = u8((entry >> 16) - 1);
  }
}
static_assert(sizeof(EncodeTables) % 8 == 0, "words of 8 bytes");
