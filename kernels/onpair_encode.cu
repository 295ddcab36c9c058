// OnPair encode: characters of segments -> codes, greedy: always the longest symbol. Into the same slots as fsst_encode, whose
// text_compact brings them to their places.
//
// Work unit: a warp encodes a bundle of 32 consecutive tiles, one tile a lane. A lane reads its characters in chunks of 16 bytes, two ahead of where
// it stands, and writes its codes to its row in shared memory, then from there to the slot, where the tile before ends. A row has room for half a
// tile less 16 bytes, so that there are more warps. Of a tile whose codes are more, the first parts go where its characters would go in the
// slot; then the warp writes one tile after another, and what it has not read yet lies behind what it writes. Warps take bundles as they
// come: to each the same number, some would have a bundle more than the others, which is half as much again where they have two.
//
// Of few bundles each multiprocessor would have a warp or two, which wait for their look-ups. So there onpair_encode_few has a block for a bundle,
// which looks up the longest symbols of all places; then a warp goes through the tiles.
//
// The longest symbol is found by bisection on its length: is there a symbol that begins with the next 9 bytes? with 5, or 13? with 3, 7, 11
// or 15? with one more, or one less? Each answer is a look-up of a hash in a bucket of two entries. The hash of 5, 9 and 13 bytes is that
// of 4 bytes fewer and a product. Every symbol has entries for those of its prefixes that the bisection meets on the way to it, one of each
// step at most, so a missing entry is a certain no. A found one may be another string's of the same step with the same bits of a hash. So the
// last one that was found is compared with a symbol that has that prefix; if it is another string (once in some 30,000) the lane looks for
// all lengths, the longest first, and compares each.
//
// Some 195 instructions for a symbol of each lane. So whatever a lane may do without a branch, it does. Of a warp's lanes, the one with the
// most symbols has a sixth more than the average.
//
// Measured on one H200, whole calls with a given table: l_comment SF 10 5.2 ms, 1 GB of prose 5.2. Two that lost:
// - 22 warps, so that text_compact has registers beside it: 5.1 and 6.1 ms. (24 warps: 5.5 and 5.8.)
// - a third fewer buckets, so that one in twenty runs over instead of one in seventy: 5.3 and 5.7 ms.
#include "onpair.cuh"
#include "text_compress.cuh"

// Bytes of codes that a row has room for; it has a word more.
#define PART (TILE / 2 - 16)
#define PART_WORDS (PART / 4)
// Of a block at most: where there is not the shared memory for more (encode_shape), some GPUs have not the registers either.
// A table elsewhere takes registers for its addresses.
#if !STAGED || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200)
#define THREADS FEW_ENCODE_THREADS
#else
#define THREADS ENCODE_THREADS
#endif
#define ROW_WORDS (PART_WORDS + 1)
// What a load of characters brings to the L2.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define FETCH ".L2::128B"
#else
#define FETCH ""
#endif

// The next 16 bytes: the first, and the 15 behind it (and one more).
struct Window {
  u32 first;
  u32 words[4];
};

// A lookup, as symbols are looked up in it. In shared memory by addresses of 32 bits, which the compiler would find again for every symbol.
struct LookupParts {
  u32 count;  // buckets
#if STAGED && defined(__CUDA_ARCH__)
  u32 buckets_at, longest_at, symbols_at;

  __device__ __forceinline__ explicit LookupParts(const OnpairLookup* lookup) {
    const u32 at = u32(__cvta_generic_to_shared(lookup->buckets()));
    count = lookup->count;
    buckets_at = keep_in_register(at), longest_at = keep_in_register(at + 8 * count);
    symbols_at = keep_in_register(longest_at + 8 * lookup->codes());
  }
  __device__ __forceinline__ uint2 bucket(u32 number) const {
    uint2 found;
    asm("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(found.x), "=r"(found.y) : "r"(buckets_at + 8 * number));
    return found;
  }
  __device__ __forceinline__ u32 longest(u32 code, u32 level) const {
    u16 found;
    asm("ld.shared.u16 %0, [%1];" : "=h"(found) : "r"(longest_at + (8 * code | 2 * level)));
    return found;
  }
  __device__ __forceinline__ uint4 symbol(u32 code) const {
    uint4 found;
    asm("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(found.x), "=r"(found.y), "=r"(found.z), "=r"(found.w)
        : "r"(symbols_at + 16 * code));
    return found;
  }
#else
  const OnpairLookup* lookup;

  __device__ __forceinline__ explicit LookupParts(const OnpairLookup* lookup) : count(lookup->count), lookup(lookup) {}
  __device__ __forceinline__ uint2 bucket(u32 number) const { return lookup->buckets()[number]; }
  __device__ __forceinline__ u32 longest(u32 code, u32 level) const { return lookup->longest()[4 * code + level]; }
  __device__ __forceinline__ uint4 symbol(u32 code) const { return lookup->symbols()[code]; }
#endif
};

// What was found last.
struct Match {
  u32 entry;  // bits below the level
  u32 level;
  u32 length;  // of its prefix; 1: none
};

// Looks for a prefix of `length` bytes, which is of a level, of which bytes the tile has `left`.
__device__ __forceinline__ bool probe(const LookupParts& in, u32 hash, u32 level, u32 length, u32 left, Match& found) {
  const u32 mixed = hash + length * HASH_LENGTH, wanted = mixed << ENTRY_HASH ^ level << ENTRY_LEVEL;
  u32 at = __umulhi(mixed, in.count);
  uint2 bucket = in.bucket(at);
  u32 entry = min(bucket.x ^ wanted, bucket.y ^ wanted);
  // Others lie behind few buckets.
  while (entry >= 1u << ENTRY_LEVEL && (bucket.x & ENTRY_MORE) != 0) {
    at = at + 1 == in.count ? 0 : at + 1;
    bucket = in.bucket(at);
    entry = min(bucket.x ^ wanted, bucket.y ^ wanted);
  }
  const bool holds = entry < 1u << ENTRY_LEVEL && length <= left;
  found.entry = holds ? entry : found.entry;
  found.level = holds ? level : found.level;
  found.length = holds ? length : found.length;
  return holds;
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
  const LookupParts in(lookup);
  constexpr u32 multipliers[4] = {HASH_1, HASH_2, HASH_3, HASH_4};
  for (u32 length = min(left, 16u); length > 1; --length) {
    u32 hash = w.first * HASH_0;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 bytes = length > 4 * i + 1 ? min(length - 1 - 4 * i, 4u) : 0;
      hash += (bytes == 0 ? 0 : w.words[i] & (~0u >> (32 - 8 * bytes))) * multipliers[i];
    }
    const u32 more = length - 1, level = (more & 1) != 0 ? 3 : (more & 2) != 0 ? 2 : (more & 4) != 0 ? 1 : 0;
    const u32 mixed = hash + length * HASH_LENGTH, wanted = mixed << ENTRY_HASH | level << ENTRY_LEVEL;
    for (u32 at = __umulhi(mixed, in.count);; at = at + 1 == in.count ? 0 : at + 1) {
      const uint2 bucket = in.bucket(at);
      for (u32 i = 0; i < 2; ++i) {
        const u32 entry = (i == 0 ? bucket.x : bucket.y) ^ wanted, longest = in.longest(entry & 4095, level);
        if (entry < 1u << ENTRY_LEVEL && longest >> 12 == more && begins(in.symbol(entry & 4095), w, length))
          return longest;
      }
      if ((bucket.x & ENTRY_MORE) == 0) break;
    }
  }
  return w.first;
}

// The longest symbol that begins a window; code | (length - 1) << 12.
__device__ __forceinline__ u32 find_by_bisection(const OnpairLookup* lookup, const LookupParts& in, const Window& w,
                                                 u32 left) {
  Match found = {0, 0, 1};
  const u32 h0 = w.first * HASH_0, h1 = h0 + w.words[0] * HASH_1, h2 = h1 + w.words[1] * HASH_2,
            h3 = h2 + w.words[2] * HASH_3;
  const bool nine = probe(in, h2, 0, 9, left, found);
  const bool four = probe(in, nine ? h3 : h1, 1, nine ? 13 : 5, left, found);
  const u32 base = nine ? (four ? h3 : h2) : (four ? h1 : h0);
  const u32 word = nine ? (four ? w.words[3] : w.words[2]) : (four ? w.words[1] : w.words[0]);
  const u32 multiplier = nine ? (four ? HASH_4 : HASH_3) : (four ? HASH_2 : HASH_1);
  const u32 before = nine ? (four ? 13 : 9) : (four ? 5 : 1);
  const bool two = probe(in, base + (word & 0xffff) * multiplier, 2, before + 2, left, found);
  probe(in, base + (word & (two ? 0xffffff : 0xff)) * multiplier, 3, before + (two ? 3 : 1), left, found);
  if (found.length == 1) return w.first;
  const u32 longest = in.longest(found.entry & 4095, found.level);
  const uint4 symbol = in.symbol(found.entry & 4095);
  // Another string of this level may have the hash.
  if (u32(longest >> 12 < found.length) & u32(begins(symbol, w, found.length))) return longest;
  return find_by_length(lookup, w.first, w.words[0], w.words[1], w.words[2], w.words[3], left);
}

// Where the characters of a wave's segment begin and end. Read again for every bundle: while symbols are looked up there are no registers for it.
struct Segment {
  u64 begin, end;

  __device__ __forceinline__ explicit Segment(const volatile WaveView& wave) {
    const u64 first_char = *reinterpret_cast<const volatile u64*>(wave.first_char);
    const volatile u64* const bounds = reinterpret_cast<const volatile u64*>(wave.bounds);
    begin = first_char + bounds[0], end = first_char + bounds[1];
  }
};

// The 16 bytes at an address that is a multiple of 16, 0 where they are not the segment's.
__device__ __noinline__ uint4 load_edge(const WaveView* wave, u64 address) {
  const Segment of(*wave);
  return make_uint4(load_word(address, of.begin, of.end), load_word(address + 4, of.begin, of.end),
                    load_word(address + 8, of.begin, of.end), load_word(address + 12, of.begin, of.end));
}

// Loads a chunk where `wanted`, into the registers of `chunk`: else the compiler has it loaded elsewhere, and waits for it to copy it.
__device__ __forceinline__ void load_in_place(bool wanted, u64 address, uint4& chunk) {
#ifdef __CUDA_ARCH__
  asm volatile(
      "{ .reg .pred p;\n"
      "setp.ne.u32 p, %5, 0;\n"
      "@p ld.global.nc" FETCH ".v4.u32 {%0, %1, %2, %3}, [%4]; }"
      : "+r"(chunk.x), "+r"(chunk.y), "+r"(chunk.z), "+r"(chunk.w)
      : "l"(address), "r"(u32(wanted)));
#else
  if (wanted) chunk = load<uint4>(address);
#endif
}

// Where the next word of a lane's row goes; in shared memory by an address of 32 bits.
struct WordPlace {
#ifdef __CUDA_ARCH__
  u32 at;

  __device__ __forceinline__ explicit WordPlace(const u32* row) : at(u32(__cvta_generic_to_shared(row))) {}
  __device__ __forceinline__ void put(u32 word) const {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(word) : "memory");
  }
  __device__ __forceinline__ void step() { at = at + 4; }
  __device__ __forceinline__ u32 behind(const u32* row) const { return (at - u32(__cvta_generic_to_shared(row))) / 4; }
#else
  u32* at;

  explicit WordPlace(u32* row) : at(row) {}
  void put(u32 word) const { *at = word; }
  void step() { ++at; }
  u32 behind(const u32* row) const { return u32(at - row); }
#endif
};

// Encodes the `n` characters at `text` to the lane's row, and of more codes than it has room for the first parts to `before`; returns the bytes
// of codes, or n if the tile is to be stored raw. `parted`: words in `before`. `inner`: all that it reads is the segment's. (What chooses
// between two ways of loading has to wait for what is loaded.)
template <bool inner>
__device__ __forceinline__ u32 encode_tile(const OnpairLookup* lookup, const LookupParts& in, u32* row, u32* before,
                                           u32& parted, u64 text, u32 n, const WaveView* wave) {
  auto load_chunk = [&](u64 address) { return inner ? load<uint4>(address) : load_edge(wave, address); };
  const u32 bits = lookup->bits;
  u64 chunk = text & ~15ull;
  uint4 a = load_chunk(chunk), b = load_chunk(chunk + 16), c = load_chunk(chunk + 32);
  chunk += 48;
  u32 at = u32(text & 15), left = n, pending = 0, fill = 0;
  WordPlace to(row);
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
    const u32 found = find_by_bisection(lookup, in, w, left);
    const u32 length = (found >> 12) + 1, code = found & 4095;
    at += length;
    left -= length;
    const bool passed = at >= 16;
    if (passed) {
      a = b, b = c;
      if (!inner) c = load_edge(wave, chunk);
    }
    if (inner) load_in_place(passed, chunk, c);
    chunk += passed ? 16 : 0;
    at &= 15;
    pending |= code << fill;
    const u32 filled = fill + bits;
    if (filled >= 32) {
      to.put(pending);
      to.step();
      pending = code >> (32 - fill);
    }
    fill = filled & 31;
    if (to.behind(row) == PART_WORDS) {
      if (4 * (parted + PART_WORDS) >= n) return n;  // codes are no fewer than characters
#pragma unroll
      for (u32 i = 0; i < PART_WORDS; i += 4) {
        const uint4 four = make_uint4(row[i], row[i + 1], row[i + 2], row[i + 3]);
        *reinterpret_cast<uint4*>(before + parted + i) = four;
      }
      parted += PART_WORDS;
      to = WordPlace(row);
    }
  }
  const u32 words = to.behind(row);
  if (fill > 0) row[words] = pending;  // a row has a word more than a part
  return min(4 * (parted + words) + (fill + 7) / 8, n);
}

// A word of a lane's codes, of which the first `parted` are in `before`.
__device__ __forceinline__ u32 word_of(const u32* row, const u32* before, u32 parted, u32 i) {
  return i < parted ? before[i] : row[i - parted];
}

// The 4 bytes of a lane's codes from byte `at` on (it may be up to 3 bytes before the first), of which there are `length`.
__device__ __forceinline__ u32 row_word(const u32* row, const u32* before, u32 parted, u64 text, bool raw, int at,
                                        u32 length) {
  u32 word = 0;
  if (raw) {
    for (int i = 0; i < 4; ++i)
      if (at + i >= 0 && at + i < int(length)) word |= u32(reinterpret_cast<const u8*>(text)[at + i]) << (8 * i);
    return word;
  }
  const u32 shift = 8 * u32(at & 3);
  const u32 first = at >= 0 ? u32(at) / 4 : 0;
  const u32 low = at >= 0 ? word_of(row, before, parted, first) : 0;
  // Behind the last byte there may be no word.
  const u32 second = at < 0 ? 0 : first + (shift != 0);
  const u32 high = at < 0 || u32(at) < length ? word_of(row, before, parted, min(second, (length - 1) / 4)) : 0;
  word = __funnelshift_r(low, high, shift);
  const int behind = int(length) - at;
  return behind < 4 ? word & ((1u << (8 * max(behind, 0))) - 1) : word;
}

// Writes the codes of a bundle's tiles, which all lie in rows, back to back: each lane its own. A tile but the segment's last has at least 10
// bytes of codes, so a word has bytes of two tiles at most. The first of them writes it.
__device__ __forceinline__ void write_tiles(const u32* row, u32* slot, u32 start, u32 length) {
  const u32 skip = start & 3, end = skip + length, words = end / 4, rest = 8 * (end & 3);
  const u32 below = __shfl_down_sync(ALL_LANES, length > 0 ? row[0] : 0, 1), next = lane_id() < 31 ? below : 0;
  u32* const to = slot + start / 4;
  u32 low = 0;
#pragma unroll 4
  for (u32 i = 0; i < words; ++i) {
    const u32 high = row[i];
    if (i > 0 || skip == 0) to[i] = __funnelshift_l(low, high, 8 * skip);
    low = high;
  }
  if (rest == 0 || (words == 0 && skip > 0)) return;
  const u32 last = __funnelshift_l(low, 4 * words < length ? row[words] : 0, 8 * skip);
  to[words] = (last & ((1u << rest) - 1)) | next << rest;
}

// The same by all lanes, tile by tile: where some have parts in front of their rows.
__device__ __forceinline__ void write_parts(const u32* rows, u32* slot, u32 parted, u32 start, u32 length) {
#pragma unroll 1
  for (u32 t = 0; t < 32; ++t) {
    const u32 after = min(t + 1, 31u);
    const u32 start_t = __shfl_sync(ALL_LANES, start, t), of_t = __shfl_sync(ALL_LANES, length, t);
    const u32 of_next = __shfl_sync(ALL_LANES, length, after);
    const u32 parted_t = __shfl_sync(ALL_LANES, parted, t), parted_next = __shfl_sync(ALL_LANES, parted, after);
    const u32 skip = start_t & 3, bytes = skip + of_t, words = of_t == 0 ? 0 : (bytes + 3) / 4;
    auto word = [&](u32 of, u32 i) {
      return word_of(rows + of * ROW_WORDS, slot + TILE / 4 * of, of == t ? parted_t : parted_next, i);
    };
#pragma unroll 1
    for (u32 base = 0; base < words; base += 32) {
      const u32 i = base + lane_id();
      u32 value = 0;
      if (i < words) {
        value = __funnelshift_l(i == 0 ? 0 : word(t, i - 1), word(t, i), 8 * skip);
        const u32 bits = 8 * (bytes - 4 * i);
        if (bits < 32) {
          value &= (1u << bits) - 1;
          if (t < 31 && of_next != 0) value |= word(t + 1, 0) << bits;
        }
      }
      __syncwarp();  // what lanes read may lie where others write
      if (i < words && (i > 0 || skip == 0)) slot[start_t / 4 + i] = value;
    }
  }
}

// The same where some tiles are stored raw: a word of the bundle a lane.
template <u32 row_words>
__device__ __forceinline__ void write_mixed(const u32* rows, u32* slot, u32 parted, u64 text, u32 start, u32 length,
                                            u32 n) {
  const u32 total = __shfl_sync(ALL_LANES, start + length, 31);
  for (u32 base = 0; 4 * base < total; base += 32) {
    const u32 word = base + lane_id(), byte = min(4 * word, total - 1);
    u32 t = 0;
#pragma unroll
    for (u32 step = 16; step > 0; step /= 2)
      if (__shfl_sync(ALL_LANES, start, t + step) <= byte) t += step;
    // Tiles behind the last begin where the bundle ends, and are not found.
    const u32 of_t = __shfl_sync(ALL_LANES, length, t), n_t = __shfl_sync(ALL_LANES, n, t);
    const u32 start_t = __shfl_sync(ALL_LANES, start, t);
    const u32 after = min(t + 1, 31u);
    const u32 of_next = __shfl_sync(ALL_LANES, length, after), n_next = __shfl_sync(ALL_LANES, n, after);
    const u32 parted_t = __shfl_sync(ALL_LANES, parted, t), parted_next = __shfl_sync(ALL_LANES, parted, after);
    u32 value = 0;
    if (4 * word < total) {
      const u64 text_t = text + t * TILE;
      value = row_word(rows + t * row_words, slot + TILE / 4 * t, parted_t, text_t, of_t == n_t,
                       int(4 * word - start_t), of_t);
      const u32 behind = start_t + of_t;  // where the next tile begins
      if (behind < 4 * word + 4 && behind < total)
        value |= row_word(rows + (t + 1) * row_words, slot + TILE / 4 * (t + 1), parted_next, text_t + TILE,
                          of_next == n_next, int(4 * word) - int(behind), of_next);
    }
    __syncwarp();  // what lanes read may lie where others write
    if (4 * word < total) slot[word] = value;
  }
}

// What is known of a bundle when its codes are written. `inclusive`: bytes of codes of the tiles up to the lane's.
__device__ __forceinline__ void put_lengths(const WaveView& wave, u32 bundle, u32 inclusive, u32 length, u32 n) {
  if (lane_id() == 31) {
    reinterpret_cast<u32*>(wave.bundle_lengths)[bundle] = inclusive;
    atomicAdd(reinterpret_cast<u64*>(wave.codes_nbytes), u64(inclusive));
  }
  if (n == 0) return;
  const u32 in_wave = 32 * bundle + lane_id();
  if (TILE <= 256)
    reinterpret_cast<u8*>(wave.tile_lengths)[in_wave] = u8(length - 1);
  else
    reinterpret_cast<u16*>(wave.tile_lengths)[in_wave] = u16(length - 1);
}

// grid: x any, y = waves; block: a multiple of 32 threads; shared memory: the lookup if STAGED, `lookup_nbytes` at most (else 0), then
// ROW_WORDS words a thread. Otherwise as fsst_encode_max: WaveView::tables is the address of an OnpairLookup.
extern "C" __global__ void __launch_bounds__(THREADS, 1) onpair_encode(const WaveView* waves, u32 lookup_nbytes) {
  DYNAMIC_SHARED(uint4, shared_memory);
  const WaveView& wave = waves[blockIdx.y];
  const u32 warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = lane_id();
  auto tiles = [&](const Segment& of) {
    return u32(min((of.end - of.begin + TILE - 1) / TILE - wave.tile_begin, wave.tile_limit));
  };
  const u32 bundles = (tiles(Segment(wave)) + 31) / 32;
  if (blockIdx.x >= bundles) return;
  const OnpairLookup* lookup = reinterpret_cast<const OnpairLookup*>(wave.tables);
  if (STAGED) {
    const uint4* from = reinterpret_cast<const uint4*>(lookup);
    const u32 nbytes = min(lookup->nbytes, lookup_nbytes);
    for (u32 i = threadIdx.x; i < nbytes / 16; i += blockDim.x) shared_memory[i] = __ldg(from + i);
    lookup = reinterpret_cast<const OnpairLookup*>(shared_memory);
  }
  __syncthreads();
  const LookupParts in(lookup);
  u32* const row = reinterpret_cast<u32*>(shared_memory) + lookup_nbytes / 4 + threadIdx.x * ROW_WORDS;
  const u32* const rows = row - lane * ROW_WORDS;

  u32 bundle = blockIdx.x + gridDim.x * warp;
  while (bundle < bundles) {
    const u32 in_wave = 32 * bundle + lane;
    u64 text;
    u32 n;
    bool inner;
    {
      const Segment of(wave);
      text = of.begin + (wave.tile_begin + in_wave) * TILE;
      n = in_wave < tiles(of) ? u32(min(of.end - text, u64(TILE))) : 0;
      inner = (text & ~15ull) >= of.begin && text + TILE + 64 <= of.end;
    }
    u32* const slot = reinterpret_cast<u32*>(wave.slot + bundle * u64(32 * TILE));
    u32* const before = slot + TILE / 4 * lane;
    u32 parted = 0;
    u32 length = 0;
    if (__all_sync(ALL_LANES, inner))
      length = encode_tile<true>(lookup, in, row, before, parted, text, n, &wave);
    else if (n > 0)
      length = encode_tile<false>(lookup, in, row, before, parted, text, n, &wave);
    const u32 inclusive = warp_inclusive_sum(length);
    const u32 start = inclusive - length;
    __syncwarp();
    if (__any_sync(ALL_LANES, n > 0 && length == n))
      write_mixed<ROW_WORDS>(rows, slot, parted, text - lane * TILE, start, length, n);
    else if (!__any_sync(ALL_LANES, parted != 0))
      write_tiles(row, slot, start, length);
    else
      write_parts(rows, slot, parted, start, length);
    put_lengths(wave, bundle, inclusive, length, n);
    u32 taken = 0;
    if (lane == 0) taken = u32(atomicAdd(reinterpret_cast<u64*>(wave.taken), 1ull));
    bundle = gridDim.x * warps + __shfl_sync(ALL_LANES, taken, 0);
  }
}

#if STAGED
// A lane's row of onpair_encode_few, and places of a tile: all lanes have other banks.
#define FEW_ROW_WORDS (TILE / 4 + 1)
#define FEW_PLACES (TILE + 2)

// Few bundles, a block each. A lane's row has room for all codes of a tile.
// grid: as onpair_encode; block: ENCODE_FEW_THREADS; shared memory: the lookup, FEW_ROW_WORDS words and FEW_PLACES numbers of 16 bits a tile.
extern "C" __global__ void __launch_bounds__(ENCODE_FEW_THREADS, 1)
    onpair_encode_few(const WaveView* waves, u32 lookup_nbytes) {
  DYNAMIC_SHARED(uint4, shared_memory);
  const WaveView& wave = waves[blockIdx.y];
  const u32 lane = lane_id();
  const Segment of(wave);
  const u32 tiles = u32(min((of.end - of.begin + TILE - 1) / TILE - wave.tile_begin, wave.tile_limit));
  if (32 * blockIdx.x >= tiles) return;
  const OnpairLookup* lookup = reinterpret_cast<const OnpairLookup*>(wave.tables);
  const u32 nbytes = min(lookup->nbytes, lookup_nbytes);
  for (u32 i = threadIdx.x; i < nbytes / 16; i += blockDim.x)
    shared_memory[i] = __ldg(reinterpret_cast<const uint4*>(lookup) + i);
  lookup = reinterpret_cast<const OnpairLookup*>(shared_memory);
  u32* const rows = reinterpret_cast<u32*>(shared_memory) + lookup_nbytes / 4;
  u16* const found = reinterpret_cast<u16*>(rows + 32 * FEW_ROW_WORDS);
  __syncthreads();
  const LookupParts in(lookup);
  for (u32 bundle = blockIdx.x; 32 * bundle < tiles; bundle += gridDim.x) {
    const u64 text = of.begin + (wave.tile_begin + 32 * bundle) * TILE;
    const u32 size = u32(min(of.end - text, u64(min(tiles - 32 * bundle, 32u) * TILE)));
    const bool inner = (text & ~3ull) >= of.begin && text + 32 * TILE + 20 <= of.end;
#pragma unroll 1
    for (u32 at = threadIdx.x; at < size; at += blockDim.x) {
      const u64 from = (text + at) & ~3ull;
      const u32 by = 8 * u32((text + at) & 3), in_tile = at % TILE;
      u32 y[5];
#pragma unroll
      for (u32 i = 0; i < 5; ++i) y[i] = inner ? load<u32>(from + 4 * i) : load_word(from + 4 * i, of.begin, of.end);
      Window w;
      w.first = y[0] >> by & 255;
#pragma unroll
      for (u32 i = 0; i < 4; ++i) w.words[i] = __funnelshift_rc(y[i], y[i + 1], by + 8);
      const u32 left = min(size - at, TILE - in_tile);
      found[at / TILE * FEW_PLACES + in_tile] = u16(find_by_bisection(lookup, in, w, left));
    }
    __syncthreads();
    if (threadIdx.x < 32) {
      const u32 n = lane * TILE < size ? min(size - lane * TILE, u32(TILE)) : 0, bits = lookup->bits;
      const u16* const of_tile = found + lane * FEW_PLACES;
      u32* const row = rows + lane * FEW_ROW_WORDS;
      u32 words = 0, pending = 0, fill = 0;
      // A tile whose codes are no fewer than its characters is stored raw.
      for (u32 at = 0; at < n && 4 * words < n;) {
        const u32 one = of_tile[at], code = one & 4095;
        at += (one >> 12) + 1;
        pending |= code << fill;
        const u32 filled = fill + bits;
        if (filled >= 32) {
          row[words++] = pending;
          pending = code >> (32 - fill);
        }
        fill = filled & 31;
      }
      if (fill > 0) row[words] = pending;
      const u32 length = min(4 * words + (fill + 7) / 8, n), inclusive = warp_inclusive_sum(length);
      u32* const slot = reinterpret_cast<u32*>(wave.slot + bundle * u64(32 * TILE));
      __syncwarp();
      if (__any_sync(ALL_LANES, n > 0 && length == n))
        write_mixed<FEW_ROW_WORDS>(rows, slot, 0, text, inclusive - length, length, n);
      else
        write_tiles(row, slot, inclusive - length, length);
      put_lengths(wave, bundle, inclusive, length, n);
    }
    __syncthreads();
  }
}
#endif
