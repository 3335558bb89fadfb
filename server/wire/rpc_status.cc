#include "server/wire/rpc_status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "core/base/error.h"
#include "google/rpc/error_details.pb.h"

namespace memoryd {
namespace {

// A status travels in HTTP/2 headers, and clients limit those to 8 KiB.
constexpr std::size_t kMaxMessageBytes = 1024;

// Cut between code points, since a status message must be UTF-8.
std::string Shortened(std::string message) {
  if (message.size() <= kMaxMessageBytes) return message;
  std::size_t end = kMaxMessageBytes;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;
  message.resize(end);
  return message;
}

}  // namespace

RpcStatus ToRpcStatus(const absl::Status& status) {
  if (status.ok()) return {};
  std::string message = Shortened(std::string(status.message()));
  std::string reason = ErrorReason(status);
  if (absl::IsInternal(status) || absl::IsUnknown(status)) {
    message = "internal error";
    reason = "INTERNAL";
  }
  google::rpc::ErrorInfo info;
  info.set_reason(reason.empty() ? absl::StatusCodeToString(status.code()) : reason);
  info.set_domain("memoryd");
  std::int64_t retry_after_ms = 0;
  for (const auto& [key, value] : ErrorDetails(status)) {
    (*info.mutable_metadata())[key] = value;
    if (key == kRetryAfterMs && !absl::SimpleAtoi(value, &retry_after_ms)) retry_after_ms = 0;
  }
  google::rpc::Status details;
  const int code = static_cast<int>(status.code());
  details.set_code(code);
  details.set_message(message);
  details.add_details()->PackFrom(info);
  if (retry_after_ms > 0) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(retry_after_ms / 1000);
    retry.mutable_retry_delay()->set_nanos(static_cast<int>(retry_after_ms % 1000 * 1'000'000));
    details.add_details()->PackFrom(retry);
  }
  return {code, std::move(message), details.SerializeAsString(), info.reason()};
}

}  // namespace memoryd
