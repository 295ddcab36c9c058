// OnPair decode: codes -> characters, many segments in one launch.
//
// Work unit: as fsst_decode's, a tile a lane (text_decode.cuh). A lane takes *steps*: each appends 8 bytes at most, so a symbol of more
// bytes takes two. So lanes with long and with short symbols go on together, and a table has 8 bytes for most symbols, 16 for long ones alone.
//
//   table   | entries of all codes: symbols, or their first 8 bytes | seconds of long symbols, the last one's first |
//
// Steps come in fours, whose table look-ups are under way before the first symbol is appended. The last ones may run past the tile's codes:
// what they append behind the tile's characters is cleared.
//
// Bound: shared memory and the pipe of the integers, both about two thirds busy (counted, not measured). TPC-H SF 10 l_comment on an H200:
// 0.91 ms, 1,750 GB/s. Two that lost:
// - 32 groups of 8 codes a warp, whatever their tile, the lengths summed first to know where a lane's bytes go: 1.57 ms. No lane waits for
//   another's tile, but it took 4,570 instructions for what takes about 2,700 now.
// - one block of 17 warps instead of two of 7: 0.97 ms.
//
// Invariant: whatever the codes, nothing outside the row, the staged codes and the wanted characters is touched. Starts and lengths are
// clamped to `codes_nbytes`, and a row has room for four steps behind its tile.
#include "onpair.cuh"
#include "text_decode.cuh"

#define STEPS 4
// With a bound of 512 threads ptxas takes 58 registers for sm_90 where it takes 80 with a larger one. For sm_120 that of CUDA 12.9 spills
// with a larger one, or ends.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
#define DECODE_BOUND DECODE_THREADS
#else
#define DECODE_BOUND (DECODE_THREADS + 64)
#endif

// The codes of a segment, and how a lane decodes a tile of them.
struct OnpairRows {
  const u64* entries;  // in global memory
  u32 bits, first_eight, eights, first_long, last_second;
  // 1 and -1, but the compiler does not know: what is multiplied by them leaves the pipe of the integers alone.
  u32 one, minus_one;

  __device__ __forceinline__ explicit OnpairRows(const OnpairTable& table)
      : entries(table.entries()),
        bits(table.bits),
        first_eight(table.first_eight),
        eights(2 * table.codes - table.first_full - table.first_eight),
        first_long(table.first_long),
        last_second(2 * table.codes - 1),
        one(table.one),
        minus_one(0 - one) {}

  // The table lies at the begin of shared memory, if STAGED.
  __device__ __forceinline__ u64 entry_at(const u8* shared, u32 entry) const {
    if (!STAGED) return __ldg(entries + entry);
    return *reinterpret_cast<const u64*>(shared + (entry * (8 * one) + u32(sizeof(OnpairTable))));
  }

  __device__ __forceinline__ void decode_row(u8* shared, const u32* staged, u32 at, u32 nbytes, u32 row_at, u32 skew,
                                             u32 n) const {
    const u32 last = row_at + ROW_NBYTES - 8 * (STEPS + 1), mask = (1u << bits) - 1;
    *reinterpret_cast<u64*>(shared + row_at) = 0;
    LaneOutput row = {shared, row_at + (skew & 8), 0, 8 * (skew & 7), one};
    const u32* const words = staged + at / 4;
    u32 low = words[0], high = words[1], next = words[2], bit = 8 * (at & 3);
    u32 word = u32(reinterpret_cast<const u8*>(words + 3) - shared);
    i32 last_code = i32(bit + 8 * nbytes - bits);  // where it begins at most
    bool second = false;                           // whether the next step is a long symbol's second
    while (i32(bit) <= last_code) {
      u64 symbols[STEPS];
      bool eight[STEPS];
#pragma unroll
      for (u32 i = 0; i < STEPS; ++i) {
        if (i % 2 == 0 && bit >= 32) {
          low = high, high = next, next = *reinterpret_cast<const u32*>(shared + word);
          word = 4 * one + word;
          bit = 32 * minus_one + bit, last_code = i32(32 * minus_one + u32(last_code));
        }
        const u32 code = u32((u64(high) << 32 | low) >> bit) & mask;
        const u32 entry = second ? code * minus_one + last_second : code;
        second = code >= first_long && !second;
        if (!second) bit = one * bits + bit;
        symbols[i] = entry_at(shared, entry);
        eight[i] = entry * one - first_eight < eights;
      }
      row.out = min(row.out, last);
#pragma unroll
      for (u32 i = 0; i < STEPS; ++i) {
        const u32 nbits = split_entry(symbols[i], eight[i]);
        row.append(symbols[i], nbits);
      }
    }
    *reinterpret_cast<u64*>(shared + row.out) = row.pending;
    // What of the 16 bytes with the tile's end lies behind it.
    u64* const chunk = reinterpret_cast<u64*>(shared + row_at + (skew + n) / 16 * 16);
    const u32 kept = 8 * ((skew + n) % 16);
    chunk[0] &= shift_right(~0ull, 64 - min(kept, 64u));
    chunk[1] &= shift_right(~0ull, 128 - max(kept, 64u));
  }
};

// block: as fsst_decode's, and the grid. shared memory: if STAGED room for the largest table, then a warp 32 * ROW_NBYTES + codes_capacity
// + 32 bytes.
extern "C" __global__ void __launch_bounds__(DECODE_BOUND)
    onpair_decode(const SegmentView* __restrict__ segments, const u32* __restrict__ first_units, u32 segment_count,
                  u32 codes_capacity, u32 bundles) {
  DYNAMIC_SHARED(uint4, shared_memory);
  const u32 k = find_unit(first_units, segment_count, blockIdx.x);
  const SegmentView& s = segments[k];
  const OnpairTable* table = reinterpret_cast<const OnpairTable*>(s.table);
  u32 mine = 0;
  if (STAGED) {
    mine = table->nbytes;
    const uint4* from = reinterpret_cast<const uint4*>(table);
    for (u32 i = threadIdx.x; i < mine / 16; i += blockDim.x) shared_memory[i] = __ldg(from + i);
    table = reinterpret_cast<const OnpairTable*>(shared_memory);
    __syncthreads();
  }
  mine += threadIdx.x / 32 * (32 * ROW_NBYTES + codes_capacity + 32);
  u8* const shared = reinterpret_cast<u8*>(shared_memory);
  decode_bundles(OnpairRows(*table), s, blockIdx.x - first_units[k], shared, mine, codes_capacity, bundles);
}
