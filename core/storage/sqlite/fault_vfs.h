// A file system for SQLite that fails on demand.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_FAULT_VFS_H_
#define MEMORYD_CORE_STORAGE_SQLITE_FAULT_VFS_H_

#include <cstdint>

namespace memoryd::sqlite {

// While it lives, connections opened in this process go through it to the real file system. One at
// a time; connections end before it does.
class FaultVfs {
 public:
  enum class Call { kWrite, kSync, kTruncate };

  FaultVfs();
  ~FaultVfs();
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  // Lets `good` more writes, syncs and truncations pass, then fails `bad` of them. A write fails
  // with SQLITE_FULL if `full`, all else with the call's own SQLITE_IOERR code. A failing sync has
  // written the data: what the disk does with it is unknown, as in life.
  void Arm(std::int64_t good, std::int64_t bad, bool full);
  void Disarm();

  // Calls that failed since Arm().
  std::int64_t failures() const;
  // Syncs that succeeded since the start.
  std::int64_t syncs() const;
};

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_FAULT_VFS_H_
