// Packed codes of dictionaries become strings, or other numbers, without being unpacked in memory (docs/format.md, sections 11, 19).
// Compiled for codes of ITEM_NBYTES = 1, 2 or 4 bytes.
//
//   dict_lengths  characters of each warp's rows; and the image: values of `stride` bytes each, zeros behind the end, and one of zeros
//                 alone for rows without a value; then the lengths of all these
//   dict_spell    offsets and characters; where an earlier call has kept what stands before each warp's rows, without dict_lengths
//   dict_answer   of every row the entry of a table
//
// Where a warp's codes have one byte, no nulls, and are packed as they are, several neighbouring codes are looked up at once: how long their
// values are together, and, where all values have one byte, their characters.
//
// Work unit: a warp has consecutive blocks of 1024 codes, as many as the others, one warp behind another: so what stands before its rows
// are the sums of the warps before, which every thread block adds up by itself, unless the host knows them from a call before. A lane has
// VECTOR consecutive rows at a time (bitpack.cuh), and so consecutive characters. It puts them together in a
// register. They go to the warp's stage in shared memory, where they lie as in global memory, and from there in stores of 16 bytes a lane.
// What does not fill 16 bytes stays in the stage, for the next rows. Of a word that two lanes share the second gets the first one's part by
// a shuffle.
//
// On an H200, 60 M rows (ncu): dict_lengths 0.046 ms for l_shipmode and l_shipinstruct, dict_spell 0.197 for l_shipmode, dict_answer of
// bytes 0.051. Two that lost, by events, which add 0.01 to 0.02 ms (docs/kernels.md has the others):
// - sizes and values of rows in shared memory, and every word stored at every value: dict_spell 0.26 instead of 0.19.
// - eight thread blocks of dict_spell on a multiprocessor: 0.22; five take as long as six.
//
// Bounds: codes of no value read as the row without a value. What dict_spell writes ends at `limit`.
#include "dict_grouped.cuh"
#include "dict_stage.cuh"

// Thread blocks of dict_spell, and of the other kernels, on a multiprocessor: code for other GPUs spills with the registers of so many.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define RESIDENT SPELL_BLOCKS
#define LIGHT_RESIDENT 8
#else
#define RESIDENT 5
#define LIGHT_RESIDENT 6
#endif

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
  const auto add = [&](u32, const Number(&codes)[VECTOR], bool) {
    u32 own = 0;
#pragma unroll
    for (u32 v = 0; v < VECTOR; ++v)
      own += ITEM_NBYTES == 1 || codes[v] < kept ? near[codes[v]] : length_of(job, codes[v]);
    sum += own;
  };
  const Turn turn(job, in_job, LENGTHS_PARTS);
#if GROUPS
  __shared__ u16 grouped_lengths[GROUPED_ENTRIES];
  const bool groups = may_be_grouped(job);
  if (groups) add_lengths(job, near, grouped_lengths);
  __syncthreads();
  if (groups && are_grouped(job, turn)) {
    sum = grouped_sum(job, turn, grouped_lengths);
  } else {
    read_codes(job, turn, add);
  }
#else
  read_codes(job, turn, add);
#endif
  for (u32 delta = 16; delta > 0; delta /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, delta);
  if (lane_id() == 0)
    reinterpret_cast<u64*>(
        job.sums)[LENGTHS_PARTS * (job.first + in_job / LENGTHS_PARTS * BITPACK_WARPS + threadIdx.x / 32) +
                  in_job % LENGTHS_PARTS] = sum;
}

#if GROUPS
// Whether all values have one byte, and MERGED of them fit a table; and offsets have 4 bytes.
__device__ __forceinline__ bool are_bytes(const SpellJob& job, const u8* lengths) {
  if (!may_be_grouped(job) || job.values > 4 || job.stride != 8 || job.out_wide != 0) return false;
  bool all = true;
  for (u32 i = 0; i < u32(job.values); ++i) all = all && lengths[i] == 1;
  return all;
}

// As `spell`, of values that `are_bytes`: where each row's goes is known. `merged`: the characters of each MERGED codes.
__device__ __forceinline__ void spell_bytes(const SpellJob& job, const Turn& turn, u64 begin, const u32* merged) {
  if (turn.first >= turn.last) return;
  const u32 width = codes_width(job), mask = (1u << MERGED * width) - 1;
  GroupedBlocks blocks(job, turn.first);
  const u64 rows_before = u64(turn.first) * BITPACK_BLOCK - job.begin;
  u64 to = job.out_offsets + rows_before * 4 + 16 * lane_id(), chars = job.out_chars + begin + VECTOR * lane_id();
  u32 place = u32(job.first_char + begin) + 4 * lane_id();
  const u64 limit = job.out_chars + job.limit;
#pragma unroll 1
  for (u32 number = turn.first; number < turn.last; ++number) {
    if (number > turn.first) blocks.set_width();
    Number numbers[32 / MERGED];
    take_numbers<32 / MERGED, false>(blocks.words, blocks.width, 0, numbers);
#pragma unroll
    for (u32 r = 0; r < ROWS; ++r) {
      u32 made[VECTOR / MERGED];
#pragma unroll
      for (u32 n = 0; n < VECTOR / MERGED; ++n) {
        const u32 codes = blocks.widened(numbers[r * (VECTOR / MERGED) + n], width) & mask;
        made[n] = merged[codes];
      }
#pragma unroll
      for (u32 k = 0; k < QUADS; ++k) {
        const u32 at = place + 128 * k;
        u32* four = reinterpret_cast<u32*>(to + 512 * k);
        if (to % 16 == 0)
          *reinterpret_cast<uint4*>(four) = {at, at + 1, at + 2, at + 3};
        else
          four[0] = at, four[1] = at + 1, four[2] = at + 2, four[3] = at + 3;
      }
      if (chars + VECTOR * (32 - lane_id()) <= limit) {
        if (chars % 16 == 0)
          *reinterpret_cast<uint4*>(chars) = {made[0], made[1], made[2], made[3]};
        else
          store_shifted(chars, made);
      }
      to += 4 * ROW, chars += ROW, place += ROW;
    }
    blocks.go_on();
  }
  if (job.last != 0 && turn.last > u32(job.end - 1) / BITPACK_BLOCK && lane_id() == 0)
    reinterpret_cast<u32*>(job.out_offsets)[job.end - job.begin] = place;
}
#endif

// Bytes of a value are `words` words, which lie in shared memory; 0: job.stride, and anywhere.
template <u32 words>
__device__ __forceinline__ void spell(const SpellJob& job, const Turn& turn, u64 begin, const ShortLengths& lengths,
                                      const u8* image, u8* room, u32 staged) {
  Stage stage(room, job.out_chars + begin);
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
  if (turn.first < turn.last) end_rows(job, turn.last, stage, begin);
}

// What stands before a warp's rows, where that is not known by the sums of warps before.
__device__ __forceinline__ u64 characters_before(const SpellJob& job, u32 in_job, u64* sums) {
  const u64 first_warp = job.first + u64(in_job) * BITPACK_WARPS, first = LENGTHS_PARTS * first_warp;
  const u64* every = reinterpret_cast<const u64*>(job.sums);
  if (job.placed != 0) return every[first_warp + threadIdx.x / 32];
  u64 before = 0;
#pragma unroll 8
  for (u64 i = threadIdx.x; i < first; i += THREADS) before += every[i];
  for (u32 delta = 16; delta > 0; delta /= 2) before += __shfl_xor_sync(ALL_LANES, before, delta);
  if (lane_id() == 0) sums[threadIdx.x / 32] = before;
  __syncthreads();
  u64 begin = 0;
  for (u32 w = 0; w < BITPACK_WARPS; ++w) begin += sums[w];
  for (u32 w = 0; w < LENGTHS_PARTS * (threadIdx.x / 32); ++w) begin += every[first + w];
  return begin;
}

// `room`, dynamic shared memory: for each warp its stage of `staged` bytes, 16 more than ROW numbers or more; then the image, of jobs whose
// image has up to `image_room` bytes; then up to `kept` lengths.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    dict_spell(const u64* table, u32 jobs, u32 staged, u32 image_room, u32 kept) {
  DYNAMIC_SHARED(u8, room);
  __shared__ SpellJob job;
  __shared__ u64 sums[BITPACK_WARPS];
  const u32 in_job = load_job(table, jobs, job), warp = threadIdx.x / 32;
  const u64 begin = characters_before(job, in_job, sums);
  const u8* image = reinterpret_cast<const u8*>(job.image);
  const u64 image_nbytes = (job.values + 1) * job.stride;
  const u8* far = image + image_nbytes;
  u8* near = room + BITPACK_WARPS * staged;
  kept = u32(min(u64(kept), job.values + 1));
  for (u32 i = threadIdx.x; i < kept; i += THREADS) near[image_room + i] = far[i];
  const bool is_near = image_nbytes <= image_room;
  if (is_near)
    for (u32 i = threadIdx.x; i < u32(image_nbytes) / 8; i += THREADS)
      reinterpret_cast<u64*>(near)[i] = reinterpret_cast<const u64*>(image)[i];
  __syncthreads();
  const ShortLengths lengths = {near + image_room, far, kept};
  const Turn turn(job, in_job);
  u8* const stage = room + warp * staged;
#if GROUPS
  if (are_bytes(job, near + image_room)) {
    __shared__ u32 merged[256];
    const u32 width = codes_width(job);
    for (u32 i = threadIdx.x; i < 1u << MERGED * width; i += THREADS) {
      u32 made = 0;
      for (u32 k = 0; k < MERGED; ++k)
        made |= u32(near[8 * min(i >> k * width & ((1u << width) - 1), u32(job.values))]) << 8 * k;
      merged[i] = made;
    }
    __syncthreads();
    if (are_grouped(job, turn)) {
      spell_bytes(job, turn, begin, merged);
      return;
    }
  }
#endif
  const bool small = ITEM_NBYTES < 4 && is_near;  // codes of 4 bytes have too many values
  if (small && job.stride == 8)
    spell<1>(job, turn, begin, lengths, near, stage, staged);
  else if (small && job.stride == 16)
    spell<2>(job, turn, begin, lengths, near, stage, staged);
  else if (small && job.stride == 24)
    spell<3>(job, turn, begin, lengths, near, stage, staged);
  else
    spell<0>(job, turn, begin, lengths, is_near ? near : image, stage, staged);
}

template <typename Item>
__device__ __forceinline__ void answer(const AnswerJob& job, u32 in_job, u64* shared, u32 kept_nbytes, uint4* places) {
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
    if constexpr (nbytes == 4) {
      if (whole) {
        const u64 to = reinterpret_cast<u64>(out - lane_id() * VECTOR);
        store_numbers(to, places + threadIdx.x / 32 * (32 * QUADS), [&](u32 v) { return u32(of(codes[v])); });
        return;
      }
    }
    if (whole && nbytes < 4 && (aligned || words % 4 == 0)) {
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
  __shared__ uint4 places[BITPACK_WARPS * 32 * QUADS];
  const u32 in_job = load_job(table, jobs, job);
  if (job.item_nbytes == 1)
    answer<u8>(job, in_job, shared, kept_nbytes, places);
  else if (job.item_nbytes == 2)
    answer<u16>(job, in_job, shared, kept_nbytes, places);
  else if (job.item_nbytes == 4)
    answer<u32>(job, in_job, shared, kept_nbytes, places);
  else
    answer<u64>(job, in_job, shared, kept_nbytes, places);
}
