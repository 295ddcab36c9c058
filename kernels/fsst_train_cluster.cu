// FSST training by a thread block cluster: what fsst_train.cu does, on CLUSTER_BLOCKS multiprocessors at once.
//
// Work unit: a cluster a scope. The blocks divide among them
//
//   match, walk, count    the chunks that a generation takes
//   list, offer           pairs, by a scrambled name: each block has the counts of its own, one counter for every pair there may be
//   slots, select         candidates, by the slot of the encoder's hash table: candidates that are compared lie in one block
//   at the end            the encoder's tables
//
// All have the sample and the symbols, and so the same names for candidates. Between the phases that reach into other blocks' shared
// memory there is a barrier of the cluster: after walk (counters are clear), count, offer and keep, one a digit of the selection, and
// one before the last candidates are compared.
//
// Walking is divided further: 16 stretches a chunk. A token reaches up to 7 bytes into the next stretch, so 8 lanes walk each stretch, one
// from every place where the first token may begin; then a lane a chunk hops from stretch to stretch, and at last a lane a stretch,
// which knows its first token by now, writes the tokens.
//
// Measured on one H200: 135 us for a sample of text comments, by events around the launch; fsst_train 257 in the same run. Of 254,000
// cycles the selection takes 18 %, counting 10, slots and walking 9 each, matching and offering 7 each, listing 6, the barriers between
// phases 19. Two that lost, with their share (docs/kernels.md has another):
// - the selection digit by digit to its end: 82,600 cycles instead of 44,800.
// - codes ranked by every block, four lanes a symbol as in fsst_train: 30,200 cycles instead of 5,400.
#include "cluster.cuh"
#include "fsst_train_phases.cuh"

#define CLUSTER_CHUNKS (SAMPLE_CHUNKS / CLUSTER_BLOCKS)
#define WALK_STRETCH 32
#define CHUNK_STRETCHES (SAMPLE_CHUNK / WALK_STRETCH)
#define WALKS (8 * CHUNK_STRETCHES)  // of a chunk
#define FINALISTS 1024
#define PAIR_COUNTS (CODES * CODES / CLUSTER_BLOCKS)

struct Cluster {
  Candidates candidates;
  u16 pair_counts[PAIR_COUNTS];
  Training training;
  u16 matches[CLUSTER_CHUNKS * ROW];
  u16 tokens[CLUSTER_CHUNKS * ROW];
  // Of a walk: where in the next stretch it arrives, and its tokens times 8. Then of a stretch: where its first token begins, and 8 times
  // the tokens before. Then places of pairs among this block's, then of candidates.
  u16 list[CANDIDATE_SLOTS];
};
static_assert(sizeof(Cluster) <= TRAIN_CLUSTER_NBYTES, "TRAIN_CLUSTER_NBYTES");
static_assert(CLUSTER_BLOCKS == 8, "owners have three bits");
static_assert(CLUSTER_CHUNKS * WALKS <= TRAIN_THREADS && WALKS <= TRAIN_THREADS, "a thread a walk");
static_assert(CLUSTER_CHUNKS * WALKS <= CANDIDATE_SLOTS, "a number a walk");
static_assert(PAIR_COUNTS == 32 * TRAIN_THREADS, "a thread has a bit for each of its counters");

// Names of pairs, scrambled: the last three bits say whose the counter is, the others which it is. 18 bits; x ^ x >> 9 is its own
// inverse there.
__device__ __forceinline__ u32 scramble_pair(u32 pair) {
  const u32 x = pair * 0x9E3779B1u & (CODES * CODES - 1);
  return x ^ x >> 9;
}

__device__ __forceinline__ u32 unscramble_pair(u32 scrambled) {
  const u32 inverse = 0x32F51u;  // of the multiplier
  static_assert(0x9E3779B1u * inverse % (CODES * CODES) == 1, "");
  return (scrambled ^ scrambled >> 9) * inverse & (CODES * CODES - 1);
}

// Whose a candidate is.
__device__ __forceinline__ u32 owner_of(Symbol symbol) {
  return symbol.length > 2 ? slot_of(symbol.bytes) % CLUSTER_BLOCKS : u32(symbol.bytes) * 0x9E3779B1u >> 29;
}

// walk, in three steps: all threads, a lane a chunk, a lane a stretch.
__device__ __forceinline__ void walk_stretches(Cluster* c, u32 sample_nbytes, u32 taken) {
  const u32 chunk = threadIdx.x / WALKS, begin = threadIdx.x % WALKS / 8 * WALK_STRETCH, end = begin + WALK_STRETCH;
  if (chunk >= taken) return;
  const u16* row = c->matches + chunk * ROW;
  const u32 stop = min(end, chunk_nbytes(&c->training, sample_nbytes, chunk));
  u32 at = begin + threadIdx.x % 8, tokens = 0;
  for (; at < stop; ++tokens) at += row[at] >> CODE_BITS;
  c->list[threadIdx.x] = u16(max(at, end) - end | tokens << 3);
}

__device__ __forceinline__ void join_stretches(Cluster* c, u32 taken) {
  if (threadIdx.x >= taken) return;
  u16* walks = c->list + threadIdx.x * WALKS;
  u32 first = 0, tokens = 0;
  for (u32 stretch = 0; stretch < CHUNK_STRETCHES; ++stretch) {
    const u32 found = walks[8 * stretch + first];
    walks[8 * stretch] = u16(first | tokens << 3);
    first = found & 7;
    tokens += found >> 3;
  }
  c->training.tokens[threadIdx.x] = u16(tokens);
}

__device__ __forceinline__ void write_tokens(Cluster* c, u32 sample_nbytes, u32 taken) {
  const u32 chunk = threadIdx.x / WALKS, begin = threadIdx.x % WALKS / 8 * WALK_STRETCH;
  if (chunk >= taken || threadIdx.x % 8 != 0) return;
  const u16* row = c->matches + chunk * ROW;
  const u32 stop = min(begin + WALK_STRETCH, chunk_nbytes(&c->training, sample_nbytes, chunk));
  const u32 found = c->list[threadIdx.x];
  u16* to = c->tokens + chunk * ROW + (found >> 3);
  for (u32 at = begin + (found & 7); at < stop;) {
    const u32 match = row[at];
    *to++ = u16(match);
    at += match >> CODE_BITS;
  }
}

// count: as in fsst_train.cu; tokens in this block, pairs where their counters are.
__device__ __forceinline__ void cluster_count_tokens(Cluster* c, const u16* parsed, u32 taken) {
  Training* t = &c->training;
  auto add_pair = [&](u32 pair) {
    const u32 scrambled = scramble_pair(pair), place = scrambled / CLUSTER_BLOCKS;
    u32* word = reinterpret_cast<u32*>(c->pair_counts) + place / 2;
    add_in_block(word, scrambled % CLUSTER_BLOCKS, 1u << (16 * (place & 1)));
  };
  const u32 chunk = threadIdx.x / WALKS;
  if (chunk >= taken) return;
  const u16* row = parsed + chunk * ROW;
  const u32 tokens = t->tokens[chunk];
  for (u32 i = threadIdx.x % WALKS; i < tokens; i += WALKS) {
    const u32 match = row[i], code = match & 511, byte = u32(t->symbols[code]) & 255;
    const bool several = match >> CODE_BITS > 1;
    atomicAdd(&t->counts[code], 1);
    if (several) atomicAdd(&t->counts[byte], 1);
    const u32 previous = i > 0 ? row[i - 1] : 8u << CODE_BITS;
    if (previous >> CODE_BITS < 8) {
      const u32 before = (previous & 511) << 9;
      add_pair(before | code);
      if (several) add_pair(before | byte);
    }
  }
}

// list: the frequent ones of this block's pairs.
__device__ __forceinline__ void cluster_list_pairs(Cluster* c, u32 threshold) {
  const uint4* words = reinterpret_cast<const uint4*>(c->pair_counts);
  u32 frequent = 0;
#pragma unroll
  for (u32 i = 0; i < 4; ++i) {
    const uint4 word = words[threadIdx.x + TRAIN_THREADS * i];
    const u32 counts[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      frequent |= u32((counts[k] & 0xffff) >= threshold) << (8 * i + 2 * k);
      frequent |= u32(counts[k] >> 16 >= threshold) << (8 * i + 2 * k + 1);
    }
  }
  u32 place = take_places(&c->training.frequent, __popc(frequent));
  FOR_EACH_BIT(frequent, bit) c->list[place++] = u16(8 * (threadIdx.x + TRAIN_THREADS * (bit / 8)) + bit % 8);
}

// offer: as in fsst_train.cu, each block a part of the codes, whose counts it sums, and its pairs.
__device__ __forceinline__ void cluster_offer_all(Cluster* c, u32 rank, u32 used, u32 threshold) {
  Training* t = &c->training;
  auto offer_to_owner = [&](u32 name, u32 times) {
    offer(t, in_block(&c->candidates, owner_of(symbol_of(t, name))), name, times);
  };
  if (threadIdx.x < CODES) {
    const u32 code = threadIdx.x / CLUSTER_BLOCKS * CLUSTER_BLOCKS + rank;
    u32 times = *in_block(&t->counts[code], threadIdx.x % CLUSTER_BLOCKS);
    for (u32 apart = 1; apart < CLUSTER_BLOCKS; apart *= 2) times += __shfl_xor_sync(ALL_LANES, times, apart);
    if (threadIdx.x % CLUSTER_BLOCKS == 0 && code < 256 + used) {
      times *= t->lengths[code] == 1 ? TRAIN_BYTE_WEIGHT : 1;
      if (times >= threshold) offer_to_owner(ALONE << 9 | code, times);
    }
  }
  for (u32 i = threadIdx.x; i < t->frequent; i += TRAIN_THREADS) {
    const u32 place = c->list[i];
    offer_to_owner(unscramble_pair(place * CLUSTER_BLOCKS + rank), c->pair_counts[place]);
  }
}

// Candidates of which only so many are chosen, in all blocks; in place of the walk's arrays.
struct Finalists {
  u64 symbols[FINALISTS];
  u32 keys[FINALISTS];
};
static_assert(sizeof(Finalists) <= 2 * sizeof(Cluster::matches), "Finalists lie in `matches` and `tokens`");

// Which of a thread's finalists are among the best `wanted` of all `count`, as bits. With a barrier of the cluster.
__device__ __forceinline__ u32 best_finalists(Cluster* c, u32 alive, u32 count, u32 wanted) {
  Training* t = &c->training;
  Finalists* finalists = reinterpret_cast<Finalists*>(c->matches);
  const u32 own = __popc(alive), inclusive = warp_inclusive_sum(own);
  u32 first = 0;
  if (lane_id() == 31 && inclusive > 0) first = atomicAdd(in_block(&t->finalists, 0), inclusive);
  first = __shfl_sync(ALL_LANES, first, 31);
  const u32 end = first + __shfl_sync(ALL_LANES, inclusive, 31), begin = first + inclusive - own;
  u32 place = begin;
  FOR_EACH_BIT(alive, bit) {
    const u32 slot = c->list[threadIdx.x + TRAIN_THREADS * bit], key = c->candidates.gains[slot];
    const u64 symbol = symbol_of(t, c->candidates.entries[slot] >> 1).bytes;
#pragma unroll
    for (u32 block = 0; block < CLUSTER_BLOCKS; ++block) {
      *in_block(&finalists->symbols[place], block) = symbol;
      *in_block(&finalists->keys[place], block) = key;
    }
    ++place;
  }
  cluster_sync();
  u32 chosen = 0;
  for (u32 one = first; one < end; ++one) {  // of this warp
    const u32 key = finalists->keys[one];
    const u64 symbol = finalists->symbols[one];
    u32 better = 0;
    for (u32 i = lane_id(); i < count; i += 32) {
      const u32 other = finalists->keys[i];
      better += other != key ? other > key : finalists->symbols[i] < symbol;
    }
    const u32 rank = __shfl_sync(ALL_LANES, warp_inclusive_sum(better), 31);
    if (rank < wanted && one - begin < own) chosen |= 1u << (one - begin);
  }
  // The n-th of a thread's finalists is the n-th bit of `alive`.
  u32 bits = 0, number = 0;
  FOR_EACH_BIT(alive, bit) bits |= (chosen >> number++ & 1) << bit;
  return bits;
}

// select: of all blocks' candidates chosen by `alive` the best MAX_SYMBOLS; returns a thread's bits. With barriers of the cluster.
// As in fsst_train.cu, digit by digit; when few enough share the digits, they are compared with each other.
__device__ __forceinline__ u32 cluster_select_best(Cluster* c, u32 alive) {
  Training* t = &c->training;
  const Candidates* candidates = &c->candidates;
  u32 chosen = 0, wanted = MAX_SYMBOLS, key = 0;
  // Two histograms take turns: another block may still read the one of the digit before.
  for (u32 digit = 0, turn = 0;; ++digit, turn ^= 1) {
    if (digit == 2 && key >> 11 <= 11) {
      digit = 4;
      key <<= 16;
    }
    if (digit == 4) digit += 8 - key_length(key);
    u32* own = t->counts + 256 * turn;
    if (threadIdx.x < 256) own[threadIdx.x] = 0;
    __syncthreads();
    const u32 shift = 8 * (digit < 4 ? 3 - digit : 11 - digit);
    auto digit_of = [&](u32 bit) {
      const u32 slot = c->list[threadIdx.x + TRAIN_THREADS * bit];
      if (digit < 4) return candidates->gains[slot] >> shift & 255;
      return ~u32(symbol_of(t, candidates->entries[slot] >> 1).bytes >> shift) & 255;
    };
    FOR_EACH_BIT(alive, bit) atomicAdd(&own[digit_of(bit)], 1);
    cluster_sync();
    if (threadIdx.x < 256) {  // from above, a bin a thread
      const u32 bin = 255 - threadIdx.x;
      u32 sum = 0;
#pragma unroll
      for (u32 block = 0; block < CLUSTER_BLOCKS; ++block) sum += *in_block(&own[bin], block);
      t->histogram[threadIdx.x] = warp_inclusive_sum(sum);
    }
    __syncthreads();
    if (threadIdx.x < 256) {
      u32 above = 0;
      for (u32 warp = 1; warp < 8; ++warp) above += warp <= threadIdx.x / 32 ? t->histogram[32 * warp - 1] : 0;
      const u32 up_to = above + t->histogram[threadIdx.x];
      const u32 before = threadIdx.x % 32 == 0 ? above : above + t->histogram[threadIdx.x - 1];
      if (before < wanted && up_to >= wanted) {
        t->bin = 255 - threadIdx.x;
        t->above = before;
        t->in_bin = up_to - before;
      }
      if (threadIdx.x == 255) t->taken = up_to;
    }
    __syncthreads();
    if (t->taken <= wanted) return chosen | alive;  // there are not more; in the first digit only
    const u32 bin = t->bin, in_bin = t->in_bin;
    wanted -= t->above;
    key = key << 8 | bin;
    u32 kept = 0;
    FOR_EACH_BIT(alive, bit) {
      const u32 value = digit_of(bit);
      if (value > bin) chosen |= 1u << bit;
      if (value == bin) kept |= 1u << bit;
    }
    alive = kept;
    if (in_bin <= wanted) return chosen | alive;
    if (in_bin <= FINALISTS) return chosen | best_finalists(c, alive, in_bin, wanted);
  }
}

// Tells all blocks the chosen candidates of this one, at the same places in all.
__device__ __forceinline__ void cluster_keep_best(Cluster* c, u32 chosen) {
  Training* t = &c->training;
  u32 place = take_places(in_block(&t->best, 0), __popc(chosen));
  FOR_EACH_BIT(chosen, bit) {
    const u32 slot = c->list[threadIdx.x + TRAIN_THREADS * bit], key = c->candidates.gains[slot];
    const u64 symbol = symbol_of(t, c->candidates.entries[slot] >> 1).bytes;
#pragma unroll
    for (u32 block = 0; block < CLUSTER_BLOCKS; ++block) {
      *in_block(&t->best_symbols[place], block) = symbol;
      *in_block(&t->best_keys[place], block) = key;
    }
    ++place;
  }
}

// Code of every best symbol: see `rank_symbols`. Each block ranks some, a warp a symbol, and tells all blocks. With a barrier of the
// cluster. Returns the code of symbol threadIdx.x.
__device__ __forceinline__ u32 cluster_rank_symbols(Cluster* c, u32 rank, u32 count) {
  Training* t = &c->training;
  u32 *begun = reinterpret_cast<u32*>(c->pair_counts), *groups = t->histogram, *codes = t->counts;
  const u32 own = threadIdx.x;  // bits of the pairs that longer symbols begin with
  for (u32 i = own; i < 65536 / 32; i += TRAIN_THREADS) begun[i] = 0;
  __syncthreads();
  const u32 length = own < count ? key_length(t->best_keys[own]) : 0, pair = u32(t->best_symbols[own % 256]) & 0xffff;
  if (length > 2) atomicOr(&begun[pair / 32], 1u << pair % 32);
  __syncthreads();
  if (own < count) groups[own] = length == 1 ? 9 : length == 2 ? begun[pair / 32] >> pair % 32 & 1 : length;
  __syncthreads();
  for (u32 one = own / 32 * CLUSTER_BLOCKS + rank; one < count; one += CLUSTER_BLOCKS * (TRAIN_THREADS / 32)) {
    const u32 group = groups[one], key = t->best_keys[one];
    const u64 symbol = t->best_symbols[one];
    u32 before = 0;
    for (u32 i = lane_id(); i < count; i += 32) {
      const u32 other = t->best_keys[i];
      before += groups[i] != group ? groups[i] < group : other != key ? other > key : t->best_symbols[i] < symbol;
    }
    before = __shfl_sync(ALL_LANES, warp_inclusive_sum(before), 31);
    if (lane_id() < CLUSTER_BLOCKS) *in_block(&codes[one], lane_id()) = before;
  }
  cluster_sync();
  return codes[own % 256];
}

__device__ __forceinline__ void clear_words(void* address, u32 nbytes, u32 thread, u32 threads) {
  uint4* words = reinterpret_cast<uint4*>(address);
  for (u32 i = thread; i < nbytes / 16; i += threads) words[i] = make_uint4(0, 0, 0, 0);
}

// grid: a cluster a scope; block: TRAIN_THREADS; shared memory: TRAIN_CLUSTER_NBYTES. Parameters: as fsst_train's.
extern "C" __global__ void __cluster_dims__(CLUSTER_BLOCKS, 1, 1) __launch_bounds__(TRAIN_THREADS, 1)
    fsst_train_cluster(const ScopeView* __restrict__ scopes, EncodeTables* tables, TrainedTable* trained) {
  DYNAMIC_SHARED(u64, shared_memory);
  Cluster* c = reinterpret_cast<Cluster*>(shared_memory);
  Training* t = &c->training;
  const u32 thread = threadIdx.x, rank = cluster_rank(), number = blockIdx.x / CLUSTER_BLOCKS;

  const ScopeView& scope = scopes[number];
  const u32 sample_nbytes = begin_training(t, scope);

  u32 used = 0;
  for (u32 generation = 0; sample_nbytes > 0 && generation < TRAIN_GENERATIONS; ++generation) {
    const u32 part = u32(TRAIN_PARTS >> (8 * generation)) & 255;  // in 1/128
    const u32 threshold = max(1u, (TRAIN_MIN_COUNT * part + 127) / 128);
    clear_lookup(t, true);
    if (thread < 32) take_chunks(t, sample_nbytes, part, rank, CLUSTER_BLOCKS);
    if (thread < CODES) t->counts[thread] = 0;
    if (thread == 32) t->frequent = t->count = 0;
    __syncthreads();
    set_symbols(t, used);
    __syncthreads();
    const u32 taken = t->taken;
    match_chunks(t, c->matches, sample_nbytes, taken);
    __syncthreads();
    const u16* parsed = c->matches;
    if (used == 0) {
      if (thread < taken) t->tokens[thread] = u16(chunk_nbytes(t, sample_nbytes, thread));
    } else {
      walk_stretches(c, sample_nbytes, taken);
      __syncthreads();
      join_stretches(c, taken);
      parsed = c->tokens;
    }
    if (thread >= 32) {
      clear_words(&c->candidates, sizeof c->candidates, thread - 32, TRAIN_THREADS - 32);
      clear_words(c->pair_counts, sizeof c->pair_counts, thread - 32, TRAIN_THREADS - 32);
    }
    __syncthreads();
    if (used > 0) write_tokens(c, sample_nbytes, taken);
    cluster_sync();
    if (thread == 0) t->best = t->finalists = 0;  // all have read the one
    cluster_count_tokens(c, parsed, taken);
    cluster_sync();
    cluster_list_pairs(c, threshold);
    __syncthreads();
    cluster_offer_all(c, rank, used, threshold);
    cluster_sync();
    const u32 alive = best_of_slots(t, &c->candidates, c->list);
    const u32 chosen = cluster_select_best(c, alive);
    cluster_keep_best(c, chosen);
    cluster_sync();
    used = *in_block(&t->best, 0);
  }
  clear_lookup(t, false);
  cluster_sync();  // before codes are told
  const u32 code =
      cluster_rank_symbols(c, rank, used);  // behind its barrier no block reads another's shared memory: they may end
  TrainedTable* result = trained + number;
  u32 two_bytes = 0;
  if (thread < used) {
    const Symbol symbol = {t->best_symbols[thread], key_length(t->best_keys[thread])};
    add_to_lookup(t, symbol, code);
    if (rank == 0) {
      result->symbols[code] = symbol.bytes;
      result->lengths[code] = u8(symbol.length);
    }
    two_bytes = symbol.length == 2;
  }
  if (thread == 0 && rank == 0) result->count = used;
  const u32 two_byte_limit = __syncthreads_count(two_bytes);
  write_tables(t, tables + number, two_byte_limit, scope.tables_form != 0, rank, CLUSTER_BLOCKS);
}
