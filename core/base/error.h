// Errors that programs can tell apart: an absl::Status with a reason and named values.
#ifndef MEMORYD_CORE_BASE_ERROR_H_
#define MEMORYD_CORE_BASE_ERROR_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/field_path.h"

namespace memoryd {

using ErrorValues = std::vector<std::pair<std::string, std::string>>;

// A status with `reason`, a constant in capitals such as "REVISION_MISMATCH". `message` tells the
// caller what to change and holds no SQL, host name or user text.
absl::Status Error(absl::StatusCode code, std::string_view reason, std::string_view message,
                   ErrorValues values = {});

// INVALID_ARGUMENT that names the request field, such as "messages[3].role".
absl::Status InvalidField(const FieldPath& field, std::string_view message);

// UNAVAILABLE `STORE_UNAVAILABLE`, for a call that changed nothing since the store can't be
// reached.
absl::Status StoreUnavailable();

// Stores word their troubles in their own way; callers see one reason.
absl::Status Reported(const absl::Status& status);

// The most bytes in a reply that is not read in pages.
inline constexpr std::size_t kMaxReplyBytes = std::size_t{64} << 20;

// FAILED_PRECONDITION `REPLY_TOO_LARGE`.
absl::Status ReplyTooLarge();

// Name of a value: after how many milliseconds the same call may be taken.
inline constexpr std::string_view kRetryAfterMs = "retry_after_ms";

// The reason given to Error(), empty when there is none.
std::string ErrorReason(const absl::Status& status);

// The values given to Error().
ErrorValues ErrorDetails(const absl::Status& status);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_ERROR_H_
