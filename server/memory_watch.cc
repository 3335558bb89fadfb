#include "server/memory_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace memoryd {
namespace {

constexpr std::int64_t kHighPercent = 80;
constexpr std::int64_t kLowPercent = 75;
constexpr int kRetryMs = 1000;

}  // namespace

MemoryWatch::MemoryWatch(std::int64_t limit, std::function<std::int64_t()> used,
                         std::function<void()> shrink)
    : limit_(limit), used_(std::move(used)), shrink_(std::move(shrink)) {}

void MemoryWatch::Look() {
  std::int64_t used = used_();
  if (limit_ > 0) {
    const bool was_short = short_.load(std::memory_order_relaxed);
    const std::int64_t mark = limit_ / 100 * (was_short ? kLowPercent : kHighPercent);
    if (used > mark) {
      shrink_();
      // What was let go counts until it is given back.
      malloc_trim(0);
      used = used_();
    }
    const bool is_short = used > mark;
    if (is_short != was_short) {
      short_.store(is_short, std::memory_order_relaxed);
      if (is_short) {
        spdlog::warn("memory is short, {} of {} MiB: refusing calls that take more", used >> 20,
                     limit_ >> 20);
      } else {
        spdlog::info("memory is no longer short, {} of {} MiB", used >> 20, limit_ >> 20);
      }
    }
  }
  used_now_.store(used, std::memory_order_relaxed);
}

absl::Status MemoryWatch::Admit() {
  if (!short_.load(std::memory_order_relaxed)) return absl::OkStatus();
  Increment(refused_);
  return Error(absl::StatusCode::kResourceExhausted, "MEMORY_SHORT",
               "the server is short of memory; nothing was started, try again later, or another",
               {{std::string(kRetryAfterMs), fmt::format("{}", kRetryMs)}});
}

std::int64_t ResidentBytes() {
  // Without allocating, since it is asked when there is little left.
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 128> text{};
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  // Pages in all, those in memory, and more.
  const char* const end = text.data() + std::max<ssize_t>(0, size);
  const char* const space = std::find(static_cast<const char*>(text.data()), end, ' ');
  std::int64_t resident = 0;
  if (space != end) std::from_chars(space + 1, end, resident);
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::int64_t ContainerMemoryLimit(std::string_view root, std::string_view membership) {
  std::ifstream groups{std::string(membership)};
  std::string line;
  std::filesystem::path group;
  while (std::getline(groups, line)) {
    constexpr std::string_view kVersion2 = "0::/";
    if (line.starts_with(kVersion2)) group = line.substr(kVersion2.size());
  }
  std::int64_t least = 0;
  // A group that is not mounted here has no file to be read, its ancestors may.
  for (;; group = group.parent_path()) {
    std::ifstream file(std::filesystem::path(root) / group / "memory.max");
    std::int64_t limit = 0;
    // "max" is no number.
    if (file >> limit && limit > 0 && (least == 0 || limit < least)) least = limit;
    if (group.empty()) return least;
  }
}

}  // namespace memoryd
