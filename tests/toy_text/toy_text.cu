// The toy codec of text: a thread decodes a tile.
#include "text_tiles.cuh"

// block: any number of threads. grid: as fsst_decode.
extern "C" __global__ void toy_decode(const SegmentView* segments, const u32* first_units, u32 segment_count, u32,
                                      u32 pieces) {
  const u32 k = find_unit(first_units, segment_count, blockIdx.x);
  const SegmentView& s = segments[k];
  const u32 plus = *reinterpret_cast<const u32*>(s.table);
  const u64 tiles = (s.chars + TILE - 1) / TILE;
  const u64 first =
      s.char_begin / TILE / TILE_BLOCK * TILE_BLOCK + u64(blockIdx.x - first_units[k]) * blockDim.x * pieces;
  for (u32 i = threadIdx.x; i < blockDim.x * pieces; i += blockDim.x) {
    const u64 tile = first + i, begin = tile * TILE;
    if (tile >= tiles || begin >= s.char_end) return;
    const u64 end = min(begin + TILE, s.chars);
    u64 at = reinterpret_cast<const u64*>(s.block_starts)[tile / TILE_BLOCK];
    for (u64 before = tile / TILE_BLOCK * TILE_BLOCK; before < tile; ++before) at += length_of_tile(s, before, tiles);
    u64 stop = at + length_of_tile(s, tile, tiles);
    if (stop > s.codes_nbytes || at > stop) at = stop = 0;
    const bool raw = stop - at == end - begin;
    const u8* const codes = reinterpret_cast<const u8*>(s.codes);
    u8* const to = reinterpret_cast<u8*>(s.chars_to + s.out_char - s.char_begin);
    for (u64 c = begin; c < end;) {
      u32 byte = 0, count = 1;
      if (at < stop) {
        const u32 code = codes[at++];
        count = !raw && code > 128 ? 2 : 1;
        byte = raw ? code : code != 0 ? (code & 127) - plus : at < stop ? codes[at++] : 0;
      }
      for (; count > 0 && c < end; --count, ++c)
        if (c >= s.char_begin && c < s.char_end) to[c] = u8(byte);
    }
  }
}
