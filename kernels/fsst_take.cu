// FSST take: chosen rows (text_take.cuh). While it skips what lies before a row, a thread looks up four codes at once.
#include "fsst_tile_codes.cuh"
#include "text_take.cuh"

// The codes of a tile.
struct FsstTile : TileCodes {
  typedef DecodeTable Table;
  typedef u64 Symbol;
  enum : u32 { STAGED = TAKE_TABLES };

  __device__ __forceinline__ FsstTile(const SegmentView& s, u64 at, u32 nbytes)
      : TileCodes{s.codes + at, s.codes + s.codes_nbytes, nbytes, 0, 0, 0} {}
  __device__ __forceinline__ static void append(WordWriter& writer, u64 symbol, u32 skipped, u32 nbytes) {
    writer.append(shift_right(symbol, 8 * skipped) & shift_right(~0ull, 64 - 8 * nbytes), 8 * nbytes);
  }
};

// Offsets and characters, behind take_measure. grid: (groups, columns, blocks a group); block: TAKE_THREADS threads.
extern "C" __global__ void __launch_bounds__(TAKE_THREADS, TAKE_BLOCKS)
    fsst_take_many(const TakeColumn* __restrict__ columns, const u64* __restrict__ rows, u64 count) {
  take_rows<FsstTile>(columns, rows, count);
}

// All of it for at most TAKE_ROWS rows. grid: (1, columns); block: TAKE_THREADS threads.
extern "C" __global__ void __launch_bounds__(TAKE_THREADS, TAKE_BLOCKS)
    fsst_take_few(const TakeColumn* __restrict__ columns, const u64* __restrict__ rows, u64 count, u64 capacity) {
  take_few_rows<FsstTile>(columns, rows, count, capacity);
}
