// FSST values: which rows are one of some values, without a search: by their lengths first, then by their bytes.
//
// Work unit: a warp looks at one row block after another, a lane at eight neighbouring rows. Rows that are as long as a value are candidates, and,
// behind a search (fsst_search.cu) for the values' ends, only those at whose last byte a match ends. Candidates wait in shared memory
// until there are 32, so that every lane decodes one: it steps over the codes before the row, hashes the row's first eight bytes, and if a
// value may begin so, all of them, looks the hash up among those of the values, and compares.
//
// Invariant: whatever the codes and row lengths, nothing outside the codes is read: a row that its segment does not have room for is no candidate.
#include "fsst_tile_codes.cuh"
#include "row_lengths.cuh"
#include "text_match.cuh"

// Thread blocks on a multiprocessor: as many as give the code so many registers that nothing is spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define VALUES_BLOCKS 4
#else
#define VALUES_BLOCKS 3
#endif

// Candidates of a warp: 31 that wait, and 32 more.
#define WAITING 64

// What rows are compared with (cudf_fsst/codecs/text/values.py). Behind it, for each of `count` values: keys, hashes, ascending; bytes of
// the value; where its bytes begin, in words from here. The bytes are padded with zeros to whole words.
struct Values {
  u64 count;
  u64 lengths[VALUES_LONGEST / 64 + 1];  // bit n: a value has n bytes
  u64 beginnings[64];                    // a bit for the hash of each value's length and first eight bytes

  __device__ __forceinline__ bool may_begin(u64 hash) const { return beginnings[hash >> 58] >> (hash >> 52 & 63) & 1; }
  __device__ __forceinline__ const u64* words() const { return reinterpret_cast<const u64*>(this); }
  __device__ __forceinline__ const u64* keys() const { return words() + sizeof(Values) / 8; }
};

// Bytes of the entries of a DecodeTable, which are looked up faster than the entries.
struct EntryBytes {
  u8 bytes[512];
};

struct Waiting {
  u64 starts[WAITING];  // of the rows, in their segment
  u64 rows[WAITING];    // of the column
  u32 lengths[WAITING];
};

// The bytes of a row, one chunk after another.
struct RowBytes {
  const SegmentView& s;
  const EntryBytes& lengths;
  u64 tile;
  u64 address;  // of the next code
  u32 codes;    // of the tile from there on
  u32 half;     // of the table, to which the next code belongs
  u32 left;     // bytes of the tile that are not given yet
  bool raw;
  u64 symbol;  // the last one
  u32 bytes;   // of it that are not given yet

  __device__ __forceinline__ RowBytes(const SegmentView& s, const EntryBytes& lengths, u64 start)
      : s(s), lengths(lengths), tile(start >> s.tile_shift), symbol(0), bytes(0) {
    u64 begin;
    u32 count;
    if (!find_codes(s, tile, &begin, &count)) begin = 0, count = 0;
    enter(s.codes + begin, count);
    const u32 before = u32(start - (tile << s.tile_shift));
    left -= before;
    if (raw) {
      address += before, codes -= before;
      return;
    }
    u32 position = skip(before);
    while (position <= before && codes > 0) position += next_code();
    // Damaged codes may end before.
    const u32 behind = position > before ? position - before : 0;
    symbol = shift_right(symbol, 8 * (bytes - min(behind, bytes)));
    bytes = min(behind, left);
  }
  __device__ __forceinline__ void enter(u64 begin, u32 count) {
    address = begin, codes = count, half = 0;
    left = u32(min(1ull << s.tile_shift, s.chars - (tile << s.tile_shift)));
    raw = count == left;
  }
  // The next tile's codes lie behind those of this one.
  __device__ __forceinline__ void enter_next() {
    const u64 begin = address + codes, room = s.codes + s.codes_nbytes - begin;
    ++tile;
    const u32 count = 1u + (s.tile_shift <= 8 ? reinterpret_cast<const u8*>(s.tile_lengths)[tile]
                                              : reinterpret_cast<const u16*>(s.tile_lengths)[tile]);
    enter(begin, count <= room ? count : 0);
  }
  // Steps over codes, four at a time, as long as what they stand for ends at byte `until` of the tile or before; gives where that is.
  __device__ __forceinline__ u32 skip(u32 until) {
    u32 position = 0;
    if (codes < 8) return position;
    const u32* word = reinterpret_cast<const u32*>(address / 4 * 4);
    const u32 shift = 8 * u32(address % 4);
    u32 low = *word;
    while (codes >= 8) {  // so the next word has codes of the tile
      const u32 high = *++word, four = __funnelshift_r(low, high, shift);
      u32 sum = 0, after = half;
      if (half == 0 && ((~four - 0x01010101u) & four & 0x80808080u) == 0) {  // no escape
#pragma unroll
        for (u32 i = 0; i < 4; ++i) sum += lengths.bytes[four >> (8 * i) & 255];
      } else {
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
          const u32 entry = (four >> (8 * i) & 255) | after;
          after = entry == 255 ? 256 : 0;
          sum += lengths.bytes[entry];
        }
      }
      if (position + sum > until) break;
      position += sum, address += 4, codes -= 4, half = after, low = high;
    }
    return position;
  }
  // The next code's symbol, and its bytes; `codes` must not be 0.
  __device__ __forceinline__ u32 next_code() {
    const u32 entry = *reinterpret_cast<const u8*>(address) | half;
    ++address, --codes;
    if (raw) {
      symbol = entry;
      return bytes = 1;
    }
    half = entry == 255 ? 256 : 0;
    symbol = reinterpret_cast<const DecodeTable*>(s.table)->entries[entry];
    return bytes = lengths.bytes[entry];
  }
  // The next 1 to 8 bytes; false: the codes are damaged. They must be there by the row's length.
  __device__ __forceinline__ bool next(u32 wanted, u64* chunk) {
    u64 result = 0;
    for (u32 have = 0; have < wanted;) {
      if (bytes == 0) {
        if (left == 0) enter_next();
        if (codes == 0) return false;
        bytes = min(next_code(), left);
      }
      const u32 some = min(bytes, wanted - have);
      result |= (symbol & shift_right(~0ull, 64 - 8 * some)) << (8 * (have & 7));
      symbol = shift_right(symbol, 8 * some);
      have += some, bytes -= some, left -= some;
    }
    *chunk = result;
    return true;
  }
};

// As values.py makes it.
__device__ __forceinline__ u64 hash_more(u64 hash, u64 chunk) {
  hash = (hash ^ chunk) * VALUES_MULTIPLIER;
  return hash ^ hash >> 32;
}

// Whether the row is one of the values: its hash is looked up, then it is compared with the values that have this hash.
__device__ __forceinline__ bool is_in(const SegmentView& s, const EntryBytes& lengths, const Values& values, u64 start,
                                      u32 length) {
  if (length == 0) return true;
  const u64 *const keys = values.keys(), *own = nullptr;
  u64 wanted = 0, i = 0;
  for (;;) {
    RowBytes row(s, lengths, start);
    u64 hash = length, chunk;
    bool same = true;
    for (u32 at = 0; at < length && same; at += 8) {
      if (!row.next(min(length - at, 8u), &chunk)) return false;
      hash = hash_more(hash, chunk);
      if (at == 0 && !values.may_begin(hash)) return false;
      same = own == nullptr || own[at / 8] == chunk;
    }
    if (own == nullptr) {
      wanted = hash;
      for (u64 high = values.count; i < high;) {
        const u64 middle = (i + high) / 2;
        if (keys[middle] < wanted)
          i = middle + 1;
        else
          high = middle;
      }
    } else if (same) {
      return true;
    } else {
      ++i;
    }
    while (i < values.count && keys[i] == wanted && keys[values.count + i] != length) ++i;
    if (i == values.count || keys[i] != wanted) return false;
    own = values.words() + keys[2 * values.count + i];
  }
}

// Compares the last rows that wait, 32 at most, a lane each; whole warps. table: address of the table that `lengths` belongs to.
__device__ __forceinline__ void compare_waiting(const SegmentView& s, EntryBytes& lengths, u64& table,
                                                const Values& values, const Waiting& waiting, u32& count, u64 answers) {
  if (table != s.table) {
    table = s.table;
#pragma unroll 4
    for (u32 entry = lane_id(); entry < 512; entry += 32)
      lengths.bytes[entry] = u8(reinterpret_cast<const DecodeTable*>(table)->bits_of(entry) / 8);
  }
  __syncwarp();
  const u32 some = min(count, 32u), place = count - some + lane_id();
  if (lane_id() < some && is_in(s, lengths, values, waiting.starts[place], waiting.lengths[place]))
    reinterpret_cast<u8*>(answers)[waiting.rows[place]] = 1;
  count -= some;
  __syncwarp();
}

// searched: plane 0 has the ends of matches.
template <bool searched>
__device__ __forceinline__ void find_values(const SegmentView* __restrict__ segments,
                                            const SearchView* __restrict__ views, u32 segment_count, u64 row_blocks,
                                            u64 planes, const Values& values, u64 answers) {
  __shared__ Waiting rooms[MATCH_THREADS / 32];
  __shared__ EntryBytes entries[MATCH_THREADS / 32];
  Waiting& waiting = rooms[threadIdx.x / 32];
  EntryBytes& lengths = entries[threadIdx.x / 32];
  const u32 lane = lane_id();
  const Run run(row_blocks);
  if (run.begin >= run.end) return;
  const u64 first_unit = segments[0].first_row_block, last_unit = first_unit + run.end;
  u32 k = find_view<&SegmentView::first_row_block>(segments, segment_count, first_unit + run.begin), count = 0;
  u64 table = 0;  // that `lengths` belongs to
  for (u64 unit = first_unit + run.begin; unit < last_unit; ++unit) {
    while (k + 1 < segment_count && segments[k + 1].first_row_block <= unit) ++k;
    const SegmentView& s = segments[k];
    const u64 b = unit - s.first_row_block, first = b * ROW_BLOCK;
    const u32 rows = u32(min(s.rows - first, u64(ROW_BLOCK)));
    const PackedBlock block(s, b);
    block.prefetch_next(s);
    const u32 begin = ROW_BLOCK / 32 * lane;
    u32 wanted = begin < rows ? shift_right(0xff, 8 - min(rows - begin, 8u)) : 0;
    if (s.validity != 0 && begin < rows) wanted &= reinterpret_cast<const u8*>(s.validity)[first / 8 + lane];

    u32 near = 0, far = 0;  // of blocks of rows of similar length: the differences of eight rows
    u32 candidates = 0;     // bit i: row 8 * lane + i
    const bool narrow = block.width <= 6 && block.minimum <= VALUES_LONGEST;
    if (narrow) {
      // Bit n: rows of n bytes more than the shortest are candidates.
      const u32 word = u32(block.minimum) / 64, shift = u32(block.minimum) % 64;
      u64 differences = values.lengths[word] >> shift;
      if (shift > 0 && word < VALUES_LONGEST / 64) differences |= values.lengths[word + 1] << (64 - shift);
      if (differences != 0) {
        block.eight_rows(lane, &near, &far);
        const u32 mask = (1u << block.width) - 1, low = u32(differences), high = u32(differences >> 32);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
          const u32 difference = (i < 4 ? near : far) >> (i % 4 * block.width) & mask;
          candidates |= ((difference < 32 ? low : high) >> (difference % 32) & 1) << i;
        }
      }
    } else {
#pragma unroll 1
      for (u32 i = 0; i < 8; ++i) {
        const u64 length = block.length(begin + i);
        if (length <= VALUES_LONGEST) candidates |= u32(values.lengths[length / 64] >> (length % 64) & 1) << i;
      }
    }
    candidates &= wanted;
    // A segment's candidates do not wait for those of the next.
    const bool last = unit + 1 == last_unit || (k + 1 < segment_count && segments[k + 1].first_row_block <= unit + 1);
    bool open = __any_sync(ALL_LANES, candidates != 0);
    if (!open && !(last && count > 0)) continue;
    u64 before = 0;  // characters before the lane's rows
    if (open) {
      before = reinterpret_cast<const u64*>(s.row_starts)[b];
      if (narrow) {
        const u32 sum = 8 * u32(block.minimum) + block.sum_of(near, 4) + block.sum_of(far, 4);
        before += warp_inclusive_sum(sum) - sum;
      } else {
        u64 sum = 0;
#pragma unroll 1
        for (u32 i = 0; i < 8; ++i) sum += block.length(begin + i);
        before += warp_inclusive_sum(sum) - sum;
      }
    }
    do {
      // A candidate of each lane.
      bool there = candidates != 0;
      u64 start = before, length = 0;
      u32 i = 0;
      if (there) {
        i = __ffs(candidates) - 1;
        if (narrow) {
          const u32 four = i < 4 ? near : far;
          start += i * u32(block.minimum) + block.sum_of(near, min(i, 4u)) + block.sum_of(far, max(i, 4u) - 4);
          length = u32(block.minimum) + (four >> (i % 4 * block.width) & ((1u << block.width) - 1));
        } else {
          for (u32 other = 0; other < i; ++other) start += block.length(begin + other);
          length = block.length(begin + i);
        }
        candidates &= candidates - 1;
        there = start <= s.chars && length <= s.chars - start;
        if (searched && there && length > 0) {
          const u64 bit = start + length - 1;
          const u32* plane = reinterpret_cast<const u32*>(planes) + views[k].first_word;
          there = __ldg(plane + bit / 32) >> (bit % 32) & 1;
        }
      }
      const u32 others = __ballot_sync(ALL_LANES, there);
      if (there) {
        const u32 place = count + __popc(others & ((1u << lane) - 1));
        waiting.starts[place] = start, waiting.lengths[place] = u32(length);
        waiting.rows[place] = s.first_row + first + begin + i;
      }
      count += __popc(others);
      open = __any_sync(ALL_LANES, candidates != 0);
      if (count >= 32 || (last && !open && count > 0))
        compare_waiting(s, lengths, table, values, waiting, count, answers);
    } while (open || (last && count > 0));
  }
}

// Which rows of the segments, which follow one another, are one of some values: their answers become 1, and are 0 before. planes, answers:
// as in text_match.cu. grid: any; block: MATCH_THREADS threads.
#define MATCH_VALUES(name, searched)                                                                            \
  extern "C" __global__ void __launch_bounds__(MATCH_THREADS, VALUES_BLOCKS)                                    \
      name(const SegmentView* segments, const SearchView* views, u32 segment_count, u64 row_blocks, u64 planes, \
           u64 plane_words, const Values* values, u64 answers) {                                                \
    find_values<searched>(segments, views, segment_count, row_blocks, planes, *values, answers);                \
  }
MATCH_VALUES(match_values, false)
MATCH_VALUES(match_values_searched, true)
