// OnPair training: the same tables as cudf_fsst/codecs/onpair/train.py, bit for bit. All scopes go through the same launch side by side.
//
// What the rounds count are sums of integers, and which strings are kept follows from these sums and the strings themselves. So it does not
// matter in which order threads add, nor how the codes of a table in training are numbered; only the last table is put in order.
//
//   sample    chunks of the scope; the first table: the single bytes; everything that counts is 0
//   ten rounds of
//     count   some threads a chunk: longest symbols of all places, tokens, what they gain; neighbours
//     collect all strings that may be symbols -> a hash table of strings, with the sum of their gains
//     filter  those that pay for their place -> a list, and how many have what gain
//     select  the best of these -> the next table: a hash table of its symbols, and for their first bytes the lengths of those that
//             begin with these
//   and then
//     rank    the last table in order, for the host and for the encoder
//     index   what the encoder finds symbols in (onpair.cuh)
//
// Work unit: some blocks a scope, which run at the same time (a cooperative launch) and wait for each other behind every step, some two
// microseconds each. Where shared memory has room, each block makes the tables for itself there: all make the same of the list. Else
// the first block makes them, and the others wait. Before, it did so everywhere, and another kernel drew the sample: l_comment SF 10 took 6.17 ms
// instead of 5.89, 1 GB of prose 6.42 instead of 6.17 (the least of 18 whole calls).
// Two that lost: tables with room for 12 bits, which leave too little of the L1 (l_comment 6.27 ms), and up to 512 strings in the bin of the
// last compared with each other, or 2,048 (1 MB of l_comment 0.84 and 1.02 ms instead of 0.77).
// What reads a sum sets it back to 0 for the next round.
#include "onpair_train_collect.cuh"
#include "onpair_train_count.cuh"
#include "onpair_train_index.cuh"
#include "onpair_train_select.cuh"

// Zeros, 16 bytes each.
__device__ __forceinline__ void clear(u64 address, u32 count, u32 thread, u32 threads) {
  for (u32 i = thread; i < count; i += threads) reinterpret_cast<uint4*>(address)[i] = make_uint4(0, 0, 0, 0);
}

// sample: the chunks of a scope, a warp each; everything that counts is 0.
__device__ __forceinline__ void draw_sample(const TrainView& view, TrainState& state, u64* bounds) {
  const ScopeView& scope = *reinterpret_cast<const ScopeView*>(view.scope);
  if (threadIdx.x < 32) find_scope(scope, bounds, bounds + 1);
  __syncthreads();
  const u64 start = bounds[0], chars = bounds[1] - start;
  const u64 wanted = view.draw_chunks != 0
                         ? view.draw_chunks
                         : min(max(chars / TRAIN_PART / CHUNK, u64(TRAIN_MIN_CHUNKS)), u64(TRAIN_MAX_CHUNKS));
  const u32 most = u32(wanted);
  const u32 chunks = u32(min(u64(most), (chars + CHUNK - 1) / CHUNK)), room = u32(min(u64(chunks), view.most_chunks));
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    state.column = chars;
    state.chunks = room;
    // A scope that is its own sample may end within a chunk.
    state.last = chars < u64(most) * CHUNK && room > 0 ? u32(chars - u64(room - 1) * CHUNK) : CHUNK;
    const u32 bits = u32(view.bits);
    OnpairLookup& lookup = *reinterpret_cast<OnpairLookup*>(view.lookup);
    lookup.bits = bits, lookup.count = u32(view.buckets), lookup.unused = 0;
    lookup.nbytes = u32(sizeof(OnpairLookup)) + 8 * lookup.count + (8u << bits) + (16u << bits);
  }
  const u32 thread = blockIdx.x * TRAIN_THREADS + threadIdx.x, threads = gridDim.x * TRAIN_THREADS;
  const u8* const from = reinterpret_cast<const u8*>(*Found(scope.found, scope.segments).first_char + start);
  u8* const to = reinterpret_cast<u8*>(view.sample);
  for (u32 i = thread / 32; i < room; i += threads / 32) {
    copy_sample_chunk(from, chunk_start(i, chars, most, 0), chars, to, CHUNK * i);
  }
  const u64 part = u64(room) * CHUNK;
  const u32 codes = 1u << u32(view.bits);
  for (u32 i = thread; i < MOST_CODES; i += threads) state.gains[i] = 0;
  clear(view.pairs, places_for(part) / 2, thread, threads);
  clear(view.strings, places_for(most_strings(part)) / 2, thread, threads);
  clear(view.extended, codes * TRAIN_SPARE, thread, threads);
  clear(view.lookup + sizeof(OnpairLookup), u32(view.buckets) / 2, thread, threads);
}

// grid: (any, scopes), all at the same time; block: TRAIN_THREADS; shared memory: TRAIN_SHARED, and GROWING_NBYTES if TRAIN_IN_SHARED.
// `parts`: of the rounds, see TrainRound.
extern "C" __global__ void __launch_bounds__(TRAIN_THREADS, 1)
    onpair_train(TrainView* views, u64 parts, u64 more_parts) {
  DYNAMIC_SHARED(uint4, shared_memory);
  const TrainView& view = views[blockIdx.y];
  u64& arrived = views[blockIdx.y].arrived;
  TrainState& state = state_of(view);
  StringChoice& choice = *reinterpret_cast<StringChoice*>(shared_memory);
#if TRAIN_IN_SHARED
  Growing& table = *reinterpret_cast<Growing*>(shared_memory + TRAIN_SHARED / 16);
#else
  Growing& table = state.table;
#endif
  const bool makes = TRAIN_IN_SHARED || blockIdx.x == 0;
  u32 waited = 0;
  // The table is made.
  auto table_sync = [&] {
    if (TRAIN_IN_SHARED)
      __syncthreads();
    else
      scope_sync(arrived, waited);
  };
  draw_sample(view, state, reinterpret_cast<u64*>(shared_memory));
  if (makes) begin_table(table);
  scope_sync(arrived, waited);
#pragma unroll 1
  for (u32 i = 0; i < TRAIN_ROUNDS; ++i) {
    const TrainRound round(parts, more_parts, i);
    count_chunks(view, state, table, round, shared_memory);
    scope_sync(arrived, waited);
    collect_strings(view, state, table, round, choice);
    scope_sync(arrived, waited);
    filter_strings(view, state, table, round, choice);
    scope_sync(arrived, waited);
    if (makes) make_table(table, choice.sources, select_strings(view, state, round, choice));
    table_sync();
  }
  rank_codes(view, state, table);
  scope_sync(arrived, waited);
  index_prefixes(view, state, table);
}
