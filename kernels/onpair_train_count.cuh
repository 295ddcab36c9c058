// count: what each symbol, each pair of neighbours and each symbol with a byte more would save in a round's part of the sample.
//
// Some threads have a chunk: the longest symbols of all its places, then the tokens. These are walked from every place to the end of a stretch of
// 16 bytes; so one thread has 32 stretches to go through, not up to 512 tokens.
#pragma once

#include "onpair_train_table.cuh"

#define STRETCH 16  // bytes
#define STRETCHES (CHUNK / STRETCH)

// A chunk, and the longest symbols of its places.
struct Parsed {
  u32 words[CHUNK / 4 + 5];  // and zeros behind
  u32 found[CHUNK];
  // Of a place, by tokens from there on: where behind its stretch one begins, and 16 times how many are before that.
  u16 walks[CHUNK];
  // Where they begin. Before, of places in every other stretch, what walks has, up to the end of the stretch behind.
  u16 tokens[CHUNK];
  u16 begun[STRETCHES / 2];  // of two stretches, where their first token begins, and 16 times how many are before
  u32 count;
};
static_assert(TRAIN_THREADS / LEAST_CHUNK_THREADS * sizeof(Parsed) <= TRAIN_SHARED, "TRAIN_SHARED");
static_assert(LEAST_CHUNK_THREADS >= STRETCHES && STRETCH == 16,
              "a thread a stretch, and four bits for a place in one");

// What is walked to the end of the stretch behind one that `walked` ends, as that says it.
__device__ __forceinline__ u16 walk_on(const Parsed& parsed, u32 stretch, u32 walked, u32 size) {
  const u32 at = (stretch + 1) * STRETCH + (walked & 15), more = at < size ? parsed.walks[at] : 0;
  return u16((more & 15) | (walked & ~15u) + (more & ~15u));
}

// The bytes at a place, and those behind them.
__device__ __forceinline__ Spelled text_at(const Parsed& parsed, u32 at) {
  const u32* const word = parsed.words + at / 4;
  const u32 shift = 8 * (at & 3);
  const u32 a = __funnelshift_r(word[0], word[1], shift), b = __funnelshift_r(word[1], word[2], shift);
  const u32 c = __funnelshift_r(word[2], word[3], shift), d = __funnelshift_r(word[3], word[4], shift);
  return {u64(b) << 32 | a, u64(d) << 32 | c, 16};
}

// Sixteenths of codes that going on from `behind` takes more than going on from `ahead`, until both meet. `without`: a code that the
// former may not use, but as many bytes as `shorter` says.
__device__ __forceinline__ int walk(const u32* found, u32 ahead, u32 behind, u32 without, u32 shorter, int inverse) {
  int more = 0;
  for (u32 k = 0; k < STEPS && behind != ahead; ++k) {
    const u32 own = found[min(behind, ahead)];
    if (behind < ahead) {
      behind += found_code(own) == without ? shorter : found_length(own);
      more += 16;
    } else {
      ahead += found_length(own);
      more -= 16;
    }
  }
  return more + (int(ahead) - int(behind)) * inverse;
}

// Waits for the threads that have a chunk.
__device__ __forceinline__ void wait_for_group(u32 group, u32 threads) {
#ifdef __CUDA_ARCH__
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "r"(threads) : "memory");
#else
  __syncthreads();
#endif
}

// count: so many threads a chunk that all blocks together have most of a round's chunks at once; each block has one before any has two.
__device__ __forceinline__ void count_chunks(const TrainView& view, TrainState& state, const Growing& table,
                                             const TrainRound& round, void* shared) {
  uint2* const pairs = reinterpret_cast<uint2*>(view.pairs);
  int* const extended = reinterpret_cast<int*>(view.extended);
  const u32 places = round.grows ? pair_places(state, round) : 1;
  const u32 all = state.chunks, chunks = all <= round.first ? 0 : (all - round.first + round.step - 1) / round.step;
  u32 each = LEAST_CHUNK_THREADS;
  while (each < TRAIN_THREADS && TRAIN_THREADS / each / 2 * gridDim.x >= chunks) each *= 2;
  const u32 groups = TRAIN_THREADS / each, group = threadIdx.x / each, own = threadIdx.x % each;
  Parsed& parsed = static_cast<Parsed*>(shared)[group];
  for (u32 base = blockIdx.x; base < chunks; base += groups * gridDim.x) {
    const u32 chunk = round.first + round.step * (base + group * gridDim.x);
    const u32 size = chunk >= all ? 0 : chunk + 1 == all ? state.last : CHUNK;
    const u32* const from = reinterpret_cast<const u32*>(view.sample) + CHUNK / 4 * chunk;
    for (u32 i = own; i < CHUNK / 4 + 5; i += each) parsed.words[i] = i < CHUNK / 4 && size != 0 ? from[i] : 0;
    wait_for_group(group, each);
#pragma unroll 1
    for (u32 at = own; at < size; at += each) {
      const u32 code = longest_symbol(table, text_at(parsed, at), min(size - at, 16u));
      parsed.found[at] = found_symbol(code, table.lengths[code]);
    }
    wait_for_group(group, each);
#pragma unroll 1
    for (u32 begin = own; begin < size; begin += each) {
      const u32 end = min((begin / STRETCH + 1) * STRETCH, size);
      u32 at = begin, tokens = 0;
      for (; at < end; ++tokens) at += found_length(parsed.found[at]);
      parsed.walks[begin] = u16((at - end) | tokens << 4);
    }
    wait_for_group(group, each);
    // Two stretches at a time.
    for (u32 i = own; i < CHUNK / 2; i += each) {
      const u32 begin = i / STRETCH * 2 * STRETCH + i % STRETCH;
      if (begin < size) parsed.tokens[begin] = walk_on(parsed, begin / STRETCH, parsed.walks[begin], size);
    }
    wait_for_group(group, each);
    if (own == 0) {
      u32 first = 0, count = 0;
      for (u32 stretch = 0; stretch < size; stretch += 2 * STRETCH) {
        const u32 walked = stretch + first < size ? parsed.tokens[stretch + first] : 0;
        parsed.begun[stretch / (2 * STRETCH)] = u16(first | count << 4);
        first = walked & 15;
        count += walked >> 4;
      }
      parsed.count = count;
    }
    wait_for_group(group, each);
    if (own < STRETCHES && own * STRETCH < size) {
      u32 begun = parsed.begun[own / 2];
      if (own % 2 != 0) {
        const u32 before = (own - 1) * STRETCH + (begun & 15), walked = parsed.walks[before];
        begun = (walked & 15) | (begun & ~15u) + (walked & ~15u);
      }
      const u32 end = min((own + 1) * STRETCH, size);
      u32 number = begun >> 4;
      for (u32 at = own * STRETCH + (begun & 15); at < end; at += found_length(parsed.found[at]))
        parsed.tokens[number++] = u16(at);
    }
    wait_for_group(group, each);
    const u32 count = parsed.count;
    const int inverse = size == 0 ? 0 : int(16 * count / size);
    // Three things of each token, by threads of their own: all wait for memory.
#pragma unroll 1
    for (u32 i = own; i < 3 * count; i += each) {
      const u32 what = i < count ? 0 : i < 2 * count ? 1 : 2;
      const u32 at = parsed.tokens[i - what * count], found = parsed.found[at];
      const u32 code = found_code(found), length = found_length(found), after = at + length;
      if (what == 0) {
        if (length == 1) continue;
        const u32 shorter = table.lengths[longest_symbol(table, text_at(parsed, at), length - 1)];
        atomicAdd(&state.gains[code], walk(parsed.found, after, at + shorter, code, shorter, inverse));
        continue;
      }
      if (!round.grows || after >= size) continue;
      const u32 next = parsed.found[after], size_of = found_length(next);
      if (what == 1 && length + size_of <= 16) {
        const u32 key = (code << 14 | found_code(next)) + 1;
        for (u32 place = place_of(key * 0x9E3779B1u, places);; place = place_after(place, places)) {
          const u32 there = atomicCAS(&pairs[place].x, 0u, key);
          if (there == 0 || there == key) {
            atomicAdd(&pairs[place].y, 1u);
            break;
          }
        }
      }
      if (what == 2 && size_of > 1 && length < 16) {
        const u32 byte = parsed.words[after / 4] >> (8 * (after & 3)) & 255;
        const int saved = 16 - walk(parsed.found, after + size_of, after + 1, ~0u, 0, inverse);
        atomicAdd(&extended[code << 8 | byte], saved);
      }
    }
    wait_for_group(group, each);
  }
}
