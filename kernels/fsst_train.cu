// FSST training: the sample of every table's scope -> its symbol table, lookup tables of the encoder included (stage 1).
//
// Work unit: a thread block a scope, for GPUs without clusters, and for more scopes than there are clusters. It does what
// cudf_fsst/codecs/fsst/train.py does, which is the definition, with the same result. Invariant: a table depends on sums and on a total
// order only, never on the order in which things are found. A generation:
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
// What lost: training on threads of the CPU, 1.2 ms a table, half of compress().
#include "fsst_train_phases.cuh"

static_assert(2 * (ROW * SAMPLE_CHUNKS + CANDIDATE_SLOTS) == TRAIN_MATCHES_NBYTES, "TRAIN_MATCHES_NBYTES");

#define WALKERS_APART 4  // 8 walking lanes a warp, for the banks too

// Packs the tokens of a chunk of `nbytes` to the front of its row of matches; returns their number. A hop costs what a load from
// shared memory takes, so the next is under way, maybe behind the chunk's end, before it is known whether it is needed.
__device__ __forceinline__ u32 walk_tokens(u16* row, u32 nbytes) {
  u32 tokens = 0, at = 0, match = row[0];
  while (true) {
    at += match >> CODE_BITS;
    const u32 next = row[at];
    row[tokens++] = u16(match);
    if (at >= nbytes) return tokens;
    match = next;
  }
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

// walk: by the first warps; the others clear meanwhile what counting needs.
__device__ __forceinline__ void walk_chunks(Training* t, u16* matches, Candidates* candidates, u32 sample_nbytes,
                                            u32 taken, u32 used) {
  constexpr u32 walkers = WALKERS_APART * SAMPLE_CHUNKS;
  static_assert(walkers % 32 == 0 && walkers < TRAIN_THREADS, "");
  if (threadIdx.x < walkers) {
    const u32 chunk = threadIdx.x / WALKERS_APART;
    if (threadIdx.x % WALKERS_APART == 0 && chunk < taken)
      t->tokens[chunk] = u16(used == 0 ? chunk_nbytes(t, sample_nbytes, chunk)
                                       : walk_tokens(matches + chunk * ROW, chunk_nbytes(t, sample_nbytes, chunk)));
  } else {
    clear_candidates(candidates, threadIdx.x - walkers, TRAIN_THREADS - walkers);
    for (u32 i = threadIdx.x - walkers; i < CODES; i += TRAIN_THREADS - walkers) t->counts[i] = 0;
    if (threadIdx.x == walkers) t->frequent = t->count = t->best = t->above = 0;
  }
}

// The pair of an entry of the list.
__device__ __forceinline__ u32 pair_of(const Training* t, const u16* matches, u32 entry) {
  const u16* at = matches + (entry >> 10) * ROW + (entry >> 1 & 511);
  const u32 second = at[0] & 511;
  return (at[-1] & 511u) << 9 | ((entry & 1) != 0 ? u32(t->symbols[second]) & 255 : second);
}

// count: tokens, their first bytes alone, and pairs of neighbours, unless the first has eight bytes. Sets bits of pairs that the
// thread made frequent, so that it lists them, and of those it was the first to count in global memory, so that it clears these.
__device__ __forceinline__ void count_tokens(Training* t, const u16* matches, PairCounts pairs, TokenShare share,
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
__device__ __forceinline__ void list_pairs(Training* t, const u16* matches, PairCounts pairs, TokenShare share,
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
__device__ __forceinline__ u32 rank_symbols(Training* t, u32 count) {
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
static_assert(TRAIN_THREADS >= 4 * 256, "rank_symbols: four lanes a symbol");

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
  const u32 sample_nbytes = begin_training(t, scope);

  u32 used = 0;
  for (u32 generation = 0; sample_nbytes > 0 && generation < TRAIN_GENERATIONS; ++generation) {
    const u32 part = u32(TRAIN_PARTS >> (8 * generation)) & 255;  // in 1/128
    const u32 threshold = max(1u, (TRAIN_MIN_COUNT * part + 127) / 128);
    clear_lookup(t, true);
    if (thread < 32) take_chunks(t, sample_nbytes, part, 0, 1);
    __syncthreads();
    set_symbols(t, used);
    __syncthreads();
    const u32 taken = t->taken;
    match_chunks(t, matches, sample_nbytes, taken);
    __syncthreads();
    walk_chunks(t, matches, candidates, sample_nbytes, taken, used);
    __syncthreads();
    const TokenShare share = {thread % taken, thread / taken, TRAIN_THREADS / taken};
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
  const u32 code = rank_symbols(t, used);  // with a barrier
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
  write_tables(t, tables + blockIdx.x, two_byte_limit, scopes[blockIdx.x].tables_form != 0, 0, 1);
}
