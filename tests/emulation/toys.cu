// Small kernels that test the shim itself: some right, some wrong on purpose.

#include "cluster.cuh"

#define ALL 0xffffffffu

// ------------------------------------------------------------------------------------------------------------- right

template <typename T>
__device__ __forceinline__ T block_scan(T value) {
  __shared__ T sums[32];
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (u32 delta = 1; delta < 32; delta *= 2) {
    T below = __shfl_up_sync(ALL, value, delta);
    if (lane >= delta) value += below;
  }
  if (lane == 31) sums[warp] = value;
  __syncthreads();
  for (u32 w = 0; w < warp; ++w) value += sums[w];
  __syncthreads();
  return value;
}

// Inclusive sums of every block's part of `in`, in 32 and in 64 bits.
extern "C" __global__ void __launch_bounds__(1024) scan(const u32* __restrict__ in, u32* narrow, u64* wide, u32 n) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 value = i < n ? in[i] : 0;
  const u32 sum = block_scan<u32>(value);
  const u64 wide_sum = block_scan<u64>(u64(value) << 32);
  if (i >= n) return;
  narrow[i] = sum;
  wide[i] = wide_sum;
}

// Reverses each block's bytes through dynamic shared memory.
extern "C" __global__ void reverse(u8* data) {
  DYNAMIC_SHARED(u8, bytes);
  u8* mine = data + blockIdx.x * blockDim.x;
  bytes[threadIdx.x] = mine[threadIdx.x];
  __syncthreads();
  mine[threadIdx.x] = bytes[blockDim.x - 1 - threadIdx.x];
}

// Lanes below `split` and the others go through different collectives; the last lane has left before.
extern "C" __global__ void partial_masks(u32 split, u32* ballots, u32* shuffled) {
  const u32 lane = threadIdx.x;
  if (lane == 31) return;
  const u32 low = (1u << split) - 1;
  if (lane < split) {
    ballots[lane] = __ballot_sync(low, lane % 2);
    shuffled[lane] = __shfl_sync(low, lane * 10, split - 1);
  } else {
    ballots[lane] = __ballot_sync(~low, lane % 3 == 0);
    shuffled[lane] = __shfl_xor_sync(~low, lane * 10, 1);
  }
  __syncwarp();
  shuffled[lane] += __any_sync(ALL, lane == 0) + 2 * __all_sync(ALL, lane < 31);
}

struct Piece {
  u64 from, to, count;
};

// Copies pieces given by addresses inside a structure. grid: (pieces, 2): the second row adds, atomically.
extern "C" __global__ void copy_pieces(const Piece* pieces, Piece extra, u64* total) {
  const Piece piece = blockIdx.x + 1 < gridDim.x ? pieces[blockIdx.x] : extra;
  for (u64 i = threadIdx.x; i < piece.count; i += blockDim.x) {
    const u32 value = reinterpret_cast<const u32*>(piece.from)[i];
    if (blockIdx.y == 0)
      reinterpret_cast<u32*>(piece.to)[i] = value;
    else
      atomicAdd(total, value);
  }
}

extern "C" __global__ void integers(u64* out, u32 a, u32 b, u64 wide) {
  u64* next = out;
  *next++ = __funnelshift_l(a, b, 8);
  *next++ = __funnelshift_l(a, b, 40);
  *next++ = __funnelshift_r(a, b, 8);
  *next++ = __funnelshift_rc(a, b, 32);
  *next++ = __byte_perm(a, b, 0x7410);
  *next++ = __brev(a);
  *next++ = __umulhi(a, b);
  *next++ = __dp4a(a, 0x01010101u, 5u);
  *next++ = __vcmpeq4(a, 0x78000012u);
  *next++ = __popc(a) | __popcll(wide) << 8 | __clz(a) << 16 | __clzll(wide) << 24;
  *next++ = __ffs(a) | __ffsll(wide << 32) << 8;
  *next++ = min(a, wide) + max(1, 2u);
}

// Every block of a cluster adds up what all of them have put into their shared memory, shifted by their ranks; and gives the sums,
// lanes swapped, to the block at the other end. `in`: a number a thread.
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(64) cluster_sums(const u32* in, u32* sums) {
  DYNAMIC_SHARED(u32, own);
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  own[threadIdx.x] = in[i];
  own[65 + threadIdx.x] = 0;
  if (threadIdx.x == 0) own[64] = cluster_rank();
  cluster_sync();
  u32 sum = 0;
  for (u32 block = 0; block < 4; ++block) sum += in_block(own, block)[threadIdx.x] << in_block(own, block)[64];
  atomicAdd(in_block(&own[65 + threadIdx.x], 3 - cluster_rank()), __shfl_xor_sync(ALL, sum, 1));
  cluster_sync();
  sums[i] = own[65 + threadIdx.x];
}

// Every block waits for all others: their number, by the number of the block.
extern "C" __global__ void blocks_together(u32* arrived, u32* seen) {
  if (threadIdx.x == 0) {
    atomicAdd(arrived, 1);
    while (*(volatile u32*)arrived < gridDim.x * gridDim.y) __nanosleep(20);
  }
  __syncthreads();
  if (threadIdx.x == 1) seen[blockIdx.y * gridDim.x + blockIdx.x] = *arrived;
}

// The first warp waits, all of its lanes together, for what the second one writes.
extern "C" __global__ void wait_for_another_warp(u32* out) {
  volatile u32* flag = out;
  const u32 lane = threadIdx.x % 32;
  if (threadIdx.x < 32) {
    while (__shfl_sync(0xffffffffu, lane == 0 ? *flag : 0, 0) == 0) {
    }
    out[1 + lane] = lane;
  } else if (lane == 0) {
    *flag = 1;
  }
}

// ------------------------------------------------------------------------------------------------- wrong on purpose

// The last block of a cluster does not wait until the others have read.
extern "C" __global__ void __cluster_dims__(2) left_too_early(u32* out) {
  DYNAMIC_SHARED(u32, own);
  own[0] = 1;
  cluster_sync();
  if (cluster_rank() == 1) return;
  for (u32 i = 0; i < 2; ++i) __syncthreads();
  *out = *in_block(own, 1);
}

extern "C" __global__ void __cluster_dims__(2) past_the_cluster(u32* out) {
  DYNAMIC_SHARED(u32, own);
  *in_block(own, 2) = 1;
}

extern "C" __global__ void __cluster_dims__(2) past_the_block(u32* out, u32 index) {
  DYNAMIC_SHARED(u32, own);
  in_block(own, 1)[index] = 1;
  cluster_sync();
}

// One block waits for the cluster, the other for itself, and one of its threads for the cluster.
extern "C" __global__ void __cluster_dims__(2) cluster_deadlock() {
  if (cluster_rank() == 0 || threadIdx.x == 0)
    cluster_sync();
  else
    __syncthreads();
}

extern "C" __global__ void past_the_end(u8* data, u32 n) { data[threadIdx.x + n - blockDim.x + 1] = 1; }

extern "C" __global__ void past_dynamic_shared(u32 index) {
  DYNAMIC_SHARED(u8, bytes);
  bytes[index] = 1;
}

template <typename T>
__device__ void write_static(u32 index) {
  __shared__ __align__(16) T values[5];
  T* pointer = values;
  pointer[index] = 1;
}
extern "C" __global__ void past_static_shared(u32 index) { write_static<u8>(index); }

// A local array is overrun after a barrier, when the fiber has been left and entered again.
extern "C" __global__ void past_local(u32 index, u32* out) {
  u32 values[8];
  u32* volatile pointer = values;  // volatile: lest the compiler see at once what is wrong
  for (u32 i = 0; i < 8; ++i) pointer[i] = i;
  __syncthreads();
  pointer[index] = 7;
  __syncthreads();
  *out = pointer[threadIdx.x % 8];
}

extern "C" __global__ void load16(const u8* data, u32 offset, uint4* out) {
  *out = *reinterpret_cast<const uint4*>(data + offset);
}

extern "C" __global__ void shift(u32* out, u32 by) { *out = 1u << by; }

extern "C" __global__ void barrier_in_branch(u32* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
    *out = 1;
  } else {
    __syncthreads();
    *out = 2;
  }
}

// Lane 0 waits for the warp, the others for the block.
extern "C" __global__ void deadlock() {
  if (threadIdx.x == 0)
    __syncwarp();
  else
    __syncthreads();
}

extern "C" __global__ void not_in_mask() { __ballot_sync(1, 1); }

extern "C" __global__ void missing_barrier(u32* out) {
  __shared__ u32 value[64];
  value[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = value[63 - threadIdx.x];
}

extern "C" __global__ void endless(volatile u32* flag) {
  while (*flag == 0) {
  }
}
