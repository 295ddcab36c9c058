// OnPair training: the same tables as cudf_fsst/codecs/onpair/train.py, bit for bit. All scopes go through the same launches side by side.
//
// What the rounds count are sums of integers, and which strings are kept follows from these sums and the strings themselves. So it does not
// matter in which order threads add, nor how the codes of a table in training are numbered; only the last table is put in order.
//
//   onpair_sample  chunks of the scope -> sample; the first table: the single bytes; everything that counts is 0
//   onpair_train   ten rounds of
//     count   some threads a chunk: longest symbols of all places, tokens, what they gain; neighbours
//     collect all strings that may be symbols -> a hash table of strings, with the sum of their gains
//     filter  those that pay for their place -> a list, and how many have what gain
//     divide  that list into what is kept, what is not, and some between
//     select  the best of these -> the next table: a hash table of its symbols, for two bytes the lengths of symbols that begin
//             with these, and of every symbol the next shorter one that begins it. By one block.
//   and then
//     rank    the last table in order, for the host and for the encoder
//     index   what the encoder finds symbols in (onpair.cuh)
//
// Work unit of onpair_train: some blocks a scope, which run at the same time (a cooperative launch) and wait for each other behind every
// step: four or five times a round, one to four microseconds each. Before, every step was a launch, and counting was slower:
// l_comment, 1 MB, took 1.45 ms instead of 1.05, faust 1.50 instead of 1.39 (the least of 61 whole calls, on a slow host).
// Two that lost: blocks of 512 threads, two on a multiprocessor (l_comment SF 10 6.9 ms instead of 6.5), and fewer blocks for a small
// column, for each has then more to do (1.74 ms instead of 1.37 with an eighth of them).
// What reads a sum sets it back to 0 for the next round.
//
// A hash table of strings has 8 bytes a place: what the string is made of (Source), and its gain. Strings are compared as such, so no
// two that differ are taken for one. A table has a quarter more places than may be put into it.
#include "fsst_train.cuh"
#include "onpair.cuh"

#define MOST_CODES (4096 * TRAIN_SPARE / 64)
#define SLOTS (1u << 14)
#define STEPS 16
#define CHUNK SAMPLE_CHUNK
#define BINS 2048
#define MOST_EDGES 16384
#define LENGTHS_OF 8192
#define FINALISTS 512

// A table in training.
struct Growing {
  u64 words[MOST_CODES][2];
  u8 lengths[MOST_CODES];
};

// What a scope's training has beside its large arrays.
struct TrainState {
  Growing tables[2];  // rounds take turns
  u64 column;         // characters of the scope
  u32 chunks, last;   // of the sample, and bytes of the last one
  u32 counts[2];      // codes of the tables
  u32 listed;
  u32 made, edge;  // strings of the list that are kept, and that are in the bin of the first that has no place
  u32 arrived;     // blocks, at all barriers up to now
  u32 unused;
  u32 histogram[BINS];    // of the list, see bin_of
  u32 found[MOST_CODES];  // of a symbol, see found_symbol
  u16 ranks[MOST_CODES];  // of the last table
  u32 kept[MOST_CODES];   // what the symbols of the next table are made of
  u32 slots[SLOTS];       // of symbols: code + 1, and 16 bits of their hash above
  // Of two bytes b0 | b1 << 8, half a word each: bit n - 2 if a symbol of n bytes begins with them. Then the same of symbols of 4 bytes
  // and more, by a hash of the first 4, and of 8 bytes and more, by one of the first 8.
  u32 lengths_of[32768];
  u32 lengths_of_4[LENGTHS_OF / 2];
  u32 lengths_of_8[LENGTHS_OF / 2];
  int gains[MOST_CODES];
  u32 edges[MOST_EDGES];  // of the list, numbers of strings in the bin of the first that has no place
};

struct TrainView {
  u64 scope;          // address of a ScopeView
  u64 state;          // address of a TrainState
  u64 sample;         // address, u8[512 * most_chunks]
  u64 extended;       // address, int[MOST_CODES << 8] at most: gains of symbols with one byte more
  u64 pairs;          // address, of a place: key, count
  u64 strings;        // address, of a place: source, gain
  u64 keys, sources;  // addresses of the list: by what strings are kept, and what they are made of
  u64 bits;
  u64 buckets;      // of the lookup
  u64 draw_chunks;  // the most chunks of a sample, whatever the scope; 0: as many as level `default` has
  u64 most_chunks;  // for which there is room
  u64 exported;     // address of a OnpairTrained
  u64 lookup;       // address of an OnpairLookup
};

// What the host makes a table of.
struct OnpairTrained {
  u64 words[8192];  // two of each code
  u8 lengths[4096];
  u64 count;
};

// What a round parses and keeps.
struct TrainRound {
  u32 step, first;  // chunks whose number is `first` modulo `step`
  bool spare;       // the last round but one keeps TRAIN_SPARE / 64 of the codes
  bool grows;
  u32 from;  // which table it begins with

  // `parts`: step | first << 4 of each round, a byte.
  __device__ __forceinline__ TrainRound(u64 parts, u64 more_parts, u32 i)
      : spare(i + 2 == TRAIN_ROUNDS), grows(i + 1 < TRAIN_ROUNDS), from(i & 1) {
    const u32 part = u32((i < 8 ? parts : more_parts) >> (8 * (i & 7)));
    step = part & 15, first = part >> 4 & 15;
  }
};
static_assert(TRAIN_ROUNDS <= 16, "a byte a round");

__device__ __forceinline__ TrainState& state_of(const TrainView& view) {
  return *reinterpret_cast<TrainState*>(view.state);
}

// Bytes that a round parses.
__device__ __forceinline__ u64 part_nbytes(const TrainState& state, const TrainRound& round) {
  if (state.chunks <= round.first) return 0;
  const u32 count = (state.chunks - round.first + round.step - 1) / round.step;
  const bool has_last = (state.chunks - 1 - round.first) % round.step == 0;
  return u64(count) * CHUNK - (has_last ? CHUNK - state.last : 0);
}

// Places of a hash table that holds `most` entries at most: so many that a fifth stays empty, some thousand.
__device__ __forceinline__ u32 places_for(u64 most) { return u32((most + most / 4) / 1024 + 1) * 1024; }
__device__ __forceinline__ u32 pair_places(const TrainState& state, const TrainRound& round) {
  return places_for(part_nbytes(state, round));
}
// Symbols, pairs that are met twice and symbols with a byte more. Of T tokens there are T / 2 such pairs at most, and no more symbols with a
// byte more than tokens of two bytes or more: T, and what there are more bytes than tokens.
__device__ __forceinline__ u64 most_strings(u64 part) { return part - part / 4 + MOST_CODES; }
__device__ __forceinline__ u32 string_places(const TrainState& state, const TrainRound& round) {
  return places_for(most_strings(part_nbytes(state, round)));
}
__device__ __forceinline__ u32 place_of(u32 hash, u32 places) { return __umulhi(hash, places); }
__device__ __forceinline__ u32 place_after(u32 place, u32 places) { return place + 1 == places ? 0 : place + 1; }

// A string of 1 to 16 bytes, zeros behind it.
struct Spelled {
  u64 low, high;
  u32 length;

  __device__ __forceinline__ bool operator==(const Spelled& other) const {
    return low == other.low && high == other.high && length == other.length;
  }
  __device__ __forceinline__ u64 hash() const {
    u64 x = low * u64(TRAIN_HASH_LOW) ^ (high + length) * u64(TRAIN_HASH_HIGH);
    x ^= x >> 32;
    return x * u64(TRAIN_HASH_LOW);
  }
  // Of slots: the place, and what is compared there.
  __device__ __forceinline__ u32 slot_hash() const {
    return u32(low) * HASH_1 + u32(low >> 32) * HASH_2 + u32(high) * HASH_3 + u32(high >> 32) * HASH_4 +
           length * HASH_LENGTH;
  }
};

__device__ __forceinline__ Spelled text_of(const Growing& table, u32 code) {
  return {table.words[code][0], table.words[code][1], table.lengths[code]};
}

// `a` with `b` behind it; 16 bytes at most together, of which `a` has 1 to 15.
__device__ __forceinline__ Spelled join(const Spelled& a, const Spelled& b) {
  Spelled made = a;
  const u32 bits = 8 * a.length;
  if (a.length < 8) {
    made.low |= b.low << bits;
    made.high |= b.high << bits | b.low >> (64 - bits);
  } else {
    made.high |= b.low << (bits - 64);
  }
  made.length += b.length;
  return made;
}

// The first `length` bytes of a string.
__device__ __forceinline__ Spelled begin_of(const Spelled& text, u32 length) {
  return {text.low & shift_right(~0ull, length < 8 ? 64 - 8 * length : 0),
          length <= 8 ? 0 : text.high & shift_right(~0ull, 128 - 8 * length), length};
}

// What a string is made of: 1 << 28 | symbol; 2 << 28 | symbol << 14 | symbol behind it; 3 << 28 | symbol << 14 | byte behind it.
__device__ __forceinline__ Spelled text_of_source(const Growing& table, u32 source) {
  const u32 kind = source >> 28, a = source >> 14 & 16383, b = source & 16383;
  if (kind == 1) return text_of(table, b);
  return join(text_of(table, a), kind == 2 ? text_of(table, b) : Spelled{b, 0, 1});
}

__device__ __forceinline__ u32 first_slot(u32 slot_hash) { return slot_hash / (0xffffffffu / SLOTS + 1); }

// The code of a symbol, or 0. `slot`: what is in its first slot.
__device__ __forceinline__ u32 symbol_spelled(const TrainState& state, const Growing& table, const Spelled& text,
                                              u32 slot_hash, u32 slot) {
  for (u32 at = first_slot(slot_hash); slot != 0; slot = state.slots[at]) {
    const u32 code = (slot & 0xffff) - 1;
    if ((slot ^ slot_hash << 16) < 1u << 16 && text_of(table, code) == text) return code;
    at = (at + 1) & (SLOTS - 1);
  }
  return 0;
}

// Where the lengths of symbols that begin as a string are, by its first 4 and 8 bytes.
__device__ __forceinline__ u32 place_of_4(const Spelled& text) {
  return u32(text.low) * u32(TRAIN_HASH_LOW) / (0xffffffffu / LENGTHS_OF + 1);
}
__device__ __forceinline__ u32 place_of_8(const Spelled& text) {
  return (u32(text.low) * u32(TRAIN_HASH_LOW) + u32(text.low >> 32) * u32(TRAIN_HASH_HIGH)) /
         (0xffffffffu / LENGTHS_OF + 1);
}

// The longest symbol of at most `most` bytes that begins a string of at least as many.
__device__ __forceinline__ u32 longest_symbol(const TrainState& state, const Growing& table, const Spelled& text,
                                              u32 most) {
  const u32 pair = u32(text.low) & 0xffff, first = pair & 255, four = place_of_4(text), eight = place_of_8(text);
  if (most < 2) return first;
  const u32 of_4 = state.lengths_of_4[four / 2] >> (16 * (four & 1));
  const u32 of_8 = state.lengths_of_8[eight / 2] >> (16 * (eight & 1));
  u32 lengths = state.lengths_of[pair / 2] >> (16 * (pair & 1)) & ((1u << (most - 1)) - 1);
  // Two and three bytes are bits 0 and 1, 4 to 7 bytes bits 2 to 5.
  lengths &= (of_4 | 0x3) & (of_8 | 0x3f);
  while (lengths != 0) {
    // Two lengths at a time, whose slots are on their way together.
    const u32 length = 33 - u32(__clz(int(lengths)));
    lengths &= ~(1u << (length - 2));
    const u32 other = lengths != 0 ? 33 - u32(__clz(int(lengths))) : length;
    const u32 of_one = begin_of(text, length).slot_hash(), of_two = begin_of(text, other).slot_hash();
    const u32 slot = state.slots[first_slot(of_one)], slot_two = state.slots[first_slot(of_two)];
    const u32 code = symbol_spelled(state, table, begin_of(text, length), of_one, slot);
    if (code != 0) return code;
    if (other == length) break;
    const u32 second = symbol_spelled(state, table, begin_of(text, other), of_two, slot_two);
    if (second != 0) return second;
    lengths &= ~(1u << (other - 2));
  }
  return first;
}

// Zeros, 16 bytes each.
__device__ __forceinline__ void clear(u64 address, u32 count, u32 thread, u32 threads) {
  for (u32 i = thread; i < count; i += threads) reinterpret_cast<uint4*>(address)[i] = make_uint4(0, 0, 0, 0);
}

// What is found at a place: the longest symbol, its length and that of the next shorter one that begins it.
__device__ __forceinline__ u32 found_symbol(u32 code, u32 length, u32 shorter) {
  return code | length << 13 | shorter << 18;
}
__device__ __forceinline__ u32 found_code(u32 found) { return found & 8191; }
__device__ __forceinline__ u32 found_length(u32 found) { return found >> 13 & 31; }
__device__ __forceinline__ u32 found_shorter(u32 found) { return found >> 18; }

// Waits for all blocks of a scope; what they wrote before is seen behind it. `waited`: how often they have.
__device__ __forceinline__ void scope_sync(TrainState& state, u32& waited) {
  ++waited;
  __syncthreads();
  if (threadIdx.x == 0) {
    const u32 wanted = waited * gridDim.x;
#ifdef __CUDA_ARCH__
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(&state.arrived) : "memory");
    u32 arrived;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(&state.arrived) : "memory");
    } while (arrived < wanted);
#else
    atomicAdd(&state.arrived, 1u);
    while (*const_cast<const volatile u32*>(&state.arrived) < wanted) __nanosleep(20);
#endif
  }
  __syncthreads();
}

// grid: (any, scopes); block: SAMPLE_THREADS.
extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS) onpair_sample(const TrainView* views) {
  __shared__ u64 start;
  __shared__ u64 stop;
  const TrainView& view = views[blockIdx.y];
  const ScopeView& scope = *reinterpret_cast<const ScopeView*>(view.scope);
  TrainState& state = state_of(view);
  if (threadIdx.x < 32) find_scope(scope, &start, &stop);
  __syncthreads();
  const u64 chars = stop - start;
  const u64 wanted = view.draw_chunks != 0
                         ? view.draw_chunks
                         : min(max(chars / TRAIN_PART / CHUNK, u64(TRAIN_MIN_CHUNKS)), u64(TRAIN_MAX_CHUNKS));
  const u32 most = u32(wanted);
  const u32 chunks = u32(min(u64(most), (chars + CHUNK - 1) / CHUNK)), room = u32(min(u64(chunks), view.most_chunks));
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) {
      state.column = chars;
      state.chunks = room;
      // A scope that is its own sample may end within a chunk.
      state.last = chars < u64(most) * CHUNK && room > 0 ? u32(chars - u64(room - 1) * CHUNK) : CHUNK;
      state.counts[0] = 256;
      const u32 bits = u32(view.bits);
      OnpairLookup& lookup = *reinterpret_cast<OnpairLookup*>(view.lookup);
      lookup.bits = bits, lookup.count = u32(view.buckets), lookup.unused = 0;
      lookup.nbytes = u32(sizeof(OnpairLookup)) + 12 * lookup.count + (16u << bits);
    }
    for (u32 i = threadIdx.x; i < 512; i += blockDim.x) {
      Growing& table = state.tables[i / 256];
      const u32 byte = i & 255;
      table.words[byte][0] = byte, table.words[byte][1] = 0;
      table.lengths[byte] = 1;
      state.found[byte] = found_symbol(byte, 1, 1);
    }
  }
  const u8* const from = reinterpret_cast<const u8*>(*Found(scope.found, scope.segments).first_char + start);
  u8* const to = reinterpret_cast<u8*>(view.sample);
  for (u32 i = blockIdx.x; i < room; i += gridDim.x) {
    const u64 at = chunk_start(i, chars, most, 0);
#pragma unroll 1
    for (u32 k = threadIdx.x; k < CHUNK; k += blockDim.x) to[CHUNK * i + k] = at + k < chars ? from[at + k] : 0;
  }
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  const u64 part = u64(room) * CHUNK;
  const u32 codes = 1u << u32(view.bits);
  for (u32 i = thread; i < BINS; i += threads) state.histogram[i] = 0;
  for (u32 i = thread; i < MOST_CODES; i += threads) state.gains[i] = 0;
  for (u32 i = thread; i < 32768; i += threads) state.lengths_of[i] = 0;
  for (u32 i = thread; i < LENGTHS_OF / 2; i += threads) state.lengths_of_4[i] = state.lengths_of_8[i] = 0;
  if (thread == 0) state.listed = state.made = state.edge = state.arrived = 0;
  clear(view.pairs, places_for(part) / 2, thread, threads);
  clear(view.strings, places_for(most_strings(part)) / 2, thread, threads);
  clear(view.extended, codes * TRAIN_SPARE, thread, threads);
  clear(view.lookup + sizeof(OnpairLookup), u32(view.buckets) / 2, thread, threads);
}

#define PIECE 16
#define PIECES (CHUNK / PIECE)

// A chunk, and the longest symbols of its places.
struct Parsed {
  u32 words[CHUNK / 4 + 5];  // and zeros behind
  u32 found[CHUNK];
  // Of a place, by tokens from there on: where behind its piece one begins, and 16 times how many are before that. Then of the first place of a
  // piece: where its first token begins, and 16 times how many are before.
  u16 walks[CHUNK];
  u16 tokens[CHUNK];  // where they begin
  u32 count;
};
static_assert(TRAIN_THREADS / LEAST_CHUNK_THREADS * sizeof(Parsed) <= TRAIN_SHARED, "TRAIN_SHARED");
static_assert(LEAST_CHUNK_THREADS >= PIECES && PIECE == 16, "a thread a piece, and four bits for a place in one");

// Sixteenths of codes that going on from `behind` takes more than going on from `ahead`, until both meet. `without`: a code that the
// former may not use.
__device__ __forceinline__ int walk(const u32* found, u32 ahead, u32 behind, u32 without, int inverse) {
  int more = 0;
  for (u32 k = 0; k < STEPS && behind != ahead; ++k) {
    const u32 own = found[min(behind, ahead)];
    if (behind < ahead) {
      behind += found_code(own) == without ? found_shorter(own) : found_length(own);
      more += 16;
    } else {
      ahead += found_length(own);
      more -= 16;
    }
  }
  return more + (int(ahead) - int(behind)) * inverse;
}

// count: so many threads a chunk that all blocks together have most of a round's chunks at once.
__device__ __forceinline__ void count_chunks(const TrainView& view, TrainState& state, const TrainRound& round,
                                             void* shared) {
  const Growing& table = state.tables[round.from];
  uint2* const pairs = reinterpret_cast<uint2*>(view.pairs);
  int* const extended = reinterpret_cast<int*>(view.extended);
  const u32 places = round.grows ? pair_places(state, round) : 1;
  const u32 all = state.chunks, chunks = all <= round.first ? 0 : (all - round.first + round.step - 1) / round.step;
  u32 each = LEAST_CHUNK_THREADS;
  while (each < CHUNK && TRAIN_THREADS / each / 2 * gridDim.x >= chunks) each *= 2;
  const u32 groups = TRAIN_THREADS / each, group = threadIdx.x / each, own = threadIdx.x % each;
  Parsed& parsed = static_cast<Parsed*>(shared)[group];
  for (u32 base = groups * blockIdx.x; base < chunks; base += groups * gridDim.x) {
    const u32 chunk = round.first + round.step * (base + group);
    const u32 size = chunk >= all ? 0 : chunk + 1 == all ? state.last : CHUNK;
    const u32* const from = reinterpret_cast<const u32*>(view.sample) + CHUNK / 4 * chunk;
    for (u32 i = own; i < CHUNK / 4 + 5; i += each) parsed.words[i] = i < CHUNK / 4 && size != 0 ? from[i] : 0;
    __syncthreads();
#pragma unroll 1
    for (u32 at = own; at < size; at += each) {
      const u32* const word = parsed.words + at / 4;
      const u32 shift = 8 * (at & 3);
      const u32 a = __funnelshift_r(word[0], word[1], shift), b = __funnelshift_r(word[1], word[2], shift);
      const u32 c = __funnelshift_r(word[2], word[3], shift), d = __funnelshift_r(word[3], word[4], shift);
      const Spelled text = {u64(b) << 32 | a, u64(d) << 32 | c, 16};
      parsed.found[at] = state.found[longest_symbol(state, table, text, min(size - at, 16u))];
    }
    __syncthreads();
#pragma unroll 1
    for (u32 begin = own; begin < size; begin += each) {
      const u32 end = min((begin / PIECE + 1) * PIECE, size);
      u32 at = begin, tokens = 0;
      for (; at < end; ++tokens) at += found_length(parsed.found[at]);
      parsed.walks[begin] = u16((at - end) | tokens << 4);
    }
    __syncthreads();
    if (own == 0) {
      u32 first = 0, count = 0;
      for (u32 piece = 0; piece < size; piece += PIECE) {
        const u32 walked = piece + first < size ? parsed.walks[piece + first] : 0;
        parsed.walks[piece] = u16(first | count << 4);
        first = walked & 15;
        count += walked >> 4;
      }
      parsed.count = count;
    }
    __syncthreads();
    if (own < PIECES && own * PIECE < size) {
      const u32 begun = parsed.walks[own * PIECE], end = min((own + 1) * PIECE, size);
      u32 number = begun >> 4;
      for (u32 at = own * PIECE + (begun & 15); at < end; at += found_length(parsed.found[at]))
        parsed.tokens[number++] = u16(at);
    }
    __syncthreads();
    const u32 count = parsed.count;
    const int inverse = size == 0 ? 0 : int(16 * count / size);
#pragma unroll 1
    for (u32 i = own; i < count; i += each) {
      const u32 at = parsed.tokens[i], found = parsed.found[at], code = found_code(found), length = found_length(found);
      const u32 after = at + length;
      if (length > 1)
        atomicAdd(&state.gains[code], walk(parsed.found, after, at + found_shorter(found), code, inverse));
      if (!round.grows || after >= size) continue;
      const u32 next = parsed.found[after], size_of = found_length(next);
      if (length + size_of <= 16) {
        const u32 key = (code << 14 | found_code(next)) + 1;
        for (u32 place = place_of(key * 0x9E3779B1u, places);; place = place_after(place, places)) {
          const u32 there = atomicCAS(&pairs[place].x, 0u, key);
          if (there == 0 || there == key) {
            atomicAdd(&pairs[place].y, 1u);
            break;
          }
        }
      }
      if (size_of > 1 && length < 16) {
        const u32 byte = parsed.words[after / 4] >> (8 * (after & 3)) & 255;
        const int saved = 16 - walk(parsed.found, after + size_of, after + 1, ~0u, inverse);
        atomicAdd(&extended[code << 8 | byte], saved);
      }
    }
    __syncthreads();
  }
}

// Adds a gain to a string.
__device__ __forceinline__ void add_gain(const Growing& table, uint2* strings, u32 places, u32 source, int gain) {
  const Spelled text = text_of_source(table, source);
  for (u32 at = place_of(u32(text.hash() >> 32), places);; at = place_after(at, places)) {
    const u32 found = atomicCAS(&strings[at].x, 0u, source);
    if (found == 0 || text_of_source(table, found) == text) {
      atomicAdd(reinterpret_cast<int*>(&strings[at].y), gain);
      return;
    }
  }
}

// Which of AHEAD places of a hash table, `step` apart, have something. Few do: a thread that looked at one after another would wait for
// each, and most lanes of a warp for one that has something to do.
#define AHEAD 8
__device__ __forceinline__ u32 full_places(const uint2* places, u32 first, u32 step, u32 count) {
  u32 full = 0;
#pragma unroll
  for (u32 k = 0; k < AHEAD; ++k)
    if (first + k * step < count) full |= u32(places[first + k * step].x != 0) << k;
  return full;
}

// collect; and what the next table's symbols are found in is cleared.
__device__ __forceinline__ void collect_strings(const TrainView& view, TrainState& state, const TrainRound& round) {
  const Growing& table = state.tables[round.from];
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  const u32 count = state.counts[round.from], places = string_places(state, round);
  uint2* const strings = reinterpret_cast<uint2*>(view.strings);
  for (u32 i = thread; i < SLOTS; i += threads) state.slots[i] = 0;
  for (u32 i = thread; i < 32768; i += threads) state.lengths_of[i] = 0;
  for (u32 i = thread; i < LENGTHS_OF / 2; i += threads) state.lengths_of_4[i] = state.lengths_of_8[i] = 0;
  for (u32 code = 256 + thread; code < count; code += threads) {
    add_gain(table, strings, places, 1u << 28 | code, state.gains[code]);
    state.gains[code] = 0;
  }
  if (!round.grows) return;
  uint2* const pairs = reinterpret_cast<uint2*>(view.pairs);
  const u32 of_pairs = pair_places(state, round);
  for (u32 base = thread; base < of_pairs; base += AHEAD * threads) {
    u32 full = full_places(pairs, base, threads, of_pairs);
    for (; full != 0; full &= full - 1) {
      const u32 i = base + threads * (u32(__ffs(int(full))) - 1);
      const uint2 pair = pairs[i];
      pairs[i] = make_uint2(0, 0);
      if (pair.y >= 2) add_gain(table, strings, places, 2u << 28 | (pair.x - 1), int(pair.y) * 16);
    }
  }
  int* const extended = reinterpret_cast<int*>(view.extended);
  for (u32 i = 4 * thread; i < count << 8; i += 4 * threads) {
    const int4 some = *reinterpret_cast<const int4*>(extended + i);
    if ((some.x | some.y | some.z | some.w) == 0) continue;
    *reinterpret_cast<int4*>(extended + i) = make_int4(0, 0, 0, 0);
    const int found[4] = {some.x, some.y, some.z, some.w};
#pragma unroll 1
    for (u32 k = 0; k < 4; ++k) {
      const int one = k == 0 ? found[0] : k == 1 ? found[1] : k == 2 ? found[2] : found[3], gain = one * 12 >> 4;
      if (gain > 0) add_gain(table, strings, places, 3u << 28 | ((i + k) >> 8) << 14 | ((i + k) & 255), gain);
    }
  }
}

// By what strings are kept: gain, length, and 8 bits of a hash; 12 to 44 bits, the lower 12 of them beside the gain.
__device__ __forceinline__ u64 string_key(const Spelled& text, u32 gain) {
  u64 mixed = text.low * u64(TRAIN_HASH_LOW) ^ text.high * u64(TRAIN_HASH_HIGH);
  mixed = (mixed ^ mixed >> 32) * u64(TRAIN_HASH_LOW) >> 56;
  return u64(gain) << 12 | (text.length - 1) << 8 | mixed;
}

// The bits of a key below its highest one and 6 more.
__device__ __forceinline__ u32 bits_below(u64 key) { return 57 - u32(__clzll((long long)key)); }
// One of BINS for each of these seven bits, in the order of the keys, and what keys of a bin have in common.
__device__ __forceinline__ u32 bin_of(u64 key) {
  const u32 below = bits_below(key);
  return (below - 6) * 64 + (u32(key >> below) & 63);
}
__device__ __forceinline__ u64 of_bin(u32 bin, u32* below) {
  *below = bin / 64 + 6;
  return 64 | bin % 64;
}

// What the blocks of filter and select have in shared memory.
struct StringChoice {
  u64 costs[17];  // what strings must gain more than, by their length
  u32 histogram[BINS];
  u32 bin;  // of the first string that has no place
  u32 prefix, wanted, made, edge;
};
static_assert(8 * FINALISTS <= 4 * BINS, "finalists lie where the histogram is");
static_assert(sizeof(StringChoice) <= TRAIN_SHARED, "TRAIN_SHARED");

// filter.
__device__ __forceinline__ void filter_strings(const TrainView& view, TrainState& state, const TrainRound& round,
                                               StringChoice& shared) {
  u32* const histogram = shared.histogram;
  u64* const costs = shared.costs;
  const Growing& table = state.tables[round.from];
  uint2* const strings = reinterpret_cast<uint2*>(view.strings);
  const u32 places = string_places(state, round);
  const u64 part = part_nbytes(state, round), column = view.bits * max(max(state.column, part), u64(1));
  for (u32 i = threadIdx.x; i < BINS; i += TRAIN_THREADS) histogram[i] = 0;
  if (threadIdx.x < 17) costs[threadIdx.x] = (threadIdx.x + 1) * 128 * part / column;
  __syncthreads();
  // Places are a multiple of 32, so a warp stays together.
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  for (u32 base = thread; base < places; base += AHEAD * threads)
    for (u32 full = full_places(strings, base, threads, places); __any_sync(ALL_LANES, full != 0); full &= full - 1) {
      u64 key = 0;
      u32 source = 0;
      if (full != 0) {
        const u32 i = base + threads * (u32(__ffs(int(full))) - 1);
        const uint2 string = strings[i];
        strings[i] = make_uint2(0, 0);
        source = string.x;
        if (int(string.y) > 0) {
          const Spelled text = text_of_source(table, source);
          if (string.y > costs[text.length]) key = string_key(text, string.y);
        }
      }
      const u32 having = __ballot_sync(ALL_LANES, key != 0);
      if (having == 0) continue;
      u32 place = 0;
      if (lane_id() == 0) place = atomicAdd(&state.listed, u32(__popc(having)));
      place = __shfl_sync(ALL_LANES, place, 0) + u32(__popc(having & ((1u << lane_id()) - 1)));
      if (key == 0) continue;
      reinterpret_cast<u64*>(view.keys)[place] = key;
      reinterpret_cast<u32*>(view.sources)[place] = source;
      atomicAdd(&histogram[bin_of(key)], 1u);
    }
  __syncthreads();
  for (u32 i = threadIdx.x; i < BINS; i += TRAIN_THREADS)
    if (histogram[i] != 0) atomicAdd(&state.histogram[i], histogram[i]);
}

// The bin in which the value lies that `wanted` others are above or equal to; `wanted` becomes how many of its bin are. By one warp.
__device__ __forceinline__ u32 bin_with(const u32* histogram, u32* wanted) {
  // 64 bins a lane, from the highest: one lane's bins and those above are more than are wanted, but not those above alone. Then these
  // bins, one a lane. Without branches, which would take a stack on some GPUs.
  const u32 lane = lane_id(), before = *wanted;
  u32 sum = 0;
  for (u32 i = 0; i < 64; ++i) sum += histogram[2047 - 64 * lane - (i + lane) % 64];  // in 32 banks
  const u32 up_to = warp_inclusive_sum(sum);
  const u32 owner = u32(__ffs(__ballot_sync(ALL_LANES, up_to > before))) - 1;
  const u32 high = histogram[2047 - 64 * owner - lane], low = histogram[2015 - 64 * owner - lane];
  const u32 larger = __shfl_sync(ALL_LANES, up_to - sum, owner);
  const u32 highs = larger + warp_inclusive_sum(high);
  const u32 lows = __shfl_sync(ALL_LANES, highs, 31) + warp_inclusive_sum(low);
  const u32 in_high = __ballot_sync(ALL_LANES, highs > before), in_low = __ballot_sync(ALL_LANES, lows > before);
  const u32 place = in_high != 0 ? u32(__ffs(in_high)) - 1 : 31 + u32(__ffs(in_low));
  const u32 above_it = in_high != 0 ? highs - high : lows - low;
  *wanted = before - __shfl_sync(ALL_LANES, above_it, place % 32);
  return 2047 - 64 * owner - place;
}

// The codes of the next table at most, beside the single bytes.
__device__ __forceinline__ u32 most_kept(const TrainView& view, const TrainRound& round) {
  const u32 codes = 1u << u32(view.bits);
  return (round.spare ? codes * TRAIN_SPARE / 64 : codes) - 256;
}

// divide: the listed strings into those that are kept, those in the bin of the first that has no place, and others. `alone`: by one block,
// which counts them in its shared memory.
template <bool alone>
__device__ __forceinline__ void divide_list(const TrainView& view, TrainState& state, const TrainRound& round,
                                            StringChoice& shared) {
  const u64* const keys = reinterpret_cast<const u64*>(view.keys);
  const u32* const sources = reinterpret_cast<const u32*>(view.sources);
  const u32 listed = state.listed, most = most_kept(view, round);
  const bool all = listed <= most;
  if (!all) {
    for (u32 i = threadIdx.x; i < BINS; i += TRAIN_THREADS) shared.histogram[i] = state.histogram[i];
    __syncthreads();
    if (threadIdx.x < 32) {
      u32 left = most;
      const u32 found = bin_with(shared.histogram, &left);
      __syncwarp();
      if (threadIdx.x == 0) shared.wanted = left, shared.bin = found;
    }
    __syncthreads();
  }
  const u32 bin = all ? 0 : shared.bin, step = alone ? TRAIN_THREADS : gridDim.x * TRAIN_THREADS;
  if (alone) {
    if (threadIdx.x == 0) shared.made = shared.edge = 0;
    __syncthreads();
  }
  for (u32 base = (alone ? 0 : blockIdx.x * TRAIN_THREADS) + threadIdx.x; base < listed; base += 4 * step) {
    u64 some[4];  // on their way together
#pragma unroll
    for (u32 k = 0; k < 4; ++k) some[k] = base + k * step < listed ? keys[base + k * step] : 0;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      if (some[k] == 0) continue;
      const u32 i = base + k * step, own = all ? BINS : bin_of(some[k]);
      if (own > bin) state.kept[256 + atomicAdd(alone ? &shared.made : &state.made, 1u)] = sources[i];
      if (own != bin) continue;
      const u32 number = atomicAdd(alone ? &shared.edge : &state.edge, 1u);
      if (number < MOST_EDGES) state.edges[number] = i;
    }
  }
}

// select. By the first block, which has the bin from `divide_list`, and if it was `alone` how many are kept and between.
__device__ __forceinline__ void select_strings(const TrainView& view, TrainState& state, const TrainRound& round,
                                               StringChoice& shared, bool alone) {
  u32* const histogram = shared.histogram;
  u32 &prefix = shared.prefix, &wanted = shared.wanted, &made = shared.made;
  const Growing& table = state.tables[round.from];
  Growing& next = state.tables[1 - round.from];
  const u64* const keys = reinterpret_cast<const u64*>(view.keys);
  const u32* const sources = reinterpret_cast<const u32*>(view.sources);
  const u32 listed = state.listed, edge = alone ? shared.edge : state.edge;
  const u32 kept = alone ? shared.made : state.made;
  const bool all = listed <= most_kept(view, round);
  const u32 bin = all ? 0 : shared.bin;
  for (u32 i = threadIdx.x; i < BINS; i += TRAIN_THREADS) state.histogram[i] = 0;
  __syncthreads();
  if (threadIdx.x == 0) made = 256 + kept;
  __syncthreads();
  if (!all && edge <= FINALISTS) {
    // Few are in the bin: each is compared with all others, by a warp.
    u64* const finalists = reinterpret_cast<u64*>(histogram);
    for (u32 i = threadIdx.x; i < edge; i += TRAIN_THREADS) finalists[i] = keys[state.edges[i]];
    __syncthreads();
    for (u32 one = threadIdx.x / 32; one < edge; one += TRAIN_THREADS / 32) {
      const u64 key = finalists[one];
      u32 others = 0;
      for (u32 i = lane_id(); i < edge; i += 32) others += finalists[i] >= key;
      for (u32 step = 16; step > 0; step /= 2) others += __shfl_xor_sync(ALL_LANES, others, step);
      if (lane_id() == 0 && others <= wanted) state.kept[atomicAdd(&made, 1u)] = sources[state.edges[one]];
    }
  } else if (!all) {
    // Within the bin: the key that `wanted` others are above or equal to, from its highest bits on.
    u32 below;
    u64 above = of_bin(bin, &below);
    const bool few = edge <= MOST_EDGES;
    const u32 count = few ? edge : listed;
    while (below > 0) {
      const u32 digit = min(below, 11u);
      for (u32 i = threadIdx.x; i < BINS; i += blockDim.x) histogram[i] = 0;
      __syncthreads();
      for (u32 i = threadIdx.x; i < count; i += TRAIN_THREADS) {
        const u64 key = keys[few ? state.edges[i] : i];
        if (key >> below == above) atomicAdd(&histogram[u32(key >> (below - digit)) & ((1u << digit) - 1)], 1u);
      }
      __syncthreads();
      if (threadIdx.x < 32) {
        u32 left = wanted;
        const u32 found = bin_with(histogram, &left);
        __syncwarp();
        if (threadIdx.x == 0) wanted = left, prefix = found;
      }
      __syncthreads();
      above = above << digit | prefix;
      below -= digit;
    }
    for (u32 i = threadIdx.x; i < count; i += TRAIN_THREADS) {
      const u32 number = few ? state.edges[i] : i;
      if (keys[number] > above && bin_of(keys[number]) == bin) state.kept[atomicAdd(&made, 1u)] = sources[number];
    }
  }
  __syncthreads();
  const u32 count = made;
  if (threadIdx.x == 0) state.counts[1 - round.from] = count;
  for (u32 code = 256 + threadIdx.x; code < count; code += blockDim.x) {
    const Spelled text = text_of_source(table, state.kept[code]);
    next.words[code][0] = text.low, next.words[code][1] = text.high;
    next.lengths[code] = u8(text.length);
    const u32 hash = text.slot_hash(), slot = hash << 16 | (code + 1), pair = u32(text.low) & 0xffff;
    u32 at = first_slot(hash);
    while (atomicCAS(&state.slots[at], 0u, slot) != 0) at = (at + 1) & (SLOTS - 1);
    const u32 of_length = 1u << (text.length - 2), four = place_of_4(text), eight = place_of_8(text);
    atomicOr(&state.lengths_of[pair / 2], of_length << (16 * (pair & 1)));
    if (text.length >= 4) atomicOr(&state.lengths_of_4[four / 2], of_length << (16 * (four & 1)));
    if (text.length >= 8) atomicOr(&state.lengths_of_8[eight / 2], of_length << (16 * (eight & 1)));
  }
  __syncthreads();
  for (u32 code = 256 + threadIdx.x; code < count; code += blockDim.x) {
    const Spelled text = text_of(next, code);
    const u32 shorter = next.lengths[longest_symbol(state, next, text, text.length - 1)];
    state.found[code] = found_symbol(code, text.length, shorter);
  }
}

__device__ __forceinline__ u32 byte_swap(u32 x) { return __byte_perm(x, 0, 0x0123); }
__device__ __forceinline__ u64 byte_swap(u64 x) { return u64(byte_swap(u32(x))) << 32 | byte_swap(u32(x >> 32)); }

// rank: by length, then by bytes. A warp a symbol.
__device__ __forceinline__ void rank_codes(const TrainView& view, TrainState& state, u32 from) {
  const Growing& table = state.tables[from];
  OnpairTrained& trained = *reinterpret_cast<OnpairTrained*>(view.exported);
  OnpairLookup& lookup = *reinterpret_cast<OnpairLookup*>(view.lookup);
  const u32 bits = u32(view.bits), count = min(state.counts[from], 1u << bits);
  if (blockIdx.x == 0 && threadIdx.x == 0) trained.count = count;
  const u32 warps = gridDim.x * (blockDim.x / 32);
  for (u32 code = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; code < count; code += warps) {
    const Spelled text = text_of(table, code);
    const u64 high = byte_swap(text.low), low = byte_swap(text.high);
    u32 before = 0;
    for (u32 i = 256 + lane_id(); i < count && code >= 256; i += 32) {
      const Spelled other = text_of(table, i);
      const u64 other_high = byte_swap(other.low), other_low = byte_swap(other.high);
      before += other.length != text.length ? other.length < text.length
                : other_high != high        ? other_high < high
                                            : other_low < low;
    }
    for (u32 step = 16; step > 0; step /= 2) before += __shfl_xor_sync(ALL_LANES, before, step);
    if (lane_id() == 0) {
      const u32 rank = code < 256 ? code : 256 + before;
      state.ranks[code] = u16(rank);
      trained.words[2 * rank] = text.low, trained.words[2 * rank + 1] = text.high;
      trained.lengths[rank] = u8(text.length);
      // Bytes 1 to 15, then byte 0.
      uint4& turned = const_cast<uint4*>(lookup.symbols())[rank];
      const u64 first = text.low >> 8 | text.high << 56, second = text.high >> 8 | text.low << 56;
      turned = make_uint4(u32(first), u32(first >> 32), u32(second), u32(second >> 32));
    }
  }
}

// The hash of the first bytes of a string (prefixes.py).
__device__ __forceinline__ u32 prefix_hash(const Spelled& text) {
  const u64 third = text.low >> 40 | text.high << 24;
  return (u32(text.low) & 255) * HASH_0 + u32(text.low >> 8) * HASH_1 + u32(third) * HASH_2 +
         u32(text.high >> 8) * HASH_3 + u32(text.high >> 40) * HASH_4 + text.length * HASH_LENGTH;
}

// index: entries for the prefixes that the bisection meets (onpair_encode.cu): where they lie depends on the order of threads, what is
// found does not.
__device__ __forceinline__ void index_prefixes(const TrainView& view, const TrainState& state, u32 from) {
  const Growing& table = state.tables[from];
  const OnpairTrained& trained = *reinterpret_cast<const OnpairTrained*>(view.exported);
  const OnpairLookup& lookup = *reinterpret_cast<const OnpairLookup*>(view.lookup);
  u32* const entries = const_cast<u32*>(reinterpret_cast<const u32*>(lookup.buckets()));
  u16* const longest = const_cast<u16*>(lookup.longest());
  const u32 count = min(state.counts[from], 1u << u32(view.bits)), buckets = u32(view.buckets);
  const u32 threads = gridDim.x * blockDim.x;
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; 256 + i / 4 < count; i += threads) {
    const u32 code = 256 + i / 4, step = 8 >> (i & 3);
    const Spelled text = text_of(table, code);
    // Steps of 8, 4, 2 and 1 from one byte on: those that are bits of the length less one.
    if (((text.length - 1) & step) == 0) continue;
    const Spelled begin = begin_of(text, 1 + ((text.length - 1) & ~(step - 1)));
    const u32 mixed = prefix_hash(begin), made = mixed << ENTRY_HASH | state.ranks[code];
    const u32 own = longest_symbol(state, table, begin, begin.length);
    const u16 best = u16(state.ranks[own] | (table.lengths[own] - 1) << 12);
    const Spelled ones = begin_of({~0ull, ~0ull, 16}, begin.length);
    u32 at = 2 * __umulhi(mixed, buckets), found;
    while ((found = atomicCAS(&entries[at], 0u, made | ((at & 1) != 0 ? ENTRY_SECOND : 0))) != 0) {
      const u64* const there = trained.words + 2 * (found & 4095);
      const u64 differ =
          ((there[0] ^ begin.low) & ones.low) | ((there[1] ^ begin.high) & ones.high) | (found ^ made) >> ENTRY_HASH;
      if (differ == 0 && trained.lengths[found & 4095] >= begin.length) break;
      if ((at & 1) != 0) atomicOr(&entries[at - 1], ENTRY_MORE);
      at = at + 1 == 2 * buckets ? 0 : at + 1;
    }
    if (found == 0) longest[at] = best;
  }
}

// grid: (any, scopes), all at the same time; block: TRAIN_THREADS; shared memory: TRAIN_SHARED. `parts`: of the rounds, see TrainRound.
extern "C" __global__ void __launch_bounds__(TRAIN_THREADS, 1)
    onpair_train(const TrainView* views, u64 parts, u64 more_parts) {
  DYNAMIC_SHARED(uint4, shared_memory);
  const TrainView& view = views[blockIdx.y];
  TrainState& state = state_of(view);
  StringChoice& selection = *reinterpret_cast<StringChoice*>(shared_memory);
  u32 waited = 0;
#pragma unroll 1
  for (u32 i = 0; i < TRAIN_ROUNDS; ++i) {
    const TrainRound round(parts, more_parts, i);
    if (blockIdx.x == 0 && threadIdx.x == 0) state.listed = state.made = state.edge = 0;
    count_chunks(view, state, round, shared_memory);
    scope_sync(state, waited);
    collect_strings(view, state, round);
    scope_sync(state, waited);
    filter_strings(view, state, round, selection);
    scope_sync(state, waited);
    const bool alone = state.listed <= 8 * TRAIN_THREADS;
    if (!alone) {
      divide_list<false>(view, state, round, selection);
      scope_sync(state, waited);
    } else if (blockIdx.x == 0) {
      divide_list<true>(view, state, round, selection);
      __syncthreads();
    }
    if (blockIdx.x == 0) select_strings(view, state, round, selection, alone);
    scope_sync(state, waited);
  }
  rank_codes(view, state, TRAIN_ROUNDS & 1);
  scope_sync(state, waited);
  index_prefixes(view, state, TRAIN_ROUNDS & 1);
}
