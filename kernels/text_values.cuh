// Values: which rows are one of some values, without a search or behind one: by their lengths first, then by their bytes.
//
// Work unit: a warp looks at one row block after another, a lane at eight neighbouring rows. Rows that are as long as a value are candidates, and,
// behind a search for the values' ends or beginnings, only those where a match ends behind these. Candidates wait in shared memory until there are 32, so
// that every lane decodes one, by its codec's Row: it steps over the codes before the row, hashes the row's first eight bytes, and if a
// value may begin so, all of them, looks the hash up among those of the values, and compares.
//
// Invariant: whatever the codes and row lengths, nothing outside the codes is read: a row that its segment does not have room for is no candidate.
#pragma once

#include "row_lengths.cuh"
#include "text_match.cuh"

// Candidates of a warp: 31 that wait, and 32 more.
#define WAITING 64

// What rows are compared with (cudf_fsst/codecs/text/values.py). Behind it, for each of `count` values: keys, hashes, ascending; bytes of
// the value; where its bytes begin, in words from here. The bytes are padded with zeros to whole words.
struct Values {
  u64 count;
  u64 lengths[VALUES_LONGEST / 64 + 1];  // bit n: a value has n bytes
  u64 beginnings[64];                    // a bit for the hash of each value's length and first eight bytes
  u64 beginning;                         // behind a search for beginnings: their bytes, but of shorter values; else 0

  __device__ __forceinline__ bool may_begin(u64 hash) const { return beginnings[hash >> 58] >> (hash >> 52 & 63) & 1; }
  __device__ __forceinline__ const u64* words() const { return reinterpret_cast<const u64*>(this); }
  __device__ __forceinline__ const u64* keys() const { return words() + sizeof(Values) / 8; }
};

struct Waiting {
  u64 starts[WAITING];  // of the rows, in their segment
  u64 rows[WAITING];    // of the column
  u32 lengths[WAITING];
};

// As values.py makes it.
__device__ __forceinline__ u64 hash_more(u64 hash, u64 chunk) {
  hash = (hash ^ chunk) * VALUES_MULTIPLIER;
  return hash ^ hash >> 32;
}

// Whether the row is one of the values: its hash is looked up, then it is compared with the values that have this hash.
template <typename Row>
__device__ __forceinline__ bool is_in(const SegmentView& s, const typename Row::Lengths& lengths, const Values& values,
                                      u64 start, u32 length) {
  if (length == 0) return true;
  const u64 *const keys = values.keys(), *own = nullptr;
  u64 wanted = 0, i = 0;
  for (;;) {
    Row row(s, lengths, start);
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
template <typename Row>
__device__ __forceinline__ void compare_waiting(const SegmentView& s, typename Row::Lengths& lengths, u64& table,
                                                const Values& values, const Waiting& waiting, u32& count, u64 answers) {
  if (table != s.table) {
    table = s.table;
    lengths.load(table);
  }
  __syncwarp();
  const u32 some = min(count, 32u), place = count - some + lane_id();
  if (lane_id() < some && is_in<Row>(s, lengths, values, waiting.starts[place], waiting.lengths[place]))
    reinterpret_cast<u8*>(answers)[waiting.rows[place]] = 1;
  count -= some;
  __syncwarp();
}

// Row: the bytes of a row, one chunk after another, by a codec; Lengths: what it has of a table in shared memory. searched: plane 0 has the
// ends of matches.
template <typename Row, bool searched>
__device__ __forceinline__ void find_values(const SegmentView* __restrict__ segments,
                                            const SearchView* __restrict__ views, u32 segment_count, u64 row_blocks,
                                            u64 planes, const Values& values, u64 answers) {
  __shared__ Waiting rooms[MATCH_THREADS / 32];
  __shared__ typename Row::Lengths entries[MATCH_THREADS / 32];
  Waiting& waiting = rooms[threadIdx.x / 32];
  typename Row::Lengths& lengths = entries[threadIdx.x / 32];
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
          const u64 bit = start + (values.beginning == 0 ? length : min(length, values.beginning)) - 1;
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
        compare_waiting<Row>(s, lengths, table, values, waiting, count, answers);
    } while (open || (last && count > 0));
  }
}

// Which rows of the segments, which follow one another, are one of some values: their answers become 1, and are 0 before. planes, answers:
// as in text_match.cu. grid: any; block: MATCH_THREADS threads.
#define MATCH_VALUES(name, Row, searched, blocks)                                                               \
  extern "C" __global__ void __launch_bounds__(MATCH_THREADS, blocks)                                           \
      name(const SegmentView* segments, const SearchView* views, u32 segment_count, u64 row_blocks, u64 planes, \
           u64 plane_words, const Values* values, u64 answers) {                                                \
    find_values<Row, searched>(segments, views, segment_count, row_blocks, planes, *values, answers);           \
  }
