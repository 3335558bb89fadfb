// The allocator of the server's programs is jemalloc, but where a sanitizer brings its own.
#ifndef MEMORYD_SERVER_OPS_FREED_MEMORY_H_
#define MEMORYD_SERVER_OPS_FREED_MEMORY_H_

namespace memoryd {

// Gives what was freed back to the system now, though the allocator would keep it for a while.
// Takes milliseconds. Any thread.
void ReturnFreedMemory();

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_FREED_MEMORY_H_
