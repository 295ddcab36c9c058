// One CUDA grid on one host thread: a CUDA thread is a fiber, which runs until it waits for others or ends.
//
// Blocks run one after another, those of a cluster side by side, and all of a cooperative launch. Fibers (stack and saved registers) are made once and run a thread
// of every block, or of every cluster.
// A thread that waits leaves a note of what it waits for; whoever arrives last (or ends, and so stops being waited
// for) releases the group. When nobody can run and somebody waits, the kernel has a deadlock: we say who waits where.
//
// The context switch is our own on x86-64: ASan's interceptors of swapcontext and longjmp forget the poisoned bytes of
// the stack they leave, so overruns of local arrays would go unseen after a barrier.

#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "asan.h"

#if !defined(__x86_64__)
#define CUDA_SHIM_UCONTEXT 1
#endif
#ifdef CUDA_SHIM_UCONTEXT
#include <ucontext.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace cuda_shim {
namespace {

constexpr size_t stack_size = 128 << 10;
constexpr size_t least_page = 4096, cache_line = 64;
constexpr unsigned lanes = 32;
constexpr unsigned most_turns = 500;         // in a row, for others may have what it spins for
constexpr unsigned most_fibers = 16 * 1024;  // of the largest cluster

// ------------------------------------------------------------------------------------------------------ context switch

#ifdef CUDA_SHIM_UCONTEXT
using Context = ucontext_t;
void switch_context(Context& from, Context& to) {
  if (swapcontext(&from, &to) != 0) fail("swapcontext");
}
#else
using Context = void*;  // stack pointer; the registers a call preserves lie below it

extern "C" void cuda_shim_switch(void** save, void* load);
asm(R"(
    .text
    .globl cuda_shim_switch
    .hidden cuda_shim_switch
    .type cuda_shim_switch, @function
cuda_shim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size cuda_shim_switch, .-cuda_shim_switch
)");
void switch_context(Context& from, Context& to) { cuda_shim_switch(&from, to); }
#endif

// ------------------------------------------------------------------------------------------------------------- threads

enum class State : unsigned char { ended, ready, in_collective, in_barrier, in_cluster_barrier };

struct Thread {
  Context context{};
  uint3 index{};
  State state = State::ended;

  // What it waits for.
  Collective collective{};
  Barrier barrier{};
  bool predicate = false;
  unsigned mask = 0;
  unsigned source = 0;
  int line = 0;
  unsigned long long value = 0;
  unsigned long long result = 0;
};

/// A block of the cluster that runs.
struct Block {
  uint3 index{};
  unsigned live = 0;
  unsigned in_barrier = 0;
  unsigned char* shared_memory = nullptr;
};

struct Machine {
  std::vector<std::unique_ptr<Thread>> fibers;
  Context scheduler{};
  unsigned char* stacks = nullptr;  // of all fibers

  const Launch* launch = nullptr;
  std::vector<Block> blocks;  // of the cluster; their threads lie one behind another
  unsigned current = 0;
  unsigned threads = 0;  // of a block
  unsigned live = 0;     // of the cluster
  unsigned in_cluster_barrier = 0;
  bool released_warp = false, released_block = false;  // threads that waited for others of it
  unsigned long long block_serial = 0;
  unsigned long long random = 0;

  Thread& thread(unsigned index) { return *fibers[index]; }
  Block& block_of(unsigned index) { return blocks[index / threads]; }
  unsigned long long next_random() {  // splitmix64
    unsigned long long z = random += 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
  }
};

Machine machine;

size_t page_size() { return (size_t)sysconf(_SC_PAGESIZE); }
/// From one stack to the next.
size_t stack_stride() { return stack_size + page_size(); }

/// The part of a stack that a fiber may use; a protected page lies below it. `number`: how many fibers there are.
unsigned char* new_stack(size_t number) {
  if (number >= most_fibers) fail("more threads than the largest cluster has");
  if (machine.stacks == nullptr) {
    void* base =
        mmap(nullptr, most_fibers * stack_stride(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) fail("no room for the fibers' stacks");
    machine.stacks = (unsigned char*)base;
  }
  unsigned char* stack = machine.stacks + number * stack_stride() + page_size();
  if (mprotect(stack, stack_size, PROT_READ | PROT_WRITE) != 0) fail("no memory for a fiber's stack");
  return stack;
}

void leave_fiber(Thread& thread) { switch_context(thread.context, machine.scheduler); }

void enter_fiber(unsigned index) {
  Thread& thread = machine.thread(index);
  machine.current = index;
  threadIdx = thread.index;
  blockIdx = machine.block_of(index).index;
  switch_context(machine.scheduler, thread.context);
}

/// While there is one, ASan takes all stacks for one. To be told of every switch took a quarter of the time.
class OneStack {
 public:
#ifdef CUDA_SHIM_ASAN
  OneStack() { enter(machine.stacks, most_fibers * stack_stride()); }
  ~OneStack() { enter(before_, before_size_); }

 private:
  void enter(const void* stack, size_t size) {
    __sanitizer_start_switch_fiber(nullptr, stack, size);
    __sanitizer_finish_switch_fiber(nullptr, &before_, &before_size_);
  }
  const void* before_ = nullptr;
  size_t before_size_ = 0;
#else
  OneStack() {}  // not trivial, so that it counts as used
#endif
};

void thread_ended(unsigned index);

extern "C" void cuda_shim_fiber() {
  for (;;) {
    machine.launch->kernel->run_thread(machine.launch->arguments);
    thread_ended(machine.current);
    leave_fiber(machine.thread(machine.current));
  }
}

/// `number`: how many there are already.
std::unique_ptr<Thread> new_fiber(size_t number) {
  auto thread = std::make_unique<Thread>();
  unsigned char* stack = new_stack(number);
#ifdef CUDA_SHIM_UCONTEXT
  getcontext(&thread->context);
  thread->context.uc_stack.ss_sp = stack;
  thread->context.uc_stack.ss_size = stack_size;
  thread->context.uc_link = nullptr;
  makecontext(&thread->context, cuda_shim_fiber, 0);
#else
  // As if cuda_shim_fiber had been called from address 0 (where a stack trace ends) and had then switched away.
  // Each begins in another cache line of its page: at one and the same they would push each other out of the cache.
  void** top = (void**)(stack + stack_size - number % (least_page / cache_line) * cache_line);
  top[-1] = nullptr;  // the return address: at entry the stack pointer is 8 bytes off a multiple of 16
  top[-2] = (void*)cuda_shim_fiber;
  for (int i = 3; i <= 8; ++i) top[-i] = nullptr;
  thread->context = top - 8;
  static_assert(stack_size % 16 == 0);
#endif
  return thread;
}

// -------------------------------------------------------------------------------------------------- saying it is wrong

const char* name_of(Collective kind) {
  switch (kind) {
    case Collective::sync_warp:
      return "__syncwarp";
    case Collective::shuffle:
      return "a shuffle";
    case Collective::ballot:
      return "__ballot_sync";
    case Collective::any:
      return "__any_sync";
    case Collective::all:
      return "__all_sync";
    case Collective::match_any:
      return "__match_any_sync";
    default:
      return "a warp reduction";
  }
}

void print_thread(const Thread& thread) {
  const uint3 b = blockIdx, t = thread.index;
  fprintf(stderr, "block (%u, %u, %u), thread (%u, %u, %u)", b.x, b.y, b.z, t.x, t.y, t.z);
}

/// The last line of a sanitizer's report.
[[maybe_unused]] void say_which_thread() {
  if (machine.launch == nullptr) return;
  fprintf(stderr, "CUDA shim: this was %s, ", machine.launch->kernel->name);
  print_thread(machine.thread(machine.current));
  fprintf(stderr, "\n");
  fflush(stderr);
}

[[noreturn]] void deadlock() {
  for (unsigned begin = 0; begin < machine.threads * machine.blocks.size(); begin += machine.threads) {
    const uint3 b = machine.block_of(begin).index;
    fprintf(stderr, "CUDA shim: deadlock in %s: no thread of block (%u, %u, %u) can run; waiting:\n",
            machine.launch->kernel->name, b.x, b.y, b.z);
    for (unsigned i = begin; i < begin + machine.threads;) {
      const Thread& first = machine.thread(i);
      // Say it once for neighbours that wait for the same.
      unsigned end = i + 1;
      auto alike = [&](const Thread& other) {
        return other.state == first.state && other.line == first.line && other.mask == first.mask;
      };
      while (end < begin + machine.threads && alike(machine.thread(end))) ++end;
      fprintf(stderr, "  threads %u to %u: ", i - begin, end - 1 - begin);
      if (first.state == State::in_barrier) {
        fprintf(stderr, "__syncthreads, line %d\n", first.line);
      } else if (first.state == State::in_cluster_barrier) {
        fprintf(stderr, "a barrier of the cluster, line %d\n", first.line);
      } else if (first.state == State::in_collective) {
        fprintf(stderr, "%s with mask 0x%08x, line %d\n", name_of(first.collective), first.mask, first.line);
      } else {
        fprintf(stderr, "ended\n");
      }
      i = end;
    }
  }
  fflush(stderr);
  abort();
}

// ------------------------------------------------------------------------------------------------------------- waiting

void release_barrier(unsigned begin) {
  Block& block = machine.block_of(begin);
  unsigned count = 0;
  const Thread* first = nullptr;
  for (unsigned i = begin; i < begin + machine.threads; ++i) {
    const Thread& thread = machine.thread(i);
    if (thread.state != State::in_barrier) continue;
    if (first == nullptr) first = &thread;
    if (thread.line != first->line || thread.barrier != first->barrier) {
      fprintf(stderr, "CUDA shim: threads of one block meet at different barriers, lines %d and %d\n", first->line,
              thread.line);
      fail("a barrier inside a branch that not all threads take");
    }
    count += thread.predicate;
  }
  const unsigned waiting = block.in_barrier;
  for (unsigned i = begin; i < begin + machine.threads; ++i) {
    Thread& thread = machine.thread(i);
    if (thread.state != State::in_barrier) continue;
    switch (thread.barrier) {
      case Barrier::plain:
        thread.result = 0;
        break;
      case Barrier::count:
        thread.result = count;
        break;
      case Barrier::all:
        thread.result = count == waiting;
        break;
      case Barrier::any:
        thread.result = count != 0;
        break;
    }
    thread.state = State::ready;
  }
  block.in_barrier = 0;
  machine.released_block = true;
}

void release_cluster_barrier() {
  const Thread* first = nullptr;
  for (unsigned i = 0; i < machine.threads * machine.blocks.size(); ++i) {
    Thread& thread = machine.thread(i);
    if (thread.state != State::in_cluster_barrier) continue;
    if (first == nullptr) first = &thread;
    if (thread.line != first->line) {
      fprintf(stderr, "CUDA shim: threads of one cluster meet at different barriers, lines %d and %d\n", first->line,
              thread.line);
      fail("a barrier inside a branch that not all threads take");
    }
    thread.state = State::ready;
  }
  machine.in_cluster_barrier = 0;
}

/// The first thread of the block of `index`.
unsigned block_begin(unsigned index) { return index - index % machine.threads; }

/// The threads of the warp of `index` are [first, end).
void warp_of(unsigned index, unsigned& first, unsigned& end) {
  const unsigned begin = block_begin(index);
  first = begin + ((index - begin) & ~(lanes - 1));
  end = first + lanes < begin + machine.threads ? first + lanes : begin + machine.threads;
}

/// If all live lanes of `mask` wait in a collective with this mask: give them their results and let them run.
void release_collective(unsigned first, unsigned end, unsigned mask) {
  unsigned members = 0;
  const Thread* sample = nullptr;
  for (unsigned i = first; i < end; ++i) {
    const Thread& thread = machine.thread(i);
    if ((mask >> (i - first) & 1) == 0 || thread.state == State::ended) continue;
    if (thread.state != State::in_collective || thread.mask != mask) return;
    if (sample == nullptr) sample = &thread;
    members |= 1u << (i - first);
  }
  if (sample == nullptr) return;

  const Collective kind = sample->collective;
  unsigned ballot = 0;
  unsigned sum = 0, bits_and = ~0u, bits_or = 0, bits_xor = 0, low = ~0u, high = 0;
  int low_signed = 0x7fffffff, high_signed = -0x7fffffff - 1;
  for (unsigned i = first; i < end; ++i) {
    if ((members >> (i - first) & 1) == 0) continue;
    const Thread& thread = machine.thread(i);
    // __syncwarp may be reached on different lines; values are only exchanged by one and the same call.
    if (thread.collective != kind || (kind != Collective::sync_warp && thread.line != sample->line)) {
      fprintf(stderr, "CUDA shim: lanes of one warp meet in %s, line %d, and %s, line %d\n", name_of(kind),
              sample->line, name_of(thread.collective), thread.line);
      fail("a warp collective inside a branch that not all lanes of its mask take");
    }
    const unsigned value = (unsigned)thread.value;
    ballot |= (thread.value != 0 ? 1u : 0u) << (i - first);
    sum += value, bits_and &= value, bits_or |= value, bits_xor ^= value;
    low = min(low, value), high = max(high, value);
    low_signed = min(low_signed, (int)value), high_signed = max(high_signed, (int)value);
  }
  for (unsigned i = first; i < end; ++i) {
    if ((members >> (i - first) & 1) == 0) continue;
    Thread& thread = machine.thread(i);
    switch (kind) {
      case Collective::sync_warp:
        break;
      case Collective::shuffle:
        // The value of a lane that does not take part is undefined.
        thread.result =
            members >> thread.source & 1 ? machine.thread(first + thread.source).value : machine.next_random();
        break;
      case Collective::ballot:
        thread.result = ballot;
        break;
      case Collective::any:
        thread.result = ballot != 0;
        break;
      case Collective::all:
        thread.result = ballot == members;
        break;
      case Collective::match_any:
        thread.result = 0;
        for (unsigned j = first; j < end; ++j) {
          if ((members >> (j - first) & 1) != 0 && machine.thread(j).value == thread.value) {
            thread.result |= 1ull << (j - first);
          }
        }
        break;
      case Collective::reduce_add:
        thread.result = sum;
        break;
      case Collective::reduce_min:
        thread.result = low;
        break;
      case Collective::reduce_max:
        thread.result = high;
        break;
      case Collective::reduce_min_signed:
        thread.result = (unsigned)low_signed;
        break;
      case Collective::reduce_max_signed:
        thread.result = (unsigned)high_signed;
        break;
      case Collective::reduce_and:
        thread.result = bits_and;
        break;
      case Collective::reduce_or:
        thread.result = bits_or;
        break;
      case Collective::reduce_xor:
        thread.result = bits_xor;
        break;
    }
    thread.state = State::ready;
  }
  machine.released_warp = true;
}

void thread_ended(unsigned index) {
  machine.thread(index).state = State::ended;
  Block& block = machine.block_of(index);
  --machine.live;
  --block.live;
  unsigned first, end;
  warp_of(index, first, end);
  for (unsigned i = first; i < end; ++i) {
    const Thread& thread = machine.thread(i);
    if (thread.state == State::in_collective && (thread.mask >> (index - first) & 1) != 0) {
      release_collective(first, end, thread.mask);
    }
  }
  if (block.live != 0 && block.in_barrier == block.live) release_barrier(block_begin(index));
  if (machine.live != 0 && machine.in_cluster_barrier == machine.live) release_cluster_barrier();
}

// ---------------------------------------------------------------------------------------------------------- scheduling

/// 0, 1, ... count - 1 in the order that the launch's schedule asks for.
void order(std::vector<unsigned>& items, unsigned count) {
  items.resize(count);
  for (unsigned i = 0; i < count; ++i) {
    items[i] = machine.launch->schedule == Schedule::reverse ? count - 1 - i : i;
  }
  if (machine.launch->schedule != Schedule::random) return;
  for (unsigned i = count; i > 1; --i) {
    unsigned j = (unsigned)(machine.next_random() % i);
    unsigned item = items[i - 1];
    items[i - 1] = items[j];
    items[j] = item;
  }
}

/// Run threads that can, `turns[begin]` and those behind it; the result says whether there were any.
bool run_some(const std::vector<unsigned>& turns, unsigned begin, unsigned end) {
  bool progress = false;
  for (unsigned i = begin; i < end; ++i) {
    if (machine.thread(turns[i]).state != State::ready) continue;
    enter_fiber(turns[i]);
    progress = true;
  }
  return progress;
}

/// Run a block, or a cluster of them, the first of which has this number.
void run_cluster(unsigned number) {
  static std::vector<unsigned> turns;
  const unsigned threads = machine.threads * (unsigned)machine.blocks.size();
  ++machine.block_serial;
  machine.live = threads;
  machine.in_cluster_barrier = 0;
  for (unsigned i = 0; i < threads; ++i) machine.thread(i).state = State::ready;
  for (Block& block : machine.blocks) {
    const dim3 grid = machine.launch->grid;
    block.index = {number % grid.x, number / grid.x % grid.y, number / grid.x / grid.y};
    ++number;
    block.live = machine.threads;
    block.in_barrier = 0;
    fill_with_garbage(block.shared_memory, machine.launch->shared_memory, machine.next_random());
  }
  order(turns, threads);
  const bool random = machine.launch->schedule == Schedule::random;
  for (unsigned round = 0; machine.live != 0; ++round) {
    bool progress = false;
    // A warp runs on as long as its lanes wait for each other only, and a block of a cluster as long as its warps do:
    // what their fibers use stays in the cache. Blocks change their order each time, so that none is always ahead.
    for (unsigned i = 0; i < machine.blocks.size() && !random; ++i) {
      const unsigned block = machine.threads * (round % 2 == 0 ? i : (unsigned)machine.blocks.size() - 1 - i);
      unsigned block_turns = 0;
      do {
        machine.released_block = false;
        for (unsigned begin = block, end; begin < block + machine.threads; begin = end) {
          unsigned first, behind;
          warp_of(turns[begin], first, behind);
          end = begin + behind - first;
          unsigned warp_turns = 0;
          do {
            machine.released_warp = false;
            progress |= run_some(turns, begin, end);
          } while (machine.released_warp && ++warp_turns < most_turns);
        }
      } while (machine.released_block && ++block_turns < most_turns);
    }
    if (random) {
      progress = run_some(turns, 0, threads);
      order(turns, threads);
    }
    if (!progress) deadlock();
  }
}

}  // namespace

// --------------------------------------------------------------------------------------------------- what kernels call

[[noreturn]] void fail(const char* message) {
  fprintf(stderr, "CUDA shim: %s", message);
  if (machine.launch != nullptr) {
    fprintf(stderr, " in %s, ", machine.launch->kernel->name);
    print_thread(machine.thread(machine.current));
  }
  fprintf(stderr, "\n");
  fflush(stderr);
  abort();
}

unsigned sync_threads(Barrier kind, bool predicate, int line) {
  Thread& thread = machine.thread(machine.current);
  thread.barrier = kind;
  thread.predicate = predicate;
  thread.line = line;
  thread.state = State::in_barrier;
  Block& block = machine.block_of(machine.current);
  if (++block.in_barrier == block.live) release_barrier(block_begin(machine.current));
  leave_fiber(thread);
  return (unsigned)thread.result;
}

void sync_cluster(int line) {
  Thread& thread = machine.thread(machine.current);
  thread.line = line;
  thread.state = State::in_cluster_barrier;
  if (++machine.in_cluster_barrier == machine.live) release_cluster_barrier();
  leave_fiber(thread);
}

unsigned cluster_rank() { return machine.current / machine.threads; }

void* in_block(void* own, unsigned rank) {
  if (rank >= machine.blocks.size()) fail("a block that the cluster does not have");
  const size_t offset = (size_t)((unsigned char*)own - machine.block_of(machine.current).shared_memory);
  if (offset > machine.launch->shared_memory) fail("an address outside dynamic shared memory");
  if (machine.block_of(machine.threads * rank).live == 0) fail("shared memory of a block that has ended");
  return machine.blocks[rank].shared_memory + offset;
}

unsigned long long collective(Collective kind, unsigned mask, unsigned long long value, unsigned source, int line) {
  const unsigned index = machine.current;
  Thread& thread = machine.thread(index);
  unsigned first, end;
  warp_of(index, first, end);
  thread.collective = kind;
  thread.mask = mask;
  thread.line = line;
  thread.value = value;
  thread.source = source;
  if ((mask >> (index - first) & 1) == 0) {
    fprintf(stderr, "CUDA shim: %s, line %d, mask 0x%08x\n", name_of(kind), line, mask);
    fail("a lane calls a warp collective whose mask does not name it");
  }
  thread.state = State::in_collective;
  auto missing = [&](unsigned lane) {
    const Thread& other = machine.thread(lane);
    if ((mask >> (lane - first) & 1) == 0 || other.state == State::ended) return false;
    return other.state != State::in_collective || other.mask != mask;
  };
  // Lanes come in order: as long as a neighbour is missing, there is no need to look at all others.
  if (!(index + 1 < end && missing(index + 1)) && !(index > first && missing(index - 1))) {
    release_collective(first, end, mask);
  }
  if (thread.state != State::ready || machine.launch->schedule == Schedule::random) leave_fiber(thread);
  return thread.result;
}

void yield() { leave_fiber(machine.thread(machine.current)); }

void atomic_point() {
  if (machine.launch->schedule == Schedule::random && machine.next_random() % 4 == 0) yield();
}

// Lanes run one by one here, so only the calling lane is surely at this call.
unsigned active_mask() { return 1u << lane_id(); }

unsigned lane_id() { return machine.current % machine.threads & (lanes - 1); }

void* dynamic_shared() {
  if (machine.launch == nullptr) fail("dynamic shared memory declared outside a kernel");
  return machine.block_of(machine.current).shared_memory;
}

void* static_shared(SharedSlot& slot, size_t size, size_t alignment) {
  if (machine.blocks.size() > 1) fail("clusters have dynamic shared memory only, here");
  if (slot.address == nullptr) {
    if (posix_memalign(&slot.address, alignment < sizeof(void*) ? sizeof(void*) : alignment, size) != 0) {
      fail("no memory for a __shared__ variable");
    }
  }
  if (slot.block != machine.block_serial) {
    slot.block = machine.block_serial;
    fill_with_garbage(slot.address, size, machine.next_random());
  }
  return slot.address;
}

// ----------------------------------------------------------------------------------------------- what the runner calls

void fill_with_garbage(void* address, size_t size, unsigned long long seed) {
  unsigned char* bytes = (unsigned char*)address;
  unsigned long long state = seed * 2 + 1;
  for (size_t i = 0; i < size; i += 8) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    unsigned long long word = state ^ state >> 29;
    memcpy(bytes + i, &word, size - i < 8 ? size - i : 8);
  }
}

void run(const Launch& launch) {
#ifdef CUDA_SHIM_ASAN
  __sanitizer_set_death_callback(say_which_thread);
#endif
  machine.launch = &launch;
  machine.random = launch.seed;
  machine.threads = launch.block.x * launch.block.y * launch.block.z;
  blockDim = launch.block;
  gridDim = launch.grid;
  const unsigned all = launch.grid.x * launch.grid.y * launch.grid.z;
  const unsigned cluster = launch.together ? all : launch.kernel->cluster, threads = machine.threads * cluster;
  while (machine.fibers.size() < threads) machine.fibers.push_back(new_fiber(machine.fibers.size()));
  for (unsigned i = 0; i < threads; ++i) {
    const unsigned own = i % machine.threads;
    machine.thread(i).index = {own % launch.block.x, own / launch.block.x % launch.block.y,
                               own / launch.block.x / launch.block.y};
  }

  // Aligned to 16 bytes and to nothing more; red zones on both sides.
  machine.blocks.assign(cluster, Block());
  for (Block& block : machine.blocks) {
    void* allocation = nullptr;
    if (posix_memalign(&allocation, 256, 16 + launch.shared_memory) != 0) fail("no shared memory");
    ASAN_POISON_MEMORY_REGION(allocation, 16);
    block.shared_memory = (unsigned char*)allocation + 16;
  }

  std::vector<unsigned> clusters;
  order(clusters, all / cluster);
  const OneStack one_stack;
  for (unsigned one : clusters) {
    run_cluster(one * cluster);
  }

  for (Block& block : machine.blocks) {
    ASAN_UNPOISON_MEMORY_REGION(block.shared_memory - 16, 16);
    free(block.shared_memory - 16);
  }
  machine.blocks.clear();
  machine.launch = nullptr;
}

}  // namespace cuda_shim
