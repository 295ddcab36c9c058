// rank and index: the last table in order, for the host and for the encoder, and the prefixes that the encoder looks up (onpair.cuh).
#pragma once

#include "onpair_train_table.cuh"

__device__ __forceinline__ u32 byte_swap(u32 x) { return __byte_perm(x, 0, 0x0123); }
__device__ __forceinline__ u64 byte_swap(u64 x) { return u64(byte_swap(u32(x))) << 32 | byte_swap(u32(x >> 32)); }

// rank: by length, then by bytes. A warp a symbol.
__device__ __forceinline__ void rank_codes(const TrainView& view, TrainState& state, const Growing& table) {
  OnpairTrained& trained = *reinterpret_cast<OnpairTrained*>(view.exported);
  OnpairLookup& lookup = *reinterpret_cast<OnpairLookup*>(view.lookup);
  const u32 bits = u32(view.bits), count = min(table.count, 1u << bits);
  if (blockIdx.x == 0 && threadIdx.x == 0) trained.count = count;
  for (u32 code = threadIdx.x / 32 * gridDim.x + blockIdx.x; code < count; code += gridDim.x * (blockDim.x / 32)) {
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
      state.ranks[code] = rank;
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
__device__ __forceinline__ void index_prefixes(const TrainView& view, const TrainState& state, const Growing& table) {
  const OnpairTrained& trained = *reinterpret_cast<const OnpairTrained*>(view.exported);
  const OnpairLookup& lookup = *reinterpret_cast<const OnpairLookup*>(view.lookup);
  u32* const entries = const_cast<u32*>(reinterpret_cast<const u32*>(lookup.buckets()));
  u16* const longest = const_cast<u16*>(lookup.longest());
  const u32 count = min(table.count, 1u << u32(view.bits)), buckets = u32(view.buckets);
  const u32 threads = gridDim.x * blockDim.x;
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; 256 + i / 4 < count; i += threads) {
    const u32 code = 256 + i / 4, step = 8 >> (i & 3);
    const Spelled text = text_of(table, code);
    // Steps of 8, 4, 2 and 1 from one byte on: those that are bits of the length less one.
    if (((text.length - 1) & step) == 0) continue;
    const Spelled begin = begin_of(text, 1 + ((text.length - 1) & ~(step - 1)));
    const u32 rank = state.ranks[code], own = longest_symbol(table, begin, begin.length);
    longest[4 * rank + (i & 3)] = u16(state.ranks[own] | (table.lengths[own] - 1) << 12);
    const u32 mixed = prefix_hash(begin), made = mixed << ENTRY_HASH | (i & 3) << ENTRY_LEVEL | rank;
    const Spelled ones = begin_of({~0ull, ~0ull, 16}, begin.length);
    u32 at = 2 * __umulhi(mixed, buckets), found;
    while ((found = atomicCAS(&entries[at], 0u, made)) != 0) {
      const u64* const there = trained.words + 2 * (found & 4095);
      const u64 differ =
          ((there[0] ^ begin.low) & ones.low) | ((there[1] ^ begin.high) & ones.high) | (found ^ made) >> ENTRY_LEVEL;
      if (differ == 0 && 1 + ((trained.lengths[found & 4095] - 1) & ~(step - 1)) == begin.length) break;
      if ((at & 1) != 0) atomicOr(&entries[at - 1], ENTRY_MORE);
      at = at + 1 == 2 * buckets ? 0 : at + 1;
    }
  }
}
