// FSST training for level "max": the table of the default level, and the sample of the scope -> a table for the fewest codes.
//
// What cudf_fsst/codecs/fsst/train_max.py does, which is the definition, with the same result: it depends on sums and total orders
// only. Scopes are searched side by side, each by several blocks. The blocks of a scope have to wait for each other after every
// step, so each step is a launch of its own: a round is (cuda_tables.py, launch.py: search_steps)
//
//   parse     of the table: which strings would save how much, by buckets, and which symbols are used
//   classes   how many buckets there are of each class of savings
//   collect   the strings of the best buckets, with what each of them would save
//   select    the best of these strings join the table; the best table so far is kept
//   parse     of the joined table: what each symbol is worth
//   parse     of the table without the least of them: likewise. The next round's first parse begins without the rest
//
// A parse has a block for every BLOCK_CHUNKS chunks, in stretches of half a chunk:
//
//   keep      the symbols that stay: by what they were worth in the parse before, in every block
//   match     every position: the lengths of the symbols that begin there, a bit each
//   ahead     a lane a stretch, from its end: the fewest codes behind each place; beside it in another warp
//   behind    likewise from its start
//   next      every position: the longest symbol of a best parse
//   walk      a lane a stretch marks the positions that the parse comes to
//   weigh     every symbol of the parse, into sums
//   offer     every position: strings that would save codes, into sums of buckets
//
// Measured on one H200, text comments: 3.0 ms for four tables side by side and for one alone, 5.0 to 5.4 for 16. The CPU takes 120 ms a
// table. Of four tables' time the parses of rounds take 29 %, of thinned tables 29, of joined ones 21, selecting 11, collecting 7.
//
// What lost: 256 threads a block, a minimum of eight numbers a place and not of four pairs, a thread for four places that collects: 4.8 ms.
#include "fsst_train.cuh"

#define STRETCHES (BLOCK_CHUNKS * SAMPLE_CHUNK / STRETCH)  // of a block
#define SPAN (BLOCK_CHUNKS * SAMPLE_CHUNK)
#define SAMPLE_NBYTES (MAX_SAMPLE_CHUNKS * SAMPLE_CHUNK)
#define MAX_SYMBOLS 255
#define SYMBOL_SLOTS 1024
#define FILTER_NBYTES 2048
#define FAR 0x4000u    // more codes than a stretch can take
#define CUT 0x8000u    // a best parse may be cut there
#define ON_PARSE 128u  // the parse comes there
#define KEY 0x9E3779B97F4A7C15ull

// Kinds of a parse.
#define JOINED 0   // of the joined table
#define THINNED 1  // without three quarters of those that are to leave
#define ROUND 2    // of a round's table
#define CHECK 3    // of the first table and of the best, on the other sample

struct SymbolList {
  u64 symbols[MOST_SYMBOLS];
  u8 lengths[MOST_SYMBOLS + 1];
  u32 count, unused;
};
static_assert(MOST_SYMBOLS % 8 == 7, "no padding");

// What the search for a table has in global memory. Zeros before: from `sums` on.
struct Search {
  u8 samples[2][SAMPLE_NBYTES + 16];
  SymbolList lists[2];                      // of parses, in turns
  SymbolList candidates[2];                 // the first table and the best
  u16 places[SHARE_CHUNKS * SAMPLE_CHUNK];  // of the share: codes ahead | CUT
  u64 chars;                                // of the scope
  u32 nbytes;                               // of each sample
  u32 fewest;                               // bytes of codes and of the best table
  u32 sums[1 << BUCKET_BITS];
  u32 entries[STRING_SLOTS];  // of strings: fingerprint << 21 | position << 4 | length, 0: empty
  u32 savings[STRING_SLOTS];
  u32 classes[256];
  u32 worth[3][MOST_SYMBOLS + 1];  // written, read, cleared by turns
  u32 uses[MOST_SYMBOLS + 1];
  u32 total, strings, costs[2];
};
static_assert(sizeof(Search) <= SEARCH_NBYTES, "SEARCH_NBYTES");
static_assert(SAMPLE_NBYTES <= 1 << 17, "a string's position has 17 bits");

// The scope of a table that is searched, and where the tables go.
struct TableSearchView {
  u64 scope;    // address of its ScopeView
  u64 trained;  // address of its TrainedTable: the default level's, then the result
  u64 search;   // address
};

__device__ __forceinline__ Search* search_of(const TableSearchView* views) {
  return reinterpret_cast<Search*>(views[blockIdx.y].search);
}

__device__ __forceinline__ u64 prefix(u64 bytes, u32 length) { return bytes & ~0ull >> (64 - 8 * length); }

// The highest bits depend on all of a string.
__device__ __forceinline__ u64 hash_of(u64 bytes, u32 length) { return ((bytes << (64 - 8 * length)) + length) * KEY; }

__device__ __forceinline__ u32 bucket_of(u64 hash) { return u32(hash >> (64 - BUCKET_BITS)); }

// Classes of numbers, eight for each power of two.
__device__ __forceinline__ u32 class_of(u32 sum) {
  if (sum < 16) return sum;
  const u32 shift = 28 - __clz(sum);
  return 8 * shift + (sum >> shift);
}

__device__ __forceinline__ u32 shares_of(u32 nbytes) {
  constexpr u32 share = SHARE_CHUNKS * SAMPLE_CHUNK;
  return max(1u, (nbytes + share - 1) / share);
}

// Eight bytes at `at` of 32-bit words.
__device__ __forceinline__ u64 window_at(const u32* words, u32 at) {
  const u32 *w = words + at / 4, shift = 8 * (at % 4);
  return u64(__funnelshift_r(w[1], w[2], shift)) << 32 | __funnelshift_r(w[0], w[1], shift);
}

// Copies both samples, the default level's table to where the search begins, and clears what has to be zero.
// grid: (blocks of a parse, scopes).
extern "C" __global__ void __launch_bounds__(SEARCH_THREADS) fsst_max_begin(const TableSearchView* views) {
  __shared__ u64 bounds[2];
  const TableSearchView& view = views[blockIdx.y];
  const ScopeView& scope = *reinterpret_cast<const ScopeView*>(view.scope);
  Search* search = search_of(views);
  const u32 first_chunk = blockIdx.x * BLOCK_CHUNKS;
  if (threadIdx.x < 32) find_scope(scope, &bounds[0], &bounds[1]);
  __syncthreads();
  const u64 first_char = *Found(scope.found, scope.segments).first_char;
  const u64 begin = first_char + bounds[0], end = first_char + bounds[1], chars = end - begin;
  const u32 nbytes = u32(min(chars, u64(SAMPLE_NBYTES))), draws = chars > SAMPLE_NBYTES ? 2 : 1;
  constexpr u32 chunk_words = SAMPLE_CHUNK / 4;
  for (u32 i = threadIdx.x; i < draws * BLOCK_CHUNKS * chunk_words; i += SEARCH_THREADS) {
    const u32 draw = i / (BLOCK_CHUNKS * chunk_words), chunk = first_chunk + i / chunk_words % BLOCK_CHUNKS;
    if (chunk * SAMPLE_CHUNK >= nbytes) continue;
    const u64 at = begin + chunk_start(chunk, chars, MAX_SAMPLE_CHUNKS, draw) + 4 * (i % chunk_words);
    const u64 aligned = at & ~3ull;
    const u32 word =
        __funnelshift_r(load_word(aligned, begin, end), load_word(aligned + 4, begin, end), 8 * u32(at & 3));
    reinterpret_cast<u32*>(search->samples[draw])[chunk * chunk_words + i % chunk_words] = word;
  }
  u32* zeros = search->sums;
  const u32 words = u32(reinterpret_cast<u32*>(search + 1) - zeros);
  for (u32 i = blockIdx.x * SEARCH_THREADS + threadIdx.x; i < words; i += gridDim.x * SEARCH_THREADS) zeros[i] = 0;
  if (blockIdx.x > 0) return;
  const TrainedTable* table = reinterpret_cast<const TrainedTable*>(view.trained);
  for (u32 i = threadIdx.x; i < table->count; i += SEARCH_THREADS) {
    search->lists[0].symbols[i] = search->candidates[0].symbols[i] = table->symbols[i];
    search->lists[0].lengths[i] = search->candidates[0].lengths[i] = table->lengths[i];
  }
  if (threadIdx.x == 0) {
    search->lists[0].count = search->candidates[0].count = u32(table->count);
    search->candidates[1].count = 0;
    search->chars = chars;
    search->nbytes = nbytes;
    search->fewest = ~0u;
  }
}

// A block's parse, in shared memory.
struct Parse {
  u32 text[SPAN / 4 + 2];
  // Of each position: bits of the lengths that match, bit 0 for one byte; then the length of the symbol that is taken, 0 for an
  // escape, and ON_PARSE. An odd number of words, as the others: lanes at one place of their stretches hit different banks.
  u32 rows[STRETCHES][STRETCH / 4 + 1];
  u16 ahead[STRETCHES][STRETCH + 2];
  u16 behind[STRETCHES][STRETCH + 2];
  // Of symbols: a hash table, number << 4 | length, 0: empty; of one byte: number, or NONE. `filter`: of a hash of the first two
  // bytes, the lengths that symbols have, as in `rows`.
  u64 slot_symbols[SYMBOL_SLOTS];
  u32 slots[SYMBOL_SLOTS];
  u32 filter[FILTER_NBYTES / 4];
  u16 singles[256];
  u64 symbols[MOST_SYMBOLS];
  u8 lengths[MOST_SYMBOLS + 1];
  u32 sums[MOST_SYMBOLS + 1];  // of each symbol: uses << 16 | worth; before that, by what they are kept
  uint4 penalties[256];        // of the lengths in a byte of `rows`: codes for each length, 16 bits each; FAR for none
  u32 total;
};
#define NONE 0xffffu

__device__ __forceinline__ u32 filter_place(u32 two) { return ((two & 0xffff) * 0x9E3779B1u) >> 21; }
static_assert(FILTER_NBYTES == 1 << 11, "filter_place");

__device__ __forceinline__ u32 symbol_slot(u64 hash) { return u32(hash >> 54); }
static_assert(SYMBOL_SLOTS == 1 << 10, "symbol_slot");

// The number of the symbol that is the first `length` bytes of `window`, or NONE.
__device__ __forceinline__ u32 find_symbol(const Parse* p, u64 window, u32 length) {
  if (length == 1) return p->singles[window & 255];
  const u64 bytes = prefix(window, length);
  u32 slot = symbol_slot(hash_of(window, length)), there;
  for (; (there = p->slots[slot]) != 0; slot = (slot + 1) % SYMBOL_SLOTS)
    if ((there & 15) == length && p->slot_symbols[slot] == bytes) return there >> 4;
  return NONE;
}

// keep: the symbols of `from` that stay, by what they were worth. Returns their number. By all threads, with barriers.
__device__ __forceinline__ u32 keep_symbols(Parse* p, const SymbolList& from, const u32* worth, u32 kind) {
  const u32 count = from.count;
  const u32 over = count > MAX_SYMBOLS ? count - MAX_SYMBOLS : 0;
  const u32 kept = kind == ROUND ? count - over : kind == THINNED ? count - over + over / 4 : count;
  if (kept == count) {
    for (u32 i = threadIdx.x; i < count; i += PARSE_THREADS) {
      p->symbols[i] = from.symbols[i];
      p->lengths[i] = from.lengths[i];
    }
    return count;
  }
  u64* symbols = p->slot_symbols;  // not in use yet
  for (u32 i = threadIdx.x; i < count; i += PARSE_THREADS) {
    p->sums[i] = worth[i] << 4 | from.lengths[i];
    symbols[i] = from.symbols[i];
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < count; i += PARSE_THREADS) {
    const u32 own = p->sums[i];
    u32 rank = 0, equal = 0;
#pragma unroll 8
    for (u32 k = 0; k < count; ++k) {
      rank += p->sums[k] > own;
      equal += p->sums[k] == own;
    }
    for (u32 k = 0; equal > 1 && k < count; ++k)
      if (p->sums[k] == own) rank += symbols[k] < symbols[i];
    if (rank < kept) {
      p->symbols[rank] = symbols[i];
      p->lengths[rank] = u8(own & 15);
    }
  }
  __syncthreads();  // `sums` are cleared next
  return kept;
}

// The lookup tables of no symbols, and sums of nothing.
__device__ __forceinline__ void clear_parse(Parse* p) {
  for (u32 i = threadIdx.x; i < SYMBOL_SLOTS; i += PARSE_THREADS) p->slots[i] = 0;
  for (u32 i = threadIdx.x; i < FILTER_NBYTES / 4; i += PARSE_THREADS) p->filter[i] = 0;
  for (u32 i = threadIdx.x; i < 256; i += PARSE_THREADS) p->singles[i] = NONE;
  for (u32 i = threadIdx.x; i <= MOST_SYMBOLS; i += PARSE_THREADS) p->sums[i] = 0;
  for (u32 i = threadIdx.x; i < 256; i += PARSE_THREADS) {
    auto pair = [&](u32 low, u32 none) {
      return ((i >> low & 1) != 0 ? 1 : none) | ((i >> low & 2) != 0 ? 1 : FAR) << 16;
    };
    p->penalties[i] = make_uint4(pair(0, 2), pair(2, FAR), pair(4, FAR), pair(6, FAR));
  }
  if (threadIdx.x == 0) p->total = 0;
}

__device__ __forceinline__ void add_symbols(Parse* p, u32 count) {
  for (u32 i = threadIdx.x; i < count; i += PARSE_THREADS) {
    const u64 bytes = p->symbols[i];
    const u32 length = p->lengths[i];
    if (length == 1) {
      p->singles[bytes] = u16(i);
      continue;
    }
    u32 slot = symbol_slot(hash_of(bytes, length));
    while (atomicCAS(&p->slots[slot], 0, i << 4 | length) != 0) slot = (slot + 1) % SYMBOL_SLOTS;
    p->slot_symbols[slot] = bytes;
    const u32 place = filter_place(u32(bytes));
    atomicOr(&p->filter[place / 4], 1u << (8 * (place % 4) + length - 1));
  }
}

// Bytes of a block's stretch, of `left` bytes from the block's first on.
__device__ __forceinline__ u32 stretch_nbytes(u32 stretch, u32 left) {
  return stretch * STRETCH < left ? min(left - stretch * STRETCH, u32(STRETCH)) : 0;
}

// match: four positions at once, which share three words.
__device__ __forceinline__ void match_all(Parse* p, u32 left) {
  const u8* filter = reinterpret_cast<const u8*>(p->filter);
  for (u32 g = threadIdx.x; g < SPAN / 4; g += PARSE_THREADS) {
    const u32 stretch = g / (STRETCH / 4), at = 4 * (g % (STRETCH / 4)), nbytes = stretch_nbytes(stretch, left);
    const u32 a = p->text[g], b = p->text[g + 1], c = p->text[g + 2];
    u32 word = 0;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      if (at + k >= nbytes) break;
      const u32 lo = __funnelshift_r(a, b, 8 * k), hi = __funnelshift_r(b, c, 8 * k), room = min(8u, nbytes - at - k);
      const u64 window = u64(hi) << 32 | lo;
      u32 found = p->singles[lo & 255] != NONE;
      for (u32 rest = filter[filter_place(lo)] & ((1u << room) - 1); rest != 0; rest &= rest - 1) {
        const u32 length = __ffs(rest);
        if (find_symbol(p, window, length) != NONE) found |= 1u << (length - 1);
      }
      word |= found << (8 * k);
    }
    p->rows[stretch][at / 4] = word;
  }
}

__device__ __forceinline__ u32 min_pairs(u32 a, u32 b) {
#ifdef __CUDA_ARCH__
  return __vminu2(a, b);
#else
  return min(a & 0xffff, b & 0xffff) | min(a >> 16, b >> 16) << 16;
#endif
}

// ahead: a lane's stretch. Costs of the eight places behind, in pairs, the nearest lowest.
__device__ __forceinline__ void parse_ahead(const uint4* penalties, const u32* row, u16* ahead, u32 nbytes) {
  u32 a = 0, b = 0, c = 0, d = 0;
  ahead[nbytes] = 0;
  for (u32 w = (nbytes + 3) / 4; w-- > 0;) {
    const u32 word = row[w];
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      const uint4 more = penalties[word >> (8 * i) & 255];
      const u32 pair = min_pairs(min_pairs(d + more.w, c + more.z), min_pairs(b + more.y, a + more.x));
      const bool inside = 4 * w + i < nbytes;
      const u32 least = inside ? min(pair & 0xffff, pair >> 16) : 0;
      if (inside) ahead[4 * w + i] = u16(least);
      d = __funnelshift_l(c, d, 16);
      c = __funnelshift_l(b, c, 16);
      b = __funnelshift_l(a, b, 16);
      a = a << 16 | least;
    }
  }
}

// behind: likewise; costs of the eight places ahead, as far as they are known.
__device__ __forceinline__ void parse_behind(const uint4* penalties, const u32* row, u16* behind, u32 nbytes) {
  constexpr u32 none = FAR | FAR << 16;
  u32 a = none, b = none, c = none, d = none, cost = 0;
  behind[0] = 0;
  for (u32 w = 0; w < (nbytes + 3) / 4; ++w) {
    const u32 word = row[w];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const uint4 more = penalties[word >> (8 * i) & 255];
      const u32 both = cost | cost << 16;
      a = min_pairs(a, both + more.x);
      b = min_pairs(b, both + more.y);
      c = min_pairs(c, both + more.z);
      d = min_pairs(d, both + more.w);
      cost = a & 0xffff;
      if (4 * w + i < nbytes) behind[4 * w + i + 1] = u16(cost);
      a = __funnelshift_r(a, b, 16);
      b = __funnelshift_r(b, c, 16);
      c = __funnelshift_r(c, d, 16);
      d = d >> 16 | FAR << 16;
    }
  }
}

// next: the longest symbol of a best parse from every position on.
__device__ __forceinline__ void choose_all(Parse* p, u32 left) {
  for (u32 g = threadIdx.x; g < SPAN / 4; g += PARSE_THREADS) {
    const u32 stretch = g / (STRETCH / 4), at = 4 * (g % (STRETCH / 4)), nbytes = stretch_nbytes(stretch, left);
    const u32 masks = p->rows[stretch][at / 4];
    u32 word = 0;
    for (u32 k = 0; k < 4 && at + k < nbytes; ++k) {
      const u16* ahead = p->ahead[stretch] + at + k;
      u32 length = 0;
      for (u32 rest = masks >> (8 * k) & 255; rest != 0; rest &= rest - 1) {
        const u32 bit = __ffs(rest);
        if (ahead[bit] + 1 == ahead[0]) length = bit;
      }
      word |= length << (8 * k);
    }
    p->rows[stretch][at / 4] = word;
  }
}

__device__ __forceinline__ void mark_parse(u8* row, u32 nbytes) {
  for (u32 at = 0; at < nbytes;) {
    const u32 length = row[at];
    row[at] = u8(length | ON_PARSE);
    at += max(length, 1u);
  }
}

// weigh: how many more codes a stretch takes that is cut somewhere within the symbol; of a byte its escape's.
__device__ __forceinline__ void weigh_all(Parse* p, u32 left) {
  for (u32 at = threadIdx.x; at < min(left, u32(SPAN)); at += PARSE_THREADS) {
    const u32 stretch = at / STRETCH, i = at % STRETCH;
    const u32 taken = reinterpret_cast<const u8*>(p->rows[stretch])[i], length = taken & 15;
    if ((taken & ON_PARSE) == 0 || length == 0) continue;
    const u32 symbol = find_symbol(p, window_at(p->text, at), length);
    const u16 *ahead = p->ahead[stretch], *behind = p->behind[stretch];
    u32 least = length == 1 ? ahead[0] + 1u : FAR;
    for (u32 cut = i + 1; cut < i + length; ++cut) least = min(least, u32(behind[cut]) + ahead[cut]);
    atomicAdd(&p->sums[symbol], 1 << 16 | (least - ahead[0]));
  }
}

// What the string of `length` bytes would save that begins where `ahead` lies: codes, if more than none.
__device__ __forceinline__ i32 saving_of(const u16* ahead, u32 length) {
  return i32(ahead[0] & ~CUT) - i32(ahead[length] & ~CUT) - 1;
}

// offer: into buckets. Notes for fsst_max_collect which places there are.
__device__ __forceinline__ void offer_strings(const Parse* p, Search* search, u32 left, u32 share, u32 shares) {
  const u32 first_chunk = blockIdx.x * BLOCK_CHUNKS;
  for (u32 at = threadIdx.x; at < min(left, u32(SPAN)); at += PARSE_THREADS) {
    const u32 chunk = first_chunk + at / SAMPLE_CHUNK;
    if (chunk % shares != share) continue;
    const u32 stretch = at / STRETCH, i = at % STRETCH, nbytes = stretch_nbytes(stretch, left);
    const u16 *ahead = p->ahead[stretch] + i, *behind = p->behind[stretch] + i;
    const bool cut = u32(ahead[0]) + behind[0] == p->ahead[stretch][0];
    search->places[chunk / shares * SAMPLE_CHUNK + at % SAMPLE_CHUNK] = u16(ahead[0] | (cut ? CUT : 0));
    if (!cut) continue;
    const u64 window = window_at(p->text, at);
    for (u32 length = 1; length <= min(8u, nbytes - i); ++length) {
      const i32 saved = saving_of(ahead, length);
      if (saved > 0) atomicAdd(&search->sums[bucket_of(hash_of(window, length))], u32(saved));
    }
  }
}

// `number`: of the parse, from 0 on; `round`: of a parse that offers, else negative.
// grid: (as many blocks as the sample may have shares, scopes), of a CHECK two of these.
extern "C" __global__ void __launch_bounds__(PARSE_THREADS)
    fsst_max_parse(const TableSearchView* views, u32 kind, u32 number, i32 round) {
  __shared__ Parse parse;
  Parse* p = &parse;
  Search* search = search_of(views);
  if (kind == JOINED) {  // what this round added up is not needed any more
    for (u32 i = blockIdx.x * PARSE_THREADS + threadIdx.x; i < 1u << BUCKET_BITS; i += gridDim.x * PARSE_THREADS)
      search->sums[i] = 0;
  }
  const bool check = kind == CHECK;
  const u8* sample = search->samples[check && search->chars > SAMPLE_NBYTES];
  const u32 nbytes = search->nbytes, begin = blockIdx.x * SPAN;
  if (begin >= nbytes && blockIdx.x > 0) return;
  const u32 left = min(nbytes - begin, u32(SPAN));
  const SymbolList& from = check ? search->candidates[blockIdx.z] : search->lists[number % 2];
  const u32 count = keep_symbols(p, from, search->worth[(number + 2) % 3], kind);
  clear_parse(p);
  for (u32 i = threadIdx.x; i < SPAN / 4 + 2; i += PARSE_THREADS)
    p->text[i] = 4 * i < left + 8 ? reinterpret_cast<const u32*>(sample + begin)[i] : 0;
  __syncthreads();
  add_symbols(p, count);
  if (blockIdx.x == 0 && !check) {
    SymbolList& to = search->lists[(number + 1) % 2];
    for (u32 i = threadIdx.x; i < count; i += PARSE_THREADS) {
      to.symbols[i] = p->symbols[i];
      to.lengths[i] = p->lengths[i];
    }
    if (threadIdx.x == 0) to.count = count;
    for (u32 i = threadIdx.x; i <= MOST_SYMBOLS; i += PARSE_THREADS) search->worth[(number + 1) % 3][i] = 0;
  }
  if (kind <= THINNED && count <= MAX_SYMBOLS) return;  // none has to leave
  __syncthreads();
  match_all(p, left);
  __syncthreads();
  const u32 warp = threadIdx.x / 32, stretch = threadIdx.x % 32, nbytes_of_stretch = stretch_nbytes(stretch, left);
  if (stretch < STRETCHES && warp == 0)
    parse_ahead(p->penalties, p->rows[stretch], p->ahead[stretch], nbytes_of_stretch);
  if (stretch < STRETCHES && warp == 1 && !check)
    parse_behind(p->penalties, p->rows[stretch], p->behind[stretch], nbytes_of_stretch);
  __syncthreads();
  if (kind >= ROUND && warp == 0 && stretch < STRETCHES)
    atomicAdd(&p->total, min(u32(p->ahead[stretch][0]), nbytes_of_stretch));
  if (check) {
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&search->costs[blockIdx.z], p->total);
    return;
  }
  choose_all(p, left);
  __syncthreads();
  if (warp == 0 && stretch < STRETCHES) mark_parse(reinterpret_cast<u8*>(p->rows[stretch]), nbytes_of_stretch);
  const u32 shares = shares_of(nbytes);
  if (round >= 0) offer_strings(p, search, left, u32(round) % shares, shares);
  __syncthreads();
  weigh_all(p, left);
  __syncthreads();
  for (u32 i = threadIdx.x; i < count; i += PARSE_THREADS) {
    const u32 worth = p->sums[i] & 0xffff, uses = p->sums[i] >> 16;
    if (worth > 0) atomicAdd(&search->worth[number % 3][i], worth);
    if (kind == ROUND && uses > 0) atomicAdd(&search->uses[i], uses);
  }
  if (kind == ROUND && threadIdx.x == 0) atomicAdd(&search->total, p->total);
}
static_assert(STRETCHES <= 32, "a lane a stretch");
static_assert(15 * SPAN < 1 << 16, "sums");

// How many buckets there are of each class.
// grid: (any, scopes).
extern "C" __global__ void __launch_bounds__(SEARCH_THREADS) fsst_max_classes(const TableSearchView* views) {
  __shared__ u32 classes[256];
  Search* search = search_of(views);
  for (u32 i = threadIdx.x; i < 256; i += SEARCH_THREADS) classes[i] = 0;
  __syncthreads();
  for (u32 i = blockIdx.x * SEARCH_THREADS + threadIdx.x; i < 1u << BUCKET_BITS; i += gridDim.x * SEARCH_THREADS) {
    const u32 sum = search->sums[i];
    if (sum > 0) atomicAdd(&classes[class_of(sum)], 1);
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < 256; i += SEARCH_THREADS)
    if (classes[i] > 0) atomicAdd(&search->classes[i], classes[i]);
}

// The lowest class that has, with all above it, at most MOST_BUCKETS buckets. By one warp.
__device__ __forceinline__ u32 lowest_class(const u32* classes) {
  u32 counts[8], sum = 0;  // 8 classes a lane, from above
#pragma unroll
  for (u32 k = 0; k < 8; ++k) sum += counts[k] = classes[255 - 8 * lane_id() - k];
  u32 above = warp_inclusive_sum(sum) - sum, fit = 0;
#pragma unroll
  for (u32 k = 0; k < 8; ++k) {
    above += counts[k];
    fit += above <= MOST_BUCKETS;
  }
  for (u32 delta = 16; delta > 0; delta /= 2) fit += __shfl_xor_sync(ALL_LANES, fit, delta);
  return max(256 - fit, 1u);
}

// Adds up what each string would save that lies in a bucket of the best classes, unless there are too many of them.
// grid: (any, scopes).
extern "C" __global__ void __launch_bounds__(SEARCH_THREADS) fsst_max_collect(const TableSearchView* views, u32 round) {
  __shared__ u32 lowest;
  Search* search = search_of(views);
  const u32 nbytes = search->nbytes, shares = shares_of(nbytes), share = round % shares;
  const u32* sample = reinterpret_cast<const u32*>(search->samples[0]);
  if (threadIdx.x < 32) {
    const u32 found = lowest_class(search->classes);
    if (threadIdx.x == 0) lowest = found;
  }
  __syncthreads();
  volatile u32* strings = &search->strings;
  for (u32 k = blockIdx.x * SEARCH_THREADS + threadIdx.x; k < SHARE_CHUNKS * SAMPLE_CHUNK;
       k += gridDim.x * SEARCH_THREADS) {
    const u32 at = (k / SAMPLE_CHUNK * shares + share) * SAMPLE_CHUNK + k % SAMPLE_CHUNK;
    if (at >= nbytes || (search->places[k] & CUT) == 0) continue;
    const u32 room = min(min(8u, nbytes - at), STRETCH - at % STRETCH);
    const u64 window = window_at(sample, at);
    u32 wanted = 0;  // bit for a length
#pragma unroll
    for (u32 length = 1; length <= 8; ++length) {  // all loads under way before the first is used
      const u32 sum = search->sums[bucket_of(hash_of(window, length))];
      wanted |= u32(length <= room && class_of(sum) >= lowest) << (length - 1);
    }
    for (; wanted != 0; wanted &= wanted - 1) {
      const u32 length = __ffs(wanted);
      const bool at_end = at % STRETCH + length == STRETCH || at + length == nbytes;
      const i32 saved = at_end ? i32(search->places[k] & ~CUT) - 1 : saving_of(search->places + k, length);
      if (saved <= 0) continue;
      const u64 hash = hash_of(window, length);
      const u64 mixed = (hash ^ hash >> 29) * KEY;
      const u32 entry = u32(mixed >> 40) << 21 | at << 4 | length;
      u32 slot = u32(mixed >> 51);
      for (u32 tries = 0; tries < STRING_SLOTS && *strings <= MOST_STRINGS; ++tries) {
        const u32 there = atomicCAS(&search->entries[slot], 0, entry);
        if (there == 0) atomicAdd(&search->strings, 1);
        const bool same =
            there == 0 || ((there ^ entry) >> 21 == 0 && (there & 15) == length &&
                           prefix(window_at(sample, there >> 4 & 0x1ffff), length) == prefix(window, length));
        if (same) {
          atomicAdd(&search->savings[slot], u32(saved));
          break;
        }
        slot = (slot + 1) % STRING_SLOTS;
      }
    }
  }
}
static_assert(STRING_SLOTS == 1 << 13, "a slot is 13 bits of the hash");

struct Selection {
  u32 keys[MOST_STRINGS];
  u16 slots[MOST_STRINGS];
  u32 histogram[256];
  u32 count, taken, bin, above, in_bin, nbytes, kept;
};

// Keeps the table of the round, without symbols that are not used, if it is the best so far.
__device__ __forceinline__ void keep_smallest(Selection* s, Search* search, const SymbolList& list) {
  if (threadIdx.x == 0) s->nbytes = search->total, s->kept = 0;
  __syncthreads();
  for (u32 i = threadIdx.x; i < list.count; i += SELECT_THREADS)
    if (search->uses[i] > 0) atomicAdd(&s->nbytes, list.lengths[i]);
  __syncthreads();
  const u32 nbytes = s->nbytes;
  if (nbytes < search->fewest) {
    SymbolList& best = search->candidates[1];
    for (u32 i = threadIdx.x; i < list.count; i += SELECT_THREADS) {
      if (search->uses[i] == 0) continue;
      const u32 place = atomicAdd(&s->kept, 1);
      best.symbols[place] = list.symbols[i];
      best.lengths[place] = list.lengths[i];
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    if (nbytes < search->fewest) search->candidates[1].count = s->kept, search->fewest = nbytes;
    search->total = 0;
  }
  for (u32 i = threadIdx.x; i <= MOST_SYMBOLS; i += SELECT_THREADS) search->uses[i] = 0;
}

// The best strings join the table that parse `number` left: at most `joining` more than it has room for.
// grid: (1, scopes).
extern "C" __global__ void __launch_bounds__(SELECT_THREADS)
    fsst_max_select(const TableSearchView* views, u32 number, u32 joining) {
  __shared__ Selection selection;
  Selection* s = &selection;
  Search* search = search_of(views);
  SymbolList& list = search->lists[(number + 1) % 2];
  keep_smallest(s, search, list);
  if (joining == 0) return;
  const u32* sample = reinterpret_cast<const u32*>(search->samples[0]);
  if (threadIdx.x == 0) s->count = s->taken = 0;
  __syncthreads();
  const bool too_many = search->strings > MOST_STRINGS;
  for (u32 i = threadIdx.x; i < STRING_SLOTS; i += SELECT_THREADS) {
    const u32 length = search->entries[i] & 15, saved = search->savings[i];
    if (saved <= length || too_many) continue;  // it takes as much in the stored table
    const u32 place = atomicAdd(&s->count, 1);
    s->slots[place] = u16(i);
    s->keys[place] = saved << 4 | length;
  }
  for (u32 i = threadIdx.x; i < 256; i += SELECT_THREADS) search->classes[i] = 0;
  __syncthreads();
  const u32 count = s->count, before = list.count;
  const u32 most = min(count, joining + MAX_SYMBOLS - before);
  auto string_of = [&](u32 i) {
    const u32 entry = search->entries[s->slots[i]];
    return prefix(window_at(sample, entry >> 4 & 0x1ffff), entry & 15);
  };
  // The key of the last that joins, digit by digit.
  u32 last = 0, wanted = most;
  for (u32 digit = 0; digit < 4 && count > most; ++digit) {
    const u32 shift = 8 * (3 - digit);
    for (u32 i = threadIdx.x; i < 256; i += SELECT_THREADS) s->histogram[i] = 0;
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += SELECT_THREADS)
      if (digit == 0 || s->keys[i] >> (shift + 8) == last) atomicAdd(&s->histogram[s->keys[i] >> shift & 255], 1);
    __syncthreads();
    if (threadIdx.x < 32) find_bin(s->histogram, wanted, &s->bin, &s->above, &s->in_bin);
    __syncthreads();
    last = last << 8 | s->bin;
    wanted -= s->above;
  }
  // `wanted` of those with the last key join, the smallest.
  for (u32 i = threadIdx.x; i < count; i += SELECT_THREADS) {
    const u32 key = s->keys[i];
    if (key < last) continue;
    if (key == last) {
      u32 smaller = 0;
      for (u32 k = 0; k < count; ++k)
        if (s->keys[k] == key && k != i) smaller += string_of(k) < string_of(i);
      if (smaller >= wanted) continue;
    }
    const u32 place = before + atomicAdd(&s->taken, 1);
    list.symbols[place] = string_of(i);
    list.lengths[place] = u8(key & 15);
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < STRING_SLOTS; i += SELECT_THREADS) search->entries[i] = search->savings[i] = 0;
  if (threadIdx.x == 0) {
    list.count = before + s->taken;
    search->strings = 0;
  }
}

// Writes the better of two tables: the best, if it is better by a part in CHECK_MARGIN where samples were drawn, else the first.
// grid: (1, scopes).
extern "C" __global__ void __launch_bounds__(SEARCH_THREADS) fsst_max_choose(const TableSearchView* views) {
  __shared__ u32 costs[2];
  Search* search = search_of(views);
  if (threadIdx.x < 2) costs[threadIdx.x] = search->costs[threadIdx.x];
  __syncthreads();
  for (u32 i = threadIdx.x; i < 2 * MOST_SYMBOLS; i += SEARCH_THREADS) {
    const SymbolList& list = search->candidates[i / MOST_SYMBOLS];
    if (i % MOST_SYMBOLS < list.count) atomicAdd(&costs[i / MOST_SYMBOLS], list.lengths[i % MOST_SYMBOLS]);
  }
  __syncthreads();
  const u32 margin = search->chars > SAMPLE_NBYTES ? costs[0] / CHECK_MARGIN : 0;
  const SymbolList& list = search->candidates[costs[1] + margin < costs[0]];
  TrainedTable* table = reinterpret_cast<TrainedTable*>(views[blockIdx.y].trained);
  for (u32 i = threadIdx.x; i < list.count; i += SEARCH_THREADS) {
    table->symbols[i] = list.symbols[i];
    table->lengths[i] = list.lengths[i];
  }
  if (threadIdx.x == 0) table->count = list.count;
}
