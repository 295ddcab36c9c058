// AddressSanitizer's interface, or nothing where it is off.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUDA_SHIM_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define CUDA_SHIM_ASAN 1
#endif
#ifdef CUDA_SHIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif
