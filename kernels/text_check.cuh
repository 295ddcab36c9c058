// What kernels share that check whether codes decode to the bytes of their tiles.
//
// CHECK_THREADS is a compile option (cudf_fsst/codecs/text/launch.py).
#pragma once

#include "jobs.cuh"
#include "text.cuh"

// The codes of a segment. `found`: address of a u64, 0 at first, that becomes the complement of 8 * tile + reason of the first tile that
// does not decode.
struct CheckJob {
  u64 codes, codes_nbytes;
  u64 block_starts, tile_lengths;  // addresses
  u64 tiles, chars, tile_size;
  u64 table;  // address of what the codec's kernel reads of a table
  u64 found;
};

// The code bytes of a tile, one by one. Bytes outside of the segment's codes are 0.
struct TileBytes {
  u64 address, begin, end;  // of the next byte; of the segment's codes
  u32 left;                 // bytes of the tile
  u32 word;

  __device__ __forceinline__ TileBytes(u64 first, u32 nbytes, u64 codes, u64 codes_nbytes)
      : address(first), begin(codes), end(codes + codes_nbytes), left(nbytes), word(0) {
    if (left != 0) word = load_word(address & ~u64(3), begin, end);
  }
  __device__ __forceinline__ u32 next() {
    const u32 byte = word >> (8 * u32(address & 3)) & 255;
    ++address, --left;
    if (left != 0 && (address & 3) == 0) word = load_word(address, begin, end);
    return byte;
  }
};

// `codec.damage(codes, expected)`: the reason why the code bytes of a tile that is not raw do not decode to as many bytes, or 0.
template <typename Codec>
__device__ __forceinline__ void check_tiles(const CheckJob& job, u32 in_job, const Codec& codec) {
  const u64 block = in_job * u64(CHECK_THREADS / 32) + threadIdx.x / 32, first = block * TILE_BLOCK;
  if (first >= job.tiles) return;
  u64 start = job.codes + reinterpret_cast<const u64*>(job.block_starts)[block];
  u64 damaged = 0;
#pragma unroll 1
  for (u32 quarter = 0; quarter < TILE_BLOCK / 32; ++quarter) {
    const u64 tile = first + 32 * quarter + lane_id();
    u32 nbytes = 0;
    if (tile < job.tiles)
      nbytes = 1u + (job.tile_size <= 256 ? reinterpret_cast<const u8*>(job.tile_lengths)[tile]
                                          : reinterpret_cast<const u16*>(job.tile_lengths)[tile]);
    const u32 until = warp_inclusive_sum(nbytes);
    if (nbytes != 0) {
      const u32 expected = u32(min(job.tile_size, job.chars - tile * job.tile_size));
      if (nbytes != expected) {
        const u32 reason =
            codec.damage(TileBytes(start + (until - nbytes), nbytes, job.codes, job.codes_nbytes), expected);
        if (reason != 0) damaged = max(damaged, ~(8 * tile + reason));
      }
    }
    start += __shfl_sync(ALL_LANES, until, 31);
  }
  if (damaged != 0) atomicMax(reinterpret_cast<u64*>(job.found), damaged);
}
