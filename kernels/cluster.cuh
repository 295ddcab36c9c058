// Thread block clusters: blocks that run at the same time and reach each other's shared memory. For sm_90 and newer.
#pragma once

#include "common.cuh"

#ifdef CUDA_SHIM
using cuda_shim::cluster_rank;
using cuda_shim::cluster_sync;
using cuda_shim::in_block;
#else
// This block's number in its cluster.
__device__ __forceinline__ u32 cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// A barrier of all threads of the cluster; what they wrote before, to shared memory of any block too, is seen behind it.
__device__ __forceinline__ void cluster_sync() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// What lies in another block's shared memory where `own` lies in this block's.
template <typename T>
__device__ __forceinline__ T* in_block(T* own, u32 rank) {
  u64 address;
  asm("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(own), "r"(rank));
  return reinterpret_cast<T*>(address);
}
#endif

// atomicAdd to what `in_block` says, of which nobody needs the value before.
__device__ __forceinline__ void add_in_block(u32* own, u32 rank, u32 value) {
#ifdef CUDA_SHIM
  atomicAdd(in_block(own, rank), value);
#else
  asm volatile(
      "{ .reg .u32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "red.relaxed.cluster.shared::cluster.add.u32 [there], %2; }" ::"r"(u32(__cvta_generic_to_shared(own))),
      "r"(rank), "r"(value)
      : "memory");
#endif
}
