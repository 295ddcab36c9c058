// OnPair values: which rows are one of some values (text_values.cuh).
//
// Tables are read through the L1, as onpair_take.cu does it.
#include "onpair_tile_codes.cuh"
#include "text_values.cuh"

// Thread blocks on a multiprocessor: as many as give the code so many registers that nothing is spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define VALUES_BLOCKS 3
#else
#define VALUES_BLOCKS 2
#endif

// Nothing of a table in shared memory.
struct NoLengths {
  __device__ __forceinline__ void load(u64) {}
};

// The bytes of a row, one chunk after another.
struct OnpairRow {
  typedef NoLengths Lengths;

  const SegmentView& s;
  const OnpairTable& table;
  u64 tile;
  u64 begin;  // of the next tile's codes
  OnpairCodes codes;
  u32 left;       // bytes of the tile that are not given yet
  u64 low, high;  // the last symbol
  u32 bytes;      // of it that are not given yet

  __device__ __forceinline__ OnpairRow(const SegmentView& s, const NoLengths&, u64 start)
      : s(s),
        table(*reinterpret_cast<const OnpairTable*>(s.table)),
        tile(start >> s.tile_shift),
        begin(0),
        codes(s, 0, 0),
        left(0),
        low(0),
        high(0),
        bytes(0) {
    u32 count;
    if (!find_codes(s, tile, &begin, &count)) begin = 0, count = 0;
    enter(count);
    const u32 before = u32(start - (tile << s.tile_shift));
    u32 position = 0;
    codes.skip(table, position, before);
    while (position <= before && codes.left > 0) position += next_code();
    // Damaged codes may end before.
    const u32 behind = min(position > before ? position - before : 0, bytes);
    drop(bytes - behind);
    left -= before;
    bytes = min(behind, left);
  }
  __device__ __forceinline__ void enter(u32 count) {
    codes = OnpairCodes(s, begin, count);
    begin += count;
    left = u32(min(1ull << s.tile_shift, s.chars - (tile << s.tile_shift)));
    if (count == left) codes.bits = 8, codes.left = count;  // raw: codes 0 to 255 are the single bytes
  }
  // The next tile's codes lie behind those of this one.
  __device__ __forceinline__ void enter_next() {
    ++tile;
    const u32 count = 1u + (s.tile_shift <= 8 ? reinterpret_cast<const u8*>(s.tile_lengths)[tile]
                                              : reinterpret_cast<const u16*>(s.tile_lengths)[tile]);
    enter(begin <= s.codes_nbytes && count <= s.codes_nbytes - begin ? count : 0);
  }
  // The next code's symbol, and its bytes; `codes.left` must not be 0.
  __device__ __forceinline__ u32 next_code() {
    const OnpairCodes::Symbol symbol = codes.next(&table, &bytes);
    low = symbol.low, high = symbol.high;
    return bytes /= 8;
  }
  // Leaves out the symbol's first bytes, 16 at most.
  __device__ __forceinline__ void drop(u32 some) {
    low = some < 8 ? low >> (8 * some) | (some == 0 ? 0 : high << (64 - 8 * some)) : shift_right(high, 8 * (some - 8));
    high = shift_right(high, 8 * min(some, 8u));
  }
  // The next 1 to 8 bytes; false: the codes are damaged. They must be there by the row's length.
  __device__ __forceinline__ bool next(u32 wanted, u64* chunk) {
    u64 result = 0;
    for (u32 have = 0; have < wanted;) {
      if (bytes == 0) {
        if (left == 0) enter_next();
        if (codes.left == 0) return false;
        bytes = min(next_code(), left);
        continue;
      }
      const u32 some = min(bytes, wanted - have);
      result |= (low & shift_right(~0ull, 64 - 8 * some)) << (8 * have);
      drop(some);
      have += some, bytes -= some, left -= some;
    }
    *chunk = result;
    return true;
  }
};

MATCH_VALUES(onpair_match_values, OnpairRow, false, VALUES_BLOCKS)
MATCH_VALUES(onpair_match_values_searched, OnpairRow, true, VALUES_BLOCKS)
