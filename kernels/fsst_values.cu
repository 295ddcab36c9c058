// FSST values: which rows are one of some values (text_values.cuh).
#include "fsst_tile_codes.cuh"
#include "text_values.cuh"

// Thread blocks on a multiprocessor: as many as give the code so many registers that nothing is spilled.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define VALUES_BLOCKS 4
#else
#define VALUES_BLOCKS 3
#endif

// Bytes of the entries of a DecodeTable, which are looked up faster than the entries.
struct EntryBytes {
  u8 bytes[512];

  // Whole warps.
  __device__ __forceinline__ void load(u64 table) {
#pragma unroll 4
    for (u32 entry = lane_id(); entry < 512; entry += 32)
      bytes[entry] = u8(reinterpret_cast<const DecodeTable*>(table)->bits_of(entry) / 8);
  }
};

// The bytes of a row, one chunk after another.
struct FsstRow {
  typedef EntryBytes Lengths;

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

  __device__ __forceinline__ FsstRow(const SegmentView& s, const EntryBytes& lengths, u64 start)
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

MATCH_VALUES(match_values, FsstRow, false, VALUES_BLOCKS)
MATCH_VALUES(match_values_searched, FsstRow, true, VALUES_BLOCKS)
