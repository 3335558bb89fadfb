#include "core/base/error.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "core/base/field_path.h"

namespace memoryd {
namespace {

// A payload holds NUL-terminated strings: the reason, then key and value in turn.
constexpr char kPayloadUrl[] = "memoryd/error";

std::vector<std::string> Payload(const absl::Status& status) {
  std::vector<std::string> strings;
  if (const auto payload = status.GetPayload(kPayloadUrl); payload.has_value()) {
    const std::string bytes(*payload);
    for (std::size_t begin = 0; begin < bytes.size();) {
      const std::size_t end = bytes.find('\0', begin);
      strings.push_back(bytes.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return strings;
}

}  // namespace

absl::Status Error(absl::StatusCode code, std::string_view reason, std::string_view message,
                   ErrorValues values) {
  absl::Status status(code, std::string(message));
  std::string payload;
  payload.append(reason).push_back('\0');
  for (const auto& [key, value] : values) {
    payload.append(key).push_back('\0');
    payload.append(value).push_back('\0');
  }
  status.SetPayload(kPayloadUrl, absl::Cord(payload));
  return status;
}

absl::Status InvalidField(const FieldPath& field, std::string_view message) {
  const std::string path = field.ToString();
  return Error(absl::StatusCode::kInvalidArgument, "INVALID_FIELD",
               fmt::format("{}: {}", path, message), {{"field", path}});
}

absl::Status StoreUnavailable() {
  return Error(absl::StatusCode::kUnavailable, "STORE_UNAVAILABLE",
               "the store can't be reached; nothing was changed");
}

absl::Status Reported(const absl::Status& status) {
  if (absl::IsUnavailable(status) && ErrorReason(status).empty()) return StoreUnavailable();
  return status;
}

absl::Status ReplyTooLarge() {
  return Error(absl::StatusCode::kFailedPrecondition, "REPLY_TOO_LARGE",
               "the reply would exceed 64 MiB: read it in pages with GetAll, or ask for less");
}

std::string ErrorReason(const absl::Status& status) {
  const std::vector<std::string> strings = Payload(status);
  return strings.empty() ? std::string() : strings.front();
}

ErrorValues ErrorDetails(const absl::Status& status) {
  ErrorValues values;
  const std::vector<std::string> strings = Payload(status);
  for (std::size_t i = 1; i + 1 < strings.size(); i += 2) {
    values.emplace_back(strings[i], strings[i + 1]);
  }
  return values;
}

}  // namespace memoryd
