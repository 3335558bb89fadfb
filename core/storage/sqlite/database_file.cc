#include "core/storage/sqlite/database_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/stat.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/storage/sqlite/descriptor.h"

namespace memoryd::sqlite {
namespace {

std::string Reason(int error) { return std::generic_category().message(error); }

absl::Status Unusable(const std::string& path, int error) {
  return absl::FailedPreconditionError(fmt::format("{}: {}", path, Reason(error)));
}

absl::Status HeldByAnother(const std::string& path) {
  return absl::FailedPreconditionError(
      fmt::format("{} is held by another memoryd: one process at a time", path));
}

// The files that stores of this process hold. To close any descriptor of a file drops the locks
// that SQLite has on it in this process (fcntl(2)), so a second store must not even open it.
class HeldFiles {
 public:
  // False when it is held already.
  bool Add(dev_t device, ino_t inode) MEMORYD_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return files_.emplace(device, inode).second;
  }
  void Remove(dev_t device, ino_t inode) MEMORYD_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    files_.erase({device, inode});
  }

 private:
  Mutex mutex_;
  std::set<std::pair<dev_t, ino_t>> files_ MEMORYD_GUARDED_BY(mutex_);
};

HeldFiles& Held() {
  static HeldFiles held;
  return held;
}

// Never opens a file that exists: see HeldFiles.
absl::Status MakeFile(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0 && errno != EEXIST) return Unusable(path, errno);
  return absl::OkStatus();
}

// SQLite syncs the folder of its file; the folders above, when new, are ours to sync.
absl::Status MakeFolder(const std::filesystem::path& folder) {
  std::error_code error;
  if (folder.empty() || std::filesystem::exists(folder, error)) return absl::OkStatus();
  const std::filesystem::path parent = folder.parent_path();
  MEMORYD_RETURN_IF_ERROR(MakeFolder(parent));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return Unusable(folder, errno);
  const Descriptor above(
      ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (above.get() >= 0) ::fsync(above.get());
  return absl::OkStatus();
}

// SQLite finds the log beside the name that it opens the file by. Under another name it would miss
// the log and start from an older state.
absl::Status CheckOneName(const std::string& path, nlink_t links) {
  if (links > 1) {
    return absl::FailedPreconditionError(fmt::format(
        "{} has {} hard links: its log belongs to one name alone; remove the others", path, links));
  }
#ifdef STATX_ATTR_MOUNT_ROOT
  struct statx about {};
  if (::statx(AT_FDCWD, path.c_str(), 0, 0, &about) == 0 &&
      (about.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {
    return absl::FailedPreconditionError(fmt::format(
        "{} is mounted as a single file, which leaves its log behind; mount its folder", path));
  }
#endif
  return absl::OkStatus();
}

// SQLite takes an empty file for a new database and deletes the log that it finds beside it.
absl::Status CheckNotLost(const std::string& path, off_t size) {
  struct stat log {};
  const std::string log_path = path + "-wal";
  if (size > 0 || ::stat(log_path.c_str(), &log) != 0 || log.st_size == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} is missing or empty, but its log {} is there: put the file back, or remove "
                  "the log to begin with nothing",
                  path, log_path));
}

// Beyond every byte that SQLite locks or stores.
int LockInode(int file) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = off_t{1} << 62;
  lock.l_len = 1;
  return ::fcntl(file, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

}  // namespace

DatabaseFile::DatabaseFile(std::string path, dev_t device, ino_t inode)
    : path_(std::move(path)), device_(device), inode_(inode) {}

absl::StatusOr<std::unique_ptr<DatabaseFile>> DatabaseFile::Hold(const std::string& path) {
  MEMORYD_RETURN_IF_ERROR(MakeFolder(std::filesystem::path(path).parent_path()));
  MEMORYD_RETURN_IF_ERROR(MakeFile(path));
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return Unusable(path, errno);
  if (!S_ISREG(info.st_mode)) return Unusable(path, S_ISDIR(info.st_mode) ? EISDIR : EINVAL);
  std::error_code error;
  const std::string canonical = std::filesystem::canonical(path, error).string();
  if (error) return Unusable(path, error.value());
  MEMORYD_RETURN_IF_ERROR(CheckOneName(canonical, info.st_nlink));
  const std::string lock_path = canonical + ".lock";
  // Not to wait for a FIFO's other end.
  Descriptor lock(
      ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600));
  if (lock.get() < 0) return Unusable(lock_path, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? HeldByAnother(lock_path) : Unusable(lock_path, errno);
  }
  if (!Held().Add(info.st_dev, info.st_ino)) return HeldByAnother(canonical);
  // From here on it takes the file back from Held().
  std::unique_ptr<DatabaseFile> held(new DatabaseFile(canonical, info.st_dev, info.st_ino));
  held->lock_ = std::move(lock);
  held->file_ = Descriptor(::open(canonical.c_str(), O_RDWR | O_CLOEXEC));
  if (held->file_.get() < 0) return Unusable(canonical, errno);
  if (const int locked = LockInode(held->file_.get()); locked != 0) {
    const bool taken = locked == EAGAIN || locked == EACCES;
    return taken ? HeldByAnother(canonical) : Unusable(canonical, locked);
  }
  // As it is under the locks.
  if (::fstat(held->file_.get(), &info) != 0) return Unusable(canonical, errno);
  if (!held->Is(info.st_dev, info.st_ino)) {
    return absl::FailedPreconditionError(fmt::format("{} was replaced just now", canonical));
  }
  MEMORYD_RETURN_IF_ERROR(CheckNotLost(canonical, info.st_size));
  return held;
}

DatabaseFile::~DatabaseFile() {
  file_ = Descriptor();
  Held().Remove(device_, inode_);
}

bool DatabaseFile::WasLeftOpen() const {
  std::error_code error;
  const auto size = std::filesystem::file_size(log_path(), error);
  return !error && size > 0;
}

std::string DatabaseFile::OpenToOthers() const {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0 || (info.st_mode & S_IRWXO) == 0) return {};
  return fmt::format("{} has mode {:04o}, so every user of this machine may use it; chmod o-rwx",
                     path_, info.st_mode & 07777U);
}

}  // namespace memoryd::sqlite
