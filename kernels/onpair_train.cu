// OnPair training: the same tables as cudf_fsst/codecs/onpair/train.py, bit for bit. All scopes go through the same launches side by side.
//
// What the rounds count are sums of integers, and which strings are kept follows from these sums and the strings themselves. So it does not
// matter in which order threads add, nor how the codes of a table in training are numbered; only the last table is put in order.
//
//   onpair_sample  chunks of the scope -> sample; the first table: the single bytes; everything that counts is 0
//   onpair_train   ten rounds of
//     count   some threads a chunk: longest symbols of all places, tokens, what they gain; neighbours
//     collect all strings that may be symbols -> a hash table of strings, with the sum of their gains
//     filter  those that pay for their place -> a list, and how many have what gain
//     divide  that list into what is kept, what is not, and some between
//     select  the best of these -> the next table: a hash table of its symbols, for two bytes the lengths of symbols that begin
//             with these, and of every symbol the next shorter one that begins it. By one block.
//   and then
//     rank    the last table in order, for the host and for the encoder
//     index   what the encoder finds symbols in (onpair.cuh)
//
// Work unit of onpair_train: some blocks a scope, which run at the same time (a cooperative launch) and wait for each other behind every
// step: four or five times a round, one to four microseconds each. Before, every step was a launch, and counting was slower:
// l_comment, 1 MB, took 1.45 ms instead of 1.05, faust 1.50 instead of 1.39 (the least of 61 whole calls, on a slow host).
// Two that lost: blocks of 512 threads, two on a multiprocessor (l_comment SF 10 6.9 ms instead of 6.5), and fewer blocks for a small
// column, for each has then more to do (1.74 ms instead of 1.37 with an eighth of them).
// What reads a sum sets it back to 0 for the next round.
#include "onpair_train_collect.cuh"
#include "onpair_train_count.cuh"
#include "onpair_train_index.cuh"
#include "onpair_train_select.cuh"

// Zeros, 16 bytes each.
__device__ __forceinline__ void clear(u64 address, u32 count, u32 thread, u32 threads) {
  for (u32 i = thread; i < count; i += threads) reinterpret_cast<uint4*>(address)[i] = make_uint4(0, 0, 0, 0);
}

// grid: (any, scopes); block: SAMPLE_THREADS.
extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS) onpair_sample(const TrainView* views) {
  __shared__ u64 start;
  __shared__ u64 stop;
  const TrainView& view = views[blockIdx.y];
  const ScopeView& scope = *reinterpret_cast<const ScopeView*>(view.scope);
  TrainState& state = state_of(view);
  if (threadIdx.x < 32) find_scope(scope, &start, &stop);
  __syncthreads();
  const u64 chars = stop - start;
  const u64 wanted = view.draw_chunks != 0
                         ? view.draw_chunks
                         : min(max(chars / TRAIN_PART / CHUNK, u64(TRAIN_MIN_CHUNKS)), u64(TRAIN_MAX_CHUNKS));
  const u32 most = u32(wanted);
  const u32 chunks = u32(min(u64(most), (chars + CHUNK - 1) / CHUNK)), room = u32(min(u64(chunks), view.most_chunks));
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) {
      state.column = chars;
      state.chunks = room;
      // A scope that is its own sample may end within a chunk.
      state.last = chars < u64(most) * CHUNK && room > 0 ? u32(chars - u64(room - 1) * CHUNK) : CHUNK;
      state.counts[0] = 256;
      const u32 bits = u32(view.bits);
      OnpairLookup& lookup = *reinterpret_cast<OnpairLookup*>(view.lookup);
      lookup.bits = bits, lookup.count = u32(view.buckets), lookup.unused = 0;
      lookup.nbytes = u32(sizeof(OnpairLookup)) + 12 * lookup.count + (16u << bits);
    }
    for (u32 i = threadIdx.x; i < 512; i += blockDim.x) {
      Growing& table = state.tables[i / 256];
      const u32 byte = i & 255;
      table.words[byte][0] = byte, table.words[byte][1] = 0;
      table.lengths[byte] = 1;
      state.found[byte] = found_symbol(byte, 1, 1);
    }
  }
  const u8* const from = reinterpret_cast<const u8*>(*Found(scope.found, scope.segments).first_char + start);
  u8* const to = reinterpret_cast<u8*>(view.sample);
  for (u32 i = blockIdx.x; i < room; i += gridDim.x) {
    const u64 at = chunk_start(i, chars, most, 0);
#pragma unroll 1
    for (u32 k = threadIdx.x; k < CHUNK; k += blockDim.x) to[CHUNK * i + k] = at + k < chars ? from[at + k] : 0;
  }
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
  const u64 part = u64(room) * CHUNK;
  const u32 codes = 1u << u32(view.bits);
  for (u32 i = thread; i < BINS; i += threads) state.histogram[i] = 0;
  for (u32 i = thread; i < MOST_CODES; i += threads) state.gains[i] = 0;
  for (u32 i = thread; i < 32768; i += threads) state.lengths_of[i] = 0;
  for (u32 i = thread; i < LENGTHS_OF / 2; i += threads) state.lengths_of_4[i] = state.lengths_of_8[i] = 0;
  if (thread == 0) state.listed = state.made = state.edge = state.arrived = 0;
  clear(view.pairs, places_for(part) / 2, thread, threads);
  clear(view.strings, places_for(most_strings(part)) / 2, thread, threads);
  clear(view.extended, codes * TRAIN_SPARE, thread, threads);
  clear(view.lookup + sizeof(OnpairLookup), u32(view.buckets) / 2, thread, threads);
}

// grid: (any, scopes), all at the same time; block: TRAIN_THREADS; shared memory: TRAIN_SHARED. `parts`: of the rounds, see TrainRound.
extern "C" __global__ void __launch_bounds__(TRAIN_THREADS, 1)
    onpair_train(const TrainView* views, u64 parts, u64 more_parts) {
  DYNAMIC_SHARED(uint4, shared_memory);
  const TrainView& view = views[blockIdx.y];
  TrainState& state = state_of(view);
  StringChoice& selection = *reinterpret_cast<StringChoice*>(shared_memory);
  u32 waited = 0;
#pragma unroll 1
  for (u32 i = 0; i < TRAIN_ROUNDS; ++i) {
    const TrainRound round(parts, more_parts, i);
    if (blockIdx.x == 0 && threadIdx.x == 0) state.listed = state.made = state.edge = 0;
    count_chunks(view, state, round, shared_memory);
    scope_sync(state, waited);
    collect_strings(view, state, round);
    scope_sync(state, waited);
    filter_strings(view, state, round, selection);
    scope_sync(state, waited);
    const bool alone = state.listed <= 8 * TRAIN_THREADS;
    if (!alone) {
      divide_list<false>(view, state, round, selection);
      scope_sync(state, waited);
    } else if (blockIdx.x == 0) {
      divide_list<true>(view, state, round, selection);
      __syncthreads();
    }
    if (blockIdx.x == 0) select_strings(view, state, round, selection, alone);
    scope_sync(state, waited);
  }
  rank_codes(view, state, TRAIN_ROUNDS & 1);
  scope_sync(state, waited);
  index_prefixes(view, state, TRAIN_ROUNDS & 1);
}
