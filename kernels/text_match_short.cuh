// Answers of yes and no for row blocks of short rows, where a bit of a plane says yes: most of a column, and all that counts for speed.
//
// A warp's lanes first find out what there is to know of 32 row blocks, one each. Then the warp has one block after another: its bits come
// to shared memory, and a lane has eight neighbouring rows, whose lengths it unpacks into registers. Their answers are the highest byte of a
// word, into which each row shifts its own from above.
//
// Segments begin at any row, so answers are shifted to multiples of eight bytes before they are stored.
//
// TPC-H l_comment SF 10 on an H200: "contains" 0.151 ms, "ends with" 0.140, without any bit 0.092. With stores of a byte each, and bits
// loaded word by word, 0.161, 0.149 and 0.098. Two that lost (docs/kernels.md has the others):
// - what is known of a block worked out by every lane for itself, and bits read from global memory: 0.222 and 0.188 ms.
// - the bits of the next block in registers already: 0.228 and 0.192 ms.
#pragma once

#include "row_lengths.cuh"
#include "text_match.cuh"

// Words of bits of a row block that a lane brings to shared memory; bytes that the rows of a block may have then.
#define SHORT_WORDS 8
#define SHORT_SPAN (1024 * SHORT_WORDS - 128)
// Words of shared memory: those before the bits, and what may be read behind them.
#define SHORT_BEFORE 4
#define SHORT_ROOM (SHORT_BEFORE + 32 * SHORT_WORDS + 8)

// What a lane knows of its row block: all but `fits` holds only where that does.
struct ShortBlock {
  bool fits;
  PackedBlock lengths;
  u32 skew, span;  // its first bit in the first four words, and its bytes
  u64 words;       // address of these
  u64 valid;       // of the validity of its rows, or 0
  u64 to;          // of its answers

  __device__ __forceinline__ ShortBlock(const SegmentView& s, u64 b, const SearchView& view, u64 planes, u64 answers)
      : lengths(s, b) {
    const u64* starts = reinterpret_cast<const u64*>(s.row_starts) + b;
    const u64 begin = starts[0], bytes = starts[1] - begin, chars = s.chars, first = b * ROW_BLOCK;
    fits = begin <= chars && bytes <= min(chars - begin, u64(SHORT_SPAN)) && s.rows - first >= ROW_BLOCK &&
           lengths.width <= 8 && lengths.minimum + (1u << lengths.width) <= LONG_ROW;
    skew = u32(begin % 128), span = u32(bytes);
    words = planes + 4 * view.first_word + 16 * (begin / 128);
    valid = s.validity == 0 ? 0 : s.validity + first / 8;
    to = answers + s.first_row + first;
  }
  // That of another lane, where it fits.
  __device__ __forceinline__ ShortBlock(const ShortBlock& own, u32 lane)
      : fits(true),
        lengths(own.lengths, lane),
        words(__shfl_sync(ALL_LANES, own.words, lane)),
        valid(__shfl_sync(ALL_LANES, own.valid, lane)),
        to(__shfl_sync(ALL_LANES, own.to, lane)) {
    const u32 both = __shfl_sync(ALL_LANES, own.span << 7 | own.skew, lane);
    skew = both & 127, span = both >> 7;
  }

  // Asks for the bits and the row lengths.
  __device__ __forceinline__ void prefetch_all() const {
    const u32 lane = lane_id();
    if (lane < SHORT_WORDS) {
      if (1024 * lane < skew + span) prefetch(words + 128 * lane);
    } else if (4 * (lane - SHORT_WORDS) < lengths.width) {
      prefetch(reinterpret_cast<u64>(lengths.bits + 32 * (lane - SHORT_WORDS)));
    }
  }
};

// The lengths of a lane's eight rows.
struct EightRows {
  u32 near, far, width, mask, minimum;

  __device__ __forceinline__ explicit EightRows(const PackedBlock& block)
      : width(block.width), mask((1u << block.width) - 1), minimum(u32(block.minimum)) {
    block.eight_rows(lane_id(), &near, &far);
  }
  __device__ __forceinline__ u32 length(u32 k) const {
    return minimum + ((k < 4 ? near : far) >> (k % 4 * width) & mask);
  }
};

// Whether a bit of from..to is set, which are not the same.
__device__ __forceinline__ bool any_of(const u32* words, u32 from, u32 to) {
  u32 i = from / 32, value = words[i] & ~0u << (from % 32);
  for (const u32 last = (to - 1) / 32; value == 0 && i < last;) value = words[++i];
  return value != 0 && 32 * i + u32(__ffs(value)) - 1 < to;
}

// Whether one of the bits behind the first `before` of each of a lane's rows is set; the first row begins at bit `at`. The answers are
// the highest byte of the result.
__device__ __forceinline__ u32 eight_contain(const u32* words, const EightRows& rows, u32 at, u32 before) {
  const u32 first = at;
  u32 found = 0, longest = 0;
#pragma unroll
  for (u32 k = 0; k < 8; ++k) {
    const u32 from = at + before, length = rows.length(k), count = length - before;  // which may be negative
    at += length;
    longest = max(longest, length);
    const u32* near = words + from / 32;
    const u32 low = __funnelshift_r(near[0], near[1], from % 32), high = __funnelshift_r(near[1], near[2], from % 32);
    // Of 64 bits from there the first `count`, or none.
    const u32 some = shift_left(low, u32(max(32 - i32(count), 0))) | shift_left(high, 64 - count);
    found = __funnelshift_r(found, min(some, 1u), 1);
  }
  if (__any_sync(ALL_LANES, longest > before + 64)) {
    at = first;
#pragma unroll 1
    for (u32 k = 0; k < 8; ++k) {
      const u32 length = rows.length(k);
      if (length > before + 64 && any_of(words, at + before, at + length)) found |= 1u << (24 + k);
      at += length;
    }
  }
  return found;
}

// Whether one bit of each of a lane's rows is set, `behind` its start or its end. check: a row may have another length than the question wants.
template <bool from_start, typename Question>
__device__ __forceinline__ u32 eight_edges(const u32* words, const EightRows& rows, u32 at, u32 behind,
                                           const Question& question, bool check) {
  u32 found = 0;
#pragma unroll
  for (u32 k = 0; k < 8; ++k) {
    const u32 length = rows.length(k), place = (from_start ? at : at + length) + behind, word = words[place / 32];
    u32 bit = __funnelshift_r(word, word, place % 32);
    if (check) bit = question.fits(length) ? bit : 0;
    found = __funnelshift_r(found, bit, 1);
    at += length;
  }
  return found;
}

// Writes a warp's answers, eight bits of each lane, a byte each, to an address.
__device__ __forceinline__ void write_answers(u64 address, u32 bits) {
  const u32 lane = lane_id(), skew = u32(address) & 7;
  u64 to = address + 8 * lane;
  if (skew != 0) {
    // Eight bytes at a multiple of eight, the first ones of which are the lane's before; around them, lane 0 has both ends of all.
    bits = (bits << 8 | __shfl_sync(ALL_LANES, bits, lane + 31 & 31)) >> (8 - skew) & 255;
    to -= skew;
    const u32 ends = __shfl_sync(ALL_LANES, bits, 0);
    if (lane < 8) *reinterpret_cast<u8*>(address - skew + lane + (lane < skew ? ROW_BLOCK : 0)) = ends >> lane & 1;
  }
  if (skew == 0 || lane > 0)  // four bits, each to its own byte
    *reinterpret_cast<uint2*>(to) = make_uint2((bits & 15) * 0x204081 & 0x1010101, (bits >> 4) * 0x204081 & 0x1010101);
}

// Answers for the rows of a block that fits; room: SHORT_ROOM words of shared memory. false: its row lengths are not sound.
template <typename Question>
__device__ __forceinline__ bool answer_short(const Question& question, const ShortBlock& block, u32* room) {
  const u32 lane = lane_id(), count = (block.skew + block.span + 127) / 128;
  const uint4* const from = reinterpret_cast<const uint4*>(block.words) + lane;
  u32 any = 0;
#pragma unroll
  for (u32 i = 0; i < SHORT_WORDS / 4; ++i) {
    const uint4 four = 32 * i + lane < count ? __ldg(from + 32 * i) : make_uint4(0, 0, 0, 0);
    reinterpret_cast<uint4*>(room + SHORT_BEFORE)[32 * i + lane] = four;
    any |= four.x | four.y | four.z | four.w;
  }
  __syncwarp();  // a vote alone does not order what lanes write and read
  if (!__any_sync(ALL_LANES, any != 0)) {
    write_answers(block.to, 0);
    return true;
  }
  const EightRows rows(block.lengths);
  const u32 sum = 8 * rows.minimum + block.lengths.sum_of(rows.near, 4) + block.lengths.sum_of(rows.far, 4);
  const u32 first = 32 * SHORT_BEFORE + block.skew, behind = first + warp_inclusive_sum(sum);
  if (__shfl_sync(ALL_LANES, behind, 31) != first + block.span) return false;
  u32 found = question.eight(room, rows, behind - sum) >> 24;
  if (block.valid != 0) found &= reinterpret_cast<const u8*>(block.valid)[lane];
  write_answers(block.to, found);
  return true;
}
