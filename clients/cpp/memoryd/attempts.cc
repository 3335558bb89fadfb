#include "memoryd/attempts.h"

#include <absl/status/status.h>
#include <absl/strings/numbers.h>
#include <absl/time/time.h>

#include <cstdint>
#include <optional>

#include "memoryd/error_info.h"

namespace memoryd::client {

bool EndsWithoutAnswer(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsCancelled(status);
}

bool SaysNothingOfEarlierAttempts(const absl::Status& status) {
  return EndsWithoutAnswer(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsPermissionDenied(status) || absl::IsResourceExhausted(status) ||
         absl::IsUnauthenticated(status);
}

std::optional<absl::Duration> ToldToWait(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return std::nullopt;
  const auto details = GetErrorInfo(status).details;
  const auto told = details.find("retry_after_ms");
  std::int64_t milliseconds = 0;
  if (told == details.end() || !absl::SimpleAtoi(told->second, &milliseconds)) return std::nullopt;
  return absl::Milliseconds(milliseconds);
}

}  // namespace memoryd::client
