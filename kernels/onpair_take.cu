// OnPair take: chosen rows (text_take.cuh). While it skips what lies before a row, a thread looks up four codes at once.
//
// Tables are read through the L1: at 11 bits one has 32 KB, of which a few rows need some hundred bytes.
#include "onpair.cuh"
#include "text_take.cuh"

// The codes of a tile.
struct OnpairTile {
  typedef OnpairTable Table;
  struct Symbol {
    u64 low, high;
  };
  enum : u32 { STAGED = 0 };

  u64 words, end;  // addresses of the word in which the first code begins, and behind all codes of the segment
  u32 bit;         // of the next code, counted from there
  u32 bits;        // of a code
  u32 left;
  u64 held;  // codes that are loaded
  u32 have;  // and how many

  __device__ __forceinline__ OnpairTile(const SegmentView& s, u64 at, u32 nbytes)
      : words((s.codes + at) / 4 * 4),
        end(s.codes + s.codes_nbytes),
        bit(8 * u32((s.codes + at) % 4)),
        bits(__ldg(&reinterpret_cast<const OnpairTable*>(s.table)->bits)),
        left(8 * nbytes / bits),
        held(0),
        have(0) {}

  // The next 64 bits. Codes begin at a multiple of four, so a word that has some of them may be read.
  __device__ __forceinline__ u64 peek() const {
    const u64 word = words + bit / 32 * 4;
    const u32 near = load_word(word, 0, end), middle = load_word(word + 4, 0, end), far = load_word(word + 8, 0, end);
    return u64(__funnelshift_r(middle, far, bit % 32)) << 32 | __funnelshift_r(near, middle, bit % 32);
  }
  // Steps over codes, as long as what they stand for ends at `until` or before.
  __device__ __forceinline__ void skip(const OnpairTable& table, u32& position, u32 until) {
    const u32 mask = (1u << bits) - 1;
    have = 0;
    while (left >= 4) {
      const u64 four = peek();
      u32 sum = 0;
#pragma unroll
      for (u32 i = 0; i < 4; ++i) sum += table.bits_of(u32(four >> (i * bits)) & mask);
      if (position + sum / 8 > until) break;
      position += sum / 8;
      bit += 4 * bits;
      left -= 4;
    }
  }
  // The next code's symbol, with zeros behind it; `left` must not be 0.
  __device__ __forceinline__ Symbol next(const OnpairTable* table, u32* nbits) {
    if (have == 0) held = peek(), have = 4;
    const u32 code = u32(held) & ((1u << bits) - 1);
    held >>= bits, bit += bits, --have, --left;
    Symbol symbol;
    table->symbol(code, &symbol.low, &symbol.high, nbits);
    return symbol;
  }

  __device__ __forceinline__ static void append(WordWriter& writer, Symbol symbol, u32 skipped, u32 nbytes) {
    u64 low = symbol.low, high = symbol.high;
    if (skipped >= 8) {
      low = shift_right(high, 8 * (skipped - 8)), high = 0;
    } else if (skipped > 0) {
      low = low >> (8 * skipped) | high << (64 - 8 * skipped);
      high >>= 8 * skipped;
    }
    const u32 first = min(nbytes, 8u), rest = nbytes - first;
    writer.append(low & shift_right(~0ull, 64 - 8 * first), 8 * first);
    if (rest > 0) writer.append(high & shift_right(~0ull, 64 - 8 * rest), 8 * rest);
  }
};

// Offsets and characters, behind take_measure. grid: (groups, columns, blocks a group); block: TAKE_THREADS threads.
extern "C" __global__ void __launch_bounds__(TAKE_THREADS, TAKE_BLOCKS)
    onpair_take_many(const TakeColumn* __restrict__ columns, const u64* __restrict__ rows, u64 count) {
  take_rows<OnpairTile>(columns, rows, count);
}

// All of it for at most TAKE_ROWS rows. grid: (1, columns); block: TAKE_THREADS threads.
extern "C" __global__ void __launch_bounds__(TAKE_THREADS, TAKE_BLOCKS)
    onpair_take_few(const TakeColumn* __restrict__ columns, const u64* __restrict__ rows, u64 count, u64 capacity) {
  take_few_rows<OnpairTile>(columns, rows, count, capacity);
}
