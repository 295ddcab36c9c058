// FSST encode for level "max": characters of segments -> the fewest codes, into the same slots as fsst_encode, whose
// text_compact brings them to their places.
//
// Work unit: a warp encodes a *bundle* of 32 consecutive tiles, one tile a lane, in two passes:
//
// 1. from the tile's end to its start: the automaton of the reversed symbols (cudf_fsst/codecs/fsst/automaton.py) says which
//    symbols begin at each place, and the cheapest of them, or an escape, is noted for it, a byte, in the lane's row of shared
//    memory. Rows lie an odd number of words apart, so lanes in lockstep hit 32 different banks.
// 2. from start to end, along the noted codes. How many there are is known from pass 1, so every lane knows where its codes lie in
//    the bundle's slot, and writes them there a word at a time; the first and last bytes, whose words it shares with the lanes
//    beside it, one by one.
//
// A *key* of a place is `cost << COST_SHIFT | (8 - length) << 8 | code`, cost being the codes from there to the tile's end: the
// smallest key is the fewest codes and, of these, the longest symbol. An entry of a state holds the key's lower bits for each
// length. Where no symbol has that length it is NO_MATCH, 31.99 codes: places eight bytes apart differ by 16 at most, so that loses
// against the escape, and needs no test. Keys of places behind the tile's end are never used but with NO_MATCH.
//
// Bounds: a tile whose codes are no fewer than its bytes is stored raw, so a bundle's codes fit its slot of 32 * TILE bytes.
#include "text_compress.cuh"

#define ROW_WORDS (TILE / 4 + 1)
#define COST_UNIT (1u << COST_SHIFT)

// What the host uploads (cudf_fsst/codecs/fsst/kernel_tables.py, max_tables): then `states` entries of 8 u16, one for each length, then
// `states` rows of `classes` u16: state, class of the byte before -> state. As much of it lies in shared memory as WaveView::staged says.
struct MaxTables {
  u32 states, classes, unused[2];
  u8 lengths[256];   // of a code's symbol; 1 for the escape
  u8 class_of[256];  // of a byte
};

// Notes a code for each of the `n` places of the tile at `text`, the last first; returns the number of code bytes.
__device__ __forceinline__ u32 choose(u32* row, u64 text, u32 n, const u8* class_of, u32 classes, const uint4* entries,
                                      const u16* following, u64 begin, u64 end) {
  // keys[k]: of the place k + 1 bytes behind, one code more, without the lower bits.
  u32 keys[8];
#pragma unroll
  for (u32 k = 0; k < 8; ++k) keys[k] = COST_UNIT;
  const u64 aligned = text & ~3ull;
  const u32 shift = 8 * u32(text & 3);
  const u32 words = (n + 3) / 4;
  u32 state = 0;
  u32 high = load_word(aligned + 4 * words, begin, end);
  u32 low = words > 0 ? load_word(aligned + 4 * words - 4, begin, end) : 0;
  for (u32 w = words; w-- > 0;) {
    const u32 ahead = w > 0 ? load_word(aligned + 4 * w - 4, begin, end) : 0;  // under way before it is needed
    const u32 bytes = __funnelshift_r(low, high, shift);
    high = low;
    low = ahead;
    u32 codes = 0;
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      const bool inside = 4 * w + i < n;
      const u32 next = following[state * classes + class_of[bytes >> (8 * i) & 255]];
      state = inside ? next : 0;
      const uint4 e = entries[state];
      // keys[0], which the step before has just made, comes last.
      u32 key = min(keys[7] + (e.w >> 16), keys[6] + (e.w & 0xffff));
      key = min(key, min(keys[5] + (e.z >> 16), keys[4] + (e.z & 0xffff)));
      key = min(key, min(keys[3] + (e.y >> 16), keys[2] + (e.y & 0xffff)));
      key = min(key, keys[1] + (e.x >> 16));
      key = min(key, keys[0] + min(e.x & 0xffff, 2 * COST_UNIT - 1));  // an escape: the last of all keys of its cost
#pragma unroll
      for (u32 k = 7; k > 0; --k) keys[k] = keys[k - 1];
      keys[0] = inside ? (key & ~(COST_UNIT - 1)) + COST_UNIT : COST_UNIT;
      codes = codes << 8 | (key & 255);
    }
    row[w] = codes;
  }
  return (keys[0] >> COST_SHIFT) - 1;
}

// Writes bytes one after another; whole words where none of their bytes is another lane's.
struct ByteWriter {
  u8* at;    // of the next byte
  u32 word;  // the bytes since the last multiple of 4, at their places
  u32 mine;  // how many of these are the lane's own

  __device__ __forceinline__ void put(u32 byte) {
    word |= byte << (8 * u32(reinterpret_cast<u64>(at) & 3));
    ++at;
    ++mine;
    if ((reinterpret_cast<u64>(at) & 3) == 0) {
      if (mine == 4)
        *reinterpret_cast<u32*>(at - 4) = word;
      else
        flush(4);
      word = mine = 0;
    }
  }

  // Writes the lane's own bytes, which end with byte `fill` of the word.
  __device__ __forceinline__ void flush(u32 fill) {
    for (u32 i = 1; i <= mine; ++i) *(at - i) = u8(word >> (8 * (fill - i)));
  }
};

// grid: x any, y = waves; block: a multiple of 32 threads; shared memory: `staged` bytes of the tables (a multiple of 16: all of them,
// or just the MaxTables), then ROW_WORDS words a thread. Otherwise as fsst_encode.
extern "C" __global__ void __launch_bounds__(ENCODE_MAX_THREADS, 1) fsst_encode_max(const WaveView* waves) {
  DYNAMIC_SHARED(uint4, shared_memory);
  const WaveView& wave = waves[blockIdx.y];
  const u32 warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = lane_id(), staged = u32(wave.staged);
  const u8* tables = reinterpret_cast<const u8*>(wave.tables);
  const u64 first_char = *reinterpret_cast<const u64*>(wave.first_char);
  const u64 begin = first_char + reinterpret_cast<const u64*>(wave.bounds)[0];
  const u64 end = first_char + reinterpret_cast<const u64*>(wave.bounds)[1];
  const u64 tile_begin = wave.tile_begin,
            tile_count = min((end - begin + TILE - 1) / TILE - tile_begin, wave.tile_limit);
  const u64 bundles = (tile_count + 31) / 32;
  if (blockIdx.x >= bundles) return;
  u8* const slots = reinterpret_cast<u8*>(wave.slot);
  for (u32 i = threadIdx.x; i < staged / sizeof(uint4); i += blockDim.x)
    shared_memory[i] = __ldg(reinterpret_cast<const uint4*>(tables) + i);
  __syncthreads();

  const MaxTables* header = reinterpret_cast<const MaxTables*>(shared_memory);
  const u8* body = staged > sizeof(MaxTables) ? reinterpret_cast<const u8*>(shared_memory) : tables;
  const uint4* entries = reinterpret_cast<const uint4*>(body + sizeof(MaxTables));
  const u16* following = reinterpret_cast<const u16*>(entries + header->states);
  u32* row = reinterpret_cast<u32*>(shared_memory) + staged / 4 + threadIdx.x * ROW_WORDS;
  const u8* chosen = reinterpret_cast<const u8*>(row);

  for (u64 bundle = blockIdx.x + u64(gridDim.x) * warp; bundle < bundles; bundle += u64(gridDim.x) * warps) {
    const u64 tile = tile_begin + 32 * bundle + lane;
    const bool wanted = 32 * bundle + lane < tile_count;
    const u8* text = reinterpret_cast<const u8*>(begin + tile * TILE);
    const u32 n = wanted ? u32(min(end - begin - tile * TILE, u64(TILE))) : 0;
    u32 length =
        choose(row, reinterpret_cast<u64>(text), n, header->class_of, header->classes, entries, following, begin, end);
    const bool raw = length >= n;
    if (raw) length = n;

    const u32 inclusive = warp_inclusive_sum(length);
    ByteWriter writer = {slots + bundle * (32 * TILE) + (inclusive - length), 0, 0};
    for (u32 i = 0; i < n;) {
      const u32 code = raw ? text[i] : chosen[i];
      writer.put(code);
      if (!raw && code == 255) writer.put(text[i]);
      i += raw ? 1 : header->lengths[code];
    }
    writer.flush(u32(reinterpret_cast<u64>(writer.at) & 3));

    if (lane == 31) {
      reinterpret_cast<u32*>(wave.bundle_lengths)[bundle] = inclusive;
      atomicAdd(reinterpret_cast<u64*>(wave.codes_nbytes), u64(inclusive));
    }
    if (n > 0) {
      const u64 of_wave = tile - tile_begin;
      if (TILE <= 256)
        reinterpret_cast<u8*>(wave.tile_lengths)[of_wave] = u8(length - 1);
      else
        reinterpret_cast<u16*>(wave.tile_lengths)[of_wave] = u16(length - 1);
    }
  }
}
