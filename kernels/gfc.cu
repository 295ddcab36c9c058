// GFC (O'Neil, Burtscher, GPGPU-4 2011): words of ITEMSIZE bytes <-> differences without their leading zero bytes
// (docs/format.md, section 12).
//
// Work unit: a warp handles a chunk, subchunk by subchunk, a value a lane:
//
//   | 32 half-bytes: sign, leading zero bytes | bytes of lane 0's magnitude | of lane 1's | ... | next subchunk
//
// gfc_measure  Bytes of every chunk. It reads the values and writes nothing else.
// gfc_scan     Sums them up to `starts`, which are stored. The host then knows how much memory the codes take.
// gfc_encode   Reads the values again and writes every chunk's codes to their place.
// gfc_decode   The way back.
//
// The values are read twice since the codes' buffer has exactly their size: for bytes that do not get fewer (l_extendedprice,
// ratio 1.07) 2 reads and 0.93 writes a byte, 2.93 in all. Slots of the worst case and a second pass that packs them, as the
// authors' program has, move 1 + 0.93 + 0.93 + 0.93 = 3.8. One pass with chunks that wait for their predecessors' sizes (decoupled
// look-back) would move 1.93, but into a buffer of the worst case, and bring 1.87 more to copy them out of it.
//
// What a warp does at once is a *batch* of 4 subchunks. Their lengths (0 to 8) lie in the four bytes of a register, so one prefix sum
// serves all: an exclusive one stays below 31 * 8 = 248 and does not leave its byte.
// Both ways the bytes go through shared memory, so that what touches global memory is whole 16-byte words, 32 lanes at once.
//
// Bound: memory. At 3,500 GB/s it takes 77, 148 and 148 us to measure, encode and decode the 268 MB of l_extendedprice; instructions would
// take an H200 21, 82 and 73 (docs/kernels.md counts them). Measured there: the encoding call 1,010 GB/s, its one wait included, decoding
// 1,640. Two that lost:
// - chunks of 1024 values: 905 to encode, though 1,745 to decode; of 8192: 977 and 1,576.
// - decoding without copies ahead: 1,555; with one batch ahead 1,621.
#include "jobs.cuh"

#if ITEMSIZE == 8
typedef u64 Word;
#else
typedef u32 Word;
#endif

#define SUBCHUNK 32
#define HEADER 16                                // bytes of the half-bytes
#define SUBCHUNK_LIMIT (HEADER + 32 * ITEMSIZE)  // bytes of a subchunk's codes at most
#define BATCH 4
#define MEASURE_BATCH 4
// Warps of gfc_encode on a multiprocessor; with as few registers as 36 need, code for older GPUs spills.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define ENCODE_WARPS 32
#else
#define ENCODE_WARPS 36
#endif

// The lane whose value of a subchunk predicts this lane's of the next.
__device__ __forceinline__ u32 predicting_lane(u32 dim) { return SUBCHUNK - dim + lane_id() % dim; }

struct Difference {
  Word magnitude;
  u32 sign;  // in the highest bit; the others may be anything

  __device__ __forceinline__ Difference(Word value, Word predicted) {
    const Word difference = value - predicted;
    sign = u32(difference >> (8 * ITEMSIZE - 32));
    magnitude = int(sign) < 0 ? Word(0) - difference : difference;
  }
  // Bytes that the magnitude needs.
  __device__ __forceinline__ u32 needed() const {
    const u32 high = u32(u64(magnitude) >> 32), low = u32(magnitude);  // no high one in 4 bytes
    return u32((high != 0 ? 40 : 8) + 31 - __clz(int(high != 0 ? high : low))) / 8;
  }
};

// Four numbers, below 256, in the bytes of a word.
__device__ __forceinline__ u32 byte_of(u32 four, u32 i) { return __byte_perm(four, 0, 0x4440 + i); }

// 1 in every byte that is at least `limit`. Bytes below 128, a limit of 1 to 127.
__device__ __forceinline__ u32 at_least(u32 four, u32 limit) {
  return (four + 0x01010101 * (128 - limit)) >> 7 & 0x01010101;
}

// Exclusive sums over the warp; none may exceed 255.
__device__ __forceinline__ u32 warp_exclusive_sums(u32 four) {
  u32 sum = __shfl_up_sync(ALL_LANES, four, 1);
  if (lane_id() == 0) sum = 0;
#pragma unroll
  for (u32 delta = 1; delta < 32; delta *= 2) {
#ifdef __CUDA_ARCH__
    // The shuffle itself says whether there is such a lane.
    asm volatile(
        "{ .reg .pred p; .reg .u32 below;\n"
        "shfl.sync.up.b32 below|p, %0, %1, 0, 0xffffffff;\n"
        "@p add.u32 %0, below, %0; }"
        : "+r"(sum)
        : "r"(delta));
#else
    const u32 below = __shfl_up_sync(ALL_LANES, sum, delta);
    if (lane_id() >= delta) sum += below;
#endif
  }
  return sum;
}

// ---- sizes

// Values to measure.
struct MeasureChunksJob {
  u64 values, rows;        // address, count
  u64 dim, chunk, chunks;  // `chunk`: values of one
  u64 sizes;               // address, u32 of every chunk: its bytes
};

// A warp a chunk.
extern "C" __global__ void __launch_bounds__(32 * WARPS) gfc_measure(const u64* table, u32 jobs) {
  __shared__ MeasureChunksJob job;
  const u32 in_job = load_job(table, jobs, job);
  const u32 number = in_job * WARPS + threadIdx.x / 32, lane = lane_id(), chunk = u32(job.chunk);
  if (number >= job.chunks) return;
  const Word* values = reinterpret_cast<const Word*>(job.values);
  const u64 first = u64(number) * chunk;
  const u32 count = u32(min(job.rows - first, u64(chunk))), source = predicting_lane(u32(job.dim));
  const Word* from = values + first + lane;
  Word predicted = 0;
  u32 bytes = 0, i = 0;
  const auto add = [&](Word value) {
    const u32 needed = Difference(value, predicted).needed();
    bytes += ITEMSIZE == 8 && needed == 2 ? 3 : needed;
    predicted = __shfl_sync(ALL_LANES, value, source);
  };
  for (; i + SUBCHUNK * MEASURE_BATCH <= count; i += SUBCHUNK * MEASURE_BATCH) {
    Word value[MEASURE_BATCH];  // all loads under way before the first is used
#pragma unroll
    for (u32 k = 0; k < MEASURE_BATCH; ++k) value[k] = __ldg(from + i + SUBCHUNK * k);
#pragma unroll
    for (u32 k = 0; k < MEASURE_BATCH; ++k) add(value[k]);
  }
  for (; i < count; i += SUBCHUNK) add(i + lane < count ? __ldg(from + i) : predicted);
  bytes = warp_inclusive_sum(bytes);
  if (lane == 31) reinterpret_cast<u32*>(job.sizes)[number] = bytes + HEADER * ((count + SUBCHUNK - 1) / SUBCHUNK);
}

// starts[i]: bytes of all chunks before chunk i; the first of totals: bytes of all chunks. grid: a thread block a job.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS, 1) gfc_scan(const u64* table, u32 jobs) {
  const ScanJob& job = reinterpret_cast<const ScanJob*>(table + jobs)[blockIdx.x];
  const u32* sizes = reinterpret_cast<const u32*>(job.sizes);
  u64* starts = reinterpret_cast<u64*>(job.starts);
  const u32 chunks = u32(job.count);
  __shared__ u32 warp_sums[32];
  static_assert(SCAN_THREADS == 32 * 32, "warp_sums");
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  u64 before = 0;
  for (u32 base = 0; base < chunks; base += 4 * SCAN_THREADS) {
    const u32 i = base + 4 * threadIdx.x;
    u32 size[4];
#pragma unroll
    for (u32 k = 0; k < 4; ++k) size[k] = i + k < chunks ? sizes[i + k] : 0;
    const u32 sum = size[0] + size[1] + size[2] + size[3];
    u32 inclusive = warp_inclusive_sum(sum);
    if (lane == 31) warp_sums[warp] = inclusive;
    __syncthreads();
    if (warp == 0) warp_sums[lane] = warp_inclusive_sum(warp_sums[lane]);
    __syncthreads();
    if (warp > 0) inclusive += warp_sums[warp - 1];
    u64 start = before + (inclusive - sum);
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      if (i + k < chunks) starts[i + k] = start;
      start += size[k];
    }
    before += warp_sums[31];
    __syncthreads();
  }
  if (threadIdx.x == 0) *reinterpret_cast<u64*>(job.totals) = before;
}

// ---- encode

#define STAGED_NBYTES (16 + BATCH * SUBCHUNK_LIMIT)  // a batch, behind what is left of the 16 bytes before it

// A warp's place in the codes. Byte i of `staged` belongs to byte i of `to`, which is a multiple of 16.
struct Output {
  u8* staged;
  u8* to;
  u32 begin;  // bytes before it belong to others
  u32 end;

  // Writes all whole 16 bytes and keeps the rest. There is at least one.
  __device__ __forceinline__ void flush() {
    const u32 lane = lane_id(), whole = end / 16;
    const uint4* from = reinterpret_cast<const uint4*>(staged);
    if (begin > 0 && lane >= begin && lane < 16) to[lane] = staged[lane];
#pragma unroll
    for (u32 k = 0; k < STAGED_NBYTES / 16; k += 32)
      if (k + lane < whole && (k > 0 || lane > 0 || begin == 0))
        reinterpret_cast<uint4*>(to)[k + lane] = from[k + lane];
    const uint4 rest = from[whole];
    __syncwarp();
    if (lane == 0) *reinterpret_cast<uint4*>(staged) = rest;
    __syncwarp();
    to += 16 * whole;
    end -= 16 * whole;
    begin = 0;
  }
  __device__ __forceinline__ void finish() {
    if (lane_id() < end) to[lane_id()] = staged[lane_id()];
  }
};

// The bytes of a magnitude, one by one.
__device__ __forceinline__ void put_bytes(u8* to, Word magnitude, u32 length) {
  if (length > 0) to[0] = u8(magnitude);
  if (__any_sync(ALL_LANES, length > 1)) {
#pragma unroll
    for (u32 k = 1; k < ITEMSIZE; ++k)
      if (length > k) to[k] = u8(magnitude >> (8 * k));
  }
}

// The bytes of a magnitude by words of four, where all lanes have at least three: then a lane completes the word that the one before could
// not. Writes zeros to the rest of the words that lane 0 begins in and lane 31 ends in.
__device__ __forceinline__ void put_words(u8* staged, u32 at, Word magnitude, u32 length) {
  const u32 shift = 8 * at, end = (at & 3) + length, low = u32(magnitude);
  u32* to = reinterpret_cast<u32*>(staged) + at / 4;
  u32 word0 = __funnelshift_l(0, low, shift);
#if ITEMSIZE == 8
  const u32 high = u32(magnitude >> 32);
  const u32 word1 = __funnelshift_l(low, high, shift), word2 = __funnelshift_l(high, 0, shift);
  const u32 rest = end >= 8 ? word2 : end >= 4 ? word1 : word0;
#else
  const u32 word1 = __funnelshift_l(low, 0, shift);
  const u32 rest = end >= 4 ? word1 : word0;
#endif
  const u32 carried = __shfl_up_sync(ALL_LANES, rest, 1);
  if (lane_id() > 0) word0 |= carried;
  if (end >= 4) to[0] = word0;
#if ITEMSIZE == 8
  if (end >= 8) to[1] = word1;
#endif
  if (lane_id() == 31) to[end / 4] = rest;
}

// Appends N subchunks. Of the values only the first `valid` lanes' count, unless `whole`; the others are as predicted.
template <u32 N, bool whole>
__device__ __forceinline__ void encode(Output& output, const Word (&values)[N], u32 valid, Word& predicted,
                                       u32 source) {
  const u32 lane = lane_id();
  Word magnitude[N];
  u32 lengths = 0, half_bytes = 0;
#pragma unroll
  for (u32 k = 0; k < N; ++k) {
    const Word value = whole || lane < valid ? values[k] : predicted;
    const Difference difference(value, predicted);
    predicted = __shfl_sync(ALL_LANES, value, source);
    magnitude[k] = difference.magnitude;
    lengths += difference.needed() << (8 * k);
    half_bytes |= difference.sign >> (28 - 8 * k) & 8 << (8 * k);
  }
#if ITEMSIZE == 8
  const u32 at_least_2 = at_least(lengths, 2);
  lengths += at_least_2 ^ at_least(lengths, 3);  // six leading zero bytes count as five: 3 bytes instead of 2
  half_bytes += 0x07070707 + at_least_2 - lengths;
  const bool long_ones = at_least_2 == 0x01010101;
#else
  half_bytes += 0x04040404 - lengths;
  const bool long_ones = at_least(lengths, 3) == 0x01010101;
#endif
  const u32 before = warp_exclusive_sums(lengths);
  // The subchunks' bytes are the last lane's inclusive sums; up to 256, so each takes half a word.
  const u32 even = __shfl_sync(ALL_LANES, (before & 0xff00ff) + (lengths & 0xff00ff), 31);
  const u32 odd = __shfl_sync(ALL_LANES, (before >> 8 & 0xff00ff) + (lengths >> 8 & 0xff00ff), 31);
  u32 at[N + 1];  // of the subchunks
  at[0] = output.end;
#pragma unroll
  for (u32 k = 0; k < N; ++k) at[k + 1] = at[k] + HEADER + ((k % 2 == 0 ? even : odd) >> (k / 2 * 16) & 0xffff);

  if (whole && __all_sync(ALL_LANES, long_ones)) {
#pragma unroll
    for (u32 k = 0; k < N; ++k)
      put_words(output.staged, at[k] + HEADER + byte_of(before, k), magnitude[k], byte_of(lengths, k));
    __syncwarp();
  } else {
#pragma unroll
    for (u32 k = 0; k < N; ++k)
      put_bytes(output.staged + at[k] + HEADER + byte_of(before, k), magnitude[k], byte_of(lengths, k));
  }
  half_bytes |= __shfl_down_sync(ALL_LANES, half_bytes, 1) << 4;
  if (lane % 2 == 0) {
#pragma unroll
    for (u32 k = 0; k < N; ++k) output.staged[at[k] + lane / 2] = u8(byte_of(half_bytes, k));
  }
  output.end = at[N];
  __syncwarp();
  output.flush();
}

// Values to encode. Their chunks are some or all of a stream's; both `starts` are of the first one.
struct EncodeJob {
  u64 values, rows;        // address, count
  u64 dim, chunk, chunks;  // `chunk`: values of one
  u64 starts;              // address, as gfc_scan left them
  u64 out_starts;          // address, in meta
  u64 codes;               // address, of the stream's first chunk
  u64 end;                 // 0, or, where the stream's last chunk is among these, its bytes + 1
  u64 padding;             // address of the 8 bytes that fill meta up, or 0
};

// A warp a chunk, the last one first: that may still lie in the L2.
extern "C" __global__ void __launch_bounds__(32 * WARPS, ENCODE_WARPS / WARPS) gfc_encode(const u64* table, u32 jobs) {
  __shared__ uint4 staged[WARPS][STAGED_NBYTES / 16];
  __shared__ EncodeJob job;
  const u32 in_job = load_job(table, jobs, job);
  const u32 warp = threadIdx.x / 32, unit = in_job * WARPS + warp, lane = lane_id();
  const u32 chunk = u32(job.chunk), chunks = u32(job.chunks);
  if (unit >= chunks) return;
  const u32 number = chunks - 1 - unit;
  const u64 first = u64(number) * chunk, start = reinterpret_cast<const u64*>(job.starts)[number];
  const u32 count = u32(min(job.rows - first, u64(chunk))), source = predicting_lane(u32(job.dim));
  const Word* values = reinterpret_cast<const Word*>(job.values);
  u8* codes = reinterpret_cast<u8*>(job.codes);
  if (lane == 0) {
    u64* out_starts = reinterpret_cast<u64*>(job.out_starts);
    out_starts[number] = start;
    if (unit == 0 && job.end != 0) {
      out_starts[chunks] = job.end - 1;
      if (job.padding != 0) *reinterpret_cast<u64*>(job.padding) = 0;
    }
  }
  Output output = {reinterpret_cast<u8*>(staged[warp]), codes + start / 16 * 16, u32(start % 16), u32(start % 16)};
  const Word* from = values + first + lane;
  Word predicted = 0, next[BATCH];
  u32 i = 0;
  if (count >= SUBCHUNK * BATCH) {
#pragma unroll
    for (u32 k = 0; k < BATCH; ++k) next[k] = __ldg(from + SUBCHUNK * k);
  }
  for (; i + SUBCHUNK * BATCH <= count; i += SUBCHUNK * BATCH) {
    Word value[BATCH];
#pragma unroll
    for (u32 k = 0; k < BATCH; ++k) value[k] = next[k];
    if (i + 2 * SUBCHUNK * BATCH <= count) {
#pragma unroll
      for (u32 k = 0; k < BATCH; ++k) next[k] = __ldg(from + i + SUBCHUNK * (BATCH + k));
    }
    encode<BATCH, true>(output, value, SUBCHUNK, predicted, source);
  }
  for (; i < count; i += SUBCHUNK) {
    const Word value[1] = {i + lane < count ? __ldg(from + i) : 0};
    encode<1, false>(output, value, count - i, predicted, source);
  }
  output.finish();
}

// ---- decode
//
// The chunk's bytes go through a ring in shared memory. Copies to it are asynchronous and run two batches ahead; while one waits, other
// warps work. Where a subchunk starts is known when the half-bytes of the one before have been summed, so four subchunks' half-bytes
// are read and summed one after another, and all the rest of the work on them is done together.
//
// Whatever the codes, nothing outside the values, the codes and the ring is touched: a position in the chunk is only ever used modulo
// the ring, and copies stay within `codes_nbytes`.

#define RING 4096
#define UNIT 512  // bytes a warp copies at once
#define AHEAD 2   // batches
// While a batch is read, the copies that began before the last AHEAD batches have arrived.
static_assert(RING - UNIT - 16 >= (AHEAD + 1) * BATCH * SUBCHUNK_LIMIT, "the ring holds what is read");

__device__ __forceinline__ void end_group() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits for all groups but the last `ahead`.
template <u32 ahead>
__device__ __forceinline__ void wait_for_groups() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(ahead) : "memory");
#endif
  __syncwarp();
}

// The sum of numbers up to 15.
__device__ __forceinline__ u32 warp_sum(u32 value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_add_sync(ALL_LANES, value);
#else
  u32 sum = 0;
#pragma unroll
  for (u32 bit = 0; bit < 4; ++bit) sum += __popc(__ballot_sync(ALL_LANES, value >> bit & 1)) << bit;
  return sum;
#endif
}

// The lowest `n` bits of a word; all where n > 32.
__device__ __forceinline__ u32 low_bits(u32 n) {
#ifdef __CUDA_ARCH__
  u32 mask;
  asm("bmsk.clamp.b32 %0, 0, %1;" : "=r"(mask) : "r"(n));
  return mask;
#else
  return n >= 32 ? ~0u : (1u << n) - 1;
#endif
}

// A warp's place in the codes of its chunk, and the ring with the bytes from there on.
struct Input {
  u8* ring;  // RING bytes, and the first 16 of them again
  const u8* from;
  u32 readable;  // bytes from `from` that may be read
  u32 limit;     // ... that belong to the chunk
  u32 at;
  u32 staged;  // where the next copy begins

  __device__ __forceinline__ void copy_ahead() {
    __syncwarp();
    for (; staged < limit && staged + UNIT <= at + RING; staged += UNIT) {
      const u32 begin = staged + 16 * lane_id(), place = begin % RING;
      if (begin >= limit) continue;
      if (begin + 16 <= readable) {
        copy_16_async(ring + place, from + begin);
        if (place == 0) copy_16_async(ring + RING, from + begin);
      } else {  // the last bytes of all
#pragma unroll 1
        for (u32 k = 0; begin + k < readable; ++k) {
          ring[place + k] = from[begin + k];
          if (place == 0) ring[RING + k] = from[begin + k];
        }
      }
    }
    end_group();
  }
};

// Lengths by leading zero bytes, as they are stored in a half-byte.
#define LENGTHS (ITEMSIZE == 8 ? 0x01345678u : 0x00001234u)

// A chunk's values: those from `lower` on, this lane's first at `out`, `step` words from one to the next.
struct Destination {
  Word* out;
  u32 step, lower, upper;
};

// Decodes N subchunks; `i`: their first value. Values outside the destination are not written, which is not checked where they are `whole`.
template <u32 N, bool whole>
__device__ __forceinline__ void decode(Input& input, const Destination& to, u32 i, Word& predicted, u32 source) {
  const u32 lane = lane_id();
  const u32* words = reinterpret_cast<const u32*>(input.ring);
  u32 half_byte[N], at[N], lengths = 0;
#pragma unroll
  for (u32 k = 0; k < N; ++k) {
    half_byte[k] = u32(input.ring[(input.at + lane / 2) % RING]) >> (lane % 2 * 4);
    const u32 length = LENGTHS >> (half_byte[k] % 8 * 4) & 15;
    lengths |= length << (8 * k);
    at[k] = input.at + HEADER;
    input.at = at[k] + warp_sum(length);
  }
  const u32 before = warp_exclusive_sums(lengths);
#pragma unroll
  for (u32 k = 0; k < N; ++k) {
    const u32 byte = at[k] + byte_of(before, k), word = byte % RING / 4, bits = 8 * byte_of(lengths, k);
    Word magnitude = __funnelshift_r(words[word], words[word + 1], 8 * byte) & low_bits(bits);
#if ITEMSIZE == 8
    const u32 high = __funnelshift_r(words[word + 1], words[word + 2], 8 * byte) & low_bits(max(bits, 32u) - 32);
    magnitude |= u64(high) << 32;
#endif
    const u32 sign = half_byte[k] >> 3 & 1;
    const Word value = predicted + (magnitude ^ (Word(0) - Word(sign))) + sign;
    predicted = __shfl_sync(ALL_LANES, value, source);
    if (whole || (i + lane >= to.lower && i + lane < to.upper)) to.out[(i + SUBCHUNK * k) * to.step] = value;
  }
}

// A segment.
struct GfcSegment {
  u64 starts, codes;  // addresses
  u64 codes_nbytes, dim, chunk;
};

// What is wanted of chunk `number`, by a warp.
__device__ __forceinline__ void decode_chunk(const GfcSegment& segment, u64 number, u64 begin, u64 end, u64 values,
                                             u64 stride, uint4* ring) {
  const u32 lane = lane_id(), chunk = u32(segment.chunk), source = predicting_lane(u32(segment.dim));
  const u64 first = number * chunk;
  const u64* starts = reinterpret_cast<const u64*>(segment.starts);
  const u64 start = min(starts[number], segment.codes_nbytes), stop = min(starts[number + 1], segment.codes_nbytes);
  const u64 base = start / 16 * 16, most = 1u << 30;
  Input input = {reinterpret_cast<u8*>(ring),
                 reinterpret_cast<const u8*>(segment.codes) + base,
                 u32(min(segment.codes_nbytes - base, most)),
                 u32(stop > base ? min(stop - base, most) : 0),
                 u32(start - base),
                 0};
  const u64 out = values + (first + lane - begin) * stride;
  const Destination to = {reinterpret_cast<Word*>(out), ITEMSIZE == 8 ? u32(stride) / ITEMSIZE : 1,
                          begin > first ? u32(begin - first) : 0, u32(min(end - first, u64(chunk)))};
  Word predicted = 0;
  u32 i = 0;
  input.copy_ahead();
  wait_for_groups<0>();
  for (; i < to.lower; i += SUBCHUNK) {
    decode<1, false>(input, to, i, predicted, source);
    input.copy_ahead();
    wait_for_groups<0>();
  }
  for (; i + SUBCHUNK * BATCH <= to.upper; i += SUBCHUNK * BATCH) {
    decode<BATCH, true>(input, to, i, predicted, source);
    input.copy_ahead();
    wait_for_groups<AHEAD>();
  }
  wait_for_groups<0>();
  for (; i < to.upper; i += SUBCHUNK) {
    decode<1, false>(input, to, i, predicted, source);
    input.copy_ahead();
    wait_for_groups<0>();
  }
}

struct DecodeJob {
  GfcSegment segment;
  u64 touched;  // address of a byte for each chunk from the first that is wanted on, 0 where it may be left out; 0: none may
  OutputRows output;
};

// Segments, or ranges of them -> values. A warp a chunk.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 40 / WARPS) gfc_decode(const u64* table, u32 jobs) {
  __shared__ uint4 rings[WARPS][RING / 16 + 1];
  const u32 which = find_job(table, jobs, blockIdx.x), warp = threadIdx.x / 32;
  const DecodeJob& job = reinterpret_cast<const DecodeJob*>(table + jobs)[which];
  const u64 unit = (blockIdx.x - table[which]) * WARPS + warp, begin = job.output.begin, end = job.output.end;
  const u64 number = begin / job.segment.chunk + unit;
  if (number * job.segment.chunk >= end) return;
  if (job.touched != 0 && reinterpret_cast<const u8*>(job.touched)[unit] == 0) return;
  decode_chunk(job.segment, number, begin, end, job.output.values, job.output.stride, rings[warp]);
}

struct GfcPart {
  GfcSegment segment;
  u64 first_row, rows;
};

// A few rows by number, of many columns. Rows that no part has are left out. A warp decodes the chunk of a row up to it. grid: `blocks`
// thread blocks of WARPS rows for each column. The table: columns, then parts.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 40 / WARPS)
    gfc_take(const u64* table, u32 columns, u32 blocks, const u64* rows, u64 shift, u64 count) {
  __shared__ uint4 rings[WARPS][RING / 16 + 1];
  const TakenColumn& column = reinterpret_cast<const TakenColumn*>(table)[blockIdx.x / blocks];
  const GfcPart* parts = reinterpret_cast<const GfcPart*>(reinterpret_cast<const TakenColumn*>(table) + columns);
  const u32 warp = threadIdx.x / 32;
  const u64 i = blockIdx.x % blocks * u64(WARPS) + warp, row = row_of(rows, shift, i, count);
  const GfcPart* part;
  if (i >= count || !find_part(parts + column.first_part, column.parts, row, part)) return;
  const u64 local = row - part->first_row;
  decode_chunk(part->segment, local / part->segment.chunk, local, local + 1, column.values + i * column.stride,
               column.stride, rings[warp]);
}
