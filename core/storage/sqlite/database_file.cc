#include "core/storage/sqlite/database_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/status_macros.h"

namespace memoryd::sqlite {
namespace {

std::string Reason(int error) { return std::generic_category().message(error); }

absl::Status Unusable(const std::string& path, int error) {
  return absl::FailedPreconditionError(fmt::format("{}: {}", path, Reason(error)));
}

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Never opens a file that exists: closing any descriptor of it would drop the locks that SQLite
// holds on it in this process (fcntl(2)), should another store have it open.
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

}  // namespace

absl::StatusOr<std::unique_ptr<DatabaseFile>> DatabaseFile::Hold(const std::string& path) {
  MEMORYD_RETURN_IF_ERROR(MakeFolder(std::filesystem::path(path).parent_path()));
  MEMORYD_RETURN_IF_ERROR(MakeFile(path));
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return Unusable(path, errno);
  if (!S_ISREG(info.st_mode)) return Unusable(path, EINVAL);
  std::error_code error;
  const std::string canonical = std::filesystem::canonical(path, error).string();
  if (error) return Unusable(path, error.value());
  const std::string lock_path = canonical + ".lock";
  Descriptor lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.get() < 0) return Unusable(lock_path, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Unusable(lock_path, errno);
    return absl::FailedPreconditionError(
        fmt::format("{} is held by another memoryd: one process at a time", lock_path));
  }
  return std::unique_ptr<DatabaseFile>(
      new DatabaseFile(canonical, lock.Release(), info.st_dev, info.st_ino));
}

DatabaseFile::~DatabaseFile() { ::close(lock_); }

bool DatabaseFile::WasLeftOpen() const {
  std::error_code error;
  const auto size = std::filesystem::file_size(path_ + "-wal", error);
  return !error && size > 0;
}

absl::Status DatabaseFile::CheckInPlace() const {
  struct stat info {};
  if (::stat(path_.c_str(), &info) != 0 || info.st_dev != device_ || info.st_ino != inode_) {
    return absl::FailedPreconditionError(
        fmt::format("{} was removed or replaced while it was open", path_));
  }
  return absl::OkStatus();
}

}  // namespace memoryd::sqlite
