// The runner's side of the emulation: launches one grid (see cuda_shim.h for the kernels' side).

#pragma once

#include <stddef.h>

#include "cuda_shim.h"

namespace cuda_shim {

/// In which order blocks and, between barriers, the threads of a block run. Each is legal on a GPU.
enum class Schedule { forward, reverse, random };

struct Launch {
  const Kernel* kernel;
  dim3 grid, block;
  size_t shared_memory;
  Schedule schedule;
  unsigned long long seed;  // of the random schedule and of the garbage in unwritten memory
  bool together;            // whether all blocks run at the same time
  const unsigned char* const* arguments;
};

/// Run every thread of the grid to its end; does not return if one of them does something undefined.
void run(const Launch& launch);

/// Fill with bytes that no kernel can rely on.
void fill_with_garbage(void* address, size_t size, unsigned long long seed);

}  // namespace cuda_shim
