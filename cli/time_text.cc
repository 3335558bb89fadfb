#include "cli/time_text.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace memoryd::cli {

absl::StatusOr<google::protobuf::Timestamp> ParseTimestamp(const std::string& text) {
  absl::Time parsed;
  std::string error;
  const bool is_time = absl::ParseTime(absl::RFC3339_full, text, &parsed, &error) ||
                       absl::ParseTime("%Y-%m-%d", text, &parsed, &error);
  // Abseil also reads names of infinity.
  if (!is_time || parsed == absl::InfiniteFuture() || parsed == absl::InfinitePast()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: must be a time such as 2026-11-23T04:08:00Z, or a day", text));
  }
  google::protobuf::Timestamp time;
  const std::int64_t seconds = absl::ToUnixSeconds(parsed);
  time.set_seconds(seconds);
  time.set_nanos(
      static_cast<std::int32_t>(absl::ToInt64Nanoseconds(parsed - absl::FromUnixSeconds(seconds))));
  return time;
}

std::string TimeText(const google::protobuf::Timestamp& time) {
  if (time.seconds() == 0 && time.nanos() == 0) return {};
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(time.seconds()),
                          absl::UTCTimeZone());
}

}  // namespace memoryd::cli
