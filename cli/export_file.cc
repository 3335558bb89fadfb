#include "cli/export_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memoryd::cli {
namespace {

constexpr std::array kSignals = {SIGHUP, SIGINT, SIGTERM};

// The file that is being written, for the handler: empty for none.
std::array<char, PATH_MAX> unfinished{};

void RemoveUnfinished(int signal) {
  ::unlink(unfinished.data());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

absl::Status FileError(std::string_view path) {
  return absl::UnknownError(fmt::format("{}: {}", path, std::strerror(errno)));
}

// So that the new name survives a loss of power as the content does.
void SyncFolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExportFile>> ExportFile::Create(const std::string& path) {
  if (path.empty()) return std::unique_ptr<ExportFile>(new ExportFile("", stdout));
  std::error_code error;
  // A link stays, and what it leads to is replaced.
  const auto real =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  if (error) return absl::InvalidArgumentError(fmt::format("{}: {}", path, error.message()));
  if (const auto found = std::filesystem::status(real, error);
      std::filesystem::exists(found) && !std::filesystem::is_regular_file(found)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: is no regular file; without --output all goes to standard output", path));
  }
  const std::string name = real.string() + ".partial.XXXXXX";
  if (name.size() >= unfinished.size()) {
    return absl::InvalidArgumentError(fmt::format("{}: is too long a name", path));
  }
  std::array<char, PATH_MAX> made{};
  name.copy(made.data(), name.size());
  const int descriptor = ::mkostemp(made.data(), O_CLOEXEC);
  if (descriptor < 0) return FileError(path);
  unfinished = made;
  for (const int signal : kSignals) {
    // Whoever had it ignored, such as nohup, wants it ignored.
    if (std::signal(signal, &RemoveUnfinished) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
  return std::unique_ptr<ExportFile>(new ExportFile(real.string(), ::fdopen(descriptor, "w")));
}

ExportFile::ExportFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

ExportFile::~ExportFile() {
  if (path_.empty()) return;
  if (file_ != nullptr) {
    std::fclose(file_);
    ::unlink(unfinished.data());
  }
  unfinished.fill('\0');
}

absl::Status ExportFile::Failed() const {
  return FileError(path_.empty() ? "standard output" : path_);
}

absl::Status ExportFile::Write(std::string_view line) {
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() ||
      std::fputc('\n', file_) == EOF) {
    return Failed();
  }
  bytes_ += static_cast<std::int64_t>(line.size()) + 1;
  return absl::OkStatus();
}

absl::Status ExportFile::Keep() {
  if (std::fflush(file_) != 0) return Failed();
  if (path_.empty()) return absl::OkStatus();
  if (::fsync(::fileno(file_)) != 0) return Failed();
  if (::rename(unfinished.data(), path_.c_str()) != 0) return Failed();
  std::fclose(std::exchange(file_, nullptr));
  SyncFolderOf(path_);
  return absl::OkStatus();
}

}  // namespace memoryd::cli
