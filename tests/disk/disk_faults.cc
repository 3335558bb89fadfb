// A library to preload (LD_PRELOAD) that stands between a server and the disk under its SQLite
// file: it makes calls fail on demand and writes down what a loss of power could undo. Its
// environment:
//
//   DISK_FAULTS_FILE     the database, as an absolute path without symbolic links. Its log (-wal),
//                        rollback journal, shared memory and lock, and the folder of them all are
//                        watched with it; no other file is.
//   DISK_FAULTS_CONTROL  a file of at least sizeof(Control) bytes, shared with who arms faults;
//                        may be absent.
//   DISK_FAULTS_JOURNAL  a new file for the calls on what is durable: the database, its log and its
//                        rollback journal; may be absent.
//
// tests/support/disk.py knows Control and Record by their bytes.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

namespace {

enum Kind : std::int32_t { kOpen = 1, kWrite = 2, kSync = 4, kTruncate = 8 };

// Calls of `kinds` pass while `good` is counted down, and then `bad` of them fail with `error`;
// with `short_first` the first of those is a write of half of what it was given.
struct Control {
  std::atomic<std::int64_t> good;
  std::atomic<std::int64_t> bad;
  std::atomic<std::int64_t> failed;
  std::atomic<std::int32_t> kinds;
  std::atomic<std::int32_t> error;
  std::atomic<std::int32_t> short_first;
};

enum class Role : std::uint8_t { kNone, kDatabase, kLog, kRollback, kOther, kFolder };

enum class Op : std::uint8_t {
  kCreate = 'C',
  kUnlink = 'U',
  kWrite = 'W',
  kTruncate = 'T',
  kSyncBegin = 'B',
  kSyncEnd = 'E',
  kSyncFailed = 'F',
};

// `offset` is the number of the sync of a kSync*; `size` is the new size of a kTruncate. The bytes
// of a kWrite follow.
struct Record {
  Op op;
  Role role;
  std::uint8_t unused[6];
  std::uint64_t offset;
  std::uint64_t size;
};

constexpr std::size_t kDescriptors = 1 << 16;

std::array<std::atomic<Role>, kDescriptors> roles;
Control* control = nullptr;
int journal = -1;
std::string* database = nullptr;
std::string* folder = nullptr;
std::atomic<std::uint64_t> syncs = 0;
// Makes the order of the journal that of the calls.
std::mutex order;

[[noreturn]] void Die(const char* why) {
  [[maybe_unused]] const auto written = ::syscall(SYS_write, 2, why, std::strlen(why));
  std::abort();
}

__attribute__((constructor)) void Begin() {
  const char* file = std::getenv("DISK_FAULTS_FILE");
  if (file == nullptr) return;
  folder = new std::string(file, std::string_view(file).rfind('/'));
  if (const char* path = std::getenv("DISK_FAULTS_CONTROL"); path != nullptr) {
    const long fd = ::syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    void* memory = ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED,
                          static_cast<int>(fd), 0);
    if (memory == MAP_FAILED) Die("disk_faults: no DISK_FAULTS_CONTROL\n");
    control = static_cast<Control*>(memory);
    ::syscall(SYS_close, fd);
  }
  if (const char* path = std::getenv("DISK_FAULTS_JOURNAL"); path != nullptr) {
    journal = static_cast<int>(
        ::syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (journal < 0) Die("disk_faults: no DISK_FAULTS_JOURNAL\n");
  }
  database = new std::string(file);  // Last: from now on calls are watched.
}

Role RoleOf(const char* path) {
  if (database == nullptr || path == nullptr) return Role::kNone;
  const std::string_view name = path;
  if (name == *folder) return Role::kFolder;
  if (!name.starts_with(*database)) return Role::kNone;
  const std::string_view suffix = name.substr(database->size());
  if (suffix.empty()) return Role::kDatabase;
  if (suffix == "-wal") return Role::kLog;
  if (suffix == "-journal") return Role::kRollback;
  return suffix == "-shm" || suffix == ".lock" ? Role::kOther : Role::kNone;
}

Role RoleOf(int fd) {
  if (fd < 0 || static_cast<std::size_t>(fd) >= kDescriptors) return Role::kNone;
  return roles[static_cast<std::size_t>(fd)].load(std::memory_order_relaxed);
}

bool IsDurable(Role role) {
  return role == Role::kDatabase || role == Role::kLog || role == Role::kRollback;
}

enum class Fate { kPasses, kFails, kIsShort };

// Sets errno for kFails.
Fate FateOf(Kind kind) {
  if (control == nullptr || (control->kinds & kind) == 0) return Fate::kPasses;
  if (control->good.fetch_sub(1) > 0) return Fate::kPasses;
  if (control->bad.fetch_sub(1) <= 0) return Fate::kPasses;
  ++control->failed;
  if (kind == kWrite && control->short_first.exchange(0) != 0) return Fate::kIsShort;
  errno = control->error;
  return Fate::kFails;
}

// Under `order`.
void Note(Op op, Role role, std::uint64_t offset, std::uint64_t size, const void* data = nullptr) {
  if (journal < 0) return;
  Record record{op, role, {}, offset, size};
  const std::array<iovec, 2> parts = {
      {{&record, sizeof record}, {const_cast<void*>(data), data == nullptr ? 0 : size}}};
  const std::size_t all = parts[0].iov_len + parts[1].iov_len;
  if (::syscall(SYS_writev, journal, parts.data(), parts.size()) != static_cast<long>(all)) {
    Die("disk_faults: the journal can't be written\n");
  }
}

int Open(const char* path, int flags, mode_t mode) {
  const Role role = RoleOf(path);
  if (role == Role::kNone) {
    return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  }
  const std::lock_guard lock(order);
  if (FateOf(kOpen) == Fate::kFails) return -1;
  const bool exists = ::syscall(SYS_access, path, F_OK) == 0;
  const int fd = static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (fd < 0) return fd;
  if (static_cast<std::size_t>(fd) >= kDescriptors) Die("disk_faults: too many descriptors\n");
  roles[static_cast<std::size_t>(fd)] = role;
  if (!exists && IsDurable(role)) Note(Op::kCreate, role, 0, 0);
  return fd;
}

// The mode of an open(2) that makes a file.
mode_t ModeOf(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
}

ssize_t WriteAt(int fd, const void* data, std::size_t size, off_t offset) {
  const Role role = RoleOf(fd);
  if (role == Role::kNone) return ::syscall(SYS_pwrite64, fd, data, size, offset);
  const std::lock_guard lock(order);
  switch (FateOf(kWrite)) {
    case Fate::kPasses:
      break;
    case Fate::kFails:
      return -1;
    case Fate::kIsShort:
      size = (size + 1) / 2;
  }
  if (IsDurable(role)) Note(Op::kWrite, role, static_cast<std::uint64_t>(offset), size, data);
  return ::syscall(SYS_pwrite64, fd, data, size, offset);
}

int Truncate(int fd, off_t size) {
  const Role role = RoleOf(fd);
  if (role == Role::kNone) return static_cast<int>(::syscall(SYS_ftruncate, fd, size));
  const std::lock_guard lock(order);
  if (FateOf(kTruncate) == Fate::kFails) return -1;
  if (IsDurable(role)) Note(Op::kTruncate, role, 0, static_cast<std::uint64_t>(size));
  return static_cast<int>(::syscall(SYS_ftruncate, fd, size));
}

int Sync(int fd, long call) {
  const Role role = RoleOf(fd);
  if (role == Role::kNone || role == Role::kOther) return static_cast<int>(::syscall(call, fd));
  const std::uint64_t number = ++syncs;
  {
    const std::lock_guard lock(order);
    Note(Op::kSyncBegin, role, number, 0);
  }
  const bool failed = FateOf(kSync) == Fate::kFails;
  const int error = errno;
  const int result = failed ? -1 : static_cast<int>(::syscall(call, fd));
  const std::lock_guard lock(order);
  Note(result == 0 ? Op::kSyncEnd : Op::kSyncFailed, role, number, 0);
  if (failed) errno = error;
  return result;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return Open(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, arguments);
  va_end(arguments);
  return Open(path, flags, mode);
}

ssize_t pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  return WriteAt(fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void* data, std::size_t size, off_t offset) {
  return WriteAt(fd, data, size, offset);
}

ssize_t write(int fd, const void* data, std::size_t size) {
  if (RoleOf(fd) != Role::kNone) Die("disk_faults: write(2) on a file that is watched\n");
  return ::syscall(SYS_write, fd, data, size);
}

int ftruncate(int fd, off_t size) noexcept { return Truncate(fd, size); }
int ftruncate64(int fd, off_t size) noexcept { return Truncate(fd, size); }
int fsync(int fd) { return Sync(fd, SYS_fsync); }
int fdatasync(int fd) { return Sync(fd, SYS_fdatasync); }

int unlink(const char* path) noexcept {
  const Role role = RoleOf(path);
  const std::lock_guard lock(order);
  const int result = static_cast<int>(::syscall(SYS_unlink, path));
  if (result == 0 && IsDurable(role)) Note(Op::kUnlink, role, 0, 0);
  return result;
}

int close(int fd) {
  if (fd >= 0 && static_cast<std::size_t>(fd) < kDescriptors) {
    roles[static_cast<std::size_t>(fd)] = Role::kNone;
  }
  return static_cast<int>(::syscall(SYS_close, fd));
}

}  // extern "C"
