// What all steps of OnPair's training share (onpair_train.cu): a scope's state, its rounds, the strings that may become symbols, and how
// blocks wait for each other.
//
// A hash table of strings has 8 bytes a place: what the string is made of (text_of_source), and its gain. Strings are compared as such, so no
// two that differ are taken for one. A table has a quarter more places than may be put into it.
#pragma once

#include "fsst_train.cuh"
#include "onpair.cuh"

#define MOST_CODES ((TRAIN_SPARE << TRAIN_BITS) / 64)
#define SLOTS (1u << 13)
#define STEPS 16
#define CHUNK SAMPLE_CHUNK
#define BINS 2048
#define LENGTHS_OF (2u << TRAIN_BITS)
#define FINALISTS 128

// A table in training. In shared memory, where each block makes its own of the same strings; else in TrainState, by the first block.
struct Growing {
  u64 words[MOST_CODES][2];
  u32 slots[SLOTS];  // of symbols: code + 1, and 16 bits of their hash above
  // Half a word for a hash of a symbol's first 2 bytes, of its first 4, if it has so many, and of its first 8: bit n - 2 if a symbol of n bytes
  // begins with such. A byte for one of its first 12: bit n - 12.
  u32 lengths_of_2[LENGTHS_OF / 2];
  u32 lengths_of_4[LENGTHS_OF / 2];
  u32 lengths_of_8[LENGTHS_OF / 2];
  u32 lengths_of_12[LENGTHS_OF / 4];
  u8 lengths[MOST_CODES];
  u32 count;  // codes
  u32 unused;
};
static_assert(sizeof(Growing) == GROWING_NBYTES, "GROWING_NBYTES");

// What a scope's training has beside its large arrays.
struct TrainState {
#if !TRAIN_IN_SHARED
  Growing table;
#endif
  u64 column;        // characters of the scope
  u32 chunks, last;  // of the sample, and bytes of the last one
  u32 listed, unused;
  u32 histogram[BINS];    // of the list, see bin_of
  u32 ranks[MOST_CODES];  // of the last table
  int gains[MOST_CODES];
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
  u64 arrived;      // blocks of the scope, at all barriers up to now; 0 when training begins
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

  // `parts`: step | first << 4 of each round, a byte.
  __device__ __forceinline__ TrainRound(u64 parts, u64 more_parts, u32 i)
      : spare(i + 2 == TRAIN_ROUNDS), grows(i + 1 < TRAIN_ROUNDS) {
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

// Waits for all blocks of a scope; what they wrote before is seen behind it. `waited`: how often they have.
__device__ __forceinline__ void scope_sync(u64& arrived, u32& waited) {
  ++waited;
  __syncthreads();
  if (threadIdx.x == 0) {
    const u32 wanted = waited * gridDim.x;
#ifdef __CUDA_ARCH__
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(&arrived) : "memory");
    u32 there;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(&arrived) : "memory");
    } while (there < wanted);
#else
    atomicAdd(&arrived, u64(1));
    while (*const_cast<const volatile u64*>(&arrived) < wanted) __nanosleep(20);
#endif
  }
  __syncthreads();
}
