// Where an export is written to: under its name it is whole, or not there.
#ifndef MEMORYD_CLI_EXPORT_FILE_H_
#define MEMORYD_CLI_EXPORT_FILE_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memoryd::cli {

// One at a time in a process. What was not kept is removed, also when SIGHUP, SIGINT or SIGTERM end
// the process; SIGKILL leaves `PATH.partial.XXXXXX`.
class ExportFile {
 public:
  // Writes beside `path` until Keep(); to standard output where it is empty. INVALID_ARGUMENT when
  // `path` is there and no regular file.
  static absl::StatusOr<std::unique_ptr<ExportFile>> Create(const std::string& path);
  ~ExportFile();
  ExportFile(const ExportFile&) = delete;
  ExportFile& operator=(const ExportFile&) = delete;

  // `line` and a line feed.
  absl::Status Write(std::string_view line);

  // All is written and on disk, and takes the place of what was at `path`; readable by its owner.
  absl::Status Keep();

  std::int64_t bytes() const { return bytes_; }

 private:
  ExportFile(std::string path, std::FILE* file);

  absl::Status Failed() const;

  const std::string path_;  // Empty: standard output.
  std::FILE* file_;
  std::int64_t bytes_ = 0;
};

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_EXPORT_FILE_H_
