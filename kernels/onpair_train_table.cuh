// A table in training: its longest symbol that begins some bytes. Symbols are found by a hash of all they spell, for each length that a symbol
// may have: these lengths are kept for the first 2, 4 and 8 bytes.
#pragma once

#include "onpair_train.cuh"

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

// What is found at a place: the longest symbol, its length and that of the next shorter one that begins it.
__device__ __forceinline__ u32 found_symbol(u32 code, u32 length, u32 shorter) {
  return code | length << 13 | shorter << 18;
}
__device__ __forceinline__ u32 found_code(u32 found) { return found & 8191; }
__device__ __forceinline__ u32 found_length(u32 found) { return found >> 13 & 31; }
__device__ __forceinline__ u32 found_shorter(u32 found) { return found >> 18; }
