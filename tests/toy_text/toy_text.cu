// The toy codec of text: a thread decodes a tile, and encodes one.
#include "text_compress.cuh"
#include "text_tiles.cuh"

// block: any number of threads. grid: as fsst_decode.
extern "C" __global__ void toy_decode(const SegmentView* segments, const u32* first_units, u32 segment_count, u32,
                                      u32 bundles) {
  const u32 k = find_unit(first_units, segment_count, blockIdx.x);
  const SegmentView& s = segments[k];
  const u32 plus = *reinterpret_cast<const u32*>(s.table);
  const u64 tiles = (s.chars + TILE - 1) / TILE;
  const u64 first =
      s.char_begin / TILE / TILE_BLOCK * TILE_BLOCK + u64(blockIdx.x - first_units[k]) * blockDim.x * bundles;
  for (u32 i = threadIdx.x; i < blockDim.x * bundles; i += blockDim.x) {
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

// Writes the codes of a tile, where there is a place to write; how many they are. Of `n` or more none is wanted.
__device__ __forceinline__ u32 toy_codes(const u8* text, u32 n, u32 plus, u8* to) {
  u32 length = 0;
  for (u32 i = 0; i < n && length < n; ++i) {
    const u32 byte = text[i];
    const bool coded = byte < 127, two = coded && i + 1 < n && text[i + 1] == byte;
    if (to != nullptr) to[length] = coded ? u8(byte + plus + (two ? 128 : 0)) : 0;
    if (to != nullptr && !coded) to[length + 1] = u8(byte);
    i += two;
    length += coded ? 1 : 2;
  }
  return min(length, n);
}

// A warp encodes a bundle of 32 tiles, back to back into its place. grid: x any, y = waves; block: any number of warps.
extern "C" __global__ void toy_encode(const WaveView* waves) {
  const WaveView& wave = waves[blockIdx.y];
  const u32 lane = lane_id(), warps = blockDim.x / 32, plus = *reinterpret_cast<const u32*>(wave.tables);
  const u64 first_char = *reinterpret_cast<const u64*>(wave.first_char);
  const u64* const bounds = reinterpret_cast<const u64*>(wave.bounds);
  const u64 chars = bounds[1] - bounds[0];
  const u64 tiles = min((chars + TILE - 1) / TILE - wave.tile_begin, wave.tile_limit);
  for (u64 bundle = blockIdx.x * warps + threadIdx.x / 32; 32 * bundle < tiles; bundle += gridDim.x * warps) {
    const u64 tile = 32 * bundle + lane, begin = (wave.tile_begin + tile) * TILE;
    const u32 n = tile < tiles ? u32(min(chars - begin, u64(TILE))) : 0;
    const u8* const text = reinterpret_cast<const u8*>(first_char + bounds[0] + begin);
    const u32 length = toy_codes(text, n, plus, nullptr), inclusive = warp_inclusive_sum(length);
    u8* const to = reinterpret_cast<u8*>(wave.slot + bundle * (32 * TILE) + (inclusive - length));
    if (length < n)
      toy_codes(text, n, plus, to);
    else
      for (u32 i = 0; i < n; ++i) to[i] = text[i];
    if (lane == 31) {
      reinterpret_cast<u32*>(wave.bundle_lengths)[bundle] = inclusive;
      atomicAdd(reinterpret_cast<u64*>(wave.codes_nbytes), u64(inclusive));
    }
    if (n > 0 && TILE <= 256) reinterpret_cast<u8*>(wave.tile_lengths)[tile] = u8(length - 1);
    if (n > 0 && TILE > 256) reinterpret_cast<u16*>(wave.tile_lengths)[tile] = u16(length - 1);
  }
}

// Trains tables, one a thread: what the encoder reads, and what the host makes a table of.
extern "C" __global__ void toy_train(uint4* lookup, u8* exported, u32 scopes) {
  for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < scopes; i += gridDim.x * blockDim.x) {
    lookup[i] = make_uint4(1, 0, 0, 0);
    exported[i] = 1;
  }
}
