// Row lengths: bit-packed by row blocks of ROW_BLOCK = 256 rows (docs/format.md, section 3), and validity bitmaps.
//
// Work unit: a warp handles one row block after another, a run of them. To pack and unpack, a lane has 8 neighbouring rows, whose bits are
// `width` whole bytes. Offsets pass through shared memory, so that they are read and written coalesced. Up to 8 bits a row are packed in
// registers: a lane writes the words that begin in its bits. Wider ones, of long rows, which are few, are put together in shared memory.
//
//   row block   | bits of rows 0 to 7: lane 0 | of rows 8 to 15: lane 1 | ... | of rows 248 to 255: lane 31 |
//
// Bound: memory, 4 or 8 bytes of offset and `width` bits a row, 0.07 ms for TPC-H SF 10 l_comment (60 M rows) on an H200. Measured there:
// measure 0.088 ms, unpack 0.121. Pack takes 0.020 ms a segment (benchmarks/results/kernels.json), beside the encoder. Two that lost
// (docs/kernels.md has the others):
// - row 32 * k + lane as the k-th of a lane, and a warp sum for every k: unpack 0.239 ms, measure 0.122.
// - bits written byte by byte to shared memory, and every offset stored there before the next is asked for: 340 instead of 160
//   instructions a row block, and eight waits for memory instead of one.
#include "row_lengths.cuh"
#include "segments.cuh"
#include "text_compress.cuh"

// Thread blocks of row_lengths_measure and row_lengths_pack on a multiprocessor: as many as give the code so many registers that
// nothing is spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define MEASURE_BLOCKS 5
#define PACK_BLOCKS 4
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
#define MEASURE_BLOCKS 4
#define PACK_BLOCKS 2
#else
#define MEASURE_BLOCKS 5
#define PACK_BLOCKS 3
#endif

// Rows and characters of a column before segment k; k = segments: of all. For whole warps.
__device__ __forceinline__ void find_begin(const ColumnView& column, u32 k) {
  const bool wide = column.wide != 0;
  const Found found(column.found, column.segments);
  const u64 row = segment_begin(column.offsets, wide, column.rows, k, column.segments, column.segment_chars);
  if (lane_id() != 0) return;
  const u64 first = offset_at(column.offsets, wide, 0);
  found.rows_begin[k] = row;
  found.chars_begin[k] = offset_at(column.offsets, wide, row) - first;
  if (k < column.segments) {
    found.nulls[k] = found.codes[k] = found.used[k] = found.taken[k] = 0;
  } else {
    *found.null_chars = 0;
    *found.first_char = column.chars + first;
  }
}

// Rows and characters where segments begin. Clears `nbytes` at `counts`, too, a multiple of 16: what fsst_train, which follows, wants
// to be zero. grid: x covers the most segments + 1 warps, y = columns.
extern "C" __global__ void segment_begins(const ColumnView* columns, uint4* counts, u64 nbytes) {
  const ColumnView& column = columns[blockIdx.y];
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, row = gridDim.x * blockDim.x;
  if (thread / 32 <= column.segments) find_begin(column, thread / 32);
  for (u64 i = blockIdx.y * row + thread; i < nbytes / sizeof(uint4); i += row * gridDim.y)
    counts[i] = make_uint4(0, 0, 0, 0);
}

// The smallest of the warp's values.
template <typename T>
__device__ __forceinline__ T warp_min(T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(T) == 4) return __reduce_min_sync(ALL_LANES, value);
#endif
#pragma unroll
  for (u32 delta = 16; delta > 0; delta /= 2) value = min(value, __shfl_xor_sync(ALL_LANES, value, delta));
  return value;
}

// The minimum that a row block stores, at most 32 bits; `low` is a lane's smallest length.
template <typename T>
__device__ __forceinline__ T block_minimum(T low) {
  return min(warp_min(low), T(0xffffffff));
}

// Bits of the differences of a row block's lengths from its minimum. `low` and `high` are a lane's smallest and largest length.
template <typename T>
__device__ __forceinline__ u32 row_block_width(T low, T high) {
  return 64 - __clzll(static_cast<long long>(T(~warp_min(T(~high))) - block_minimum(low)));
}

// Nulls that a lane has seen, and their characters.
struct Nulls {
  u64 rows, chars;

  // Adds what the warp has seen to the numbers of a segment, and begins anew.
  __device__ __forceinline__ void add_to(const Found& found, u32 segment) {
    rows = warp_inclusive_sum(rows);
    chars = warp_inclusive_sum(chars);
    if (lane_id() == 31 && rows > 0) atomicAdd(&found.nulls[segment], rows);
    if (lane_id() == 31 && chars > 0) atomicAdd(found.null_chars, chars);
    rows = chars = 0;
  }
};

// row_words of one row block, as a count: the warp reads the offsets of rows first .. first + count (count <= ROW_BLOCK).
// with_nulls: `validity` is the address of a bitmap in which bit `bit` is the first row's.
template <bool with_nulls, typename T>
__device__ __forceinline__ u32 measure_row_block(const T* offsets, u32 count, u64 validity, u64 bit, Nulls& nulls) {
  T low = ~T(0), high = 0;
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
    const u32 i = 32 * k + lane_id();
    if (i < count) {
      const T length = offsets[i + 1] - offsets[i];
      low = min(low, length);
      high = max(high, length);
      if (with_nulls && !(reinterpret_cast<const u32*>(validity)[(bit + i) / 32] >> ((bit + i) % 32) & 1)) {
        ++nulls.rows;
        nulls.chars += length;
      }
    }
  }
  return ROW_BLOCK / 32 * row_block_width(low, high);
}

// The first of the row blocks that a column has for segment k: enough for the rows between `rows_begin`s, at most one too many, and
// known as soon as those are.
__device__ __forceinline__ u64 first_row_block(const u64* rows_begin, u32 k) { return rows_begin[k] / ROW_BLOCK + k; }

// row_words of a column's row blocks begin .. end, and the nulls there.
template <bool with_nulls>
__device__ __forceinline__ void measure_run(const ColumnView& column, u64 begin, u64 end) {
  const Found found(column.found, column.segments);
  const u64* rows_begin = found.rows_begin;
  const u32 segments = u32(column.segments);
  u32 k = last_that(0u, segments, [&](u32 i) { return first_row_block(rows_begin, i) <= begin; });
  Nulls nulls = {0, 0};
  for (u64 unit = begin; unit < end; ++unit) {
    if (k + 1 < segments && first_row_block(rows_begin, k + 1) <= unit) {
      if (with_nulls) nulls.add_to(found, k);
      while (k + 1 < segments && first_row_block(rows_begin, k + 1) <= unit) ++k;
    }
    const u64 row = rows_begin[k] + (unit - first_row_block(rows_begin, k)) * ROW_BLOCK, stop = rows_begin[k + 1];
    if (row >= stop) continue;
    const u32 count = u32(min(stop - row, u64(ROW_BLOCK)));
    const u64 bit = column.validity_offset + row;
    const u32 words = column.wide ? measure_row_block<with_nulls>(reinterpret_cast<const u64*>(column.offsets) + row,
                                                                  count, column.validity, bit, nulls)
                                  : measure_row_block<with_nulls>(reinterpret_cast<const u32*>(column.offsets) + row,
                                                                  count, column.validity, bit, nulls);
    if (lane_id() == 0) reinterpret_cast<u32*>(column.row_words)[unit] = words;
  }
  if (with_nulls) nulls.add_to(found, k);
}

// row_words of every row block, as counts (row_lengths_scan turns them into indices), and every segment's nulls. grid: any; block:
// 256 threads.
extern "C" __global__ void __launch_bounds__(256, MEASURE_BLOCKS)
    row_lengths_measure(const ColumnView* __restrict__ columns, u32 column_count, u64 row_blocks) {
  const Run run(row_blocks);
  if (run.begin >= run.end) return;
  u32 c = find_view<&ColumnView::first_row_block>(columns, column_count, run.begin);
  for (u64 unit = run.begin; unit < run.end; ++c) {
    const u64 first = columns[c].first_row_block;
    const u64 stop = c + 1 < column_count ? min(u64(run.end), columns[c + 1].first_row_block) : run.end;
    if (columns[c].validity != 0)
      measure_run<true>(columns[c], unit - first, stop - first);
    else
      measure_run<false>(columns[c], unit - first, stop - first);
    unit = stop;
  }
}

// In place: the counts of segment k become indices; Found::words[k] is their sum. By a block of 1024 threads. A thread has SCANNED
// neighbours: with one, a block loops 107 times over 28 M rows of one character.
#define SCANNED 8
__device__ __forceinline__ void scan_segment(const ColumnView& column, u32 k) {
  __shared__ u32 warp_sums[32];
  const Found found(column.found, column.segments);
  const u64 count = (found.rows_begin[k + 1] - found.rows_begin[k] + ROW_BLOCK - 1) / ROW_BLOCK;
  u32* mine = reinterpret_cast<u32*>(column.row_words) + first_row_block(found.rows_begin, k);
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  u32 before = 0;
  for (u64 base = 0; base < count; base += 1024 * SCANNED) {
    const u64 first = base + SCANNED * threadIdx.x;
    u32 values[SCANNED], sum = 0;
#pragma unroll
    for (u32 i = 0; i < SCANNED; ++i) values[i] = first + i < count ? mine[first + i] : 0;
#pragma unroll
    for (u32 i = 0; i < SCANNED; ++i) sum += values[i];
    u32 inclusive = warp_inclusive_sum(sum);
    if (lane == 31) warp_sums[warp] = inclusive;
    __syncthreads();
    if (warp == 0) warp_sums[lane] = warp_inclusive_sum(warp_sums[lane]);
    __syncthreads();
    if (warp > 0) inclusive += warp_sums[warp - 1];
    u32 index = before + inclusive - sum;
#pragma unroll
    for (u32 i = 0; i < SCANNED; ++i) {
      if (first + i < count) mine[first + i] = index;
      index += values[i];
    }
    before += warp_sums[31];
    __syncthreads();
  }
  if (threadIdx.x == 0) found.words[k] = before;
}

// grid: x = the most segments, y = columns; block: 1024 threads.
extern "C" __global__ void __launch_bounds__(1024, 1) row_lengths_scan(const ColumnView* columns) {
  const ColumnView& column = columns[blockIdx.y];
  if (blockIdx.x < column.segments) scan_segment(column, blockIdx.x);
}

// segment_begins, row_lengths_measure and row_lengths_scan for columns of one segment and few rows, where launches cost the most.
// grid: columns; block: 1024 threads.
extern "C" __global__ void __launch_bounds__(1024, 1) row_lengths_look(const ColumnView* columns) {
  const ColumnView& column = columns[blockIdx.x];
  if (threadIdx.x < 64) find_begin(column, threadIdx.x / 32);
  __syncthreads();
  const u64 row_blocks = (column.rows + ROW_BLOCK - 1) / ROW_BLOCK, each = (row_blocks + 31) / 32;
  const u64 begin = min(threadIdx.x / 32 * each, row_blocks), end = min(begin + each, row_blocks);
  if (column.validity != 0)
    measure_run<true>(column, begin, end);
  else
    measure_run<false>(column, begin, end);
  __syncthreads();
  scan_segment(column, 0);
}

// Shared memory of a warp that packs: the offsets of a row block, or bits that are more than 8 a row.
union PackRoom {
  u64 wide[PADDED_ROWS];
  u32 narrow[PADDED_ROWS];
  u32 words[ROW_BLOCK / 32 * 63];
};

// Writes what is stored of row block b beside its bits.
__device__ __forceinline__ void put_block(const PackView& s, u64 b, u64 start, u32 minimum, u32 words_before,
                                          u32 words_after) {
  u64* row_starts = reinterpret_cast<u64*>(s.row_starts);
  u32* row_words = reinterpret_cast<u32*>(s.row_words);
  row_starts[b] = start;
  row_words[b] = words_before;
  reinterpret_cast<u32*>(s.row_minima)[b] = minimum;
  if ((b + 1) * ROW_BLOCK >= s.rows) {
    row_starts[b + 1] = s.chars;
    row_words[b + 1] = words_after;
  }
}

// Offsets of a row block on their way to shared memory. All of them are asked for before any is stored: the compiler cannot know that
// a store leaves the others as they are, so a lane that stores one by one waits for the memory eight times.
template <typename T>
struct RowOffsets {
  T starts[ROWS_PER_LANE];  // of rows 32 * k + lane; behind the last row as `end`
  T end;                    // the same in every lane

  __device__ __forceinline__ void load(const T* offsets, u32 count) {
    end = offsets[count];
    if (count == ROW_BLOCK) {
#pragma unroll
      for (u32 k = 0; k < ROWS_PER_LANE; ++k) starts[k] = offsets[32 * k + lane_id()];
    } else {
#pragma unroll
      for (u32 k = 0; k < ROWS_PER_LANE; ++k)
        starts[k] = 32 * k + lane_id() < count ? offsets[32 * k + lane_id()] : end;
    }
  }
};

// Writes what a row block stores of its rows' lengths, `width` bits each, 1 to 8; `bits` are those of a lane's 8 rows. Every word is
// written by the lane in whose bits it begins, which needs some of the next lane's for it.
__device__ __forceinline__ void put_narrow(u64 bits, u32 width, u32* to) {
  const u32 lane = lane_id(), begin = lane * ROWS_PER_LANE * width;
  u32 count = ROWS_PER_LANE * width, lanes = 1;
  for (; count < 32; count *= 2, lanes *= 2)  // then some lanes have those of several, and there is a word for each
    bits |= u64(__shfl_down_sync(ALL_LANES, u32(bits), lanes)) << count;
  const u32 next = __shfl_down_sync(ALL_LANES, u32(bits), lanes);
  const u64 high = bits >> 32 | u64(next) << (count - 32);
  const u32 word = (begin + 31) / 32, shift = 32 * word - begin;
  if ((lane & (lanes - 1)) == 0) {
    to[word] = __funnelshift_r(u32(bits), u32(high), shift);
    if (shift + 32 < count) to[word + 1] = __funnelshift_r(u32(high), u32(high >> 32), shift);
  }
}

// Packs differences of any width, in shared memory.
template <typename T>
__device__ __forceinline__ void put_wide(const T* differences, u32 width, u32* to, PackRoom& room) {
  const u32 lane = lane_id(), words = ROW_BLOCK / 32 * width;
  for (u32 i = lane; i < words; i += 32) room.words[i] = 0;
  __syncwarp();
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
    const u64 difference = differences[k];
    const u32 bit = (ROWS_PER_LANE * lane + k) * width, shift = bit & 31;
    u32* word = room.words + bit / 32;
    if (u32(difference << shift) != 0) atomicOr(word, u32(difference << shift));
    const u64 rest = shift_right(difference, 32 - shift);
    if (u32(rest) != 0) atomicOr(word + 1, u32(rest));
    if (rest >> 32 != 0) atomicOr(word + 2, u32(rest >> 32));
  }
  __syncwarp();
  for (u32 i = lane; i < words; i += 32) to[i] = room.words[i];
}

// Packs the `count` rows of a row block, whose offsets are `staged` (at `padded`, the last is `end`); their minimum.
template <typename T>
__device__ __forceinline__ T pack_row_block(u32 count, T end, u32 width, u32* to, const T* staged, PackRoom& room) {
  const u32 lane = lane_id();
  T length[ROWS_PER_LANE];
  const T* const mine = staged + padded(ROWS_PER_LANE * lane);
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) length[k] = mine[k];
  const T next = __shfl_down_sync(ALL_LANES, length[0], 1);
#pragma unroll
  for (u32 k = 0; k + 1 < ROWS_PER_LANE; ++k) length[k] = length[k + 1] - length[k];
  length[ROWS_PER_LANE - 1] = (lane == 31 ? end : next) - length[ROWS_PER_LANE - 1];
  if (count < ROW_BLOCK) {
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k)
      if (ROWS_PER_LANE * lane + k >= count) length[k] = ~T(0);
  }
  T low = length[0];
#pragma unroll
  for (u32 k = 1; k < ROWS_PER_LANE; ++k) low = min(low, length[k]);
  low = block_minimum(low);
  if (count < ROW_BLOCK) {
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k)
      if (ROWS_PER_LANE * lane + k >= count) length[k] = low;
  }
  if (width <= 8) {
    // Four differences are 32 bits at most: sums of lengths, shifted, less what the minimum has in them.
    const u32 shift = 1u << width, minima = u32(low) * (1 + shift) * (1 + shift * shift);
    u32 four[2];
#pragma unroll
    for (u32 k = 0; k < 2; ++k) {
      const T* const l = length + 4 * k;
      four[k] = ((u32(l[3]) * shift + u32(l[2])) * shift + u32(l[1])) * shift + u32(l[0]) - minima;
    }
    put_narrow(four[0] | u64(four[1]) << (4 * width), width, to);
  } else {
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k) length[k] -= low;
    __syncwarp();
    put_wide(length, width, to, room);
  }
  return low;
}

// Row blocks begin .. end of a segment, 32 at a time: what is stored beside their bits is a lane's for each. Where all rows of a block are
// equally long (flags, codes, keys) that is all. While a row block is packed, the offsets of the next are on their way.
template <typename T>
__device__ __forceinline__ void pack_run(const PackView& s, u32 begin, u32 end, T* staged, PackRoom& room) {
  constexpr bool ahead = sizeof(T) == 4;  // wide offsets would take too many registers
  const T* const offsets = reinterpret_cast<const T*>(s.offsets);
  const u32 whole = u32(s.rows / ROW_BLOCK), last = u32(s.rows % ROW_BLOCK), lane = lane_id();
  for (u32 base = begin; base < end; base += 32) {
    const u32 b = base + lane;
    u32 before = 0, after = 0, minimum = 0;
    T start = 0;
    if (b < end) {
      const u32* words = reinterpret_cast<const u32*>(s.words) + b;
      before = words[0];
      after = b + (last == 0) < whole ? words[1] : u32(s.row_bits_words);
      const T* first = offsets + u64(b) * ROW_BLOCK;
      minimum = u32(first[1] - first[0]);
      start = first[0] - offsets[0];
    }
    u32 rest = __ballot_sync(ALL_LANES, before != after);
    RowOffsets<T> loaded;
    const auto load = [&](u32 i) {
      loaded.load(offsets + u64(base + i) * ROW_BLOCK, base + i < whole ? ROW_BLOCK : last);
    };
    if (ahead && rest != 0) load(__ffs(rest) - 1);
    while (rest != 0) {
      const u32 i = __ffs(rest) - 1, from = __shfl_sync(ALL_LANES, before, i), to = __shfl_sync(ALL_LANES, after, i);
      if (!ahead) load(i);
      __syncwarp();
#pragma unroll
      for (u32 k = 0; k < ROWS_PER_LANE; ++k) staged[padded(32 * k) + lane] = loaded.starts[k];
      __syncwarp();
      const T block_end = loaded.end;
      rest &= rest - 1;
      if (ahead && rest != 0) load(__ffs(rest) - 1);
      u32* const row_bits = reinterpret_cast<u32*>(s.row_bits) + from;
      const T low = pack_row_block(base + i < whole ? ROW_BLOCK : last, block_end, (to - from) / (ROW_BLOCK / 32),
                                   row_bits, staged, room);
      if (lane == i) minimum = u32(low);
    }
    if (b < end) put_block(s, b, start, minimum, before, after);
  }
}

// Validity of row blocks begin .. end of a segment. The last word is filled with zeros.
__device__ __forceinline__ void copy_validity(const PackView& s, u64 begin, u64 end) {
  constexpr u64 per_block = ROW_BLOCK / 32;
  const u32* from = reinterpret_cast<const u32*>(s.validity);
  const u64 stop = min(per_block * end, (s.rows + 31) / 32);
  for (u64 i = per_block * begin + lane_id(); i < stop; i += 32) {
    const u64 left = s.rows - 32 * i, first = s.validity_offset + 32 * i, last = first + min(left, u64(32)) - 1;
    const u32 low = from[first / 32], high = last / 32 > first / 32 ? from[last / 32] : 0;
    const u32 mask = left >= 32 ? ~0u : (1u << left) - 1;
    reinterpret_cast<u32*>(s.stored_validity)[i] = __funnelshift_r(low, high, u32(first % 32)) & mask;
  }
}

// Zeros between the sections of `meta`, a lane each; block_starts of a segment without characters.
__device__ __forceinline__ void fill_gaps(const PackView& s) {
  const u64 tiles = (s.chars + (1ull << s.tile_shift) - 1) >> s.tile_shift;
  const u64 tile_blocks = (tiles + TILE_BLOCK - 1) / TILE_BLOCK, row_blocks = (s.rows + ROW_BLOCK - 1) / ROW_BLOCK;
  u64 end = 0;
  switch (lane_id()) {
    case 0:
      end = s.block_starts + 8 * (tile_blocks + 1);
      break;
    case 1:
      end = s.row_starts + 8 * (row_blocks + 1);
      break;
    case 2:
      end = s.row_minima + 4 * row_blocks;
      break;
    case 3:
      end = s.row_words + 4 * (row_blocks + 1);
      break;
    case 4:
      end = s.tile_lengths + (tiles << (s.tile_shift > 8));
      break;
    case 5:
      end = s.row_bits + 4 * s.row_bits_words;
      break;
    case 6:
      end = s.validity != 0 ? s.stored_validity + 4 * ((s.rows + 31) / 32) : 0;
      break;
  }
  for (; end % SECTION_ALIGNMENT != 0; ++end) *reinterpret_cast<u8*>(end) = 0;
  if (lane_id() == 0 && tiles == 0) *reinterpret_cast<u64*>(s.block_starts) = 0;
}

// Writes `meta` but for what the codes decide: block_starts and tile_lengths. grid: any; block: 256 threads.
extern "C" __global__ void __launch_bounds__(256, PACK_BLOCKS)
    row_lengths_pack(const PackView* __restrict__ segments, u32 segment_count, u64 row_blocks) {
  __shared__ PackRoom rooms[8];
  PackRoom& room = rooms[threadIdx.x / 32];
  const Run run(row_blocks);
  if (run.begin >= run.end) return;
  u32 k = find_view<&PackView::first_row_block>(segments, segment_count, run.begin);
  for (u32 unit = run.begin; unit < run.end; ++k) {
    const PackView& s = segments[k];
    const u32 stop = k + 1 < segment_count ? u32(min(u64(run.end), segments[k + 1].first_row_block)) : run.end;
    const u32 begin = u32(unit - s.first_row_block), end = u32(stop - s.first_row_block);
    if (begin == 0) fill_gaps(s);
    if (s.validity != 0) copy_validity(s, begin, end);
    if (s.wide)
      pack_run(s, begin, end, room.wide, room);
    else
      pack_run(s, begin, end, room.narrow, room);
    unit = stop;
  }
}

// Writes the offsets of a row block's rows from..to (counted in the block) at `out` + row, coalesced.
template <typename T>
__device__ __forceinline__ void unpack_row_block(const PackedBlock& block, u32 from, u32 to, u64 before, u32* staged,
                                                 T* out) {
  stage_starts(block, staged);
  __syncwarp();
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
    const u32 i = 32 * k + lane_id();
    if (i >= from && i < to) out[i] = T(before + staged[padded(i)]);
  }
}

// unpack_row_block for rows so long that their sums need 64 bits.
template <typename T>
__device__ __forceinline__ void unpack_long_block(const PackedBlock& block, u32 from, u32 to, u64 before, T* out) {
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) {
    const u32 i = 32 * k + lane_id();
    const u64 length = block.minimum + block.difference(i), inclusive = warp_inclusive_sum(length);
    if (i >= from && i < to) out[i] = T(before + (inclusive - length));
    before += __shfl_sync(ALL_LANES, inclusive, 31);
  }
}

// Rows row_begin .. row_end of every segment -> offsets out_row .. of its column, and the offset after the last row of each column.
// Row blocks are counted from the one that holds row_begin. grid: any; block: 256 threads.
extern "C" __global__ void __launch_bounds__(256, 4)
    row_lengths_unpack(const SegmentView* segments, u32 segment_count, u64 row_blocks) {
  __shared__ u32 rooms[8][PADDED_ROWS];
  u32* const staged = rooms[threadIdx.x / 32];
  const Run run(row_blocks);
  if (run.begin >= run.end) return;
  u32 k = find_view<&SegmentView::first_row_block>(segments, segment_count, run.begin);
  for (u64 unit = run.begin; unit < run.end; ++unit) {
    while (k + 1 < segment_count && segments[k + 1].first_row_block <= unit) ++k;
    const SegmentView& s = segments[k];
    const bool wide = s.wide_offsets;
    const u64 b = s.row_begin / ROW_BLOCK + unit - s.first_row_block, first = b * ROW_BLOCK;
    const PackedBlock block(s, b);
    const u64 before = reinterpret_cast<const u64*>(s.row_starts)[b] - s.char_begin + s.out_char;
    const u32 from = u32(max(first, s.row_begin) - first);
    const u32 to = u32(max(first, min(first + ROW_BLOCK, s.row_end)) - first);
    const u64 at = s.out_row + first - s.row_begin;  // of the block's first row; below 0 where that is not wanted
    u32* const narrow = reinterpret_cast<u32*>(s.offsets_to) + at;
    u64* const whole = reinterpret_cast<u64*>(s.offsets_to) + at;
    const bool sums_fit = block.sums_fit();
    if (sums_fit && wide)
      unpack_row_block(block, from, to, before, staged, whole);
    else if (sums_fit)
      unpack_row_block(block, from, to, before, staged, narrow);
    else if (wide)
      unpack_long_block(block, from, to, before, whole);
    else
      unpack_long_block(block, from, to, before, narrow);
    if (s.last && first + ROW_BLOCK >= s.row_end && lane_id() == 0) {
      const u64 chars = s.out_char + (s.char_end - s.char_begin);
      if (wide)
        whole[s.row_end - first] = chars;
      else
        narrow[s.row_end - first] = u32(chars);
    }
    __syncwarp();
  }
}

// Where the first row and the row after the last one of some rows of a segment begin. Of edge i: edges[2 * i] is the segment,
// edges[2 * i + 1] a row of it, or the number of its rows; starts[i] its first character. LOCATE_LANES threads an edge, whole warps.
extern "C" __global__ void __launch_bounds__(256)
    locate_edges(const SegmentView* segments, const u64* edges, u64 count, u64* starts) {
  const u64 thread = blockIdx.x * u64(blockDim.x) + threadIdx.x, i = min(thread / LOCATE_LANES, count - 1);
  const SegmentView& s = segments[edges[2 * i]];
  const u64 row = edges[2 * i + 1], b = row / ROW_BLOCK;
  u64 start = s.chars;
  if (row < s.rows) {
    start = PackedBlock(s, b).sum_before(u32(row % ROW_BLOCK), lane_id() % LOCATE_LANES, LOCATE_LANES);
    if (lane_id() % LOCATE_LANES == 0) start += reinterpret_cast<const u64*>(s.row_starts)[b];
  } else if (lane_id() % LOCATE_LANES != 0) {
    start = 0;
  }
#pragma unroll
  for (u32 delta = 1; delta < LOCATE_LANES; delta *= 2) start += __shfl_xor_sync(ALL_LANES, start, delta);
  if (thread < count * LOCATE_LANES && lane_id() % LOCATE_LANES == 0) starts[i] = min(start, s.chars);
}

// Validity of rows row_begin .. row_end of every segment that has some to write. Columns that write none have no bits: the out_bit of
// all their segments is that of the next column. Words behind a column's last row become 0. One thread a word, whole warps.
extern "C" __global__ void __launch_bounds__(256)
    gather_validity(const SegmentView* segments, u32 segment_count, u64 words) {
  const u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x;
  u64 nulls_to = 0;
  u32 nulls = 0;
  if (i < words) {
    u64 bit = 32 * i;
    const u64 end = bit + 32;
    u32 k = find_view<&SegmentView::out_bit>(segments, segment_count, bit), word = 0;
    nulls_to = segments[k].nulls_to;
    u32* const to = reinterpret_cast<u32*>(segments[k].validity_to) + i;
    for (; k < segment_count && segments[k].out_bit <= bit; ++k) {
      const SegmentView& s = segments[k];
      const u64 stop = min(end, s.out_bit + (s.row_end - s.row_begin));
      if (stop <= bit) break;
      const u32 count = u32(stop - bit);
      u32 bits = ~0u;
      if (s.validity != 0) {
        const u32* validity = reinterpret_cast<const u32*>(s.validity);
        const u64 first = s.row_begin + (bit - s.out_bit), last = first + count - 1;
        const u32 low = validity[first / 32], high = last / 32 > first / 32 ? validity[last / 32] : 0;
        bits = __funnelshift_r(low, high, u32(first % 32));
      }
      bits &= ~0u >> (32 - count);
      nulls += count - __popc(bits);
      word |= bits << (bit % 32);
      bit = stop;
    }
    *to = word;
  }
  if (__any_sync(ALL_LANES, nulls_to != 0)) {
    const u64 first = __shfl_sync(ALL_LANES, nulls_to, 0);
    if (__all_sync(ALL_LANES, nulls_to == first || nulls == 0)) {
      nulls = __shfl_sync(ALL_LANES, warp_inclusive_sum(nulls), 31);
      if (lane_id() > 0) nulls = 0;
      nulls_to = first;
    }
    if (nulls_to != 0 && nulls > 0) atomicAdd(reinterpret_cast<u64*>(nulls_to), u64(nulls));
  }
}
