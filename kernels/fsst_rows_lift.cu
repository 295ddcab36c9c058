// FSST rows, before the run (fsst_rows.cu): automata of bytes -> automata of codes; where the first row of every tile begins.
#include "fsst_rows.cuh"
#include "row_lengths.cuh"

// Makes the automaton of codes for each of `tables`, addresses of DecodeTables, of one of bytes: `following` is u16[states][256],
// `verdicts` u8[states]. entries: u32[tables][2 * states][256]. restarts: u16[tables][256][8], for a code and a byte of its symbol,
// less 1, the state behind the symbol of a row that begins behind that byte. grid: 2 * states + 1 blocks, y = tables; block: 256
// threads, one a code.
extern "C" __global__ void __launch_bounds__(256)
    fsst_rows_lift(const u16* __restrict__ following, const u8* __restrict__ verdicts, u32 states,
                   const u64* __restrict__ tables, u32* __restrict__ entries, u16* __restrict__ restarts) {
  const u32 row = blockIdx.x, code = threadIdx.x;
  const DecodeTable& table = *reinterpret_cast<const DecodeTable*>(tables[blockIdx.y]);
  u64 symbol = table.entries[code];
  const u32 length = split_entry(symbol, table.is_eight(code)) / 8;
  if (row == 2 * states) {
    u16* const to = restarts + (u64(blockIdx.y) * 256 + code) * 8;
    for (u32 begin = 1; begin <= 8; ++begin) {
      u32 state = 0;
      for (u32 place = begin; place < length; ++place)
        state = following[256 * state + u32(symbol >> (8 * place) & 255)];
      to[begin - 1] = u16(state);
    }
    return;
  }
  u32 state = row, found = 0, count = length;
  if (row >= states) state = row - states, symbol = code, count = 1;
  for (u32 place = 0; place < count; ++place, symbol >>= 8) {
    state = following[256 * state + u32(symbol & 255)];
    const u32 verdict = verdicts[state];
    found |= (verdict & 1) << place | (verdict >> 1) << (UNDECIDED_SHIFT + place);
  }
  if (row < states && code == 255) state = states + row;
  entries[(u64(blockIdx.y) * 2 * states + row) * 256 + code] = found | state << 8 | count << LENGTH_SHIFT;
}

// What is done for the rows of a segment, in order: a lane has some that are neighbours.
struct Noted {
  const SegmentView& s;
  u64* first_rows;  // of the segment's tiles
  u8* answers;      // of its rows
  u32 empty;
  u64 start, tile;  // where the next row begins, and in which tile the one before did

  // Row `row` has `length` bytes.
  __device__ __forceinline__ void take(u64 row, u64 length) {
    const u64 own = start >> s.tile_shift;
    if (row < s.rows) {
      if (start < s.chars && own != tile) first_rows[own] = (row + 1) | (start & ((1u << s.tile_shift) - 1)) << 32;
      if (length == 0 && empty != 0) answers[row] = u8(empty);
    }
    tile = own;
    start += length;
  }
};

// Notes the rows of a row block. A lane has eight neighbouring rows.
__device__ __forceinline__ void note_rows(const SegmentView& s, const RowsView& view, u64 b, const PackedBlock& block,
                                          u64* first_rows, u8* answers, u32 empty) {
  const u32 lane = lane_id();
  const u64 first = b * ROW_BLOCK + ROWS_PER_LANE * lane;
  u64 before = lane == 0 && b > 0 ? PackedBlock(s, b - 1).length(ROW_BLOCK - 1) : 0;
  Noted noted = {s, first_rows + view.first_tile, answers + s.first_row, empty, 0, 0};
  const u64 block_start = reinterpret_cast<const u64*>(s.row_starts)[b];
  if (block.width <= 8 && block.sums_fit()) {
    u32 near, far;
    block.eight_rows(lane, &near, &far);
    const u32 mask = (1u << block.width) - 1, minimum = u32(block.minimum), width = block.width;
    const u32 sum = ROWS_PER_LANE * minimum + block.sum_of(near, 4) + block.sum_of(far, 4);
    const u32 last = minimum + (far >> (3 * width) & mask), own_before = __shfl_up_sync(ALL_LANES, last, 1);
    if (lane > 0) before = own_before;
    noted.start = block_start + (warp_inclusive_sum(sum) - sum);
    noted.tile = first == 0 ? ~0ull : (noted.start - before) >> s.tile_shift;
#pragma unroll
    for (u32 k = 0; k < ROWS_PER_LANE; ++k)
      noted.take(first + k, minimum + ((k < 4 ? near >> (k * width) : far >> ((k - 4) * width)) & mask));
    return;
  }
  u64 lengths[ROWS_PER_LANE], sum = 0;  // without a loop, which takes a stack on sm_100 and sm_120
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) sum += lengths[k] = block.length(ROWS_PER_LANE * lane + k);
  const u64 own_before = __shfl_up_sync(ALL_LANES, lengths[ROWS_PER_LANE - 1], 1);
  if (lane > 0) before = own_before;
  noted.start = block_start + (warp_inclusive_sum(sum) - sum);
  noted.tile = first == 0 ? ~0ull : (noted.start - before) >> s.tile_shift;
#pragma unroll
  for (u32 k = 0; k < ROWS_PER_LANE; ++k) noted.take(first + k, lengths[k]);
}

// For every tile in which a row begins: number of the first one in its segment, and 1; in the upper half, the character of the tile
// it begins at. `first_rows` and `answers` are zero before; rows without bytes are answered with `empty`. As row_lengths_unpack, a warp
// has a run of row blocks. block: 256 threads.
extern "C" __global__ void __launch_bounds__(256)
    fsst_rows_starts(const SegmentView* __restrict__ segments, const RowsView* __restrict__ views, u32 segment_count,
                     u64 row_blocks, u64* first_rows, u8* answers, u32 empty) {
  const Run run(row_blocks);
  if (run.begin >= run.end) return;
  const u64 first_unit = segments[0].first_row_block;
  u32 k = find_view<&SegmentView::first_row_block>(segments, segment_count, first_unit + run.begin);
  for (u64 unit = first_unit + run.begin; unit < first_unit + run.end; ++unit) {
    while (k + 1 < segment_count && segments[k + 1].first_row_block <= unit) ++k;
    const u64 b = unit - segments[k].first_row_block;
    const PackedBlock block(segments[k], b);
    note_rows(segments[k], views[k], b, block, first_rows, answers, empty);
  }
}
