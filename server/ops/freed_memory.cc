#include "server/ops/freed_memory.h"

#include <malloc.h>

#include <cstddef>

extern "C" {

// jemalloc's own, in a program that is linked with it.
__attribute__((weak)) int mallctl(const char* name, void* old_value, std::size_t* old_size,
                                  void* new_value, std::size_t new_size);

// Read by jemalloc when the process starts. What is freed goes back within five seconds, also from
// threads that are idle: a limit of memory counts what an allocator keeps. By default there are
// four arenas for each processor of the machine, and not of the container.
extern const char* malloc_conf;
const char* malloc_conf = "narenas:8,background_thread:true,dirty_decay_ms:5000,muzzy_decay_ms:0";

}  // extern "C"

namespace memoryd {

void ReturnFreedMemory() {
  if (mallctl == nullptr) {
    malloc_trim(0);
    return;
  }
  mallctl("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
  // 4096 stands for all arenas: MALLCTL_ARENAS_ALL of jemalloc.h.
  mallctl("arena.4096.purge", nullptr, nullptr, nullptr, 0);
}

}  // namespace memoryd
