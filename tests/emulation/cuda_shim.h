// What a kernel of kernels/*.cu sees when the host compiler builds it: the part of CUDA C++ that our kernels use.
//
// One CUDA thread is one fiber (runtime.cpp); blocks, or clusters of blocks, run one after another. Everything that waits for other threads
// (barriers, shuffles, ballots) is a call into the runtime; the rest is inline here, so that the sanitizers see the
// kernel's own memory accesses. `__shared__` declarations are rewritten by build.py before the compiler sees them.
//
// CUDA_SHIM is defined and __CUDA_ARCH__ is not: a kernel with a path for newer GPUs takes its portable path here.

#pragma once

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <type_traits>
#include <utility>

#define CUDA_SHIM 1

// -------------------------------------------------------------------------------------------------------- vector types

#define CUDA_SHIM_VECTORS(base, type, align2, align4)                         \
  struct base##1 { type x; };                                                 \
  struct __attribute__((aligned(align2))) base##2 { type x, y; };             \
  struct base##3 { type x, y, z; };                                           \
  struct __attribute__((aligned(align4))) base##4 { type x, y, z, w; };       \
  inline base##1 make_##base##1(type x) { return {x}; }                       \
  inline base##2 make_##base##2(type x, type y) { return {x, y}; }            \
  inline base##3 make_##base##3(type x, type y, type z) { return {x, y, z}; } \
  inline base##4 make_##base##4(type x, type y, type z, type w) { return {x, y, z, w}; }

CUDA_SHIM_VECTORS(char, signed char, 2, 4)
CUDA_SHIM_VECTORS(uchar, unsigned char, 2, 4)
CUDA_SHIM_VECTORS(short, short, 4, 8)
CUDA_SHIM_VECTORS(ushort, unsigned short, 4, 8)
CUDA_SHIM_VECTORS(int, int, 8, 16)
CUDA_SHIM_VECTORS(uint, unsigned, 8, 16)
CUDA_SHIM_VECTORS(longlong, long long, 16, 16)
CUDA_SHIM_VECTORS(ulonglong, unsigned long long, 16, 16)
CUDA_SHIM_VECTORS(float, float, 8, 16)
CUDA_SHIM_VECTORS(double, double, 16, 16)
#undef CUDA_SHIM_VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// ------------------------------------------------------------------------------------------------------------- runtime

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace cuda_shim {

enum class Collective : unsigned char {
  sync_warp,
  shuffle,
  ballot,
  any,
  all,
  match_any,
  reduce_add,
  reduce_min,
  reduce_max,
  reduce_min_signed,
  reduce_max_signed,
  reduce_and,
  reduce_or,
  reduce_xor,
};

enum class Barrier : unsigned char { plain, count, all, any };

/// Stop the process with `message` and the calling CUDA thread.
[[noreturn]] void fail(const char* message);
/// Wait for the block; the result is what __syncthreads_count/_and/_or return.
unsigned sync_threads(Barrier kind, bool predicate, int line);
/// Wait for the live lanes of `mask`, then return this lane's result. `source`: the lane a shuffle reads.
unsigned long long collective(Collective kind, unsigned mask, unsigned long long value, unsigned source, int line);
/// Let other threads run (only spin loops and the random schedule need it).
void yield();
/// An atomic operation follows: the random schedule may switch threads here.
void atomic_point();
unsigned active_mask();
unsigned lane_id();
/// The launch's dynamic shared memory: exactly as many bytes as the launch asked for.
void* dynamic_shared();

/// Wait for the cluster.
void sync_cluster(int line);
/// This block's number in its cluster.
unsigned cluster_rank();
/// Where in the dynamic shared memory of another block of the cluster lies what lies at `own` in this block's.
void* in_block(void* own, unsigned rank);

/// One `__shared__` variable of one function; filled with garbage when a block first reaches it.
struct SharedSlot {
  void* address = nullptr;
  unsigned long long block = 0;
};
void* static_shared(SharedSlot& slot, size_t size, size_t alignment);

/// `Tag`: a struct that holds just this variable, declared where the variable is, so every function has its own.
template <class T, class Tag>
T& shared_variable() {
  static SharedSlot slot;
  return *static_cast<T*>(static_shared(slot, sizeof(T), alignof(Tag)));
}

template <class T>
struct same {
  using type = T;
};
template <class T>
using not_deduced = typename same<T>::type;

// ---- what a module (one .cu file, compiled) tells the runner about its kernels; written by build.py

struct Parameter {
  unsigned size;
  bool is_pointer;
};

struct Kernel {
  const char* name;
  void (*run_thread)(const unsigned char* const* arguments);
  const Parameter* parameters;
  unsigned parameter_count;
  unsigned max_threads;  // of __launch_bounds__, 0: none
  unsigned cluster;      // blocks of a cluster, of __cluster_dims__
};

template <auto kernel>
struct Thunk;

template <class... P, void (*kernel)(P...)>
struct Thunk<kernel> {
  static constexpr unsigned count = sizeof...(P);
  // One entry more than there are parameters: an array must not be empty.
  static constexpr Parameter parameters[count + 1] = {{sizeof(P), std::is_pointer_v<P>}..., {0, false}};

  template <class T>
  static T load(const unsigned char* bytes) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    memcpy(&value, bytes, sizeof value);
    return value;
  }
  template <size_t... i>
  static void call(const unsigned char* const* arguments, std::index_sequence<i...>) {
    kernel(load<std::remove_const_t<P>>(arguments[i])...);
  }
  static void run_thread(const unsigned char* const* arguments) {
    call(arguments, std::make_index_sequence<sizeof...(P)>());
  }
};

}  // namespace cuda_shim

// ------------------------------------------------------------------------------------------------- barriers and fences

inline void __syncthreads(int line = __builtin_LINE()) {
  cuda_shim::sync_threads(cuda_shim::Barrier::plain, false, line);
}
inline int __syncthreads_count(int predicate, int line = __builtin_LINE()) {
  return (int)cuda_shim::sync_threads(cuda_shim::Barrier::count, predicate != 0, line);
}
inline int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
  return (int)cuda_shim::sync_threads(cuda_shim::Barrier::all, predicate != 0, line);
}
inline int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
  return (int)cuda_shim::sync_threads(cuda_shim::Barrier::any, predicate != 0, line);
}
namespace cuda_shim {
// The names of kernels/cluster.cuh.
inline void cluster_sync(int line = __builtin_LINE()) { sync_cluster(line); }
template <class T>
T* in_block(T* own, unsigned rank) {
  return static_cast<T*>(in_block(const_cast<void*>(static_cast<const void*>(own)), rank));
}
}  // namespace cuda_shim
inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  cuda_shim::collective(cuda_shim::Collective::sync_warp, mask, 0, 0, line);
}
inline void __threadfence_block() { cuda_shim::atomic_point(); }
inline void __threadfence() { cuda_shim::atomic_point(); }
inline void __threadfence_system() { cuda_shim::atomic_point(); }
inline void __nanosleep(unsigned) { cuda_shim::yield(); }
[[noreturn]] inline void __trap() { cuda_shim::fail("__trap()"); }

// ---------------------------------------------------------------------------------------------------- warp collectives

inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return (unsigned)cuda_shim::collective(cuda_shim::Collective::ballot, mask, predicate != 0, 0, line);
}
inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return (int)cuda_shim::collective(cuda_shim::Collective::any, mask, predicate != 0, 0, line);
}
inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return (int)cuda_shim::collective(cuda_shim::Collective::all, mask, predicate != 0, 0, line);
}
inline unsigned __activemask() { return cuda_shim::active_mask(); }

namespace cuda_shim {

template <class T>
auto shuffle(unsigned mask, T value, unsigned source, int line) {
  static_assert(std::is_arithmetic_v<T>, "CUDA shuffles numbers only");
  if constexpr (sizeof(T) < 4) {
    return shuffle(mask, (int)value, source, line);  // CUDA has no narrower shuffle: the value is promoted
  } else {
    unsigned long long bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = collective(Collective::shuffle, mask, bits, source, line);
    memcpy(&value, &bits, sizeof value);
    return value;
  }
}

inline unsigned check_width(int width) {
  if (width < 1 || width > 32 || (width & (width - 1)) != 0) fail("shuffle width is not a power of two up to 32");
  return (unsigned)width;
}

template <class T>
unsigned long long match_bits(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof value);
  return bits;
}

}  // namespace cuda_shim

template <class T>
auto __shfl_sync(unsigned mask, T value, int lane, int width = 32, int line = __builtin_LINE()) {
  unsigned segment = ~(cuda_shim::check_width(width) - 1);
  unsigned source = (cuda_shim::lane_id() & segment) | ((unsigned)lane & ~segment);
  return cuda_shim::shuffle(mask, value, source, line);
}
template <class T>
auto __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
  unsigned own = cuda_shim::lane_id(), first = own & ~(cuda_shim::check_width(width) - 1);
  return cuda_shim::shuffle(mask, value, own - first >= delta ? own - delta : own, line);
}
template <class T>
auto __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
  unsigned own = cuda_shim::lane_id(), last = own | (cuda_shim::check_width(width) - 1);
  return cuda_shim::shuffle(mask, value, last - own >= delta ? own + delta : own, line);
}
template <class T>
auto __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, int line = __builtin_LINE()) {
  unsigned own = cuda_shim::lane_id(), last = own | (cuda_shim::check_width(width) - 1);
  unsigned source = own ^ (unsigned)lane_mask;
  return cuda_shim::shuffle(mask, value, source <= last ? source : own, line);
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {
  return (unsigned)cuda_shim::collective(cuda_shim::Collective::match_any, mask, cuda_shim::match_bits(value), 0, line);
}

#define CUDA_SHIM_REDUCE(name, type, kind)                                                           \
  inline type name(unsigned mask, type value, int line = __builtin_LINE()) {                         \
    return (type)cuda_shim::collective(cuda_shim::Collective::kind, mask, (unsigned)value, 0, line); \
  }
CUDA_SHIM_REDUCE(__reduce_add_sync, unsigned, reduce_add)
CUDA_SHIM_REDUCE(__reduce_add_sync, int, reduce_add)
CUDA_SHIM_REDUCE(__reduce_min_sync, unsigned, reduce_min)
CUDA_SHIM_REDUCE(__reduce_min_sync, int, reduce_min_signed)
CUDA_SHIM_REDUCE(__reduce_max_sync, unsigned, reduce_max)
CUDA_SHIM_REDUCE(__reduce_max_sync, int, reduce_max_signed)
CUDA_SHIM_REDUCE(__reduce_and_sync, unsigned, reduce_and)
CUDA_SHIM_REDUCE(__reduce_or_sync, unsigned, reduce_or)
CUDA_SHIM_REDUCE(__reduce_xor_sync, unsigned, reduce_xor)
#undef CUDA_SHIM_REDUCE

// ------------------------------------------------------------------------------------------------------------- atomics

namespace cuda_shim {

template <class T, class Operation>
T atomic(T* address, Operation&& operation) {
  static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long> ||
                    std::is_same_v<T, long long> || std::is_same_v<T, float> || std::is_same_v<T, double> ||
                    std::is_same_v<T, unsigned short>,
                "CUDA has no atomics of this type");
  atomic_point();
  T old = *address;
  *address = (T)operation(old);
  return old;
}

}  // namespace cuda_shim

#define CUDA_SHIM_ATOMIC(name, result)                                    \
  template <class T>                                                      \
  T name(T* address, cuda_shim::not_deduced<T> value) {                   \
    return cuda_shim::atomic(address, [value](T old) { return result; }); \
  }
// Unsigned arithmetic: CUDA's atomicAdd wraps.
template <class T>
T atomicAdd(T* address, cuda_shim::not_deduced<T> value) {
  return cuda_shim::atomic(address, [value](T old) {
    if constexpr (std::is_integral_v<T>) {
      return (std::make_unsigned_t<T>)old + (std::make_unsigned_t<T>)value;
    } else {
      return old + value;
    }
  });
}
CUDA_SHIM_ATOMIC(atomicOr, old | value)
CUDA_SHIM_ATOMIC(atomicAnd, old& value)
CUDA_SHIM_ATOMIC(atomicXor, old ^ value)
CUDA_SHIM_ATOMIC(atomicMax, old < value ? value : old)
CUDA_SHIM_ATOMIC(atomicMin, value < old ? value : old)
CUDA_SHIM_ATOMIC(atomicExch, ((void)old, value))
#undef CUDA_SHIM_ATOMIC
inline int atomicSub(int* address, int value) { return atomicAdd(address, (int)(0u - (unsigned)value)); }
inline unsigned atomicSub(unsigned* address, unsigned value) { return atomicAdd(address, 0u - value); }
inline unsigned atomicInc(unsigned* address, unsigned limit) {
  return cuda_shim::atomic(address, [limit](unsigned old) { return old >= limit ? 0u : old + 1; });
}
template <class T>
T atomicCAS(T* address, cuda_shim::not_deduced<T> expected, cuda_shim::not_deduced<T> value) {
  return cuda_shim::atomic(address, [=](T old) { return old == expected ? value : old; });
}

// --------------------------------------------------------------------------------------------- loads, stores, pointers

#define CUDA_SHIM_LOAD(name) \
  template <class T>         \
  T name(const T* address) { \
    return *address;         \
  }
CUDA_SHIM_LOAD(__ldg)
CUDA_SHIM_LOAD(__ldca)
CUDA_SHIM_LOAD(__ldcg)
CUDA_SHIM_LOAD(__ldcs)
CUDA_SHIM_LOAD(__ldcv)
CUDA_SHIM_LOAD(__ldlu)
#undef CUDA_SHIM_LOAD
#define CUDA_SHIM_STORE(name)                              \
  template <class T>                                       \
  void name(T* address, cuda_shim::not_deduced<T> value) { \
    *address = value;                                      \
  }
CUDA_SHIM_STORE(__stwb)
CUDA_SHIM_STORE(__stcg)
CUDA_SHIM_STORE(__stcs)
CUDA_SHIM_STORE(__stwt)
#undef CUDA_SHIM_STORE

// --------------------------------------------------------------------------------------------------- integer functions

template <class A, class B>
constexpr auto min(A a, B b) {
  static_assert(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>);
  using T = decltype(a + b);
  return (T)b < (T)a ? (T)b : (T)a;
}
template <class A, class B>
constexpr auto max(A a, B b) {
  static_assert(std::is_arithmetic_v<A> && std::is_arithmetic_v<B>);
  using T = decltype(a + b);
  return (T)a < (T)b ? (T)b : (T)a;
}

constexpr int __popc(unsigned x) { return __builtin_popcount(x); }
constexpr int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
constexpr int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
constexpr int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
constexpr int __ffs(int x) { return __builtin_ffs(x); }
constexpr int __ffsll(long long x) { return __builtin_ffsll(x); }

constexpr unsigned __brev(unsigned x) {
  unsigned result = 0;
  for (int i = 0; i < 32; ++i) result |= (x >> i & 1) << (31 - i);
  return result;
}
constexpr unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}

constexpr unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  unsigned long long bytes = (unsigned long long)y << 32 | x;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) result |= (unsigned)(bytes >> (selector >> (4 * i) & 7) * 8 & 255) << (8 * i);
  return result;
}

constexpr unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
constexpr unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
constexpr unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
constexpr unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

constexpr unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
constexpr int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
constexpr unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
constexpr unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
constexpr unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a < b ? b - a : a - b) + c; }

constexpr unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int i = 0; i < 32; i += 8) c += (a >> i & 255) * (b >> i & 255);
  return c;
}
constexpr int __dp4a(int a, int b, int c) {
  unsigned sum = (unsigned)c;
  for (int i = 0; i < 32; i += 8) sum += (unsigned)((signed char)(a >> i) * (signed char)(b >> i));
  return (int)sum;
}

#define CUDA_SHIM_SIMD(name, result)                \
  constexpr unsigned name(unsigned x, unsigned y) { \
    unsigned value = 0;                             \
    for (int i = 0; i < 32; i += 8) {               \
      unsigned a = x >> i & 255, b = y >> i & 255;  \
      value |= ((result) & 255u) << i;              \
    }                                               \
    return value;                                   \
  }
CUDA_SHIM_SIMD(__vadd4, a + b)
CUDA_SHIM_SIMD(__vsub4, a - b)
CUDA_SHIM_SIMD(__vminu4, a < b ? a : b)
CUDA_SHIM_SIMD(__vmaxu4, a < b ? b : a)
CUDA_SHIM_SIMD(__vabsdiffu4, a < b ? b - a : a - b)
CUDA_SHIM_SIMD(__vcmpeq4, a == b ? 255u : 0u)
CUDA_SHIM_SIMD(__vcmpne4, a != b ? 255u : 0u)
CUDA_SHIM_SIMD(__vcmpltu4, a < b ? 255u : 0u)
CUDA_SHIM_SIMD(__vcmpleu4, a <= b ? 255u : 0u)
CUDA_SHIM_SIMD(__vcmpgtu4, a > b ? 255u : 0u)
CUDA_SHIM_SIMD(__vcmpgeu4, a >= b ? 255u : 0u)
CUDA_SHIM_SIMD(__vseteq4, a == b ? 1u : 0u)
CUDA_SHIM_SIMD(__vsetne4, a != b ? 1u : 0u)
CUDA_SHIM_SIMD(__vsetltu4, a < b ? 1u : 0u)
CUDA_SHIM_SIMD(__vsetgtu4, a > b ? 1u : 0u)
#undef CUDA_SHIM_SIMD
