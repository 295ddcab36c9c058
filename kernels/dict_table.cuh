// A table of the different values of strings, and what looks for a value in it (docs/format.md, section 19). dict_find.cu fills tables of
// many values, dict_few.cu those of few; dict_rank.cu numbers what they have.
//
// Slots (open addressing, linear) have of each value 32 bits of its hash and the first row that has it, one number:
//
//     slot   | hash, upper 32 bits | ~row |      0: empty
//
// Invariant: a row whose hash leads to a slot is compared with the slot's row, byte by byte, so equal hashes decide nothing. The row number
// goes down by atomicMax: what is there when the kernel ends does not depend on the order in which rows were looked at.
#pragma once

#include "dict.cuh"

#define EMPTY u64(0)
#define NO_SLOT 0xffffffffu

__device__ __forceinline__ u64 mix(u64 hash, u64 word) {
  hash = (hash ^ word) * HASH_NEXT;
  return hash ^ hash >> 32;
}

__device__ __forceinline__ u64 finish(u64 hash) {
  hash ^= hash >> 29;
  hash *= HASH_FIRST;
  return hash ^ hash >> 32;
}

__device__ __forceinline__ u64 make_entry(u64 hash, u32 row) { return hash & ~u64(0xffffffff) | ~row; }
__device__ __forceinline__ u32 row_of_entry(u64 entry) { return ~u32(entry); }

__device__ __forceinline__ u64 load_volatile(u64 address) { return *reinterpret_cast<const volatile u64*>(address); }

struct FindJob {
  u64 chars, offsets, wide;       // offsets: address of the scope's first
  u64 scope_rows;                 // rows of the scope
  u64 first, rows;                // which of them are wanted
  u64 validity, validity_offset;  // 0: no nulls; the bit of the scope's first row
  u64 table, slots, stride;       // slots: a power of 2; words of 8 bytes from one to the next: 1 or SLOT_WORDS
  u64 limit;                      // values, at most
  u64 found;                      // address of u64[FOUND_...]
  u64 long_rows;                  // address of u32s, for as many rows as can be long
  u64 out, out_nbytes;            // address where each row's slot or number goes, bytes of one; 0: nowhere
  u64 map;                        // address of u64s, numbers of slots' values (number_of); 0: slots are written
  u64 blocks;                     // thread blocks
};

// Places in `found`.
#define FOUND_VALUES 0
#define FOUND_TOO_MANY 1
#define FOUND_LONG 2
#define FOUND_NULLS 3
#define FOUND_NULL_CHARS 4
#define FOUND_VALUE_CHARS 5
#define FOUND_LONGEST 6
#define FOUND_CLASHES 7

__device__ __forceinline__ u64* found_at(const FindJob& job, u32 place) {
  return reinterpret_cast<u64*>(job.found) + place;
}

__device__ __forceinline__ void write_code(u64 out, u64 nbytes, u64 i, u32 code) {
  if (nbytes == 1)
    reinterpret_cast<u8*>(out)[i] = u8(code);
  else if (nbytes == 2)
    reinterpret_cast<u16*>(out)[i] = u16(code);
  else
    reinterpret_cast<u32*>(out)[i] = code;
}

__device__ __forceinline__ void write_slot(const FindJob& job, u64 row, u32 slot) {
  if (job.out == 0) return;
  u32 code = 0;
  if (slot != NO_SLOT) code = job.map != 0 ? u32(reinterpret_cast<const u64*>(job.map)[slot]) : slot;
  write_code(job.out, job.out_nbytes, row - job.first, code);
}

// A new value has been put into the table.
__device__ __forceinline__ void count_value(const FindJob& job) {
  if (atomicAdd(found_at(job, FOUND_VALUES), u64(1)) >= job.limit) *found_at(job, FOUND_TOO_MANY) = 1;
}

// The slot of a value; NO_SLOT where the table is full, or where there are too many values, which is seen some time. `equal` compares with
// a row; `fill` is called by the thread that has put a value into the table, with the slot's address.
template <typename Equal, typename Fill>
__device__ __forceinline__ u32 find_slot(const FindJob& job, u64 hash, u32 row, const Equal& equal, const Fill& fill) {
  const u64 mine = make_entry(hash, row);
  const u32 mask = u32(job.slots) - 1;
  u32 slot = u32(hash) & mask;
  for (u32 steps = 1; steps <= mask; ++steps) {
    u64* const at = reinterpret_cast<u64*>(job.table) + u64(slot) * u32(job.stride);
    u64 entry = *at;
    if (entry == EMPTY) {
      entry = atomicCAS(at, EMPTY, mine);
      if (entry == EMPTY) {
        count_value(job);
        fill(at);
        return slot;
      }
    }
    if (entry >> 32 == mine >> 32) {
      if (entry == mine || equal(row_of_entry(entry))) {
        if (mine > entry) atomicMax(at, mine);
        return slot;
      }
      *found_at(job, FOUND_CLASHES) = 1;
    }
    slot = slot + 1 & mask;
    if (steps % 32 == 0 && load_volatile(job.found + 8 * FOUND_TOO_MANY) != 0) return NO_SLOT;
  }
  *found_at(job, FOUND_TOO_MANY) = 1;
  return NO_SLOT;
}

// ---- the bytes of values

// Beside its entry a slot of SLOT_WORDS has the value's bytes, so that most rows read nothing else. Of a value of up to SHORT_NBYTES these
// are three words, in the entry's own 32 bytes, of one of up to KEY_NBYTES seven; of longer ones, none. The last of these words has the
// number of bytes + 1 at its top. What is written of a word is not 0, which stands for what is not written yet: so words that are equal
// are those of an equal value, whenever they were read, and nothing has to be ordered. Values of three words and of seven differ in
// what the entry has of their hashes.
#define SHORT_WORDS 3
#define KEY_WORDS (SLOT_WORDS - 1)
#define SHORT_NBYTES (8 * SHORT_WORDS - 1)
#define KEY_NBYTES (8 * KEY_WORDS - 1)
static_assert(SLOT_WORDS == 8, "slots are read 16 bytes at a time");
#define IS_LONGER (u64(1) << 32)

// The words of a key that is made of a value's, none of them 0; false of a value one of whose words would be.
template <u32 count>
__device__ __forceinline__ bool make_key(u64 (&words)[count], u32 nbytes) {
  words[count - 1] |= u64(nbytes + 1) << 56;
  bool whole = true;
#pragma unroll
  for (u32 w = 0; w < count; ++w) {
    words[w] ^= HASH_FIRST;
    whole = whole && words[w] != 0;
  }
  return whole;
}

// The hash that a table is looked up by. Equal values have the same, whatever way it is made.
template <u32 count>
__device__ __forceinline__ u64 hash_words(const u64 (&words)[count], u32 nbytes) {
  u64 hash = nbytes * HASH_FIRST;
#pragma unroll
  for (u32 w = 0; w < count; ++w)
    if (8 * w < nbytes) hash = mix(hash, words[w]);
  hash = finish(hash);
  return count == SHORT_WORDS ? hash & ~IS_LONGER : hash | IS_LONGER;
}
__device__ __forceinline__ u64 hash_text(const Text& text) {
  u64 hash = text.nbytes * HASH_FIRST;
#pragma unroll 1
  for (u64 at = 0; at < text.nbytes; at += 8) hash = mix(hash, text.from(at));
  hash = finish(hash);
  return text.nbytes <= SHORT_NBYTES ? hash & ~IS_LONGER : hash | IS_LONGER;
}

__device__ __forceinline__ bool equal_rows(const FindJob& job, bool wide, const u64* bounds, const Text& text,
                                           u32 other) {
  const u64 begin = offset_at(job.offsets, wide, other);
  const Text there(job.chars + begin, offset_at(job.offsets, wide, u64(other) + 1) - begin, bounds[0], bounds[1]);
  if (there.nbytes != text.nbytes) return false;
#pragma unroll 1
  for (u64 at = 0; at < text.nbytes; at += 8)
    if (there.from(at) != text.from(at)) return false;
  return true;
}
