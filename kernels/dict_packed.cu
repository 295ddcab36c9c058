// Packed codes of dictionaries become strings, or other numbers, without being unpacked in memory (docs/format.md, sections 11, 19).
// Compiled for codes of ITEM_NBYTES = 1, 2 or 4 bytes.
//
//   dict_lengths  characters of each warp's rows; and the image: values of `stride` bytes each, zeros behind the end, and one of zeros
//                 alone for rows without a value; then the lengths of all these
//   dict_spell    offsets and characters
//   dict_answer   of every row the entry of a table
//
// Work unit: a warp has consecutive blocks of 1024 codes, as many as the others, one warp behind another: so what stands before its rows
// are the sums of the warps before, which every thread block adds up by itself. A lane has VECTOR consecutive rows at a time (bitpack.cuh),
// and so consecutive characters. It puts them together in a register. They go to the warp's stage in shared memory, where they lie as in
// global memory, and from there in stores of 16 bytes a lane. What does not fill 16 bytes stays in the stage, for the next rows. Of a word
// that two lanes share the second gets the first one's part by a shuffle.
//
// On an H200, 60 M rows (ncu): dict_lengths 0.046 ms for l_shipmode and l_shipinstruct, dict_spell 0.197 for l_shipmode, dict_answer of
// bytes 0.051. Two that lost, by events, which add 0.01 to 0.02 ms (docs/kernels.md has the others):
// - sizes and values of rows in shared memory, and every word stored at every value: dict_spell 0.26 instead of 0.19.
// - eight thread blocks of dict_spell on a multiprocessor: 0.22; five take as long as six.
//
// Bounds: codes of no value read as the row without a value. What dict_spell writes ends at `limit`.
#include "dict_codes.cuh"

// Thread blocks of dict_spell, and of the other kernels, on a multiprocessor: code for other GPUs spills with the registers of so many.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define RESIDENT SPELL_BLOCKS
#define LIGHT_RESIDENT 8
#else
#define RESIDENT 5
#define LIGHT_RESIDENT 6
#endif
#define QUADS (VECTOR / 4)  // vectors of 4 offsets that a lane has

struct SpellJob : CodesJob {
  u64 chars, offsets, wide;  // the dictionary: chars + its offsets; no offsets: the image is there
  u64 image, stride;         // address, see above; bytes of a value there, a multiple of 8 that no value is longer than
  u64 sums, first;           // address of u64s, one for each warp of the column; which one this job's first warp has
  u64 out_offsets, out_wide;  // of row `begin`
  u64 first_char;             // what the column's offsets begin with
  u64 out_chars, limit;       // address of the column's first row's, bytes that may be written there
  u64 last;                   // whether the last row's end is an offset too
};

struct AnswerJob : CodesJob {
  u64 map;               // address of a table's entries, one for each value: codes that are not below get the first one
  u64 out, item_nbytes;  // address; of an entry: 1, 2, 4 or 8
};

// ShortLengths of values; of the first ones, or of all, they are kept in shared memory.
struct ShortLengths {
  const u8* near;
  const u8* far;
  u32 kept;

  __device__ __forceinline__ u32 of(u32 code) const {
    return ITEM_NBYTES == 1 || code < kept ? near[code] : __ldg(far + code);
  }
};

__device__ __forceinline__ u32 length_of(const SpellJob& job, u32 value) {
  if (value >= job.values) return 0;
  if (job.offsets == 0) return load<u8>(job.image + (job.values + 1) * job.stride + value);
  const u64 begin = offset_at(job.offsets, job.wide != 0, value);
  return u32(min(offset_at(job.offsets, job.wide != 0, u64(value) + 1) - begin, job.stride));
}

// `kept`: lengths that there is room for in shared memory. grid: LENGTHS_PARTS thread blocks for each one of dict_spell.
extern "C" __global__ void __launch_bounds__(THREADS, LIGHT_RESIDENT)
    dict_lengths(const u64* table, u32 jobs, u32 kept) {
  DYNAMIC_SHARED(u8, near);
  __shared__ SpellJob job;
  const u32 in_job = load_job(table, jobs, job);
  const u32 values = u32(job.values), words = u32(job.stride / 8);
  if (job.first == 0 && job.offsets != 0) {
    const u32 step = u32(job.blocks) * LENGTHS_PARTS * THREADS;
    u8* lengths = reinterpret_cast<u8*>(job.image + (job.values + 1) * job.stride);
    for (u32 i = in_job * THREADS + threadIdx.x; i < (values + 1) * words; i += step) {
      const u32 value = i / words, place = i % words * 8, nbytes = length_of(job, value);
      const u8* from = reinterpret_cast<const u8*>(job.chars) + offset_at(job.offsets, job.wide != 0, value);
      u64 word = 0;
      for (u32 b = 0; b < 8 && place + b < nbytes; ++b) word |= u64(from[place + b]) << 8 * b;
      reinterpret_cast<u64*>(job.image)[i] = word;
      if (place == 0) lengths[value] = u8(nbytes);
    }
  }
  kept = u32(min(u64(kept), job.values + 1));
  for (u32 i = threadIdx.x; i < kept; i += THREADS) near[i] = u8(length_of(job, i));
  __syncthreads();
  u64 sum = 0;
  read_codes(job, Turn(job, in_job, LENGTHS_PARTS), [&](u32, const Number(&codes)[VECTOR], bool) {
    u32 own = 0;
#pragma unroll
    for (u32 v = 0; v < VECTOR; ++v)
      own += ITEM_NBYTES == 1 || codes[v] < kept ? near[codes[v]] : length_of(job, codes[v]);
    sum += own;
  });
  for (u32 delta = 16; delta > 0; delta /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, delta);
  if (lane_id() == 0)
    reinterpret_cast<u64*>(
        job.sums)[LENGTHS_PARTS * (job.first + in_job / LENGTHS_PARTS * BITPACK_WARPS + threadIdx.x / 32) +
                  in_job % LENGTHS_PARTS] = sum;
}

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

// Writes the offsets of a lane's rows, which begin at `at`. `places`: room for ROW offsets.
__device__ __forceinline__ void write_offsets(const SpellJob& job, u32 row, const Slots& slots, bool whole, u64 at,
                                              uint4* places) {
  const u32 nbytes = again(job.out_wide) != 0 ? 8 : 4, begin = u32(again(job.begin));
  const u64 to = again(job.out_offsets) + (u64(row - lane_id() * VECTOR) - begin) * nbytes;  // of the warp's first row
  if (whole && nbytes == 4) {
    u32 place = u32(at);
    // So that lanes that write, or read, at a time do so in different banks.
    const u32 swap = QUADS == 4 ? lane_id() / 2 % 4 : QUADS == 2 ? lane_id() / 4 % 2 : 0;
#pragma unroll
    for (u32 q = 0; q < QUADS; ++q) {
      u32 four[4];
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        four[i] = place;
        place += slots.size(4 * q + i);
      }
      places[lane_id() * QUADS + (q ^ swap)] = {four[0], four[1], four[2], four[3]};
    }
    __syncwarp();
    const auto quad = [](u32 i) {
      const u32 of = i / QUADS, swapped = QUADS == 4 ? of / 2 % 4 : QUADS == 2 ? of / 4 % 2 : 0;
      return of * QUADS + (i % QUADS ^ swapped);
    };
    if (to % 16 == 0) {
#pragma unroll
      for (u32 k = 0; k < QUADS; ++k) {
        const u32 i = 32 * k + lane_id();
        reinterpret_cast<uint4*>(to)[i] = places[quad(i)];
      }
    } else {  // scopes begin at any row
#pragma unroll 2
      for (u32 k = 0; k < VECTOR; ++k) {
        const u32 i = 32 * k + lane_id();
        reinterpret_cast<u32*>(to)[i] = reinterpret_cast<const u32*>(places)[4 * quad(i / 4) + i % 4];
      }
    }
    __syncwarp();
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

// Bytes of a value are `words` words, which lie in shared memory; 0: job.stride, and anywhere.
template <u32 words>
__device__ __forceinline__ void spell(const SpellJob& job, u32 in_job, u64 begin, const ShortLengths& lengths,
                                      const u8* image, u8* room, u32 staged) {
  Stage stage(room, job.out_chars + begin);
  const Turn turn(job, in_job);
  bool fits = true;  // what other lengths than those that were summed up would break
  read_codes(job, turn, [&](u32 row, const Number(&codes)[VECTOR], bool whole) {
    Slots slots;
    u32 sum = 0;
#pragma unroll
    for (u32 v = 0; v < VECTOR; ++v) {
      const u32 size = lengths.of(codes[v]);
      slots.set(v, codes[v], size);
      sum += size;
    }
    const auto value_of = [&](u32 value) {
      const u32 stride = words == 0 ? u32(again(job.stride)) : 8 * words;
      return reinterpret_cast<const u64*>(image + value * stride);
    };
    const u32 inclusive = warp_inclusive_sum(sum), before = inclusive - sum;
    const u32 total = __shfl_sync(ALL_LANES, inclusive, 31);
    // Behind what waits in the stage there is room, which `staged` says: from byte 16 on.
    write_offsets(job, row, slots, whole, again(job.first_char) + begin + before, reinterpret_cast<uint4*>(room) + 1);
    begin += total;
    fits = fits && begin <= again(job.limit);
    if (!fits) return;
#pragma unroll 1
    for (u32 from = 0; from < 32;) {  // once, if there is room for all characters
      const u32 start = __shfl_sync(ALL_LANES, before, from);
      const bool mine = lane_id() >= from && stage.fill + (inclusive - start) <= staged;
      const u32 next = from + __popc(__ballot_sync(ALL_LANES, mine));
      const u32 place = stage.fill + (before - start);
      if (__ballot_sync(ALL_LANES, mine && sum < 8) != 0) {  // words that more than two lanes share
        if (mine) {
          u8* byte = room + place;
#pragma unroll 1
          for (u32 q = 0; q < QUADS; ++q) {
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
              const u8* value = reinterpret_cast<const u8*>(value_of(slots.value(i)));
#pragma unroll 1
              for (u32 b = slots.size(i); b > 0; --b) *byte++ = *value++;
            }
            slots.drop();
          }
        }
      } else {
        u64* const first = reinterpret_cast<u64*>(room) + place / 8;
        u64 there = 0;
        if (lane_id() == from) there = low_bytes(*first, place % 8);
        StageWriter run(room, place, there);
        if (mine) {
#pragma unroll 1
          for (u32 q = 0; q < QUADS; ++q) {
#pragma unroll
            for (u32 i = 0; i < 4; ++i) {
              const u64* value = value_of(slots.value(i));
              u32 left = slots.size(i);
              if (words == 0) {
#pragma unroll 1
                for (; left > 8; left -= 8) run.put(*value++, 8);
                run.put(*value, left);
              } else {
#pragma unroll
                for (u32 w = 0; w != words; ++w) {
                  const u32 some = w + 1 != words ? min(left, 8u) : left;
                  run.put(value[w], some);
                  left -= some;
                }
              }
            }
            slots.drop();
          }
        }
        __syncwarp();
        // Each lane has filled its first word, but for what the lane before has of it.
        const u64 tail = __shfl_up_sync(ALL_LANES, run.waiting, 1);
        if (mine && lane_id() != from) *first |= tail;
        // Nothing behind the stage: that is the next warp's, or the image.
        if (lane_id() + 1 == next && run.have != 0) *run.at = run.waiting;
      }
      stage.send(__shfl_sync(ALL_LANES, inclusive, next - 1) - start);
      from = next;
    }
  });
  stage.end();
  if (job.last != 0 && turn.first < turn.last && u64(turn.last) * BITPACK_BLOCK >= job.end && lane_id() == 0) {
    const u64 rows = job.end - job.begin, at = job.first_char + begin;
    if (job.out_wide != 0)
      reinterpret_cast<u64*>(job.out_offsets)[rows] = at;
    else
      reinterpret_cast<u32*>(job.out_offsets)[rows] = u32(at);
  }
}

// Dynamic shared memory: for each warp its stage of `staged` bytes, 16 more than ROW numbers or more; then the image, of jobs whose image
// has up to `image_room` bytes; then up to `kept` lengths.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    dict_spell(const u64* table, u32 jobs, u32 staged, u32 image_room, u32 kept) {
  DYNAMIC_SHARED(u8, room);
  __shared__ SpellJob job;
  __shared__ u64 sums[BITPACK_WARPS];
  const u32 in_job = load_job(table, jobs, job);
  const u32 warp = threadIdx.x / 32, own = staged;
  // What stands before the thread block's rows.
  const u64 first = LENGTHS_PARTS * (job.first + u64(in_job) * BITPACK_WARPS);
  const u64* every = reinterpret_cast<const u64*>(job.sums);
  u64 before = 0;
#pragma unroll 8
  for (u64 i = threadIdx.x; i < first; i += THREADS) before += every[i];
  for (u32 delta = 16; delta > 0; delta /= 2) before += __shfl_xor_sync(ALL_LANES, before, delta);
  if (lane_id() == 0) sums[warp] = before;
  const u8* image = reinterpret_cast<const u8*>(job.image);
  const u64 image_nbytes = (job.values + 1) * job.stride;
  const u8* far = image + image_nbytes;
  u8* near = room + BITPACK_WARPS * own;
  kept = u32(min(u64(kept), job.values + 1));
  for (u32 i = threadIdx.x; i < kept; i += THREADS) near[image_room + i] = far[i];
  const bool is_near = image_nbytes <= image_room;
  if (is_near)
    for (u32 i = threadIdx.x; i < u32(image_nbytes) / 8; i += THREADS)
      reinterpret_cast<u64*>(near)[i] = reinterpret_cast<const u64*>(image)[i];
  __syncthreads();
  u64 begin = 0;
  for (u32 w = 0; w < BITPACK_WARPS; ++w) begin += sums[w];
  for (u32 w = 0; w < LENGTHS_PARTS * warp; ++w) begin += every[first + w];
  const ShortLengths lengths = {near + image_room, far, kept};
  const bool small = ITEM_NBYTES < 4 && is_near;  // codes of 4 bytes have too many values
  if (small && job.stride == 8)
    spell<1>(job, in_job, begin, lengths, near, room + warp * own, staged);
  else if (small && job.stride == 16)
    spell<2>(job, in_job, begin, lengths, near, room + warp * own, staged);
  else if (small && job.stride == 24)
    spell<3>(job, in_job, begin, lengths, near, room + warp * own, staged);
  else
    spell<0>(job, in_job, begin, lengths, is_near ? near : image, room + warp * own, staged);
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

template <typename Item>
__device__ __forceinline__ void answer(const AnswerJob& job, u32 in_job, u64* shared, u32 kept_nbytes) {
  const Item* map = reinterpret_cast<const Item*>(job.map);
  Item* near = reinterpret_cast<Item*>(shared);
  const u32 none = none_of(job);
  const bool kept = ITEM_NBYTES == 1 || (u64(none) + 1) * sizeof(Item) <= kept_nbytes;
  if (kept) {
    for (u32 i = threadIdx.x; i <= none; i += THREADS) near[i] = map[i < none ? i : 0];
    __syncthreads();
  }
  read_codes(job, Turn(job, in_job), [&](u32 row, const Number(&codes)[VECTOR], bool whole) {
    const auto of = [&](u32 code) { return kept ? near[code] : __ldg(map + (code == none ? 0 : code)); };
    Item* out = reinterpret_cast<Item*>(again(job.out)) +
                (static_cast<long long>(row) - static_cast<long long>(again(job.begin)));
    constexpr u32 nbytes = sizeof(Item), per = nbytes < 4 ? 4 / nbytes : 1, words = VECTOR / per;
    const bool aligned = reinterpret_cast<u64>(out) % 16 % (4 * words) == 0;
    if (whole && nbytes <= 4 && (aligned || words % 4 == 0)) {
      u32 made[words];
#pragma unroll
      for (u32 w = 0; w != words; ++w) {
        made[w] = 0;
#pragma unroll
        for (u32 i = 0; i < per; ++i) made[w] |= u32(of(codes[w * per + i])) << i * 8 * nbytes % 32;
      }
      if (!aligned) {
        if constexpr (words % 4 == 0) store_shifted(reinterpret_cast<u64>(out), made);
      } else if (words >= 4) {
#pragma unroll
        for (u32 w = 0; w + 3 < words; w += 4)
          reinterpret_cast<uint4*>(out)[w / 4] = {made[w], made[w + 1], made[w + 2], made[w + 3]};
      } else if (words == 2) {
        *reinterpret_cast<uint2*>(out) = {made[0], made[words - 1]};
      } else {
        *reinterpret_cast<u32*>(out) = made[0];
      }
    } else {
#pragma unroll
      for (u32 v = 0; v < VECTOR; ++v)
        if (row + v >= u32(job.begin) && row + v < u32(job.end)) out[v] = of(codes[v]);
    }
  });
}

// Dynamic shared memory: `kept_nbytes`, for tables of no more with an entry after the last; of all tables where codes have a byte.
extern "C" __global__ void __launch_bounds__(THREADS, LIGHT_RESIDENT)
    dict_answer(const u64* table, u32 jobs, u32 kept_nbytes) {
  DYNAMIC_SHARED(u64, shared);
  __shared__ AnswerJob job;
  const u32 in_job = load_job(table, jobs, job);
  if (job.item_nbytes == 1)
    answer<u8>(job, in_job, shared, kept_nbytes);
  else if (job.item_nbytes == 2)
    answer<u16>(job, in_job, shared, kept_nbytes);
  else if (job.item_nbytes == 4)
    answer<u32>(job, in_job, shared, kept_nbytes);
  else
    answer<u64>(job, in_job, shared, kept_nbytes);
}
