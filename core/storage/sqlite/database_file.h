// The file that a store lives in, held against other processes.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_DATABASE_FILE_H_
#define MEMORYD_CORE_STORAGE_SQLITE_DATABASE_FILE_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memoryd::sqlite {

// Holds an exclusive flock(2) on PATH.lock as long as it lives; the kernel ends it with the
// process. The lock file stays: removing it could take the lock from a process just starting.
class DatabaseFile {
 public:
  // Creates what is missing: the file (mode 0600) and its folders (0700). FAILED_PRECONDITION that
  // names the lock file when another process, or another store of this one, holds it.
  static absl::StatusOr<std::unique_ptr<DatabaseFile>> Hold(const std::string& path);
  ~DatabaseFile();
  DatabaseFile(const DatabaseFile&) = delete;
  DatabaseFile& operator=(const DatabaseFile&) = delete;

  // Absolute and without symbolic links, so that two names of a file share one lock.
  const std::string& path() const { return path_; }

  // Whether the last process to hold the file ended without closing it: SQLite removes its log
  // when the last connection closes. Asked before the first connection opens.
  bool WasLeftOpen() const;

  // FAILED_PRECONDITION when the file was removed or replaced since it was opened: what is written
  // would be lost.
  absl::Status CheckInPlace() const;

 private:
  DatabaseFile(std::string path, int lock, dev_t device, ino_t inode)
      : path_(std::move(path)), lock_(lock), device_(device), inode_(inode) {}

  const std::string path_;
  const int lock_;
  const dev_t device_;
  const ino_t inode_;
};

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_DATABASE_FILE_H_
