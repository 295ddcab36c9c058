// OnPair take: chosen rows (text_take.cuh). While it skips what lies before a row, a thread looks up four codes at once.
//
// Tables are read through the L1: at 11 bits one has 32 KB, of which a few rows need some hundred bytes.
#include "onpair_tile_codes.cuh"
#include "text_take.cuh"

// The codes of a tile.
struct OnpairTile : OnpairCodes {
  typedef OnpairTable Table;
  enum : u32 { STAGED = 0 };

  using OnpairCodes::OnpairCodes;

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
