// A table in training: its longest symbol that begins some bytes. Symbols are found by a hash of all they spell, for each length that a symbol
// may have: these lengths are kept for the first 2, 4, 8 and 12 bytes.
#pragma once

#include "onpair_train.cuh"

__device__ __forceinline__ u32 first_slot(u32 slot_hash) { return slot_hash / (0xffffffffu / SLOTS + 1); }

// The code of a symbol, or 0. `slot`: what is in its first slot.
__device__ __forceinline__ u32 symbol_spelled(const Growing& table, const Spelled& text, u32 slot_hash, u32 slot) {
  for (u32 at = first_slot(slot_hash); slot != 0; slot = table.slots[at]) {
    const u32 code = (slot & 0xffff) - 1;
    if ((slot ^ slot_hash << 16) < 1u << 16 && text_of(table, code) == text) return code;
    at = (at + 1) & (SLOTS - 1);
  }
  return 0;
}

// Where the lengths of symbols that begin as a string are, by its first 2, 4, 8 and 12 bytes.
__device__ __forceinline__ u32 place_of_2(const Spelled& text) {
  return (u32(text.low) & 0xffff) * u32(TRAIN_HASH_LOW) / (0xffffffffu / LENGTHS_OF + 1);
}
__device__ __forceinline__ u32 place_of_4(const Spelled& text) {
  return u32(text.low) * u32(TRAIN_HASH_LOW) / (0xffffffffu / LENGTHS_OF + 1);
}
__device__ __forceinline__ u32 place_of_8(const Spelled& text) {
  return (u32(text.low) * u32(TRAIN_HASH_LOW) + u32(text.low >> 32) * u32(TRAIN_HASH_HIGH)) /
         (0xffffffffu / LENGTHS_OF + 1);
}

__device__ __forceinline__ u32 place_of_12(const Spelled& text) {
  return (u32(text.low) * u32(TRAIN_HASH_LOW) + u32(text.low >> 32) * u32(TRAIN_HASH_HIGH) +
          u32(text.high) * u32(HASH_3)) /
         (0xffffffffu / LENGTHS_OF + 1);
}

// The longest symbol of at most `most` bytes that begins a string of at least as many.
__device__ __forceinline__ u32 longest_symbol(const Growing& table, const Spelled& text, u32 most) {
  const u32 first = u32(text.low) & 255, two = place_of_2(text), four = place_of_4(text), eight = place_of_8(text);
  const u32 twelve = place_of_12(text);
  if (most < 2) return first;
  const u32 of_4 = table.lengths_of_4[four / 2] >> (16 * (four & 1));
  const u32 of_8 = table.lengths_of_8[eight / 2] >> (16 * (eight & 1));
  const u32 of_12 = table.lengths_of_12[twelve / 4] >> (8 * (twelve & 3));
  u32 lengths = table.lengths_of_2[two / 2] >> (16 * (two & 1)) & ((1u << (most - 1)) - 1);
  // Two and three bytes are bits 0 and 1, 4 to 7 bytes bits 2 to 5, 8 to 11 bytes bits 6 to 9.
  lengths &= (of_4 | 0x3) & (of_8 | 0x3f) & (of_12 << 10 | 0x3ff);
  while (lengths != 0) {
    const u32 length = 33 - u32(__clz(int(lengths)));
    lengths &= ~(1u << (length - 2));
    const Spelled begin = begin_of(text, length);
    const u32 hash = begin.slot_hash(), code = symbol_spelled(table, begin, hash, table.slots[first_slot(hash)]);
    if (code != 0) return code;
  }
  return first;
}

// What is found at a place: the longest symbol, and its length.
__device__ __forceinline__ u32 found_symbol(u32 code, u32 length) { return code | length << 13; }
__device__ __forceinline__ u32 found_code(u32 found) { return found & 8191; }
__device__ __forceinline__ u32 found_length(u32 found) { return found >> 13; }

// Forgets what symbols are found in. By one block.
__device__ __forceinline__ void clear_places(Growing& table) {
  constexpr u32 nbytes = sizeof(table.slots) + 3 * sizeof(table.lengths_of_2) + sizeof(table.lengths_of_12);
  for (u32 i = threadIdx.x; i < nbytes / 16; i += blockDim.x)
    reinterpret_cast<uint4*>(table.slots)[i] = make_uint4(0, 0, 0, 0);
}

// The first table: the single bytes.
__device__ __forceinline__ void begin_table(Growing& table) {
  clear_places(table);
  for (u32 byte = threadIdx.x; byte < 256; byte += blockDim.x) {
    table.words[byte][0] = byte, table.words[byte][1] = 0;
    table.lengths[byte] = 1;
  }
  if (threadIdx.x == 0) table.count = 256;
}

// Makes the next table of strings of this one: `sources` begins with what code 256 is made of. By one block.
__device__ __forceinline__ void make_table(Growing& table, const u32* sources, u32 count) {
  // Where symbols are found there is room for what they spell.
  u64(*const words)[2] = reinterpret_cast<u64(*)[2]>(table.slots);
  u8* const lengths = reinterpret_cast<u8*>(words + (MOST_CODES - 256));
  static_assert(sizeof(table.slots) + 3 * sizeof(table.lengths_of_2) >= 17 * (MOST_CODES - 256), "room");
#pragma unroll 1
  for (u32 i = threadIdx.x; 256 + i < count; i += TRAIN_THREADS) {
    const Spelled text = text_of_source(table, sources[i]);
    words[i][0] = text.low, words[i][1] = text.high;
    lengths[i] = u8(text.length);
  }
  __syncthreads();
  if (threadIdx.x == 0) table.count = count;
#pragma unroll 1
  for (u32 i = threadIdx.x; 256 + i < count; i += TRAIN_THREADS) {
    table.words[256 + i][0] = words[i][0], table.words[256 + i][1] = words[i][1];
    table.lengths[256 + i] = lengths[i];
  }
  __syncthreads();
  clear_places(table);
  __syncthreads();
#pragma unroll 1
  for (u32 code = 256 + threadIdx.x; code < count; code += TRAIN_THREADS) {
    const Spelled text = text_of(table, code);
    const u32 hash = text.slot_hash(), slot = hash << 16 | (code + 1);
    u32 at = first_slot(hash);
    while (atomicCAS(&table.slots[at], 0u, slot) != 0) at = (at + 1) & (SLOTS - 1);
    const u32 of_length = 1u << (text.length - 2), two = place_of_2(text), four = place_of_4(text),
              eight = place_of_8(text), twelve = place_of_12(text);
    atomicOr(&table.lengths_of_2[two / 2], of_length << (16 * (two & 1)));
    if (text.length >= 4) atomicOr(&table.lengths_of_4[four / 2], of_length << (16 * (four & 1)));
    if (text.length >= 8) atomicOr(&table.lengths_of_8[eight / 2], of_length << (16 * (eight & 1)));
    if (text.length >= 12) atomicOr(&table.lengths_of_12[twelve / 4], of_length >> 10 << (8 * (twelve & 3)));
  }
}
