// How a warp writes the strings of its rows: offsets, and characters by way of shared memory.
#pragma once

#include "dict_codes.cuh"

#define QUADS (VECTOR / 4)  // vectors of 4 offsets that a lane has

struct SpellJob : CodesJob {
  u64 chars, offsets, wide;  // the dictionary: chars + its offsets; no offsets: the image is there
  u64 image, stride;         // address, see above; bytes of a value there, a multiple of 8 that no value is longer than
  u64 sums, first;           // address of u64s of the column's warps, see above; which warp is this job's first
  u64 placed;                // whether these say, of each warp, how many characters stand before its rows
  u64 out_offsets, out_wide;  // of row `begin`
  u64 first_char;             // what the column's offsets begin with
  u64 out_chars, limit;       // address of the column's first row's, bytes that may be written there
  u64 last;                   // whether the last row's end is an offset too
};

// Where a warp's characters go: a window of them in shared memory, from 16 bytes in global memory on.
struct Stage {
  u8* bytes;
  u8* to;          // a multiple of 16
  u32 fill, head;  // bytes of the window that are there; the first of them, which are another warp's

  __device__ __forceinline__ Stage(u8* bytes, u64 address)
      : bytes(bytes), to(reinterpret_cast<u8*>(address / 16 * 16)), fill(u32(address % 16)), head(fill) {}

  // `count` more bytes have been put there.
  __device__ __forceinline__ void send(u32 count) {
    uint4* window = reinterpret_cast<uint4*>(bytes);
    const u32 end = fill + count, vectors = end / 16;
    fill = end % 16;
    __syncwarp();
    if (vectors == 0) return;
    if (head != 0 && lane_id() >= head && lane_id() < 16) to[lane_id()] = bytes[lane_id()];
    for (u32 i = lane_id(); i < vectors; i += 32)
      if (i > 0 || head == 0) reinterpret_cast<uint4*>(to)[i] = window[i];
    __syncwarp();
    if (lane_id() == 0 && fill != 0) window[0] = window[vectors];
    __syncwarp();
    to += 16 * vectors;
    head = 0;
  }
  __device__ __forceinline__ void end() const {
    if (lane_id() >= head && lane_id() < fill) to[lane_id()] = bytes[lane_id()];
  }
};

// Puts consecutive bytes into a stage, in words of 8 bytes. What stands before the first byte in its word is `before`, or written later;
// what does not fill the last word is `waiting`, zeros behind it.
struct StageWriter {
  u64* at;
  u64 waiting;
  u32 have;  // bits

  __device__ __forceinline__ StageWriter(u8* stage, u32 place, u64 before)
      : at(reinterpret_cast<u64*>(stage) + place / 8), waiting(before), have(place % 8 * 8) {}

  // `nbytes`: 0 to 8; bytes of `word` above are 0. No branches: lanes' words end at different bytes.
  __device__ __forceinline__ void put(u64 word, u32 nbytes) {
    waiting |= word << have;
    const u64 behind = shift_right(word, 64 - have);
    have += 8 * nbytes;
    if (have >= 64) {
      *at++ = waiting;
      waiting = behind;
    }
    have %= 64;
  }
};

// The value of each of a lane's rows and its size, which is up to 64; images have fewer than 2^24 values. Of codes of a byte, of which
// there are 257 with `none_of`, two lie in a register.
struct Slots {
  static constexpr u32 per = ITEM_NBYTES == 1 ? 2 : 1;
  u32 words[VECTOR / per];

  __device__ __forceinline__ void set(u32 v, u32 value, u32 size) {
    const u32 slot = value << 7 | size;
    words[v / per] = v % per == 0 ? slot : words[v / per] | slot << 16;
  }
  __device__ __forceinline__ u32 size(u32 v) const { return words[v / per] >> v % per * 16 & 127; }
  __device__ __forceinline__ u32 value(u32 v) const {
    return per == 1 ? words[v] >> 7 : words[v / per] >> (v % per * 16 + 7) & 511;
  }
  // Moves all behind the first four to the front: registers have no numbers that a loop could count.
  __device__ __forceinline__ void drop() {
#pragma unroll
    for (u32 w = 0; w + 4 / per < VECTOR / per; ++w) words[w] = words[w + 4 / per];
  }
};

// Stores a number of 4 bytes for each row of a warp, one after another at `to`: `number` gives those of a lane, in order. `places`: room for
// ROW of them in shared memory, so that lanes store what lies together.
template <typename Next>
__device__ __forceinline__ void store_numbers(u64 to, uint4* places, const Next& number) {
  const u32 lane = keep_in_register(lane_id());  // registers are scarce: no addresses are to be kept from call to call
  // So that lanes that write, or read, at a time do so in different banks.
  const u32 swap = QUADS == 4 ? lane / 2 % 4 : QUADS == 2 ? lane / 4 % 2 : 0;
#pragma unroll
  for (u32 q = 0; q < QUADS; ++q) {
    u32 four[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) four[i] = number(4 * q + i);
    places[lane * QUADS + (q ^ swap)] = {four[0], four[1], four[2], four[3]};
  }
  __syncwarp();
  const auto quad = [](u32 i) {
    const u32 of = i / QUADS, swapped = QUADS == 4 ? of / 2 % 4 : QUADS == 2 ? of / 4 % 2 : 0;
    return of * QUADS + (i % QUADS ^ swapped);
  };
  if (to % 16 == 0) {
#pragma unroll
    for (u32 k = 0; k < QUADS; ++k) {
      const u32 i = 32 * k + lane;
      reinterpret_cast<uint4*>(to)[i] = places[quad(i)];
    }
  } else {  // scopes begin at any row
#pragma unroll 2
    for (u32 k = 0; k < VECTOR; ++k) {
      const u32 i = 32 * k + lane;
      reinterpret_cast<u32*>(to)[i] = reinterpret_cast<const u32*>(places)[4 * quad(i / 4) + i % 4];
    }
  }
  __syncwarp();
}

// Writes the offsets of a lane's rows, which begin at `at`. `places`: room for ROW offsets.
template <typename Slots>
__device__ __forceinline__ void write_offsets(const SpellJob& job, u32 row, const Slots& slots, bool whole, u64 at,
                                              uint4* places) {
  const u32 nbytes = again(job.out_wide) != 0 ? 8 : 4, begin = u32(again(job.begin));
  const u64 to = again(job.out_offsets) + (u64(row - lane_id() * VECTOR) - begin) * nbytes;  // of the warp's first row
  if (whole && nbytes == 4) {
    u32 place = u32(at);
    store_numbers(to, places, [&](u32 v) {
      const u32 own = place;
      place += slots.size(v);
      return own;
    });
    return;
  }
#pragma unroll
  for (u32 v = 0; v < VECTOR; ++v) {
    if (row + v >= begin && row + v < u32(job.end)) {
      const u64 place = job.out_offsets + u64(row + v - begin) * nbytes;
      if (nbytes == 8)
        *reinterpret_cast<u64*>(place) = at;
      else
        *reinterpret_cast<u32*>(place) = u32(at);
    }
    at += slots.size(v);
  }
}

// Behind a warp's rows: the last characters, which end at `begin`, and of the column's last row its end.
__device__ __forceinline__ void end_rows(const SpellJob& job, u32 last, const Stage& stage, u64 begin) {
  stage.end();
  if (job.last == 0 || last <= u32(again(job.end) - 1) / BITPACK_BLOCK || lane_id() != 0) return;
  const u64 rows = job.end - job.begin, at = job.first_char + begin;
  if (job.out_wide != 0)
    reinterpret_cast<u64*>(job.out_offsets)[rows] = at;
  else
    reinterpret_cast<u32*>(job.out_offsets)[rows] = u32(at);
}

// Stores a warp's consecutive bytes, `words` words of each lane at its `out`, which need not begin at a vector: each lane has as many
// bytes of the lane before as make its vectors whole.
template <u32 words>
__device__ __forceinline__ void store_shifted(u64 out, const u32 (&made)[words]) {
  static_assert(words % 4 == 0, "whole vectors");
  const u32 skew = u32(out) % 16, word = (16 - skew) / 4;  // all lanes have the same
  u32 all[words + 4];
#pragma unroll
  for (u32 i = 0; i < 4; ++i) all[i] = __shfl_up_sync(ALL_LANES, made[words - 4 + i], 1);
#pragma unroll
  for (u32 i = 0; i < words; ++i) all[4 + i] = made[i];
#pragma unroll
  for (u32 i = 0; i + 2 < words + 4; ++i) all[i] = word & 2 ? all[i + 2] : all[i];
#pragma unroll
  for (u32 i = 0; i + 1 < words + 4; ++i) all[i] = word & 1 ? all[i + 1] : all[i];
#pragma unroll
  for (u32 i = 0; i < words; ++i) all[i] = __funnelshift_r(all[i], all[i + 1], (16 - skew) % 4 * 8);
  uint4* to = reinterpret_cast<uint4*>(out - skew);
#pragma unroll
  for (u32 w = 0; w < words; w += 4)
    if (w > 0 || lane_id() > 0) to[w / 4] = {all[w], all[w + 1], all[w + 2], all[w + 3]};
  // What other warps have of the first vector, and of the last one, stays.
#pragma unroll
  for (u32 b = 1; b < 16; ++b) {
    if (lane_id() == 0 && b >= skew) reinterpret_cast<u8*>(to)[b] = u8(all[b / 4] >> b % 4 * 8);
    if (lane_id() == 31 && b >= 16 - skew)
      reinterpret_cast<u8*>(out)[4 * words - 16 + b] = u8(made[words - 4 + b / 4] >> b % 4 * 8);
  }
}
