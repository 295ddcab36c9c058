// Match: planes of bits, which a codec's search has set where matches end (fsst_search.cu, onpair_search.cu) -> an answer for each row.
//
// Work unit: a warp answers for one row block after another. Where a question of yes and no needs a bit, most blocks go by text_match_short.cuh. For
// others of yes and no a lane has eight neighbouring rows, if these have similar, short lengths: it unpacks them into registers, and the
// answers go out through shared memory, coalesced. Else row lengths are unpacked as row_lengths_unpack does it, then a lane has rows
// 32 * k + lane. Rows of more than LONG_ROW bytes are the whole warp's work, one after another.
//
// Invariant: whatever the row lengths, no row has bits behind its segment's characters; what is read beyond them are spare words.
//
// Tried and lost, TPC-H l_comment SF 10 on an H200: for blocks of few bits, to look for the row of each bit instead of the bits of each row
// took as long (0.22 ms of both, for 12 bits a block).
#include "row_lengths.cuh"
#include "text_match.cuh"
#include "text_match_short.cuh"

// Thread blocks on a multiprocessor: as many as give the code so many registers that nothing is spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define MATCH_BLOCKS 4
#else
#define MATCH_BLOCKS 3
#endif

// Rows that a lane looks at together, so that several loads are under way at a time.
#define GROUP 4

// One type or the other.
template <bool first, typename One, typename Other>
struct Either {
  typedef One Type;
};
template <typename One, typename Other>
struct Either<false, One, Other> {
  typedef Other Type;
};

// Nothing known of a row block.
struct NoBlock {
  static constexpr bool fits = false;
  __device__ __forceinline__ NoBlock(const SegmentView&, u64, const SearchView&, u64, u64) {}
};

// Bits of the planes, for one lane. Positions are counted from the first bit of the row block's first word.
struct LaneBits {
  typedef u32 Position;
  const u32* words;
  u64 plane_words;

  __device__ __forceinline__ u32 word(u32 plane, u32 i) const { return __ldg(words + plane * plane_words + i); }
  __device__ __forceinline__ bool at(u32 plane, u32 place) const { return word(plane, place / 32) >> (place % 32) & 1; }

  // The first bit of from..to, or `to`.
  __device__ __forceinline__ u32 first(u32 plane, u32 from, u32 to) const {
    if (from >= to) return to;
    u32 i = from / 32, value = word(plane, i) & ~0u << (from % 32);
    for (const u32 last = (to - 1) / 32; value == 0 && i < last;) value = word(plane, ++i);
    return value == 0 ? to : min(32 * i + u32(__ffs(value)) - 1, to);
  }

  // For some rows the first bit of from..end, or `end`. The first two words of all rows are loaded first, whether they are
  // needed or not, so that the loads wait for nothing.
  __device__ __forceinline__ void first_of(u32 plane, const u32* from, const u32* end, u32* found) const {
    const u32* own = words + plane * plane_words;
    u32 near[GROUP], far[GROUP];
#pragma unroll
    for (u32 k = 0; k < GROUP; ++k) {
      const u32 i = min(from[k], end[k]) / 32;
      near[k] = __ldg(own + i), far[k] = __ldg(own + i + 1);
    }
#pragma unroll
    for (u32 k = 0; k < GROUP; ++k) {
      const u32 shift = from[k] % 32, place = u32(__ffsll((u64(far[k]) << 32 | near[k]) >> shift)) - 1;
      const int count = int(end[k]) - int(from[k]);
      found[k] = place < u32(max(count, 0)) ? from[k] + place : end[k];
      if (int(shift) + count > 64 && place == ~0u) found[k] = first(plane, from[k] + 64 - shift, end[k]);
    }
  }

  // For some rows the bit before the end of `length` bytes of their start, or before their own end; false for shorter ones.
  __device__ __forceinline__ void bits_at(u32 plane, bool from_start, u32 length, const u32* start, const u32* end,
                                          u32* found) const {
    const u32* own = words + plane * plane_words;
    u32 place[GROUP];
#pragma unroll
    for (u32 k = 0; k < GROUP; ++k) {
      const u32 stop = from_start ? start[k] + length : end[k];
      place[k] = max(min(stop, end[k]), 1u) - 1;
      found[k] = __ldg(own + place[k] / 32);
    }
#pragma unroll
    for (u32 k = 0; k < GROUP; ++k) found[k] = end[k] - start[k] >= length ? found[k] >> (place[k] & 31) & 1 : 0;
  }

  // How many bits of from..to there are.
  __device__ __forceinline__ u32 count(u32 plane, u32 from, u32 to) const {
    if (from >= to) return 0;
    const u32 last = (to - 1) / 32;
    u32 mask = ~0u << (from % 32), sum = 0;
    for (u32 i = from / 32; i < last; ++i, mask = ~0u) sum += __popc(word(plane, i) & mask);
    return sum + __popc(word(plane, last) & mask & ~0u >> (31 - (to - 1) % 32));
  }
};

// Bits of a row that all lanes look at together.
struct WarpBits {
  typedef u64 Position;
  const u32* words;
  u64 plane_words;

  __device__ __forceinline__ bool at(u32 plane, u64 place) const {
    return __ldg(words + plane * plane_words + place / 32) >> (place % 32) & 1;
  }
  // Word `i`, as far as its bits lie in from..to.
  __device__ __forceinline__ u32 word(u32 plane, u64 i, u64 from, u64 to) const {
    if (32 * i >= to || 32 * i + 32 <= from) return 0;
    u32 value = __ldg(words + plane * plane_words + i);
    if (32 * i < from) value &= ~0u << (from % 32);
    if (32 * i + 32 > to) value &= ~0u >> (32 - to % 32);
    return value;
  }
  __device__ __forceinline__ u64 first(u32 plane, u64 from, u64 to) const {
    if (from >= to) return to;
    for (u64 i = from / 32; 32 * i < to; i += 32) {
      const u32 value = word(plane, i + lane_id(), from, to), there = __ballot_sync(ALL_LANES, value != 0);
      if (there != 0) {
        const u32 source = __ffs(there) - 1;
        return 32 * (i + source) + __ffs(__shfl_sync(ALL_LANES, value, source)) - 1;
      }
    }
    return to;
  }
  __device__ __forceinline__ u64 count(u32 plane, u64 from, u64 to) const {
    if (from >= to) return 0;
    u64 sum = 0;
#pragma unroll 4
    for (u64 i = from / 32 + lane_id(); 32 * i < to; i += 32) sum += __popc(word(plane, i, from, to));
    return __shfl_sync(ALL_LANES, warp_inclusive_sum(sum), 31);
  }
};

// What is asked of rows, in words: what a kind of question needs of these, at the places that its type says.
typedef const u32* Test;

// How a lane answers a question for some rows: one after another.
template <typename Question>
struct Each {
  // Whether answers are yes or no; whether rows without a bit of plane 0 have a no, where `looks` says that bits are looked at: then
  // `eight` answers for a lane's eight rows.
  static constexpr bool boolean = false, needs_bit = false;
  __device__ __forceinline__ void answer(const LaneBits& bits, const u32* start, const u32* end, u32* answers) const {
#pragma unroll
    for (u32 g = 0; g < GROUP; ++g) answers[g] = static_cast<const Question&>(*this).of(bits, start[g], end[g]);
  }
};

// Or with a look at the first 64 bits that concern each row, from `before` bytes behind its start on. The words are loaded for all rows
// first, whether they are needed or not, so that the loads wait for nothing: a few words behind the segment's.
template <typename Question>
struct Windowed {
  static constexpr bool boolean = false, needs_bit = false;
  __device__ __forceinline__ void answer(const LaneBits& bits, const u32* start, const u32* end, u32* answers) const {
    const Question& question = static_cast<const Question&>(*this);
    u32 near[GROUP], middle[GROUP], far[GROUP], from[GROUP];
#pragma unroll
    for (u32 g = 0; g < GROUP; ++g) {
      from[g] = min(start[g] + question.before, end[g]);
      const u32* words = bits.words + from[g] / 32;
      near[g] = __ldg(words), middle[g] = __ldg(words + 1), far[g] = __ldg(words + 2);
    }
    u32 open = 0;
#pragma unroll
    for (u32 g = 0; g < GROUP; ++g) {
      const u32 low = __funnelshift_r(near[g], middle[g], from[g] % 32);
      const u32 high = __funnelshift_r(middle[g], far[g], from[g] % 32), count = end[g] - from[g];
      const u64 window = (low | u64(high) << 32) & shift_right(~0ull, 64 - min(count, 64u));
      if (!question.settles(window, count, end[g] - start[g], answers + g)) open |= 1u << g;
    }
    if (open != 0) {
#pragma unroll
      for (u32 g = 0; g < GROUP; ++g)
        if (open >> g & 1) answers[g] = question.of(bits, start[g], end[g]);
    }
  }
};

// Whether there is a match. test: its bytes.
struct Contains : Windowed<Contains> {
  typedef u8 Answer;
  static constexpr bool boolean = true, needs_bit = true;
  u32 before;

  __device__ __forceinline__ explicit Contains(Test test) : before(test[0] - 1) {}

  __device__ __forceinline__ bool looks() const { return true; }
  __device__ __forceinline__ u32 eight(const u32* words, const EightRows& rows, u32 at) const {
    return eight_contain(words, rows, at, before);
  }

  __device__ __forceinline__ bool settles(u64 window, u32 count, u32, u32* answer) const {
    *answer = window != 0;
    return window != 0 || count <= 64;
  }
  template <typename Bits>
  __device__ __forceinline__ u32 of(const Bits& bits, typename Bits::Position start,
                                    typename Bits::Position end) const {
    return bits.first(0, start + before, end) < end;
  }
};

// Whether rows have bytes that can be told by one bit. test: least bytes; whether they have exactly these; whether there is a bit to look
// at; whether it is counted from the row's start; bytes of the match.
struct Edge {
  typedef u8 Answer;
  static constexpr bool boolean = true, needs_bit = true;
  u32 least, exactly, some, from_start, length;

  __device__ __forceinline__ explicit Edge(Test test)
      : least(test[0]), exactly(test[1]), some(test[2]), from_start(test[3]), length(test[4]) {}

  template <typename Position>
  __device__ __forceinline__ bool fits(Position bytes) const {
    return exactly ? bytes == least : bytes >= least;
  }
  __device__ __forceinline__ bool looks() const { return some; }
  __device__ __forceinline__ u32 eight(const u32* words, const EightRows& rows, u32 at) const {
    const bool check = exactly || least > rows.minimum;
    return from_start ? eight_edges<true>(words, rows, at, length - 1, *this, check)
                      : eight_edges<false>(words, rows, at, ~0u, *this, check);
  }
  template <typename Bits>
  __device__ __forceinline__ u32 of(const Bits& bits, typename Bits::Position start,
                                    typename Bits::Position end) const {
    if (!fits(end - start)) return 0;
    return !some || bits.at(0, (from_start ? start + length : end) - 1);
  }
  __device__ __forceinline__ void answer(const LaneBits& bits, const u32* start, const u32* end, u32* answers) const {
#pragma unroll
    for (u32 g = 0; g < GROUP; ++g) answers[g] = 1;
    if (some) {  // of any row, as above
#pragma unroll
      for (u32 g = 0; g < GROUP; ++g) answers[g] = bits.at(0, max(from_start ? start[g] + length : end[g], 1u) - 1);
    }
#pragma unroll
    for (u32 g = 0; g < GROUP; ++g) answers[g] &= fits(end[g] - start[g]);
  }
};

// Whether rows are some parts in their order. test: least bytes; parts; whether the first begins the row; whether the last ends it; then
// for each its plane and its bytes.
struct Like {
  typedef u8 Answer;
  static constexpr bool boolean = true, needs_bit = false;
  Test test;

  __device__ __forceinline__ explicit Like(Test test) : test(test) {}

  template <typename Bits>
  __device__ __forceinline__ u32 of(const Bits& bits, typename Bits::Position start,
                                    typename Bits::Position end) const {
    if (end - start < test[0]) return 0;
    const u32 parts = test[1], prefix = test[2], suffix = test[3];
    auto at = start;
    for (u32 part = 0; part < parts; ++part) {
      const u32 plane = test[4 + 2 * part], length = test[5 + 2 * part];
      if (end - at < length) return 0;
      if (part == 0 && prefix) {
        if (!bits.at(plane, at + length - 1)) return 0;
        at += length;
      } else if (part == parts - 1 && suffix) {
        if (!bits.at(plane, end - 1)) return 0;
      } else {
        const auto found = bits.first(plane, at + length - 1, end);
        if (found >= end) return 0;
        at = found + 1;
      }
    }
    return 1;
  }
  // Part by part for some rows; most fail at the first.
  __device__ __forceinline__ void answer(const LaneBits& bits, const u32* start, const u32* end, u32* answers) const {
    const u32 parts = test[1], prefix = test[2], suffix = test[3], least = test[0];
    u32 at[GROUP];
#pragma unroll
    for (u32 k = 0; k < GROUP; ++k) {
      answers[k] = end[k] - start[k] >= least;
      at[k] = answers[k] ? start[k] : end[k];
    }
    for (u32 part = 0; part < parts; ++part) {
      const u32 plane = test[4 + 2 * part], length = test[5 + 2 * part];
      u32 from[GROUP], found[GROUP];
      if (part == 0 && prefix) {
        bits.bits_at(plane, true, length, at, end, found);
      } else if (part == parts - 1 && suffix) {
        bits.bits_at(plane, false, length, at, end, found);
      } else {
#pragma unroll
        for (u32 k = 0; k < GROUP; ++k) from[k] = at[k] + length - 1;
        bits.first_of(plane, from, end, found);
#pragma unroll
        for (u32 k = 0; k < GROUP; ++k) {
          from[k] = found[k] + 1 - length;  // where the match begins
          found[k] = found[k] < end[k];
        }
      }
      u32 some = 0;
#pragma unroll
      for (u32 k = 0; k < GROUP; ++k) {
        answers[k] &= found[k];
        if (part == 0 && prefix) from[k] = at[k];
        at[k] = answers[k] ? from[k] + length : end[k];
        some |= answers[k];
      }
      if (!__any_sync(ALL_LANES, some)) return;
    }
  }
};

// Whether rows are one of some values. test: how many lengths there are, and these, ascending.
struct IsIn {
  typedef u8 Answer;
  static constexpr bool boolean = true, needs_bit = false;
  Test test;

  __device__ __forceinline__ explicit IsIn(Test test) : test(test) {}

  template <typename Position>
  __device__ __forceinline__ bool fits(Position bytes) const {
    for (u32 i = 1; i <= test[0]; ++i)
      if (bytes == test[i]) return true;
    return false;
  }
  template <typename Bits>
  __device__ __forceinline__ u32 of(const Bits& bits, typename Bits::Position start,
                                    typename Bits::Position end) const {
    return (end == start || bits.at(0, end - 1)) && fits(end - start);
  }
  __device__ __forceinline__ void answer(const LaneBits& bits, const u32* start, const u32* end, u32* answers) const {
#pragma unroll
    for (u32 g = 0; g < GROUP; ++g) answers[g] = bits.at(0, max(end[g], 1u) - 1) || end[g] == start[g];
#pragma unroll
    for (u32 g = 0; g < GROUP; ++g)
      if (answers[g]) answers[g] = fits(end[g] - start[g]);
  }
};

// How many matches there are. test: their bytes; whether they may overlap.
struct Count : Windowed<Count> {
  typedef i32 Answer;
  u32 before, overlaps;

  __device__ __forceinline__ explicit Count(Test test) : before(test[0] - 1), overlaps(test[1]) {}

  __device__ __forceinline__ bool settles(u64 window, u32 count, u32, u32* answer) const {
    *answer = __popcll(window);
    return count <= 64 && (!overlaps || *answer <= 1);
  }
  template <typename Bits>
  __device__ __forceinline__ u32 of(const Bits& bits, typename Bits::Position start,
                                    typename Bits::Position end) const {
    auto from = start + before;
    if (!overlaps) return u32(bits.count(0, from, end));
    u32 count = 0;
    for (; (from = bits.first(0, from, end)) < end; from += before + 1) ++count;
    return count;
  }
};

// Characters before the first match, or -1. test: its bytes; whether plane 1 has the bytes that continue a character.
struct Find : Windowed<Find> {
  typedef i32 Answer;
  u32 before, continuing;

  __device__ __forceinline__ explicit Find(Test test) : before(test[0] - 1), continuing(test[1]) {}

  __device__ __forceinline__ bool settles(u64 window, u32 count, u32, u32* answer) const {
    *answer = u32(__ffsll(static_cast<long long>(window))) - 1;
    return window == 0 ? count <= 64 : !continuing;
  }
  template <typename Bits>
  __device__ __forceinline__ u32 of(const Bits& bits, typename Bits::Position start,
                                    typename Bits::Position end) const {
    const auto found = bits.first(0, start + before, end);
    if (found >= end) return ~0u;
    const auto begin = found - before;
    return u32(begin - start) - (continuing ? u32(bits.count(1, start, begin)) : 0);
  }
};

// Characters. Plane 0 has the bytes that continue one.
struct Length : Windowed<Length> {
  typedef i32 Answer;
  static constexpr u32 before = 0;

  __device__ __forceinline__ explicit Length(Test) {}

  __device__ __forceinline__ bool settles(u64 window, u32 count, u32 bytes, u32* answer) const {
    *answer = bytes - __popcll(window);
    return count <= 64;
  }
  template <typename Bits>
  __device__ __forceinline__ u32 of(const Bits& bits, typename Bits::Position start,
                                    typename Bits::Position end) const {
    return u32(end - start) - u32(bits.count(0, start, end));
  }
};

// Bytes.
struct ByteCount : Each<ByteCount> {
  typedef i32 Answer;

  __device__ __forceinline__ explicit ByteCount(Test) {}

  template <typename Bits>
  __device__ __forceinline__ u32 of(const Bits&, typename Bits::Position start, typename Bits::Position end) const {
    return u32(end - start);
  }
};

// Answers for the rows of a block, whose starts are staged. `sound`: all rows are wanted, and are as short and end as early as they
// should. Sets bit i of `together` where row 32 * i + lane is long, without an answer.
template <bool sound, typename Question>
__device__ __forceinline__ void answer_lanes(const Question& question, const LaneBits& bits, const u32* staged,
                                             u32 most, u32 valid, u32 rows, typename Question::Answer* to,
                                             u32& together) {
  typedef typename Question::Answer Answer;
  const u32 lane = lane_id();
  const u32 *const starts = staged + lane, *const ends = starts + 1 + (lane == 31);  // as `padded` has them
  to += lane;
#pragma unroll
  for (u32 group = 0; group < ROWS_PER_LANE; group += GROUP) {
    u32 start[GROUP], end[GROUP], answer[GROUP];
    bool wanted[GROUP];
#pragma unroll
    for (u32 g = 0; g < GROUP; ++g) {
      start[g] = starts[33 * (group + g)], end[g] = ends[33 * (group + g)], wanted[g] = true;
      if (!sound) {
        start[g] = min(start[g], most), end[g] = min(end[g], most);
        wanted[g] = __shfl_sync(ALL_LANES, valid, group + g) >> lane & 1;
        if (end[g] - start[g] > LONG_ROW) together |= 1u << (group + g);
        if (!wanted[g] || end[g] - start[g] > LONG_ROW) end[g] = start[g];
      }
    }
    question.answer(bits, start, end, answer);
#pragma unroll
    for (u32 g = 0; g < GROUP; ++g)
      if (sound || 32 * (group + g) + lane < rows) to[32 * (group + g)] = wanted[g] ? Answer(answer[g]) : Answer(0);
  }
}

// Answers, each yes or no, for the rows of a block, eight neighbours a lane, where their lengths are short, alike and sound. map: room for a
// bit each. false: they are not.
template <typename Question>
__device__ __forceinline__ bool answer_neighbours(const Question& question, const LaneBits& bits,
                                                  const PackedBlock& block, u32 skew, u32 most, u32 valid, u32 rows,
                                                  u32* map, typename Question::Answer* to) {
  const u32 lane = lane_id(), minimum = u32(block.minimum), width = block.width;
  if (width > 8 || block.minimum + (1u << width) > LONG_ROW) return false;
  u32 near, far;
  block.eight_rows(lane, &near, &far);
  const u32 sum = ROWS_PER_LANE * minimum + block.sum_of(near, 4) + block.sum_of(far, 4);
  const u32 behind = skew + warp_inclusive_sum(sum), mask = (1u << width) - 1;
  if (__shfl_sync(ALL_LANES, behind, 31) > most) return false;
  u32 at = behind - sum, found = 0;
#pragma unroll
  for (u32 group = 0; group < ROWS_PER_LANE; group += GROUP) {
    u32 start[GROUP], end[GROUP], answers[GROUP];
#pragma unroll
    for (u32 g = 0; g < GROUP; ++g) {
      start[g] = at;
      at += minimum + ((group == 0 ? near : far) >> (g * width) & mask);
      end[g] = at;
    }
    question.answer(bits, start, end, answers);
#pragma unroll
    for (u32 g = 0; g < GROUP; ++g) found |= (answers[g] & 1) << (group + g);
  }
  reinterpret_cast<u8*>(map)[lane] = u8(found);
  __syncwarp();
  if (lane < ROW_BLOCK / 32) map[lane] &= valid;
  __syncwarp();
#pragma unroll
  for (u32 i = 0; i < ROWS_PER_LANE; ++i)
    if (32 * i + lane < rows) to[32 * i + lane] = map[i] >> lane & 1;
  __syncwarp();
  return true;
}

// Answers for the rows of row block `b` of a segment. staged, map: the warp's room in shared memory.
template <typename Question>
__device__ __forceinline__ void match_block(const Question& question, const SegmentView& s, const SearchView& view,
                                            u64 b, u64 planes, u64 plane_words, u64 answers, u32* staged, u32* map) {
  typedef typename Question::Answer Answer;
  const u32 lane = lane_id();
  const u64 first = b * ROW_BLOCK;
  const u32 rows = u32(min(s.rows - first, u64(ROW_BLOCK)));
  const PackedBlock block(s, b);
  const u64 chars = s.chars, begin = min(reinterpret_cast<const u64*>(s.row_starts)[b], chars), left = chars - begin;
  const u32 skew = u32(begin % 32);
  const u32* const words = reinterpret_cast<const u32*>(planes) + view.first_word + begin / 32;
  u32 valid = ~0u;  // of rows 32 * lane and up
  if (s.validity != 0 && 32 * lane < rows)
    valid = __ldg(reinterpret_cast<const u32*>(s.validity) + ROW_BLOCK / 32 * b + lane);
  if (32 * lane + 32 > rows) valid &= 32 * lane < rows ? (1u << (rows - 32 * lane)) - 1 : 0;
  Answer* const to = reinterpret_cast<Answer*>(answers) + s.first_row + first;

  const u32 most = skew + u32(min(left, u64(1) << 31));
  if constexpr (Question::boolean && !Question::needs_bit) {
    const LaneBits bits = {words, plane_words};
    block.prefetch_next(s);
    if (answer_neighbours(question, bits, block, skew, most, valid, rows, map, to)) return;
  }
  u32 together = ~0u;  // bit i: row 32 * i + lane is the whole warp's work
  if (block.sums_fit()) {
    const LaneBits bits = {words, plane_words};
    const u32 all = stage_starts(block, staged, skew);
    if (lane == 31) staged[padded(ROW_BLOCK)] = all;
    __syncwarp();
    together = 0;
    // Row lengths that are sound, short rows, and no nulls: the usual case.
    if (rows == ROW_BLOCK && s.validity == 0 && __shfl_sync(ALL_LANES, all, 31) <= most &&
        u32(block.minimum) + (1u << block.width) <= LONG_ROW)
      answer_lanes<true>(question, bits, staged, most, valid, rows, to, together);
    else
      answer_lanes<false>(question, bits, staged, most, valid, rows, to, together);
  }
  if (__any_sync(ALL_LANES, together != 0)) {
    const WarpBits bits = {words, plane_words};
    u64 before = skew;
#pragma unroll 1
    for (u32 i = 0; i < ROWS_PER_LANE; ++i) {
      const u64 length = block.length(32 * i + lane), inclusive = warp_inclusive_sum(length);
      const u64 start = min(before + inclusive - length, skew + left);
      const u64 end = max(start, min(before + inclusive, skew + left));
      const bool wanted = __shfl_sync(ALL_LANES, valid, i) >> lane & 1;
      u32 answer = 0;
      for (u32 rest = __ballot_sync(ALL_LANES, wanted && together >> i & 1); rest != 0; rest &= rest - 1) {
        const u32 source = __ffs(rest) - 1;
        const u32 found = question.of(bits, __shfl_sync(ALL_LANES, start, source), __shfl_sync(ALL_LANES, end, source));
        if (lane == source) answer = found;
      }
      if (32 * i + lane < rows && together >> i & 1) to[32 * i + lane] = Answer(answer);
      before += __shfl_sync(ALL_LANES, inclusive, 31);
    }
  }
}

// Answers for all rows of the segments.
template <typename Question>
__device__ __forceinline__ void match(const SegmentView* __restrict__ segments, const SearchView* __restrict__ views,
                                      u32 segment_count, u64 row_blocks, u64 planes, u64 plane_words, Test test,
                                      u64 answers) {
  typedef typename Either<Question::needs_bit, ShortBlock, NoBlock>::Type Known;
  constexpr u32 room = Question::needs_bit && SHORT_ROOM > PADDED_ROWS + 1 ? SHORT_ROOM : PADDED_ROWS + 1;
  __shared__ __align__(16) u32 rooms[MATCH_THREADS / 32][room];
  constexpr bool mapped = Question::boolean && !Question::needs_bit;
  __shared__ u32 maps[mapped ? MATCH_THREADS / 32 : 1][ROW_BLOCK / 32];
  u32 *const staged = rooms[threadIdx.x / 32], *const map = maps[mapped ? threadIdx.x / 32 : 0];
  const u32 lane = lane_id();
  const Question question(test);
  const Run run(row_blocks);
  if (run.begin >= run.end) return;
  const u64 first_unit = segments[0].first_row_block;
  u32 k = find_view<&SegmentView::first_row_block>(segments, segment_count, first_unit + run.begin);
  for (u32 begin = run.begin; begin < run.end; begin += 32) {
    const u64 own = first_unit + min(begin + lane, run.end - 1);
    u32 mine = k;
    while (mine + 1 < segment_count && segments[mine + 1].first_row_block <= own) ++mine;
    const Known known(segments[mine], own - segments[mine].first_row_block, views[mine], planes, answers);
    u32 fitting = 0;
    if constexpr (Question::needs_bit) fitting = __ballot_sync(ALL_LANES, known.fits && question.looks());
    const u32 count = min(run.end - begin, 32u);
    for (u32 i = 0; i < count; ++i) {
      if constexpr (Question::needs_bit) {
        if (fitting >> i & 1) {
          if (i + 1 < count && fitting >> (i + 1) & 1) ShortBlock(known, i + 1).prefetch_all();
          const bool answered = answer_short(question, ShortBlock(known, i), staged);
          __syncwarp();
          if (answered) continue;
        }
      }
      const u64 unit = first_unit + begin + i;
      while (k + 1 < segment_count && segments[k + 1].first_row_block <= unit) ++k;
      match_block(question, segments[k], views[k], unit - segments[k].first_row_block, planes, plane_words, answers,
                  staged, map);
      __syncwarp();
    }
  }
}

// Answers to each kind of question for all rows of the segments, which follow one another. planes: address of the first of them,
// `plane_words` words before the next, and four words behind the last; answers: of that of the column's first row; nulls have 0.
// grid: any; block: MATCH_THREADS threads.
#define MATCH(name, Question, blocks)                                                                           \
  extern "C" __global__ void __launch_bounds__(MATCH_THREADS, blocks)                                           \
      name(const SegmentView* segments, const SearchView* views, u32 segment_count, u64 row_blocks, u64 planes, \
           u64 plane_words, const u32* test, u64 answers) {                                                     \
    match<Question>(segments, views, segment_count, row_blocks, planes, plane_words, test, answers);            \
  }
MATCH(match_contains, Contains, MATCH_BLOCKS)
MATCH(match_edge, Edge, MATCH_BLOCKS)
MATCH(match_like, Like, MATCH_BLOCKS - 1)
MATCH(match_is_in, IsIn, MATCH_BLOCKS)
MATCH(match_count, Count, MATCH_BLOCKS)
MATCH(match_find, Find, MATCH_BLOCKS)
MATCH(match_length, Length, MATCH_BLOCKS)
MATCH(match_byte_count, ByteCount, MATCH_BLOCKS)
