// Whether the files of a store are still those that its connections have open.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_OPEN_FILES_H_
#define MEMORYD_CORE_STORAGE_SQLITE_OPEN_FILES_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/sqlite/database_file.h"
#include "core/storage/sqlite/descriptor.h"

namespace memoryd::sqlite {

// The database and its log may be removed, replaced or truncated under a process that writes them,
// and SQLite notices nothing: what it then commits is gone when the process is. One thread at a
// time, which has the connection that writes.
class OpenFiles {
 public:
  // `file` must outlive it. `index` is SQLite's index of the log, in memory that all connections
  // share; the log must be open.
  static absl::StatusOr<std::unique_ptr<OpenFiles>> Watch(const DatabaseFile& file,
                                                          const volatile void* index);

  // FAILED_PRECONDITION, from the first time on for ever, when a file is not the one that is open
  // or lacks what was written into it. Another program may have written, copied or emptied the log
  // through SQLite, which is well. Some 2 us.
  absl::Status Check();

  // The same, before something is written, where only a truncated log is looked for: what is
  // written behind its new end would hide that. Some 0.4 us.
  absl::Status CheckBeforeWriting();

  // What the last Check() said.
  const absl::Status& status() const { return status_; }

  // After a failed Check(): whether only the log's name is lost, so that all of the log can still
  // be copied into the database.
  bool log_is_whole() const { return log_is_whole_; }

 private:
  // What SQLite says of the log; see https://www.sqlite.org/walformat.html.
  struct Index {
    std::uint32_t change = 0;
    std::uint32_t page = 0;
    std::uint32_t frames = 0;
    std::uint32_t pages = 0;  // Of the database.
    std::uint32_t salt = 0;
    std::uint32_t copied = 0;  // Frames that are in the database as well.

    friend bool operator==(const Index&, const Index&) = default;
  };

  OpenFiles(const DatabaseFile& file, const volatile void* index, Descriptor log, dev_t device,
            ino_t inode)
      : file_(file), index_(index), log_(std::move(log)), device_(device), inode_(inode) {}

  // nullopt while a connection writes it.
  std::optional<Index> ReadIndex() const;
  // What is wrong at one moment; OK when something was written meanwhile.
  absl::Status CheckOnce(bool& settled);
  absl::Status CheckDatabase(const Index& index) const;
  absl::Status CheckLog(const Index& index);
  // Whether the log as it is open, of `size` bytes, has all that it should.
  bool HasFrames(const Index& index, off_t size) const;

  const DatabaseFile& file_;
  const std::string log_path_ = file_.log_path();
  const volatile void* const index_;
  const Descriptor log_;
  const dev_t device_;
  const ino_t inode_;
  // As of the last Check(): bytes of the log that are never zero until it is written from its
  // beginning again.
  Index seen_;
  absl::Status status_;
  bool log_is_whole_ = false;
};

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_OPEN_FILES_H_
