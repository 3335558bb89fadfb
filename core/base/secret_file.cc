#include "core/base/secret_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

absl::Status Failed(const std::string& path, int error) {
  const std::string line = fmt::format("{}: {}", path, std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(line) : absl::UnavailableError(line);
}

absl::StatusOr<FileContent> Read(const std::string& path, bool secret) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return Failed(path, errno);
  const absl::Cleanup close_file = [file] { close(file); };
  // Of the opened file, so that nobody can swap it between the look and the reading.
  struct stat about {};
  if (fstat(file, &about) != 0) return Failed(path, errno);
  if (!S_ISREG(about.st_mode)) {
    return absl::FailedPreconditionError(fmt::format("{}: is not a regular file", path));
  }
  FileContent content;
  if ((about.st_mode & S_IRWXO) != 0) {
    content.secrecy = absl::FailedPreconditionError(
        fmt::format("{}: has mode {:04o}, so every user of this machine may use it; chmod o-rwx",
                    path, about.st_mode & 07777U));
  }
  if (secret && !content.secrecy.ok()) return content.secrecy;
  char buffer[16384];
  for (;;) {
    const ssize_t count = read(file, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failed(path, errno);
    if (count == 0) return content;
    content.text.append(buffer, static_cast<std::size_t>(count));
    if (content.text.size() > kMaxBytes) {
      return absl::FailedPreconditionError(fmt::format("{}: is larger than 16 MiB", path));
    }
  }
}

}  // namespace

absl::StatusOr<FileContent> ReadAnyFile(const std::string& path) {
  return Read(path, /*secret=*/false);
}

absl::StatusOr<std::string> ReadPublicFile(const std::string& path) {
  MEMORYD_ASSIGN_OR_RETURN(FileContent content, Read(path, /*secret=*/false));
  return std::move(content.text);
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  MEMORYD_ASSIGN_OR_RETURN(FileContent content, Read(path, /*secret=*/true));
  return std::move(content.text);
}

}  // namespace memoryd
