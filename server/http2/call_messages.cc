#include "server/http2/call_messages.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "server/http2/http2_times.h"

namespace memoryd {

std::array<char, kPrefixBytes> PrefixOf(std::size_t size, unsigned char flags) {
  std::array<char, kPrefixBytes> prefix = {static_cast<char>(flags)};
  for (std::size_t i = 1; i < kPrefixBytes; ++i) {
    prefix[i] = static_cast<char>(size >> 8 * (kPrefixBytes - 1 - i) & 0xFFU);
  }
  return prefix;
}

std::uint32_t MessageSize(std::string_view prefix) {
  std::uint32_t size = 0;
  for (std::size_t i = 1; i < kPrefixBytes; ++i) {
    size = size << 8U | static_cast<unsigned char>(prefix[i]);
  }
  return size;
}

void CountReply(MemoryBudget& budget, std::string_view tenant, std::size_t size,
                MemoryBudget::Hold& hold) {
  const auto bytes = static_cast<std::int64_t>(size);
  if (hold.bytes() == 0) {
    hold = budget.Count(tenant, MemoryUse::kReplies, bytes);
  } else {
    hold.Resize(bytes);
  }
}

absl::Status RequestStalled(const Http2Times& times, bool idle) {
  return Error(
      absl::StatusCode::kDeadlineExceeded, "REQUEST_STALLED",
      idle ? fmt::format("nothing of the request came for {} seconds", times.body_idle.count())
           : fmt::format("the request came slower than {} bytes a second",
                         Http2Times::kBytesPerSecond));
}

absl::Status LargeRequestsWait() {
  return Error(absl::StatusCode::kResourceExhausted, "SERVER_BUSY",
               "too many large requests wait; nothing was started, try again later");
}

}  // namespace memoryd
