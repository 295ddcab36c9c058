// Chosen rows: where they lie, and their characters, whatever codec of text they have. Only the tiles that they touch are decoded.
//
// Work unit: a thread block has a *group* of TAKE_ROWS rows of a column, a row a thread, and some threads more, since some rows have two
// tiles. take_measure finds the rows and adds up their lengths; when the host has made room for the characters, the codec's take_many writes offsets
// and characters. Its take_few does both at once for one group.
//
// Characters: a thread decodes one tile from its start on, for one row or for a run of rows that ascend in it, as those that a mask
// chooses do. Rows of any length balance over the threads of a block, since a long row has many tiles, and over `gridDim.z` blocks.
// Columns of which most tiles are wanted are decoded whole, and text_gather.cu copies the rows.
//
// A file includes this and has a type `Codec` for its tiles, which take_few_rows and take_rows of its kernels are given:
//
// - Table: what a tile is decoded with; STAGED: so many of them, which lie next to each other, are brought to shared memory, or 0.
// - Codec(s, at, nbytes): the codes of a tile that is not raw, `nbytes` bytes from byte `at` of the segment's codes on.
// - left(): whether there are more. skip(table, position, until): steps over codes as long as what they stand for ends at `until` or before,
//   and adds it to `position`; it may stop sooner. next(table, bits): the next code's Symbol, and how many bits that has.
// - append(writer, symbol, skipped, nbytes): writes so many bytes of a symbol, behind the first `skipped`.
//
// What lost: a thread for each row and tile, which it looked for in sums over all rows, tables in global memory, and characters written one
// by one. 1 M random rows of TPC-H SF 10 l_comment (FSST) on an H200 took 0.365 ms, and 0.174 to find them.
//
// Invariant: whatever the codes and row lengths, nothing outside the codes and the rows' characters is touched. A row that its segment does
// not have room for is empty, and a tile gives no more than its bytes.
#pragma once

#include "row_lengths.cuh"
#include "text_codes.cuh"

// Thread blocks a multiprocessor for which registers are counted out: where there would be spills, fewer.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define TAKE_BLOCKS 3
#else
#define TAKE_BLOCKS 4
#endif

// A column of which rows are chosen.
struct TakeColumn {
  u64 segments;  // address of its SegmentViews
  u64 segment_count;
  u64 tables;      // address of its DecodeTables
  u64 offsets_to;  // address of offsets[count + 1]
  u64 wide_offsets;
  u64 chars_to;
  u64 validity_to;  // address of a bitmap of whole 64 bytes, 0: none
  u64 places;       // address of u64[count] that take_measure leaves for take_many, 0: it looks again
  u64 groups;       // address of u64[groups]: characters of each; take_measure leaves the sum of those before
  u64 totals;       // address of a TakeTotals, which take_measure needs to be zero at first
};

struct TakeTotals {
  u64 chars, nulls;
  u64 tiles;       // to decode; one that several rows of a warp share counts once where they ascend
  u64 most_tiles;  // of a group
  u64 groups_done;
};

// Place of a row in 64 bits: its first character in the column, and its length above, or PLACE_LONG.
#define PLACE_LONG 0xffffffull

// A row: its segment, and characters start .. start + length of it.
struct RowPlace {
  u32 segment;
  u64 start, length;
};

// Where a row of the column lies, a row a lane; whole warps. LOCATE_LANES lanes add up the lengths before a row, or all lanes those of a
// row block, where the warp's rows lie in few.
__device__ __forceinline__ RowPlace locate(const SegmentView* segments, u32 segment_count, u64 row) {
  const u32 lane = lane_id(), at_once = 32 / LOCATE_LANES;
  const u32 k = find_view<&SegmentView::first_row>(segments, segment_count, row);
  const SegmentView& s = segments[k];
  const u64 local = row - s.first_row, b = local / ROW_BLOCK;
  const u32 in_block = u32(local % ROW_BLOCK);
  const PackedBlock mine(s, b);
  u64 start = in_block * mine.minimum;
  if (__any_sync(ALL_LANES, mine.width > 0)) {
    const u64 key = reinterpret_cast<u64>(reinterpret_cast<const u32*>(s.row_words) + b);
    const u32 same = __match_any_sync(ALL_LANES, key);
    u32 leaders = __ballot_sync(ALL_LANES, same >> lane == 1);
    if (__popc(leaders) <= LOCATE_LANES && __all_sync(ALL_LANES, mine.width <= 8)) {
      for (; leaders != 0; leaders &= leaders - 1) {
        const u32 leader = __ffs(leaders) - 1;
        const PackedBlock block(mine, leader);
        u32 near, far;
        block.eight_rows(lane, &near, &far);
        const u32 sum = block.sum_of(near, 4) + block.sum_of(far, 4), before = warp_inclusive_sum(sum) - sum;
        const u32 source = in_block / 8, rows = in_block % 8;
        const u32 lanes_before = __shfl_sync(ALL_LANES, before, source);
        near = __shfl_sync(ALL_LANES, near, source), far = __shfl_sync(ALL_LANES, far, source);
        if (same >> leader & 1)
          start += lanes_before + block.sum_of(near, min(rows, 4u)) + block.sum_of(far, max(rows, 4u) - 4);
      }
    } else {
#pragma unroll 2
      for (u32 round = 0; round < LOCATE_LANES; ++round) {
        const u32 source = round * at_once + lane / LOCATE_LANES;
        const PackedBlock block(mine, source);
        u64 sum = block.sum_before(__shfl_sync(ALL_LANES, in_block, source), lane % LOCATE_LANES, LOCATE_LANES);
#pragma unroll
        for (u32 delta = 1; delta < LOCATE_LANES; delta *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, delta);
        sum = __shfl_sync(ALL_LANES, sum, lane % at_once * LOCATE_LANES);
        if (lane / at_once == round) start = sum;
      }
    }
  }
  start += reinterpret_cast<const u64*>(s.row_starts)[b];
  const u64 length = mine.length(in_block);
  if (start > s.chars || length > s.chars - start) return {k, 0, 0};  // damaged
  return {k, start, length};
}

// Whether the first tile of a row that follows `before` is the last one of that, which is decoded as far as this row then.
__device__ __forceinline__ bool shares_tile(const RowPlace& row, const RowPlace& before, u64 tile_shift) {
  return row.length > 0 && before.length > 0 && row.segment == before.segment &&
         row.start >= before.start + before.length &&
         row.start >> tile_shift == (before.start + before.length - 1) >> tile_shift;
}

__device__ __forceinline__ u64 tiles_of(const RowPlace& row, u64 tile_shift) {
  return row.length == 0 ? 0 : (row.start + row.length - 1 >> tile_shift) - (row.start >> tile_shift) + 1;
}

// Bits of 32 rows' validity to word `word` of the column's bitmap; whole warps. `inside`: the row is one of those wanted.
__device__ __forceinline__ void write_validity(const TakeColumn& c, u64 word, u32 segment, u64 row, bool inside,
                                               u64* nulls) {
  const SegmentView& s = reinterpret_cast<const SegmentView*>(c.segments)[segment];
  const u64 local = row - s.first_row;
  const u8* validity = reinterpret_cast<const u8*>(s.validity);
  const bool valid = inside && (validity == nullptr || (validity[local / 8] >> (local % 8) & 1));
  const u32 bits = __ballot_sync(ALL_LANES, valid), wanted = __ballot_sync(ALL_LANES, inside);
  if (lane_id() == 0 && wanted != 0) {
    reinterpret_cast<u32*>(c.validity_to)[word] = bits;
    if (bits != wanted) atomicAdd(nulls, u64(__popc(wanted & ~bits)));
  }
}

// Zeros between the last word with rows and the end of the bitmap.
__device__ __forceinline__ void end_validity(const TakeColumn& c, u64 count) {
  const u64 words = (count + 31) / 32;
  if (threadIdx.x < (words + 15) / 16 * 16 - words) reinterpret_cast<u32*>(c.validity_to)[words + threadIdx.x] = 0;
}

// Places, validity and characters before each group. grid: (groups, columns); block: TAKE_THREADS threads.
extern "C" __global__ void __launch_bounds__(TAKE_THREADS, TAKE_BLOCKS)
    take_measure(const TakeColumn* __restrict__ columns, const u64* __restrict__ rows, u64 count) {
  __shared__ bool last;
  const TakeColumn& c = columns[blockIdx.y];
  const SegmentView* segments = reinterpret_cast<const SegmentView*>(c.segments);
  TakeTotals* totals = reinterpret_cast<TakeTotals*>(c.totals);
  u64* groups = reinterpret_cast<u64*>(c.groups);
  const u64 i = u64(blockIdx.x) * TAKE_ROWS + threadIdx.x;
  const bool inside = threadIdx.x < TAKE_ROWS && i < count;
  const u64 number = rows[min(i, count - 1)];
  RowPlace row = {0, 0, 0};
  if (threadIdx.x < TAKE_ROWS) row = locate(segments, u32(c.segment_count), number);
  if (!inside) row.length = 0;
  if (c.places != 0 && inside)
    reinterpret_cast<u64*>(c.places)[i] = segments[row.segment].out_char + row.start | min(row.length, PLACE_LONG)
                                                                                           << PLACE_BITS;
  if (c.validity_to != 0) {
    write_validity(c, i / 32, row.segment, number, inside, &totals->nulls);
    if (blockIdx.x == gridDim.x - 1) end_validity(c, count);
  }
  const u64 tile_shift = segments[row.segment].tile_shift;
  RowPlace before = {__shfl_up_sync(ALL_LANES, row.segment, 1), __shfl_up_sync(ALL_LANES, row.start, 1),
                     __shfl_up_sync(ALL_LANES, row.length, 1)};
  if (lane_id() == 0) before.length = 0;
  u64 chars, tiles;
  block_sum_before<TAKE_THREADS>(row.length, &chars);
  block_sum_before<TAKE_THREADS>(tiles_of(row, tile_shift) - shares_tile(row, before, tile_shift), &tiles);
  if (threadIdx.x == 0) {
    groups[blockIdx.x] = chars;
    atomicAdd(&totals->tiles, tiles);
    atomicMax(&totals->most_tiles, tiles);
    __threadfence();
    last = atomicAdd(&totals->groups_done, 1ull) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  u64 sum = 0;
  for (u32 first = 0; first < gridDim.x; first += 4 * TAKE_THREADS) {
    u64 values[4], mine = 0, all;
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      const u32 g = first + 4 * threadIdx.x + k;
      values[k] = g < gridDim.x ? __ldcg(groups + g) : 0;
      mine += values[k];
    }
    u64 at = sum + block_sum_before<TAKE_THREADS>(mine, &all);
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      const u32 g = first + 4 * threadIdx.x + k;
      if (g < gridDim.x) groups[g] = at;
      at += values[k];
    }
    sum += all;
  }
  if (threadIdx.x == 0) totals->chars = sum;
}

// This thread's row, number `i` of those wanted, whose place take_measure has left, or not; whole warps.
__device__ __forceinline__ RowPlace find_row(const TakeColumn& c, const u64* rows, u64 count, u64 i) {
  const SegmentView* segments = reinterpret_cast<const SegmentView*>(c.segments);
  const u64 at = min(i, count - 1);
  RowPlace row = {0, 0, 0};
  if (threadIdx.x >= TAKE_ROWS) return row;
  if (c.places == 0) {
    row = locate(segments, u32(c.segment_count), rows[at]);
  } else {
    const u64 place = reinterpret_cast<const u64*>(c.places)[at], start = place & ((1ull << PLACE_BITS) - 1);
    row.length = place >> PLACE_BITS;
    row.segment = find_view<&SegmentView::out_char>(segments, u32(c.segment_count), start);
    row.start = start - segments[row.segment].out_char;
    if (row.length == PLACE_LONG) {
      const SegmentView& s = segments[row.segment];
      const u64 local = rows[at] - s.first_row;
      row.length = PackedBlock(s, local / ROW_BLOCK).length(u32(local % ROW_BLOCK));
    }
  }
  if (i >= count) row.length = 0;
  return row;
}

// The offsets of a group's rows, the first of which is row `first`, and the one after the last row of all.
__device__ __forceinline__ void write_offset(const TakeColumn& c, u64 i, u64 count, u64 offset, u64 length) {
  if (threadIdx.x >= TAKE_ROWS || i >= count) return;
  if (c.wide_offsets) {
    reinterpret_cast<u64*>(c.offsets_to)[i] = offset;
    if (i == count - 1) reinterpret_cast<u64*>(c.offsets_to)[count] = offset + length;
  } else {
    reinterpret_cast<u32*>(c.offsets_to)[i] = u32(offset);
    if (i == count - 1) reinterpret_cast<u32*>(c.offsets_to)[count] = u32(offset + length);
  }
}

// Writes characters from any address on, four bytes at a time but for the ends.
struct WordWriter {
  u64 word;  // address of the four bytes to be written next
  u64 pending;
  u32 fill;     // bits in pending
  u32 foreign;  // of which the first are not to be written

  __device__ __forceinline__ explicit WordWriter(u64 to)
      : word(to / 4 * 4), pending(0), fill(8 * u32(to % 4)), foreign(fill) {}

  __device__ __forceinline__ void write_bytes(u32 end) {
    for (u32 bit = foreign; bit < end; bit += 8) *reinterpret_cast<u8*>(word + bit / 8) = u8(pending >> bit);
    foreign = 0;
  }
  __device__ __forceinline__ void append_word(u32 bytes, u32 bits) {
    pending |= u64(bytes) << fill;
    fill += bits;
    if (fill < 32) return;
    if (foreign == 0)
      *reinterpret_cast<u32*>(word) = u32(pending);
    else
      write_bytes(32);
    word += 4;
    pending >>= 32;
    fill -= 32;
  }
  // What lies above `bits` of `bytes` must be 0.
  __device__ __forceinline__ void append(u64 bytes, u32 bits) {
    append_word(u32(bytes), min(bits, 32u));
    if (bits > 32) append_word(u32(bytes >> 32), bits - 32);
  }
  __device__ __forceinline__ void finish() { write_bytes(fill); }
};

// The rows of a group, in shared memory.
struct Group {
  u64 starts[TAKE_ROWS];     // in their segments
  u64 chars[TAKE_ROWS + 1];  // of the group, before the row
  u64 tiles[TAKE_ROWS + 1];  // to decode, before the row's own
  u32 segments[TAKE_ROWS];
  u8 shares[TAKE_ROWS];  // whether the row's first tile is decoded for the row before
};

// The last entry <= value of an ascending array of TAKE_ROWS + 1 whose first is 0 and whose last is greater.
__device__ __forceinline__ u32 last_not_above(const u64* ascending, u64 value) {
  return last_that(0u, u32(TAKE_ROWS), [&](u32 i) { return ascending[i] <= value; });
}

// Decodes a tile for row `r` of the group, and for those that share it. `to`: where the group's characters belong.
template <typename Codec>
__device__ __forceinline__ void decode_tile(const SegmentView& s, const typename Codec::Table* table, u64 tile,
                                            const Group& group, u32 r, u64 to) {
  const u64 tile_begin = tile << s.tile_shift, tile_end = min(tile_begin + (1ull << s.tile_shift), s.chars);
  u64 at;
  u32 codes_length;
  if (!find_codes(s, tile, &at, &codes_length)) return;

  Codec codes(s, at, codes_length);
  const bool raw = codes_length == tile_end - tile_begin;
  // Positions count from the tile's first character. The symbol at hand ends at `position`.
  u32 position = 0, bits = 0;
  typename Codec::Symbol symbol = {};
  for (;;) {
    const u64 start = group.starts[r], length = group.chars[r + 1] - group.chars[r];
    const u32 begin = u32(max(start, tile_begin) - tile_begin), end = u32(min(start + length, tile_end) - tile_begin);
    WordWriter writer(to + group.chars[r] + (tile_begin + begin - start));
    if (raw) {
      for (u32 i = begin; i < end; ++i) writer.append_word(*reinterpret_cast<const u8*>(s.codes + at + i), 8);
    } else {
      if (position <= begin) {
        codes.skip(*table, position, begin);
        while (position <= begin && codes.left > 0) {
          symbol = codes.next(table, &bits);
          position += bits / 8;
        }
      }
      for (;;) {
        const u32 first = max(position - bits / 8, begin), last = min(position, end);
        if (first < last) Codec::append(writer, symbol, first - (position - bits / 8), last - first);
        if (position >= end || codes.left == 0) break;
        symbol = codes.next(table, &bits);
        position += bits / 8;
      }
    }
    writer.finish();
    if (start + length > tile_end || ++r == TAKE_ROWS || !group.shares[r]) return;
  }
}

// Decodes the characters of a group's rows; all threads of the block. `row`: this thread's, `chars_before`: of the group before it,
// `to`: where the group's characters belong.
template <typename Codec>
__device__ __forceinline__ void decode_group(const TakeColumn& c, const RowPlace& row, u64 chars_before, u64 chars,
                                             u64 to) {
  typedef typename Codec::Table Table;
  __shared__ Group group;
  __shared__ Table staged[Codec::STAGED > 0 ? Codec::STAGED : 1];
  __shared__ u32 first_table;
  __shared__ u32 last_table;
  const SegmentView* segments = reinterpret_cast<const SegmentView*>(c.segments);
  const u64 tile_shift = segments[row.segment].tile_shift;
  const u32 t = threadIdx.x;
  if (t < TAKE_ROWS) {
    group.starts[t] = row.start;
    group.chars[t] = chars_before;
    group.segments[t] = row.segment;
  }
  if (t == 0) {
    group.chars[TAKE_ROWS] = chars;
    first_table = ~0u, last_table = 0;
  }
  __syncthreads();
  bool shares = false;
  if (t > 0 && t < TAKE_ROWS) {
    const RowPlace before = {group.segments[t - 1], group.starts[t - 1], group.chars[t] - group.chars[t - 1]};
    shares = shares_tile(row, before, tile_shift);
  }
  if (t < TAKE_ROWS) group.shares[t] = shares;
  if (Codec::STAGED > 0 && row.length > 0) {
    const u32 table = u32((segments[row.segment].table - c.tables) / sizeof(Table));
    atomicMin(&first_table, table);
    atomicMax(&last_table, table);
  }
  u64 tiles;
  const u64 tiles_before = block_sum_before<TAKE_THREADS>(tiles_of(row, tile_shift) - shares, &tiles);
  if (t < TAKE_ROWS) group.tiles[t] = tiles_before;
  if (t == 0) group.tiles[TAKE_ROWS] = tiles;
  __syncthreads();
  if (tiles == 0) return;
  const u32 tables = min(last_table - first_table + 1, u32(Codec::STAGED));
  if (Codec::STAGED > 0) {
    const u32 words = sizeof(Table) / 8;
    const u64* from = reinterpret_cast<const u64*>(c.tables) + u64(first_table) * words;
    for (u32 i = t; i < tables * words; i += TAKE_THREADS) reinterpret_cast<u64*>(staged)[i] = __ldg(from + i);
    __syncthreads();
  }
  for (u64 item = u64(blockIdx.z) * TAKE_THREADS + t; item < tiles; item += u64(gridDim.z) * TAKE_THREADS) {
    const u32 r = last_not_above(group.tiles, item);
    const SegmentView& s = segments[group.segments[r]];
    const u64 tile = (group.starts[r] >> s.tile_shift) + group.shares[r] + (item - group.tiles[r]);
    const u32 table = u32((s.table - c.tables) / sizeof(Table)) - first_table;
    // One call for both places: two took the compiler twice as long, and the GPU as long.
    const bool here = Codec::STAGED > 0 && table < tables;
    decode_tile<Codec>(s, here ? staged + table : reinterpret_cast<const Table*>(s.table), tile, group, r, to);
  }
}

// Offsets and characters, behind take_measure.
template <typename Codec>
__device__ __forceinline__ void take_rows(const TakeColumn* __restrict__ columns, const u64* __restrict__ rows,
                                          u64 count) {
  const TakeColumn& c = columns[blockIdx.y];
  const u64 i = u64(blockIdx.x) * TAKE_ROWS + threadIdx.x;
  const RowPlace row = find_row(c, rows, count, i);
  u64 chars;
  const u64 chars_before = block_sum_before<TAKE_THREADS>(row.length, &chars),
            group_at = reinterpret_cast<const u64*>(c.groups)[blockIdx.x];
  if (blockIdx.z == 0) write_offset(c, i, count, group_at + chars_before, row.length);
  decode_group<Codec>(c, row, chars_before, chars, c.chars_to + group_at);
}

// All of it for at most TAKE_ROWS rows: offsets of 32 bits, validity, totals, and, unless they are more than `capacity`, characters.
template <typename Codec>
__device__ __forceinline__ void take_few_rows(const TakeColumn* __restrict__ columns, const u64* __restrict__ rows,
                                              u64 count, u64 capacity) {
  __shared__ u64 nulls;
  const TakeColumn& c = columns[blockIdx.y];
  const u64 i = threadIdx.x, number = rows[min(i, count - 1)];
  const SegmentView* segments = reinterpret_cast<const SegmentView*>(c.segments);
  RowPlace row = locate(segments, u32(c.segment_count), number);
  if (i >= count) row.length = 0;
  if (threadIdx.x == 0) nulls = 0;
  __syncthreads();
  if (c.validity_to != 0) {
    write_validity(c, i / 32, row.segment, number, i < count, &nulls);
    end_validity(c, count);
  }
  u64 chars;
  const u64 chars_before = block_sum_before<TAKE_THREADS>(row.length, &chars);
  write_offset(c, i, count, chars_before, row.length);
  if (threadIdx.x == 0) {  // behind the barriers of the sum
    TakeTotals* totals = reinterpret_cast<TakeTotals*>(c.totals);
    totals->chars = chars;
    totals->nulls = nulls;
  }
  if (chars <= capacity) decode_group<Codec>(c, row, chars_before, chars, c.chars_to);
}
