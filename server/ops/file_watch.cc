#include "server/ops/file_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/mutex.h"

namespace memoryd {
namespace {

// Differs when a file does.
std::string SignatureOf(const std::vector<std::string>& paths) {
  std::string signature;
  for (const std::string& path : paths) {
    struct stat about {};
    if (stat(path.c_str(), &about) != 0) {
      signature += fmt::format("error {};", errno);
      continue;
    }
    // The change time tells of a new mode, which decides whether a secret may be read.
    signature += fmt::format("{}:{}:{}:{}.{}:{}.{};", about.st_dev, about.st_ino, about.st_size,
                             about.st_mtim.tv_sec, about.st_mtim.tv_nsec, about.st_ctim.tv_sec,
                             about.st_ctim.tv_nsec);
  }
  return signature;
}

}  // namespace

FileWatch::~FileWatch() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

absl::Status FileWatch::Add(std::vector<std::string> paths, std::function<absl::Status()> reload) {
  Entry entry;
  // Before the files are read: what changes in between is seen with the next look.
  entry.signature = SignatureOf(paths);
  entry.paths = std::move(paths);
  entry.reload = std::move(reload);
  absl::Status status = entry.reload();
  if (status.ok()) entries_.push_back(std::move(entry));
  return status;
}

void FileWatch::Start() {
  thread_ = std::thread([this] { Run(); });
}

void FileWatch::Look() {
  for (Entry& entry : entries_) {
    std::string signature = SignatureOf(entry.paths);
    if (signature == entry.signature && entry.error.empty()) continue;
    entry.signature = std::move(signature);
    const absl::Status status = entry.reload();
    std::string error(status.message());
    if (status.ok()) spdlog::info("read again: {}", fmt::join(entry.paths, ", "));
    if (!status.ok() && error != entry.error) {
      spdlog::error("what was read before stays in force: {}", error);
    }
    entry.error = std::move(error);
  }
}

void FileWatch::Run() {
  auto next = std::chrono::steady_clock::now() + interval_;
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && std::chrono::steady_clock::now() < next) wake_.WaitUntil(mutex_, next);
      if (stopping_) return;
    }
    Look();
    next = std::chrono::steady_clock::now() + interval_;
  }
}

}  // namespace memoryd
