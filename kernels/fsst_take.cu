// Random access: the characters of chosen rows, decoding only the tiles they touch; and the sample for training on the CPU (level max).
//
// fsst_take: a thread decodes one (row, tile) pair from the tile's start to the row's end in it. Rows of any length balance over
// threads, since a long row has many pairs. 1 M random rows of TPC-H SF 10 l_comment on an H200: 0.365 ms; with codes loaded byte by
// byte and lengths of tiles by four, 0.507.
#include "fsst.cuh"

// segments_of, starts: see locate_rows; char_ends[i], item_ends[i]: inclusive sums of the rows' lengths and tiles.
extern "C" __global__ void __launch_bounds__(256)
    fsst_take(const SegmentView* __restrict__ segments, const u64* __restrict__ segments_of,
              const u64* __restrict__ starts, const u64* __restrict__ char_ends, const u64* __restrict__ item_ends,
              u64 count, u64 items, u8* out) {
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
  const u64 items_before = low > 0 ? item_ends[low - 1] : 0, chars_before = low > 0 ? char_ends[low - 1] : 0;
  const u64 start = starts[low], length = char_ends[low] - chars_before;
  const SegmentView& s = segments[segments_of[low]];
  const u64 tile = (start >> s.tile_shift) + (item - items_before);
  const u64 tile_begin = tile << s.tile_shift;
  const u64 tile_end = min(tile_begin + (1ull << s.tile_shift), s.chars);
  const u64 begin = max(start, tile_begin), end = min(start + length, tile_end);

  const u64 block = tile / TILE_BLOCK;
  u64 at = reinterpret_cast<const u64*>(s.block_starts)[block];
  u64 codes_length;
  if (s.tile_shift <= 8) {
    const u8* lengths = reinterpret_cast<const u8*>(s.tile_lengths);
    u64 t = block * TILE_BLOCK;
    for (; t + 16 <= tile; t += 16) {
      const uint4 four = *reinterpret_cast<const uint4*>(lengths + t);
      at += __dp4a(four.x, 0x01010101u, __dp4a(four.y, 0x01010101u, 8u));
      at += __dp4a(four.z, 0x01010101u, __dp4a(four.w, 0x01010101u, 8u));
    }
    for (; t + 4 <= tile; t += 4) at += __dp4a(*reinterpret_cast<const u32*>(lengths + t), 0x01010101u, 4u);
    for (; t < tile; ++t) at += u64(lengths[t]) + 1;
    codes_length = u64(lengths[tile]) + 1;
  } else {
    const u16* lengths = reinterpret_cast<const u16*>(s.tile_lengths);
    for (u64 t = block * TILE_BLOCK; t < tile; ++t) at += u64(lengths[t]) + 1;
    codes_length = u64(lengths[tile]) + 1;
  }
  if (at > s.codes_nbytes || codes_length > s.codes_nbytes - at) return;  // damaged

  const u64 codes = s.codes + at, codes_end = s.codes + s.codes_nbytes;
  u8* to = out + chars_before + (begin - start);
  if (codes_length == tile_end - tile_begin) {
    const u8* from = reinterpret_cast<const u8*>(codes) + (begin - tile_begin);
    for (u64 i = 0; i < end - begin; ++i) to[i] = from[i];
    return;
  }
  const DecodeTable* table = reinterpret_cast<const DecodeTable*>(s.table);
  // From here on positions count from the row's first character in the tile, which lies `skip` characters in it.
  const i32 wanted = i32(end - begin);
  i32 position = -i32(begin - tile_begin), left = i32(codes_length);
  u64 address = codes / 4 * 4;
  const u32 shift = 8 * u32(codes % 4);
  u32 half = 0, next = load_word(address, s.codes, codes_end);
  while (left > 0 && position < wanted) {
    address += 4;
    const u32 word = next;
    next = load_word(address, s.codes, codes_end);
    u32 four = __funnelshift_r(word, next, shift);
    for (i32 i = min(left, 4); i > 0; --i, four >>= 8) {
      const u32 entry = (four & 255) | half;
      half = entry == 255 ? 256 : 0;
      u64 symbol = table->entries[entry];
      const i32 after = position + i32(split_entry(symbol, table->is_eight(entry))) / 8;
      const i32 first = max(position, 0), last = min(after, wanted);
      if (first < last) {
        symbol = shift_right(symbol, 8 * u32(first - position));
        for (i32 c = first; c < last; ++c, symbol >>= 8) to[c] = u8(symbol);
      }
      position = after;
    }
    left -= 4;
  }
}

// `chunks` chunks of chunk_chars characters to `out`, one after another; a chunk may be shorter. `bounds`: where they begin, where they
// end, and addresses of the addresses that these count from, an array behind the other. grid: one block a chunk.
extern "C" __global__ void __launch_bounds__(256)
    fsst_sample(const u64* __restrict__ bounds, u64 chunks, u64 chunk_chars, u8* out) {
  const u64 begin = bounds[blockIdx.x], end = bounds[chunks + blockIdx.x];
  const u8* chars = *reinterpret_cast<const u8* const*>(bounds[2 * chunks + blockIdx.x]);
  for (u64 i = begin + threadIdx.x; i < end; i += blockDim.x) out[blockIdx.x * chunk_chars + i - begin] = chars[i];
}
