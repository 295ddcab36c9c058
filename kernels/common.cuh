// Shared by all kernels: types and small device functions.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;

#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
#endif

#define ALL_LANES 0xffffffffu

__device__ __forceinline__ u32 lane_id() { return threadIdx.x & 31; }

// x >> n for n in 0..64 (the hardware clamps, C++ does not).
__device__ __forceinline__ u64 shift_right(u64 x, u32 n) {
#ifdef __CUDA_ARCH__
  u64 result;
  asm("shr.u64 %0, %1, %2;" : "=l"(result) : "l"(x), "r"(n));
  return result;
#else
  return n > 63 ? 0 : x >> n;
#endif
}

// Asks for the line of a readable address to be brought to the L2.
__device__ __forceinline__ void prefetch(u64 address) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

// The compiler would rather compute a value that the loop needs again than keep it; behind this it cannot.
__device__ __forceinline__ u32 keep_in_register(u32 x) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(x));
#endif
  return x;
}

template <typename T>
__device__ __forceinline__ T warp_inclusive_sum(T value) {
  for (u32 delta = 1; delta < 32; delta *= 2) {
    T below = __shfl_up_sync(ALL_LANES, value, delta);
    if (lane_id() >= delta) value += below;
  }
  return value;
}
