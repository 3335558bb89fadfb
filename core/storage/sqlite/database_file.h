// The file that a store lives in, held against other processes.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_DATABASE_FILE_H_
#define MEMORYD_CORE_STORAGE_SQLITE_DATABASE_FILE_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/sqlite/descriptor.h"

namespace memoryd::sqlite {

// Holds two locks as long as it lives; the kernel ends both with the process. One is flock(2) on
// PATH.lock, which stays: removing it could take the lock from a process just starting. The other
// is on the file's own inode, so that neither a lock file that somebody removed nor another name of
// the file lets a second process in.
class DatabaseFile {
 public:
  // Creates what is missing: the file (mode 0600) and its folders (0700). FAILED_PRECONDITION that
  // names the file when another process, or another store of this one, holds it; when it has more
  // than one hard link or is itself a mount, since its log would then depend on the name it is
  // opened by; or when its log is there without it.
  static absl::StatusOr<std::unique_ptr<DatabaseFile>> Hold(const std::string& path);
  ~DatabaseFile();
  DatabaseFile(const DatabaseFile&) = delete;
  DatabaseFile& operator=(const DatabaseFile&) = delete;

  // Absolute and without symbolic links, so that two names of a file share one lock.
  const std::string& path() const { return path_; }
  std::string log_path() const { return path_ + "-wal"; }

  // Whether the last process to hold the file ended without closing it: SQLite removes its log
  // when the last connection closes. Asked before the first connection opens.
  bool WasLeftOpen() const;

  // A line when users other than the file's owner and group may use it; else empty.
  std::string OpenToOthers() const;

  // Whether `device` and `inode` are those of the file that is held.
  bool Is(dev_t device, ino_t inode) const { return device == device_ && inode == inode_; }

 private:
  DatabaseFile(std::string path, dev_t device, ino_t inode);

  const std::string path_;
  const dev_t device_;
  const ino_t inode_;
  Descriptor lock_;
  Descriptor file_;
};

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_DATABASE_FILE_H_
