// A small "device" behind two pipes: memory and launches, driven by emulator.py.
//
// Commands are lines on standard input, followed by raw bytes where a size says so; answers start with a line
// "ok ..." or "error MESSAGE". What kernels print goes to standard error, with the sanitizers' reports.
//
//   load PATH                              ok MODULE
//   allocate NBYTES OFFSET SEED            ok ADDRESS    address % 256 == OFFSET; red zones around exactly NBYTES
//   free ADDRESS                           ok
//   write ADDRESS NBYTES, bytes            ok
//   read ADDRESS NBYTES                    ok, bytes
//   launch MODULE KERNEL GX GY GZ BX BY BZ SHARED SCHEDULE SEED COUNT,
//     then for every argument a line SIZE KIND (KIND: p pointer, s scalar) and its bytes     ok

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "asan.h"
#include "runtime.h"

namespace {

using Address = unsigned long long;

FILE* answers;

struct Module {
  const cuda_shim::Kernel* kernels;
  unsigned count;
};
std::vector<Module> modules;

struct Allocation {
  void* base;
  size_t offset;
};
std::map<Address, Allocation> allocations;

__attribute__((format(printf, 1, 2))) void answer(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(answers, format, arguments);
  va_end(arguments);
  fputc('\n', answers);
  fflush(answers);
}

[[noreturn]] void protocol_error(const std::string& line) {
  fprintf(stderr, "runner: cannot understand \"%s\"\n", line.c_str());
  exit(2);
}

bool read_line(std::string& line) {
  line.clear();
  for (int c; (c = getchar()) != EOF;) {
    if (c == '\n') return true;
    line.push_back((char)c);
  }
  return false;
}

void read_bytes(void* to, size_t size) {
  if (size != 0 && fread(to, 1, size, stdin) != size) protocol_error("end of input");
}

void load(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return answer("error %s", dlerror());
  auto kernels = (const cuda_shim::Kernel*)dlsym(library, "cuda_shim_kernels");
  auto count = (const unsigned*)dlsym(library, "cuda_shim_kernel_count");
  if (kernels == nullptr || count == nullptr) return answer("error %s holds no kernels", path);
  modules.push_back({kernels, *count});
  answer("ok %zu", modules.size() - 1);
}

void allocate(size_t size, size_t offset, unsigned long long seed) {
  void* base = nullptr;
  if (posix_memalign(&base, 256, offset + size) != 0) return answer("error no memory for %zu bytes", size);
  unsigned char* address = (unsigned char*)base + offset;
  cuda_shim::fill_with_garbage(address, size, seed);
  ASAN_POISON_MEMORY_REGION(base, offset);
  allocations[(Address)address] = {base, offset};
  answer("ok %llu", (Address)address);
}

void release(Address address) {
  auto found = allocations.find(address);
  if (found == allocations.end()) return answer("error %llu is not an allocation", address);
  ASAN_UNPOISON_MEMORY_REGION(found->second.base, found->second.offset);
  free(found->second.base);
  allocations.erase(found);
  answer("ok");
}

/// "", or why this launch is wrong.
std::string check(const cuda_shim::Launch& launch, const std::vector<std::vector<unsigned char>>& arguments,
                  const std::string& kinds) {
  const cuda_shim::Kernel& kernel = *launch.kernel;
  const std::string name = kernel.name;
  const dim3 grid = launch.grid, block = launch.block;
  const unsigned long long threads = (unsigned long long)block.x * block.y * block.z;
  if (threads == 0 || threads > 1024) return name + ": a block of " + std::to_string(threads) + " threads";
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return name + ": an empty grid";
  if (kernel.max_threads != 0 && threads > kernel.max_threads) {
    return name + ": a block of " + std::to_string(threads) + " threads, __launch_bounds__ allows " +
           std::to_string(kernel.max_threads);
  }
  if (grid.x % kernel.cluster != 0) return name + ": a grid that is no whole number of clusters";
  if (launch.shared_memory > 227 << 10) return name + ": more shared memory than any GPU has";
  if (arguments.size() != kernel.parameter_count) {
    return name + " takes " + std::to_string(kernel.parameter_count) + " arguments, not " +
           std::to_string(arguments.size());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const cuda_shim::Parameter& parameter = kernel.parameters[i];
    if (arguments[i].size() != parameter.size || (kinds[i] == 'p' && !parameter.is_pointer && parameter.size != 8)) {
      return name + ": argument " + std::to_string(i) + " has " + std::to_string(arguments[i].size()) +
             " bytes, its parameter is " + (parameter.is_pointer ? "a pointer" : "a number") + " of " +
             std::to_string(parameter.size);
    }
  }
  return "";
}

void launch(const std::string& line) {
  unsigned module, count, together;
  char name[256];
  dim3 grid, block;
  size_t shared;
  int schedule;
  unsigned long long seed;
  if (sscanf(line.c_str(), "launch %u %255s %u %u %u %u %u %u %zu %d %llu %u %u", &module, name, &grid.x, &grid.y,
             &grid.z, &block.x, &block.y, &block.z, &shared, &schedule, &seed, &together, &count) != 13) {
    protocol_error(line);
  }
  std::vector<std::vector<unsigned char>> arguments(count);
  std::string kinds, header;
  for (auto& argument : arguments) {
    size_t size;
    char kind;
    if (!read_line(header) || sscanf(header.c_str(), "%zu %c", &size, &kind) != 2) protocol_error(header);
    argument.resize(size);
    read_bytes(argument.data(), size);
    kinds.push_back(kind);
  }
  if (module >= modules.size()) return answer("error no module %u", module);
  const cuda_shim::Kernel* kernel = nullptr;
  for (unsigned i = 0; i < modules[module].count; ++i) {
    if (strcmp(modules[module].kernels[i].name, name) == 0) kernel = &modules[module].kernels[i];
  }
  if (kernel == nullptr) return answer("error no kernel %s in this module", name);
  std::vector<const unsigned char*> pointers;
  for (const auto& argument : arguments) pointers.push_back(argument.data());
  const cuda_shim::Launch description = {kernel, grid,          block,          shared, (cuda_shim::Schedule)schedule,
                                         seed,   together != 0, pointers.data()};
  const std::string wrong = check(description, arguments, kinds);
  if (!wrong.empty()) return answer("error %s", wrong.c_str());
  cuda_shim::run(description);
  answer("ok");
}

}  // namespace

int main() {
  // Kernels may print: keep their text away from the answers.
  answers = fdopen(dup(1), "wb");
  if (answers == nullptr || dup2(2, 1) < 0) return 2;

  std::string line;
  std::vector<unsigned char> bytes;
  Address address;
  size_t size, offset;
  unsigned long long seed;
  while (read_line(line)) {
    if (line.rfind("load ", 0) == 0) {
      load(line.c_str() + 5);
    } else if (sscanf(line.c_str(), "allocate %zu %zu %llu", &size, &offset, &seed) == 3) {
      allocate(size, offset, seed);
    } else if (sscanf(line.c_str(), "free %llu", &address) == 1) {
      release(address);
    } else if (sscanf(line.c_str(), "write %llu %zu", &address, &size) == 2) {
      read_bytes((void*)address, size);
      answer("ok");
    } else if (sscanf(line.c_str(), "read %llu %zu", &address, &size) == 2) {
      answer("ok");
      fwrite((const void*)address, 1, size, answers);
      fflush(answers);
    } else if (line.rfind("launch ", 0) == 0) {
      launch(line);
    } else {
      protocol_error(line);
    }
  }
  return 0;
}
