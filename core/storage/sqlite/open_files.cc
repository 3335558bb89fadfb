#include "core/storage/sqlite/open_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error_cause.h"
#include "core/storage/sqlite/database_file.h"
#include "core/storage/sqlite/descriptor.h"

namespace memoryd::sqlite {
namespace {

constexpr std::int64_t kLogHeaderBytes = 32;
constexpr std::int64_t kFrameHeaderBytes = 24;
// The index begins with two copies of its header, to be read while it is written, and the number of
// frames that are in the database as well.
constexpr std::size_t kIndexHeaderWords = 12;
constexpr std::size_t kPageWord = 3;  // Its upper half.
constexpr std::uint32_t kLargestPage = 65536;
// A program that keeps changing the index is no damage.
constexpr int kTries = 100;

absl::Status Lost(std::string_view path, std::string_view what) {
  return WithCause(absl::FailedPreconditionError(
                       "the store's files were removed, replaced or truncated while they were "
                       "open; nothing is stored until the server is started again"),
                   "SQLITE_READONLY", fmt::format("{} {}", path, what));
}

std::int64_t FrameOffset(std::uint32_t frame, std::uint32_t page) {
  return kLogHeaderBytes + std::int64_t{frame} * (kFrameHeaderBytes + page);
}

// False for zeros: neither the log's header nor a frame's begins with any.
bool HasWordAt(int file, std::int64_t offset) {
  std::uint32_t word = 0;
  return ::pread(file, &word, sizeof word, offset) == ssize_t{sizeof word} && word != 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OpenFiles>> OpenFiles::Watch(const DatabaseFile& file,
                                                            const volatile void* index) {
  const std::string path = file.log_path();
  // SQLite locks nothing in the log, so that a descriptor of our own takes no lock away.
  Descriptor log(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (log.get() < 0 || ::fstat(log.get(), &info) != 0) {
    return absl::FailedPreconditionError(
        fmt::format("{}: {}", path, std::generic_category().message(errno)));
  }
  return std::unique_ptr<OpenFiles>(
      new OpenFiles(file, index, std::move(log), info.st_dev, info.st_ino));
}

absl::Status OpenFiles::Check() {
  bool settled = false;
  for (int i = 0; i < kTries && status_.ok() && !settled; ++i) status_ = CheckOnce(settled);
  return status_;
}

absl::Status OpenFiles::CheckBeforeWriting() {
  const std::optional<Index> index = ReadIndex();
  struct stat info {};
  const bool has_frames = index.has_value() && ::fstat(log_.get(), &info) == 0 &&
                          info.st_size >= FrameOffset(index->frames, index->page);
  return has_frames && status_.ok() ? absl::OkStatus() : Check();
}

std::optional<OpenFiles::Index> OpenFiles::ReadIndex() const {
  const auto* const words = static_cast<const volatile std::uint32_t*>(index_);
  // SQLite writes them from elsewhere, the second copy first. Each is read before the next.
  const auto read = [words](std::size_t i) { return __atomic_load_n(&words[i], __ATOMIC_ACQUIRE); };
  std::array<std::uint32_t, kIndexHeaderWords> header{};
  std::array<std::uint32_t, kIndexHeaderWords> copy{};
  for (std::size_t i = 0; i < header.size(); ++i) header[i] = read(i);
  for (std::size_t i = 0; i < copy.size(); ++i) copy[i] = read(header.size() + i);
  if (header != copy) return std::nullopt;
  std::uint16_t page = 0;
  std::memcpy(&page, reinterpret_cast<const char*>(&header[kPageWord]) + 2, sizeof page);
  Index index;
  index.change = header[2];
  index.page = page == 1 ? kLargestPage : page;
  index.frames = header[4];
  index.pages = header[5];
  index.salt = header[8];
  index.copied = read(2 * header.size());
  return index;
}

absl::Status OpenFiles::CheckOnce(bool& settled) {
  const std::optional<Index> index = ReadIndex();
  if (!index.has_value()) return absl::OkStatus();
  absl::Status status = CheckDatabase(*index);
  if (status.ok()) status = CheckLog(*index);
  settled = ReadIndex() == index;
  if (!settled) return absl::OkStatus();
  seen_ = *index;
  return status;
}

absl::Status OpenFiles::CheckDatabase(const Index& index) const {
  struct stat info {};
  if (::stat(file_.path().c_str(), &info) != 0) return Lost(file_.path(), "was removed");
  if (!file_.Is(info.st_dev, info.st_ino)) return Lost(file_.path(), "was replaced");
  // While frames wait to be copied, pages may be in the log alone; the first never is.
  const std::uint32_t pages = index.copied == index.frames ? index.pages : 1;
  if (info.st_size < std::int64_t{pages} * index.page) return Lost(file_.path(), "was truncated");
  return absl::OkStatus();
}

absl::Status OpenFiles::CheckLog(const Index& index) {
  struct stat info {};
  const bool is_there = ::stat(log_path_.c_str(), &info) == 0;
  if (is_there && info.st_dev == device_ && info.st_ino == inode_) {
    return HasFrames(index, info.st_size) ? absl::OkStatus() : Lost(log_path_, "was truncated");
  }
  log_is_whole_ = ::fstat(log_.get(), &info) == 0 && HasFrames(index, info.st_size);
  return Lost(log_path_, is_there ? "was replaced" : "was removed");
}

bool OpenFiles::HasFrames(const Index& index, off_t size) const {
  if (index.frames == 0) return true;
  if (size < FrameOffset(index.frames, index.page)) return false;
  // What was written after the log was truncated leaves zeros before it.
  const bool grew = index.salt == seen_.salt && seen_.frames > 0 && index.frames > seen_.frames;
  return HasWordAt(log_.get(), grew ? FrameOffset(seen_.frames - 1, index.page) : 0);
}

}  // namespace memoryd::sqlite
