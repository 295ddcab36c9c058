// Random access: the characters of chosen rows, decoding only the tiles they touch; and the sample for training on the CPU (level max).
//
// fsst_take: a thread decodes one (row, tile) pair from the tile's start to the row's end in it. Rows of any length balance over
// threads, since a long row has many pairs.
#include "fsst.cuh"

// places: see locate_rows; item_ends[i], char_ends[i]: inclusive sums of tiles and lengths over the rows.
extern "C" __global__ void __launch_bounds__(256)
    fsst_take(const SegmentView* __restrict__ segments, const u64* __restrict__ places,
              const u64* __restrict__ item_ends, const u64* __restrict__ char_ends, u64 count, u64 items, u8* out) {
  const u64 item = blockIdx.x * u64(blockDim.x) + threadIdx.x;
  if (item >= items) return;
  u64 low = 0, high = count - 1;  // the first row whose item_ends > item
  while (low < high) {
    const u64 middle = (low + high) / 2;
    if (item_ends[middle] > item)
      high = middle;
    else
      low = middle + 1;
  }
  const u64 start = places[4 * low + 1], length = places[4 * low + 2], touched = places[4 * low + 3];
  const SegmentView& s = segments[places[4 * low]];
  const u64 tile = (start >> s.tile_shift) + (item - (item_ends[low] - touched));
  const u64 tile_begin = tile << s.tile_shift;
  const u64 tile_end = min(tile_begin + (1ull << s.tile_shift), s.chars);
  const u64 begin = max(start, tile_begin), end = min(start + length, tile_end);

  const u64 block = tile / TILE_BLOCK;
  u64 at = reinterpret_cast<const u64*>(s.block_starts)[block];
  u64 codes_length;
  if (s.tile_shift <= 8) {
    const u8* lengths = reinterpret_cast<const u8*>(s.tile_lengths);
    u64 t = block * TILE_BLOCK;
    for (; t + 4 <= tile; t += 4) at += __dp4a(*reinterpret_cast<const u32*>(lengths + t), 0x01010101u, 4u);
    for (; t < tile; ++t) at += u64(lengths[t]) + 1;
    codes_length = u64(lengths[tile]) + 1;
  } else {
    const u16* lengths = reinterpret_cast<const u16*>(s.tile_lengths);
    for (u64 t = block * TILE_BLOCK; t < tile; ++t) at += u64(lengths[t]) + 1;
    codes_length = u64(lengths[tile]) + 1;
  }
  if (at > s.codes_nbytes || codes_length > s.codes_nbytes - at) return;  // damaged

  const u8* codes = reinterpret_cast<const u8*>(s.codes) + at;
  u8* to = out + (char_ends[low] - length) + (begin - start);
  if (codes_length == tile_end - tile_begin) {
    for (u64 i = begin; i < end; ++i) to[i - begin] = codes[i - tile_begin];
    return;
  }
  const DecodeTable* table = reinterpret_cast<const DecodeTable*>(s.table);
  u64 position = tile_begin;
  u32 half = 0;
  for (u64 c = 0; c < codes_length && position < end; ++c) {
    const u32 entry = codes[c] | half;
    half = entry == 255 ? 256 : 0;
    const u32 bytes = table->bits[entry] / 8;
    if (position + bytes > begin) {
      u64 symbol = table->symbols[entry];
      for (u32 i = 0; i < bytes; ++i, symbol >>= 8)
        if (position + i >= begin && position + i < end) to[position + i - begin] = u8(symbol);
    }
    position += bytes;
  }
}

// chunks of chunk_chars characters from begins[i] (the last may be shorter: end) to out + i * chunk_chars. grid: one block a chunk.
extern "C" __global__ void __launch_bounds__(256)
    fsst_sample(const u8* __restrict__ chars, const u64* __restrict__ begins, const u64* __restrict__ ends,
                u64 chunk_chars, u8* out) {
  const u64 begin = begins[blockIdx.x], end = ends[blockIdx.x];
  for (u64 i = begin + threadIdx.x; i < end; i += blockDim.x) out[blockIdx.x * chunk_chars + i - begin] = chars[i];
}
