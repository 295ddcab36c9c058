// bitpack: codes -> values, for many segments of many columns in a launch. bitpack.cu says how they are laid out, and writes them.
//
// bitpack_unpack writes values; bitpack_unpack_wide numbers of 16 bytes, whose two halves a warp decodes side by side: one after the
// other they would write each sector twice, half of it each time. bitpack_take reads the code of a row from its block. A block of
// differences is decoded up to the row, once for all rows of a warp that are in it.
//
// Invariant: whatever the entries, nothing outside the codes and the wanted rows is touched. A block that lies outside the codes, or has
// more bits than its values, is read as if its codes had none.
//
// On an H200, 268 MB of l_orderkey as int64 (12.4 times smaller): unpacking 2,806 GB/s; of random bits 1,800. Values of one byte are bound
// by instructions: 2,100.
#include "bitpack.cuh"

// Segments, or ranges of them -> values. A warp decodes BITPACK_GROUP blocks, whose numbers it reads together.
extern "C" __global__ void __launch_bounds__(THREADS, UNPACK_BLOCKS) bitpack_unpack(const u64* table, u32 jobs) {
  const u32 number = find_job(table, jobs, blockIdx.x);
  const UnpackJob& job = reinterpret_cast<const UnpackJob*>(table + jobs)[number];
  const u64 unit = (blockIdx.x - table[number]) * BITPACK_WARPS + threadIdx.x / 32;
  const WarpBlocks share(job.segment, u32(job.output.begin / BITPACK_BLOCK + unit * BITPACK_GROUP), BITPACK_GROUP,
                         u32((job.output.end + BITPACK_BLOCK - 1) / BITPACK_BLOCK));
#pragma unroll 1
  for (u32 g = 0; g < share.count; ++g) {
    const Block block = share.block(job.segment, g);
    const u64 row = u64(share.first + g) * BITPACK_BLOCK, begin = job.output.begin;
    const u32 lower = begin > row ? u32(begin - row) : 0;
    const u32 upper = u32(min(job.output.end - row, u64(BITPACK_BLOCK))), stride = u32(job.output.stride);
    const u64 to = job.output.values + (row - begin) * stride;
    if (upper - lower == BITPACK_BLOCK && to % 16 == 0 && stride == ITEM_NBYTES) {
      uint4* lane_to = reinterpret_cast<uint4*>(to) + lane_id();
      block.decode<UNPACK_ROWS>(BITPACK_BLOCK, [=](u32 row, Number(&x)[UNPACK_ROWS][VECTOR]) {
#pragma unroll
        for (u32 r = 0; r < UNPACK_ROWS; ++r) {
          u32 out[4];
#pragma unroll
          for (u32 i = 0; i < 4; ++i) {
#if ITEM_NBYTES == 8
            out[i] = u32(x[r][i / 2] >> 32 * (i % 2));
#else
            out[i] = 0;
#pragma unroll
            for (u32 v = 0; v < VECTOR / 4; ++v) out[i] |= (x[r][i * (VECTOR / 4) + v] & LOW_BITS) << v * BITS;
#endif
          }
          lane_to[(row + r) * 32] = {out[0], out[1], out[2], out[3]};
        }
      });
    } else {
      block.decode<FEW_ROWS>(upper, [=](u32 row, Number(&x)[FEW_ROWS][VECTOR]) {
#pragma unroll
        for (u32 r = 0; r < FEW_ROWS; ++r)
#pragma unroll
          for (u32 v = 0; v < VECTOR; ++v) {
            const u32 i = (row + r) * ROW + lane_id() * VECTOR + v;
            if (i >= lower && i < upper) *reinterpret_cast<Value*>(to + i * stride) = Value(x[r][v]);
          }
      });
    }
  }
}

#if ITEM_NBYTES == 8
#define WIDE_ROWS 2

// One half of numbers of 16 bytes.
struct Half {
  Block block;
  Number carry;

  __device__ __forceinline__ explicit Half(const Block& block) : block(block), carry(block.first_carry()) {}

  __device__ __forceinline__ void rows(u32 row, Number (&x)[WIDE_ROWS][VECTOR]) {
    if (!block.delta && block.width == 0) {
#pragma unroll
      for (u32 r = 0; r < WIDE_ROWS; ++r) x[r][0] = x[r][1] = carry;
    } else if (!block.delta) {
      if (block.width <= 32)
        block.rows<u32, false, false>(row, carry, x);
      else
        block.rows<u32, false, true>(row, carry, x);
    } else if (block.width <= 32) {
      block.rows<Number, true, false>(row, carry, x);
    } else {
      block.rows<Number, true, true>(row, carry, x);
    }
  }
};

// Numbers of 16 bytes. Jobs come in pairs that differ in the segment alone, which holds the low halves, then the high ones. A warp
// decodes a block of each. `jobs`: pairs.
extern "C" __global__ void __launch_bounds__(THREADS, 4) bitpack_unpack_wide(const u64* table, u32 jobs) {
  const u32 number = find_job(table, jobs, blockIdx.x);
  const UnpackJob* pair = reinterpret_cast<const UnpackJob*>(table + jobs) + 2 * number;
  const u64 begin = pair->output.begin, end = pair->output.end;
  const u64 first = begin / BITPACK_BLOCK + (blockIdx.x - table[number]) * BITPACK_WARPS + threadIdx.x / 32;
  const u64 row = first * BITPACK_BLOCK, blocks = (end + BITPACK_BLOCK - 1) / BITPACK_BLOCK;
  if (first >= blocks) return;
  const u32 lower = begin > row ? u32(begin - row) : 0, upper = u32(min(end - row, u64(BITPACK_BLOCK)));
  const u64 to = pair->output.values + (row - begin) * 16;
  const bool fast = upper - lower == BITPACK_BLOCK && to % 16 == 0, odd = lane_id() % 2 == 1;
  Half low(WarpBlocks(pair[0].segment, first, 1, blocks).block(pair[0].segment, 0));
  Half high(WarpBlocks(pair[1].segment, first, 1, blocks).block(pair[1].segment, 0));
#pragma unroll 1
  for (u32 i = 0; i < ROWS && i * ROW < upper; i += WIDE_ROWS) {
    Number x[WIDE_ROWS][VECTOR], y[WIDE_ROWS][VECTOR];
    low.rows(i, x);
    high.rows(i, y);
#pragma unroll
    for (u32 r = 0; r < WIDE_ROWS; ++r) {
      const u32 at = (i + r) * ROW + lane_id() * VECTOR;
      if (fast) {
        // Two lanes change places with one value each, so that a store fills whole sectors.
        const Number a = __shfl_xor_sync(ALL_LANES, odd ? x[r][0] : x[r][1], 1);
        const Number b = __shfl_xor_sync(ALL_LANES, odd ? y[r][0] : y[r][1], 1);
        const Number first_low = odd ? a : x[r][0], first_high = odd ? b : y[r][0];
        const Number second_low = odd ? x[r][1] : a, second_high = odd ? y[r][1] : b;
        uint4* out = reinterpret_cast<uint4*>(to) + at - odd;
        out[0] = {u32(first_low), u32(first_low >> 32), u32(first_high), u32(first_high >> 32)};
        out[2] = {u32(second_low), u32(second_low >> 32), u32(second_high), u32(second_high >> 32)};
      } else {
#pragma unroll
        for (u32 v = 0; v < VECTOR; ++v)
          if (at + v >= lower && at + v < upper) {
            u64* out = reinterpret_cast<u64*>(to) + 2 * (at + v);
            out[0] = x[r][v];
            out[1] = y[r][v];
          }
      }
    }
  }
}
#endif

// ---- rows by number

#define TAKE_RESIDENT (ITEM_NBYTES == 8 || ITEM_NBYTES == 1 ? 3 : 4)  // thread blocks of a multiprocessor

struct BitpackPart {
  BitpackSegment segment;
  u64 first_row, rows;
};

// The code of value `i` of a block.
__device__ __forceinline__ Number packed_code(const Block& block, u32 i) {
  if (block.width == 0) return 0;
  const u32 bit = (i / ROW * VECTOR + i % VECTOR) * block.width, shift = bit % 32;
  const u32* words = block.words + bit / 32 * 32 + i % ROW / VECTOR;
  const u32 last = (bit + block.width - 1) / 32 - bit / 32;
  const u32 low = words[0], middle = last > 0 ? words[32] : 0;
#if ITEM_NBYTES == 8
  const u32 high = last > 1 ? words[64] : 0;
  const u64 code = __funnelshift_r(low, middle, shift) | u64(__funnelshift_r(middle, high, shift)) << 32;
#else
  const u32 code = __funnelshift_r(low, middle, shift);
#endif
  return code & Number(~Number(0)) >> (8 * sizeof(Number) - block.width);
}

// The value of each lane's `row`, of those that are `wanted`, in a column's parts; `wanted` says whether there is one. For whole warps:
// they decode blocks of differences together, each once for all lanes that need it.
__device__ __forceinline__ Number value_of(const BitpackPart* parts, u64 count, u64 row, bool& wanted) {
  const BitpackPart* part;
  wanted = find_part(parts, count, row, part) && wanted;
  const BitpackSegment& segment = part->segment;
  const u64 local = row - part->first_row, number = local / BITPACK_BLOCK;
  const u32 i = u32(local % BITPACK_BLOCK);
  u32 entry = 0, next = 0;
  Number base = 0, slope = 0;
  u64 key = 0;  // of the block
  if (wanted) {
    const u32* starts = reinterpret_cast<const u32*>(segment.starts) + number;
    key = reinterpret_cast<u64>(starts);
    entry = starts[0];
    next = starts[1];
    base = reinterpret_cast<const Value*>(segment.bases)[number];
    if (segment.slopes != 0) slope = reinterpret_cast<const Value*>(segment.slopes)[number];
  }
  const Block mine(segment.codes, u32(segment.units), segment.divisor, entry, next, base, slope);
  if (wanted && !mine.delta) base += mine.factor * packed_code(mine, i);
  u32 waiting = __ballot_sync(ALL_LANES, wanted && mine.delta);
  while (waiting != 0) {
    const u32 leader = __ffs(int(waiting)) - 1;
    const u64 leaders = __shfl_sync(ALL_LANES, key, leader);
    const bool same = (waiting >> lane_id() & 1) != 0 && key == leaders;
    const u32 group = __ballot_sync(ALL_LANES, same);
    Block block = mine;
    block.words = reinterpret_cast<const u32*>(__shfl_sync(ALL_LANES, reinterpret_cast<u64>(mine.words), leader));
    block.base = __shfl_sync(ALL_LANES, mine.base, leader);
    block.slope = __shfl_sync(ALL_LANES, mine.slope, leader);
    block.factor = __shfl_sync(ALL_LANES, mine.factor, leader);
    block.width = __shfl_sync(ALL_LANES, mine.width, leader);
    block.delta = true;
    u32 most = same ? i : 0;
    for (u32 delta = 16; delta > 0; delta /= 2) most = max(most, __shfl_xor_sync(ALL_LANES, most, delta));
    if ((group & (group - 1)) == 0) {
      // For one lane alone it is enough to sum up the codes.
      block.delta = false;
      block.base = 0;
      Number sum = 0;
      block.decode<FEW_ROWS>(most + 1, [&](u32 row, Number(&x)[FEW_ROWS][VECTOR]) {
#pragma unroll
        for (u32 r = 0; r < FEW_ROWS; ++r)
#pragma unroll
          for (u32 v = 0; v < VECTOR; ++v)
            if ((row + r) * ROW + lane_id() * VECTOR + v <= most) sum += x[r][v];
      });
      for (u32 delta = 16; delta > 0; delta /= 2) sum += __shfl_xor_sync(ALL_LANES, sum, delta);
      if (same) base += slope * i + sum;
    } else {
      block.decode<FEW_ROWS>(most + 1, [&](u32 row, Number(&x)[FEW_ROWS][VECTOR]) {
#pragma unroll
        for (u32 r = 0; r < FEW_ROWS; ++r)
#pragma unroll
          for (u32 v = 0; v < VECTOR; ++v) {
            const Number one = __shfl_sync(ALL_LANES, x[r][v], i % ROW / VECTOR);
            if (same && i / ROW == row + r && i % VECTOR == v) base = one;
          }
      });
    }
    waiting &= ~group;
  }
  return base;
}

// Rows by number, of many columns. Rows that no part has are left out. grid: `blocks` thread blocks of THREADS rows for each column. The
// table: columns, then parts.
extern "C" __global__ void __launch_bounds__(THREADS, TAKE_RESIDENT)
    bitpack_take(const u64* table, u32 columns, u32 blocks, const u64* rows, u64 shift, u64 count) {
  const TakenColumn& column = reinterpret_cast<const TakenColumn*>(table)[blockIdx.x / blocks];
  const BitpackPart* parts =
      reinterpret_cast<const BitpackPart*>(reinterpret_cast<const TakenColumn*>(table) + columns);
  const u64 i = blockIdx.x % blocks * u64(THREADS) + threadIdx.x;
  const u64 row = row_of(rows, shift, i, count);
  bool wanted = i < count;
  const Number value = value_of(parts + column.first_part, column.parts, row, wanted);
#if ITEM_NBYTES == 8
  if (column.highs != 0) {
    const Number high = value_of(parts + column.first_high, column.highs, row, wanted);
    if (wanted) reinterpret_cast<uint4*>(column.values)[i] = {u32(value), u32(value >> 32), u32(high), u32(high >> 32)};
    return;
  }
#endif
  if (wanted) *reinterpret_cast<Value*>(column.values + i * column.stride) = Value(value);
}

#if ITEM_NBYTES == 1
// Rows by number of bitmaps, whose bytes have the bits of 8 rows each; the output is filled up with zeros to whole 64 bytes, which the grid
// covers.
extern "C" __global__ void __launch_bounds__(THREADS, TAKE_RESIDENT)
    bitpack_take_bits(const u64* table, u32 columns, u32 blocks, const u64* rows, u64 shift, u64 count) {
  const TakenColumn& column = reinterpret_cast<const TakenColumn*>(table)[blockIdx.x / blocks];
  const BitpackPart* parts =
      reinterpret_cast<const BitpackPart*>(reinterpret_cast<const TakenColumn*>(table) + columns);
  const u64 i = blockIdx.x % blocks * u64(THREADS) + threadIdx.x;
  const u64 row = row_of(rows, shift, i, count);
  bool wanted = i < count;
  const u32 bits = value_of(parts + column.first_part, column.parts, row / 8, wanted);
  put_bits(column, i, count, wanted && bits >> row % 8 & 1);
}
#endif
