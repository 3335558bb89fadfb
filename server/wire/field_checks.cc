#include "server/wire/field_checks.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/json_check.h"
#include "core/base/status_macros.h"
#include "core/base/visible_text.h"

namespace memoryd {
namespace {

// Decodes the code point at `i` of valid UTF-8 and moves `i` behind it.
char32_t NextCodePoint(std::string_view text, std::size_t& i) {
  const auto lead = static_cast<unsigned char>(text[i++]);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  char32_t code = lead & (0x3Fu >> more);
  for (int k = 0; k < more && i < text.size(); ++k) {
    code = (code << 6) | (static_cast<unsigned char>(text[i++]) & 0x3Fu);
  }
  return code;
}

// Characters that make two different ids look alike, or an id break a log line. An id that makes a
// session has none that Unicode calls default-ignorable either, see SessionDraft.
bool IsForbiddenInId(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x00AD || c == 0x061C || c == 0x180E ||
         c == 0x200B || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

absl::Status CheckNoControl(const FieldPath& field, std::string_view value) {
  for (std::size_t i = 0; i < value.size();) {
    if (IsForbiddenInId(NextCodePoint(value, i))) {
      return InvalidField(field, "must not hold control, zero-width or bidirectional characters");
    }
  }
  if (!ShowsJoiners(value)) {
    return InvalidField(field,
                        "must have U+200C and U+200D only where they change letters, and in emoji");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckId(const FieldPath& field, std::string_view value, std::size_t max_bytes) {
  if (value.empty()) return InvalidField(field, "is required");
  if (value.size() > max_bytes) {
    return InvalidField(field, fmt::format("must be at most {} bytes", max_bytes));
  }
  return CheckNoControl(field, value);
}

absl::Status CheckSessionId(std::string_view value) {
  return CheckId("session_id", value, kMaxSessionId);
}

absl::Status CheckText(const FieldPath& field, std::string_view value, std::size_t max_bytes) {
  if (value.size() <= max_bytes) return absl::OkStatus();
  return InvalidField(field, fmt::format("must be at most {} bytes", max_bytes));
}

absl::Status CheckTime(const FieldPath& field, const google::protobuf::Timestamp& time) {
  // The range of google.protobuf.Timestamp: years 1 to 9999.
  if (time.seconds() < -62135596800 || time.seconds() > 253402300799 || time.nanos() < 0 ||
      time.nanos() > 999999999) {
    return InvalidField(field, "must be within the years 1 to 9999, with nanos 0 to 999999999");
  }
  return absl::OkStatus();
}

absl::Status CheckServerTime(const FieldPath& field, const google::protobuf::Timestamp& time) {
  MEMORYD_RETURN_IF_ERROR(CheckTime(field, time));
  if (time.seconds() < 0) return InvalidField(field, "must not be before 1970");
  return absl::OkStatus();
}

absl::Status CheckJson(const FieldPath& field, std::string_view value, bool any_value) {
  if (value.empty()) return absl::OkStatus();
  MEMORYD_RETURN_IF_ERROR(CheckText(field, value, any_value ? kMaxText : kMaxJson));
  JsonLimits limits;
  limits.any_value = any_value;
  if (absl::Status status = CheckJsonObject(value, limits); !status.ok()) {
    return InvalidField(field, std::string(status.message()));
  }
  return absl::OkStatus();
}

}  // namespace memoryd
