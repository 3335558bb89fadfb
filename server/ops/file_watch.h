// Takes over files again when they change.
#ifndef MEMORYD_SERVER_OPS_FILE_WATCH_H_
#define MEMORYD_SERVER_OPS_FILE_WATCH_H_

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "core/base/mutex.h"

namespace memoryd {

// Looks at each file once per interval, through symbolic links: by device, inode, size and times,
// so that a rename, a swapped link (as Kubernetes does) and an edit in place are all seen. Not
// inotify, which tells nothing of a swapped link above the file and of network file systems.
class FileWatch {
 public:
  explicit FileWatch(std::chrono::milliseconds interval) : interval_(interval) {}
  // No reload runs afterwards.
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // Calls `reload` now, whose error it returns, and again whenever one of `paths` has changed.
  // Later errors are logged, and what failed is tried again with every look. Only before Start().
  absl::Status Add(std::vector<std::string> paths, std::function<absl::Status()> reload);

  // Looks from now on, on a thread of its own.
  void Start();

  // Looks once. Not beside Start().
  void Look();

 private:
  struct Entry {
    std::vector<std::string> paths;
    std::function<absl::Status()> reload;
    std::string signature;
    // Of the last reload, empty when it went well.
    std::string error;
  };

  void Run() MEMORYD_EXCLUDES(mutex_);

  const std::chrono::milliseconds interval_;
  std::vector<Entry> entries_;  // Belongs to whoever calls Look().
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_FILE_WATCH_H_
