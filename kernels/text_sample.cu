// The samples of scopes on which tables are compared (docs/format.md, section 21), one after another in memory of their own: encoders read
// them as a segment's characters.
//
// Work unit: a warp copies a chunk. Bound: latency, some microseconds.
#include "text_sample.cuh"

// A scope, and its sample. What an encoder reads of a segment is written for the sample.
struct SampleView {
  u64 scope;       // address of a ScopeView
  u64 sample;      // address; room for all chunks
  u64 first_char;  // address of a number: the sample's address
  u64 bounds;      // address of two numbers: 0, and the sample's bytes
};

// `chunks`: of a sample at most. grid: (any, scopes); block: SAMPLE_THREADS.
extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS) text_sample(const SampleView* views, u32 chunks) {
  __shared__ u64 scope[2];
  const SampleView& view = views[blockIdx.y];
  const ScopeView& of = *reinterpret_cast<const ScopeView*>(view.scope);
  if (threadIdx.x < 32) find_scope(of, &scope[0], &scope[1]);
  __syncthreads();
  const u64 start = scope[0], chars = scope[1] - start, nbytes = min(chars, u64(chunks) * SAMPLE_CHUNK);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *reinterpret_cast<u64*>(view.first_char) = view.sample;
    reinterpret_cast<u64*>(view.bounds)[0] = 0;
    reinterpret_cast<u64*>(view.bounds)[1] = nbytes;
  }
  const u8* const from = reinterpret_cast<const u8*>(*Found(of.found, of.segments).first_char + start);
  u8* const to = reinterpret_cast<u8*>(view.sample);
  const u32 warps = SAMPLE_THREADS / 32;
  for (u32 i = blockIdx.x * warps + threadIdx.x / 32; i * u64(SAMPLE_CHUNK) < nbytes; i += gridDim.x * warps) {
    copy_sample_chunk(from, chunk_start(i, chars, chunks, 1), chars, to, u64(i) * SAMPLE_CHUNK);
  }
}
