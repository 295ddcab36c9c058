// OnPair encode: characters of segments -> codes, greedy: always the longest symbol. Into the same slots as fsst_encode, whose
// text_compact brings them to their places.
//
// Work unit: a warp encodes a piece of 32 consecutive tiles, one tile a lane. A lane reads its characters in chunks of 16 bytes, two ahead of where
// it stands, and writes its codes to its row in shared memory; then the warp writes the 32 rows back to back into the slot. A row has room for
// half a tile, so that there are more warps: a tile whose codes are more has their first half where its characters would go in the slot.
// What is written before these are read lies in front of them. Warps take pieces as they come: to each the same number, some would
// have a piece more than the others, which is half as much again where they have two.
//
// The longest symbol is found by bisection on its length: is there a symbol that begins with the next 9 bytes? with 5, or 13? with 3, 7, 11
// or 15? with one more, or one less? Each answer is a look-up of a hash in a bucket of two entries. The hash of 5, 9 and 13 bytes is that
// of 4 bytes fewer and a product. Every symbol has entries for those of its prefixes that the bisection meets on the way to it, so a missing
// entry is a certain no. A found one may be another string's with the same bits of a hash. So the last one that was found is compared
// with a symbol that begins with that prefix; if it is another string (once in some 100,000) the lane looks for all lengths, the longest
// first, and compares each.
#include "onpair.cuh"
#include "text_compress.cuh"

#define HALF (TILE / 2)
// Of a block at most: where there is not the shared memory for more (encode_shape), some GPUs have not the registers either.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
#define THREADS FEW_ENCODE_THREADS
#else
#define THREADS ENCODE_THREADS
#endif
#define ROW_WORDS (HALF / 4 + 1)

// The next 16 bytes: the first, and the 15 behind it (and one more).
struct Window {
  u32 first;
  u32 words[4];
};

// What was found last.
struct Match {
  u32 slot;    // entry
  u32 entry;   // its bits
  u32 length;  // of its prefix; 1: none
};

// Looks for a prefix of `length` bytes, of which the tile has `left`.
__device__ __forceinline__ bool probe(const uint2* buckets, u32 shift, u32 mask, u32 hash, u32 length, u32 left,
                                      Match& found) {
  if (length > left) return false;
  const u32 mixed = hash + length * HASH_LENGTH, wanted = mixed << 13;
  for (u32 at = mixed >> shift;; at = (at + 1) & mask) {
    const uint2 bucket = buckets[at];
    const bool one = (bucket.x ^ wanted) < (1u << 13), two = (bucket.y ^ wanted) < (1u << 13);
    if (one || two) {
      found.slot = 2 * at + (one ? 0 : 1);
      found.entry = one ? bucket.x : bucket.y;
      found.length = length;
      return true;
    }
    if ((bucket.x & (1u << 12)) == 0) return false;
  }
}

// Whether the window begins with the first `length` bytes of a symbol.
__device__ __forceinline__ bool begins(const uint4& symbol, const Window& w, u32 length) {
  const int bits = 8 * (int(length) - 1);
  const u32 differ = shift_left(symbol.x ^ w.words[0], u32(max(32 - bits, 0))) |
                     shift_left(symbol.y ^ w.words[1], u32(max(64 - bits, 0))) |
                     shift_left(symbol.z ^ w.words[2], u32(max(96 - bits, 0))) |
                     shift_left(symbol.w ^ w.words[3], u32(max(128 - bits, 0))) | ((symbol.w >> 24) ^ w.first);
  return differ == 0;
}

// The longest symbol, by all lengths; code | (length - 1) << 12.
__device__ __noinline__ u32 find_by_length(const OnpairLookup* lookup, u32 first, u32 word_0, u32 word_1, u32 word_2,
                                           u32 word_3, u32 left) {
  const Window w = {first, {word_0, word_1, word_2, word_3}};
  const uint2* const buckets = lookup->buckets();
  const uint4* const symbols = lookup->symbols();
  const u32 shift = lookup->shift, mask = lookup->mask;
  constexpr u32 multipliers[4] = {HASH_1, HASH_2, HASH_3, HASH_4};
  for (u32 length = min(left, 16u); length > 1; --length) {
    u32 hash = w.first * HASH_0;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 bytes = length > 4 * i + 1 ? min(length - 1 - 4 * i, 4u) : 0;
      hash += (bytes == 0 ? 0 : w.words[i] & (~0u >> (32 - 8 * bytes))) * multipliers[i];
    }
    const u32 mixed = hash + length * HASH_LENGTH, wanted = mixed << 13;
    for (u32 at = mixed >> shift;; at = (at + 1) & mask) {
      const uint2 bucket = buckets[at];
      for (u32 i = 0; i < 2; ++i) {
        const u32 entry = i == 0 ? bucket.x : bucket.y;
        const u32 longest = lookup->longest()[2 * at + i];
        if ((entry ^ wanted) < (1u << 13) && (longest >> 12) + 1 == length && begins(symbols[entry & 4095], w, length))
          return longest;
      }
      if ((bucket.x & (1u << 12)) == 0) break;
    }
  }
  return w.first;
}

// The longest symbol that begins a window; code | (length - 1) << 12.
__device__ __forceinline__ u32 find_by_bisection(const OnpairLookup* lookup, const Window& w, u32 left, u32 shift,
                                                 u32 mask) {
  const uint2* const buckets = lookup->buckets();
  Match found = {0, 0, 1};
  const u32 h0 = w.first * HASH_0, h1 = h0 + w.words[0] * HASH_1, h2 = h1 + w.words[1] * HASH_2,
            h3 = h2 + w.words[2] * HASH_3;
  const bool nine = probe(buckets, shift, mask, h2, 9, left, found);
  const bool four = probe(buckets, shift, mask, nine ? h3 : h1, nine ? 13 : 5, left, found);
  const u32 base = nine ? (four ? h3 : h2) : (four ? h1 : h0);
  const u32 word = nine ? (four ? w.words[3] : w.words[2]) : (four ? w.words[1] : w.words[0]);
  const u32 multiplier = nine ? (four ? HASH_4 : HASH_3) : (four ? HASH_2 : HASH_1);
  const u32 before = nine ? (four ? 13 : 9) : (four ? 5 : 1);
  const bool two = probe(buckets, shift, mask, base + (word & 0xffff) * multiplier, before + 2, left, found);
  probe(buckets, shift, mask, base + (word & (two ? 0xffffff : 0xff)) * multiplier, before + (two ? 3 : 1), left,
        found);
  if (found.length == 1) return w.first;
  const u32 longest = lookup->longest()[found.slot];
  if (begins(lookup->symbols()[found.entry & 4095], w, found.length)) return longest;
  return find_by_length(lookup, w.first, w.words[0], w.words[1], w.words[2], w.words[3], left);
}

// The 16 bytes at an address that is a multiple of 16, 0 where they are outside [begin, end).
__device__ __forceinline__ uint4 load_chunk(u64 address, u64 begin, u64 end) {
  if (address >= begin && address + 16 <= end) return __ldg(reinterpret_cast<const uint4*>(address));
  return make_uint4(load_word(address, begin, end), load_word(address + 4, begin, end),
                    load_word(address + 8, begin, end), load_word(address + 12, begin, end));
}

// Encodes the `n` characters at `text` to the lane's row, and the first half of a tile's size to `before` if they are more; returns the bytes of
// codes, or n if the tile is to be stored raw.
__device__ __forceinline__ u32 encode_tile(const OnpairLookup* lookup, u32* row, u32* before, bool& divided, u64 text,
                                           u32 n, u64 begin, u64 end) {
  const u32 bits = lookup->bits, shift = lookup->shift, mask = lookup->mask;
  u64 chunk = text & ~15ull;
  uint4 a = load_chunk(chunk, begin, end), b = load_chunk(chunk + 16, begin, end),
        c = load_chunk(chunk + 32, begin, end);
  chunk += 48;
  u32 at = u32(text & 15), left = n, pending = 0, fill = 0, count = 0;
  u32* out = row;
  while (left > 0) {
    Window w;
    {
      const u32 v[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
      u32 x[6], y[5];
#pragma unroll
      for (u32 i = 0; i < 6; ++i) x[i] = at & 8 ? v[i + 2] : v[i];
#pragma unroll
      for (u32 i = 0; i < 5; ++i) y[i] = at & 4 ? x[i + 1] : x[i];
      const u32 by = 8 * (at & 3);
      w.first = y[0] >> by & 255;
#pragma unroll
      for (u32 i = 0; i < 4; ++i) w.words[i] = __funnelshift_rc(y[i], y[i + 1], by + 8);
    }
    const u32 found = find_by_bisection(lookup, w, left, shift, mask);
    const u32 length = (found >> 12) + 1, code = found & 4095;
    at += length;
    left -= length;
    if (at >= 16) {
      a = b, b = c;
      c = load_chunk(chunk, begin, end);
      chunk += 16;
      at -= 16;
    }
    pending |= code << fill;
    fill += bits;
    ++count;
    if (fill >= 32) {
      if (4 * u32(out - row) + (divided ? HALF : 0) + 4 >= n) return n;  // codes fill all that the tile has
      *out++ = pending;
      if (out == row + HALF / 4) {
#pragma unroll 1
        for (u32 i = 0; i < HALF / 4; ++i) before[i] = row[i];
        divided = true;
        out = row;
      }
      fill -= 32;
      pending = fill == 0 ? 0 : code >> (bits - fill);
    }
  }
  if (fill > 0) *out = pending;  // a row has a word more than a tile
  return min((count * bits + 7) / 8, n);
}

// A word of a lane's codes: `before` has the first half of a tile's size, if it is `divided`.
__device__ __forceinline__ u32 word_of(const u32* row, const u32* before, bool divided, u32 i) {
  if (!divided) return row[i];
  return i < HALF / 4 ? before[i] : row[i - HALF / 4];
}

// The 4 bytes of a lane's codes from byte `at` on (it may be up to 3 bytes before the first), of which there are `length`.
__device__ __forceinline__ u32 row_word(const u32* row, const u32* before, bool divided, u64 text, bool raw, int at,
                                        u32 length) {
  u32 word = 0;
  if (raw) {
    for (int i = 0; i < 4; ++i)
      if (at + i >= 0 && at + i < int(length)) word |= u32(reinterpret_cast<const u8*>(text)[at + i]) << (8 * i);
    return word;
  }
  const u32 shift = 8 * u32(at & 3);
  const u32 first = at >= 0 ? u32(at) / 4 : 0;
  const u32 low = at >= 0 ? word_of(row, before, divided, first) : 0;
  // Behind the last byte there may be no word.
  const u32 second = at < 0 ? 0 : first + (shift != 0);
  const u32 high = at < 0 || u32(at) < length ? word_of(row, before, divided, min(second, (length - 1) / 4)) : 0;
  word = __funnelshift_r(low, high, shift);
  const int behind = int(length) - at;
  return behind < 4 ? word & ((1u << (8 * max(behind, 0))) - 1) : word;
}

// grid: x any, y = waves; block: a multiple of 32 threads; shared memory: the lookup if STAGED, `lookup_nbytes` at most (else 0), then
// ROW_WORDS words a thread. Otherwise as fsst_encode_max: WaveView::tables is the address of an OnpairLookup.
extern "C" __global__ void __launch_bounds__(THREADS, 1) onpair_encode(const WaveView* waves, u32 lookup_nbytes) {
  DYNAMIC_SHARED(uint4, shared_memory);
  const WaveView& wave = waves[blockIdx.y];
  const u32 warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = lane_id();
  const u64 first_char = *reinterpret_cast<const u64*>(wave.first_char);
  const u64 begin = first_char + reinterpret_cast<const u64*>(wave.bounds)[0];
  const u64 end = first_char + reinterpret_cast<const u64*>(wave.bounds)[1];
  const u64 tile_begin = wave.tile_begin,
            tile_count = min((end - begin + TILE - 1) / TILE - tile_begin, wave.tile_limit);
  const u64 pieces = (tile_count + 31) / 32;
  if (blockIdx.x >= pieces) return;
  const OnpairLookup* lookup = reinterpret_cast<const OnpairLookup*>(wave.tables);
  if (STAGED) {
    const uint4* from = reinterpret_cast<const uint4*>(lookup);
    const u32 nbytes = min(lookup->nbytes, lookup_nbytes);
    for (u32 i = threadIdx.x; i < nbytes / 16; i += blockDim.x) shared_memory[i] = __ldg(from + i);
    lookup = reinterpret_cast<const OnpairLookup*>(shared_memory);
  }
  __syncthreads();
  u32* const row = reinterpret_cast<u32*>(shared_memory) + lookup_nbytes / 4 + threadIdx.x * ROW_WORDS;
  const u32* const rows = row - lane * ROW_WORDS;

  u64 piece = blockIdx.x + u64(gridDim.x) * warp;
  while (piece < pieces) {
    const u64 in_wave = 32 * piece + lane, tile = tile_begin + in_wave;
    const u64 text = begin + tile * TILE;
    const u32 n = in_wave < tile_count ? u32(min(end - text, u64(TILE))) : 0;
    u32* const slot = reinterpret_cast<u32*>(wave.slot + piece * (32 * TILE));
    bool divided = false;
    const u32 length = n > 0 ? encode_tile(lookup, row, slot + TILE / 4 * lane, divided, text, n, begin, end) : 0;
    const u32 in_halves = __ballot_sync(ALL_LANES, divided);
    const u32 inclusive = warp_inclusive_sum(length), total = __shfl_sync(ALL_LANES, inclusive, 31);
    const u32 start = inclusive - length;
    __syncwarp();
    // A word of the piece a lane. A tile but the segment's last has at least 10 bytes of codes, so a word has bytes of two tiles at most.
    for (u32 base = 0; 4 * base < total; base += 32) {
      const u32 word = base + lane, byte = min(4 * word, total - 1);
      u32 t = 0;
#pragma unroll
      for (u32 step = 16; step > 0; step /= 2)
        if (__shfl_sync(ALL_LANES, start, t + step) <= byte) t += step;
      // Tiles behind the last begin where the piece ends, and are not found.
      const u32 of_t = __shfl_sync(ALL_LANES, length, t), n_t = __shfl_sync(ALL_LANES, n, t);
      const u32 start_t = __shfl_sync(ALL_LANES, start, t);
      const u32 after = min(t + 1, 31u);
      const u32 of_next = __shfl_sync(ALL_LANES, length, after), n_next = __shfl_sync(ALL_LANES, n, after);
      u32 value = 0;
      if (4 * word < total) {
        const u64 text_t = begin + (tile_begin + 32 * piece + t) * TILE;
        value = row_word(rows + t * ROW_WORDS, slot + TILE / 4 * t, (in_halves >> t & 1) != 0, text_t, of_t == n_t,
                         int(4 * word - start_t), of_t);
        const u32 behind = start_t + of_t;  // where the next tile begins
        if (behind < 4 * word + 4 && behind < total)
          value |= row_word(rows + (t + 1) * ROW_WORDS, slot + TILE / 4 * (t + 1), (in_halves >> (t + 1) & 1) != 0,
                            text_t + TILE, of_next == n_next, int(4 * word) - int(behind), of_next);
      }
      __syncwarp();  // what lanes read may lie where others write
      if (4 * word < total) slot[word] = value;
    }
    if (lane == 31) {
      reinterpret_cast<u32*>(wave.piece_lengths)[piece] = inclusive;
      atomicAdd(reinterpret_cast<u64*>(wave.codes_nbytes), u64(inclusive));
    }
    if (n > 0) {
      if (TILE <= 256)
        reinterpret_cast<u8*>(wave.tile_lengths)[in_wave] = u8(length - 1);
      else
        reinterpret_cast<u16*>(wave.tile_lengths)[in_wave] = u16(length - 1);
    }
    u64 taken = 0;
    if (lane == 0) taken = atomicAdd(reinterpret_cast<u64*>(wave.taken), 1ull);
    piece = u64(gridDim.x) * warps + __shfl_sync(ALL_LANES, taken, 0);
  }
}
