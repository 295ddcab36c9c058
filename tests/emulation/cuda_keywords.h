// CUDA's keywords, for kernels only: system headers use some of these names, so this comes after all of them.
//
// `__shared__` is missing: build.py has rewritten it.

#pragma once

#include "cuda_shim.h"

#define __host__
#define __device__
#define __global__
#define __constant__ static
#define __managed__ static
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __noinline__ __attribute__((noinline))
// Inlined everywhere, kernels took 1.8 times as long to build, and as long to run.
#define __forceinline__ inline
#define __grid_constant__

// Kernels declare dynamic shared memory with this macro: an `extern` array has no size that ASan could check.
#define DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(cuda_shim::dynamic_shared())
