#include "server/ops/memory_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/histogram.h"
#include "core/base/memory_budget.h"
#include "server/ops/freed_memory.h"
#include "server/settings/limits.h"

namespace memoryd {
namespace {

constexpr std::int64_t kHighPercent = 80;
constexpr std::int64_t kLowPercent = 75;
// From here on no tenant is spared.
constexpr std::int64_t kFullPercent = 90;
// A server at rest may take more than the limit; its budget is no less than this part of it.
constexpr std::int64_t kLeastBudget = 8;
// Of the budget, for one request.
constexpr std::int64_t kRequestShare = 8;
constexpr int kRetryMs = 1000;
// Version 1 says so of a group without a limit, less a page.
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 2;

// Of a group and those above it; 0 for none. A group that is not mounted here has no file to be
// read, its ancestors may.
std::int64_t LeastLimit(const std::filesystem::path& root, std::filesystem::path group,
                        const char* name) {
  std::int64_t least = 0;
  for (;; group = group.parent_path()) {
    std::ifstream file(root / group / name);
    std::int64_t limit = 0;
    // "max" is no number.
    if (file >> limit && limit > 0 && limit < kUnlimited && (least == 0 || limit < least)) {
      least = limit;
    }
    if (group.empty()) return least;
  }
}

}  // namespace

MemoryWatch::MemoryWatch(std::int64_t limit, std::function<std::int64_t()> used,
                         MemoryBudget* budget)
    : limit_(limit), used_(std::move(used)), budget_(*budget) {}

void MemoryWatch::Look() {
  std::int64_t used = used_();
  if (limit_ > 0) {
    const bool was_short = short_.load(std::memory_order_relaxed);
    const std::int64_t mark = limit_ / 100 * (was_short ? kLowPercent : kHighPercent);
    if (used > mark) {
      budget_.Shrink();
      // What was let go counts until it is given back.
      ReturnFreedMemory();
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

absl::Status MemoryWatch::Admit(std::string_view tenant) {
  if (!short_.load(std::memory_order_relaxed)) return absl::OkStatus();
  if (used() <= limit_ / 100 * kFullPercent && !budget_.HoldsMuch(tenant)) return absl::OkStatus();
  Increment(refused_);
  return Error(absl::StatusCode::kResourceExhausted, "MEMORY_SHORT",
               "the server is short of memory; nothing was started, try again later, or another",
               {{std::string(kRetryAfterMs), fmt::format("{}", kRetryMs)}});
}

std::int64_t MemoryBudgetFor(std::int64_t limit, std::int64_t at_rest) {
  if (limit == 0) return 0;
  // A tenant that holds little may exceed the budget by a quarter of it. That should end where the
  // watch begins to refuse.
  return std::max(limit / kLeastBudget, (limit / 100 * kHighPercent - at_rest) / 5 * 4);
}

absl::StatusOr<std::int64_t> RequestBytes(std::int64_t max_request_mib, std::int64_t budget) {
  const std::int64_t asked = max_request_mib << 20;
  const std::int64_t most = std::max(kLeastRequestMib << 20, budget / kRequestShare);
  if (budget == 0 || asked <= most) return asked;
  if (max_request_mib > kUsualRequestMib) {
    return absl::InvalidArgumentError(
        fmt::format("max_request_mib: {} MiB do not fit into the budget of memory, of which a "
                    "request may have an eighth, {} MiB; raise memory_limit_mib or the "
                    "container's limit, or set {} or less",
                    max_request_mib, most >> 20, most >> 20));
  }
  spdlog::warn(
      "max_request_mib: a request may have {} bytes and not {} MiB, an eighth of the budget of "
      "memory; raise memory_limit_mib or the container's limit for more",
      most, max_request_mib);
  return most;
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
  std::int64_t least = 0;
  // Where one kind has the memory controller, the other has no files for it.
  while (std::getline(groups, line)) {
    // `id:controllers:path`; version 2 has the id 0 and names no controller.
    const std::size_t names = line.find(':');
    const std::size_t path = names == std::string::npos ? names : line.find(':', names + 1);
    if (path == std::string::npos) continue;
    const std::string controllers = "," + line.substr(names + 1, path - names - 1) + ",";
    const std::string group = line.substr(std::min(line.find('/', path), line.size() - 1) + 1);
    const std::filesystem::path mounted{std::string(root)};
    std::int64_t limit = 0;
    if (controllers == ",,") {
      limit = LeastLimit(mounted, group, "memory.max");
    } else if (controllers.find(",memory,") != std::string::npos) {
      limit = LeastLimit(mounted / "memory", group, "memory.limit_in_bytes");
    }
    if (limit > 0 && (least == 0 || limit < least)) least = limit;
  }
  return least;
}

}  // namespace memoryd
