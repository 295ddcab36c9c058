// bitpack: which values lie in a range, or among others that have a bit each; a boolean of one byte for each value.
// Compiled for values of ITEM_NBYTES = 1, 2, 4 or 8 bytes.
//
// Work unit: a warp looks at a block, as bitpack_unpack does. Base, width and divisor say between which values those of a block lie, unless they are
// differences: where all of them are in the range, or none is, its codes are not read. Invariant: damaged codes make wrong answers and nothing else.
#include "bitpack.cuh"

// Thread blocks on a multiprocessor: as many as give the code so many registers that nothing is spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900 && ITEM_NBYTES > 1
#define COMPARE_BLOCKS 4
#else
#define COMPARE_BLOCKS 3
#endif

// What is asked of values: those x for which x - low, as an unsigned number of the values' bits, is at most `span`.
struct CompareJob {
  BitpackSegment segment;
  OutputRows output;  // where answers go, with a stride of 1
  u64 low, span;
  u64 outside;  // whether it is asked for those that are not
  u64 bits;  // address: of those in the range it is asked for those that have a bit, of which the first is that of `low`
};

enum class Known { none, all, some };

struct InRange {
  Number low, span;
  u32 outside;

  __device__ __forceinline__ explicit InRange(const CompareJob& job)
      : low(Number(job.low)), span(Number(job.span)), outside(u32(job.outside)) {}
  __device__ __forceinline__ u32 of(Number x) const { return u32(((x - low) & LOW_BITS) <= span) ^ outside; }
  __device__ __forceinline__ u32 of_all(Known known) const { return u32(known == Known::all) ^ outside; }
  static constexpr bool knows_all = true;
};

struct InSet {
  Number low, span;
  const u32* bits;

  __device__ __forceinline__ explicit InSet(const CompareJob& job)
      : low(Number(job.low)), span(Number(job.span)), bits(reinterpret_cast<const u32*>(job.bits)) {}
  __device__ __forceinline__ u32 of(Number x) const {
    const Number place = (x - low) & LOW_BITS;
    return place <= span ? __ldg(bits + place / 32) >> (u32(place) % 32) & 1 : 0;
  }
  __device__ __forceinline__ u32 of_all(Known) const { return 0; }
  static constexpr bool knows_all = false;
};

// How many of a block's values are known to lie in a range.
__device__ __forceinline__ Known known_of(const Block& block, Number low, Number span) {
  const Number first = (block.base - low) & LOW_BITS;
  const Number most = block.width == 0 ? 0 : Number(~Number(0)) >> (8 * sizeof(Number) - block.width);
#if ITEM_NBYTES == 8
  const bool wraps = __umul64hi(block.factor, most) != 0;
#else
  const bool wraps = false;
#endif
  const u64 reach = u64(block.factor) * most;
  if (block.delta || wraps || reach > LOW_BITS - first) return Known::some;
  if (first > span) return Known::none;
  return reach <= span - first ? Known::all : Known::some;
}

// The answers of neighbouring values of a lane, in their bytes.
#if ITEM_NBYTES == 8
typedef u16 Answers;
#elif ITEM_NBYTES == 4
typedef u32 Answers;
#elif ITEM_NBYTES == 2
typedef uint2 Answers;
#else
typedef uint4 Answers;
#endif

union Packed {
  u8 each[VECTOR];
  Answers all;
};

// Segments, or ranges of them -> answers.
template <typename Test>
__device__ __forceinline__ void compare_blocks(const u64* table, u32 jobs) {
  const u32 number = find_job(table, jobs, blockIdx.x);
  const CompareJob& job = reinterpret_cast<const CompareJob*>(table + jobs)[number];
  const u64 unit = (blockIdx.x - table[number]) * BITPACK_WARPS + threadIdx.x / 32;
  const WarpBlocks share(job.segment, u32(job.output.begin / BITPACK_BLOCK + unit * BITPACK_GROUP), BITPACK_GROUP,
                         u32((job.output.end + BITPACK_BLOCK - 1) / BITPACK_BLOCK));
  const Test test(job);
#pragma unroll 1
  for (u32 g = 0; g < share.count; ++g) {
    const Block block = share.block(job.segment, g);
    const u64 row = u64(share.first + g) * BITPACK_BLOCK, begin = job.output.begin;
    const u32 lower = begin > row ? u32(begin - row) : 0;
    const u32 upper = u32(min(job.output.end - row, u64(BITPACK_BLOCK)));
    const u64 to = job.output.values + (row - begin);
    const bool fast = upper - lower == BITPACK_BLOCK && to % 16 == 0;
    const Known known = known_of(block, test.low, test.span);
    if (known == Known::none || (Test::knows_all && known == Known::all)) {
      const u32 answer = test.of_all(known);
      if (fast) {
        const u32 four = 0x01010101u * answer;
#pragma unroll
        for (u32 i = 0; i < BITPACK_BLOCK / 512; ++i)
          reinterpret_cast<uint4*>(to)[32 * i + lane_id()] = {four, four, four, four};
      } else {
        for (u32 i = lower + lane_id(); i < upper; i += 32) *reinterpret_cast<u8*>(to + i) = u8(answer);
      }
    } else if (fast) {
      Answers* lane_to = reinterpret_cast<Answers*>(to) + lane_id();
      block.decode<UNPACK_ROWS>(BITPACK_BLOCK, [=](u32 row, Number(&x)[UNPACK_ROWS][VECTOR]) {
#pragma unroll
        for (u32 r = 0; r < UNPACK_ROWS; ++r) {
          Packed answers;
#pragma unroll
          for (u32 v = 0; v < VECTOR; ++v) answers.each[v] = u8(test.of(x[r][v]));
          lane_to[(row + r) * 32] = answers.all;
        }
      });
    } else {
      block.decode<FEW_ROWS>(upper, [=](u32 row, Number(&x)[FEW_ROWS][VECTOR]) {
#pragma unroll
        for (u32 r = 0; r < FEW_ROWS; ++r)
#pragma unroll
          for (u32 v = 0; v < VECTOR; ++v) {
            const u32 i = (row + r) * ROW + lane_id() * VECTOR + v;
            if (i >= lower && i < upper) *reinterpret_cast<u8*>(to + i) = u8(test.of(x[r][v]));
          }
      });
    }
  }
}

// grid: as many thread blocks as cover the blocks of every job, BITPACK_GROUP a warp; block: THREADS threads.
#define COMPARE(name, Test)                                                                                \
  extern "C" __global__ void __launch_bounds__(THREADS, COMPARE_BLOCKS) name(const u64* table, u32 jobs) { \
    compare_blocks<Test>(table, jobs);                                                                     \
  }
COMPARE(bitpack_compare, InRange)
COMPARE(bitpack_is_in, InSet)

// Sets the bits of `count` values, of which those outside the range have none. bits: zeros before. grid: any.
extern "C" __global__ void __launch_bounds__(THREADS)
    bitpack_set_members(const Value* values, u64 count, u64 low, u64 span, u32* bits) {
  for (u64 i = blockIdx.x * u64(THREADS) + threadIdx.x; i < count; i += u64(gridDim.x) * THREADS) {
    const Number place = (Number(values[i]) - Number(low)) & LOW_BITS;
    if (place <= Number(span)) atomicOr(bits + place / 32, 1u << u32(place % 32));
  }
}
