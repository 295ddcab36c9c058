// Compaction of what tiles were encoded to, by any codec of text: stage 5 of the pipeline (text_compress.cuh). Copies the bundles of waves to
// their places in the exact-size result, and writes block_starts.
//
// Work unit: a thread block of 256 threads has COMPACT_BUNDLES bundles of 32 tiles, a warp copies one at a time.
// Bound: memory; it runs beside the encoder of the next segment. docs/kernels.md has what lost.
#include "text_compress.cuh"

// Copies `chunks` times 16 bytes by all lanes. What belongs to `to` begins `skip` words and `shift` bits behind `from`.
template <u32 skip>
__device__ __forceinline__ void copy_chunks(const uint4* from, uint4* to, u32 chunks, u32 shift) {
#pragma unroll 4
  for (u32 c = lane_id(); c < chunks; c += 32) {
    const uint4 a = __ldg(from + c), b = skip + shift > 0 ? __ldg(from + c + 1) : a;
    const u32 words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    to[c] = make_uint4(__funnelshift_r(words[skip], words[skip + 1], shift),
                       __funnelshift_r(words[skip + 1], words[skip + 2], shift),
                       __funnelshift_r(words[skip + 2], words[skip + 3], shift),
                       __funnelshift_r(words[skip + 3], words[skip + 4], shift));
  }
}

// Copies the bundles of waves to their places, and the tiles' lengths: COMPACT_BUNDLES bundles a thread block of 256 threads; 16 bytes of
// the destination a lane, the bytes at both ends one by one. Every block sums the lengths of the bundles before its own by itself
// (some 40 KB from the L2); a scan kernel of one block before this one took 12 us a segment, 0.2 ms for l_comment.
// A wave starts at a block of tiles' start. codes_at: of a launch of one wave, instead of WaveView::codes; else 0. grid: x covers the
// longest wave, y = waves.
extern "C" __global__ void __launch_bounds__(256, 4) text_compact(const WaveView* __restrict__ waves, u64 codes_at) {
  __shared__ u64 warp_sums[8];
  const u32 lane = lane_id(), warp = threadIdx.x / 32;
  const WaveView& wave = waves[blockIdx.y];
  const u64 first = blockIdx.x * u64(COMPACT_BUNDLES), tiles = wave.tiles, bundles = (tiles + 31) / 32;
  if (first >= bundles) return;
  const u8* const slot = reinterpret_cast<const u8*>(wave.slot);
  const u32* const bundle_lengths = reinterpret_cast<const u32*>(wave.bundle_lengths);
  const u32* const places = wave.capacity == 0 ? nullptr : bundle_lengths + wave.tile_limit / 32;
  u64* const block_starts = reinterpret_cast<u64*>(wave.block_starts);
  u8* const codes = reinterpret_cast<u8*>(codes_at != 0 ? codes_at : wave.codes);
  u64 sum = 0;
  static_assert(COMPACT_BUNDLES % 4 == 0, "bundles are summed by fours");
  const uint4* const fours = reinterpret_cast<const uint4*>(bundle_lengths);
#pragma unroll 4
  for (u64 i = threadIdx.x; i < first / 4; i += 256) {
    const uint4 four = __ldg(fours + i);
    sum += u64(four.x) + four.y + four.z + four.w;
  }
  sum = warp_inclusive_sum(sum);
  if (lane == 31) warp_sums[warp] = sum;
  const u32 of_lane = lane < COMPACT_BUNDLES && first + lane < bundles ? __ldg(bundle_lengths + first + lane) : 0;
  const u32 up_to_lane = warp_inclusive_sum(of_lane);
  for (u64 tile = 32 * first + threadIdx.x; tile < min(32 * (first + COMPACT_BUNDLES), tiles); tile += 256) {
    if (TILE <= 256)
      reinterpret_cast<u8*>(wave.stored_lengths)[tile] = reinterpret_cast<const u8*>(wave.tile_lengths)[tile];
    else
      reinterpret_cast<u16*>(wave.stored_lengths)[tile] = reinterpret_cast<const u16*>(wave.tile_lengths)[tile];
  }
  __syncthreads();
  u64 before = wave.before;
  for (u32 i = 0; i < 8; ++i) before += warp_sums[i];

  const u32 each = COMPACT_BUNDLES / 8;
  for (u32 i = each * warp; i < each * (warp + 1) && first + i < bundles; ++i) {
    const u64 bundle = first + i;
    const u32 length = __shfl_sync(ALL_LANES, of_lane, i);
    const u64 start = before + (__shfl_sync(ALL_LANES, up_to_lane, i) - length);
    if (lane == 0) {
      const u32 per_block = TILE_BLOCK / 32;
      if (bundle % per_block == 0) block_starts[bundle / per_block] = start;
      if (bundle + 1 == bundles) block_starts[bundle / per_block + 1] = start + length;
    }

    const u8* from = slot + (places == nullptr ? bundle * (32 * TILE) : __ldg(places + bundle) * 16ull);
    u8* to = codes + start;
    const u32 head = min(length, u32(-reinterpret_cast<u64>(to) & 15));
    const u32 chunks = (length - head) / 16, shift = 8 * (head & 3), done = head + 16 * chunks;
    if (lane < head) to[lane] = from[lane];
    if (done + lane < length) to[done + lane] = from[done + lane];
    const uint4* whole = reinterpret_cast<const uint4*>(from);
    uint4* to_whole = reinterpret_cast<uint4*>(to + head);
    if (head / 4 == 0) copy_chunks<0>(whole, to_whole, chunks, shift);
    if (head / 4 == 1) copy_chunks<1>(whole, to_whole, chunks, shift);
    if (head / 4 == 2) copy_chunks<2>(whole, to_whole, chunks, shift);
    if (head / 4 == 3) copy_chunks<3>(whole, to_whole, chunks, shift);
  }
}
