// Checks of single fields of requests. Each is OK, or INVALID_ARGUMENT that names the field.
#ifndef MEMORYD_SERVER_WIRE_FIELD_CHECKS_H_
#define MEMORYD_SERVER_WIRE_FIELD_CHECKS_H_

#include <google/protobuf/timestamp.pb.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "core/base/field_path.h"

namespace memoryd {

inline constexpr std::size_t kMaxSessionId = 256;
inline constexpr std::size_t kMaxSubjectBytes = 256;
inline constexpr std::size_t kMaxTenant = 128;
inline constexpr std::size_t kMaxIdBytes = 128;
inline constexpr std::size_t kMaxRoleBytes = 64;
// Of a text or a JSON value, and of a JSON object.
inline constexpr std::size_t kMaxText = std::size_t{1} << 20;
inline constexpr std::size_t kMaxJson = std::size_t{256} << 10;

// 1 to `max_bytes` bytes of UTF-8 without control, zero-width or bidirectional-format characters;
// U+200C and U+200D are taken where they show, see ShowsJoiners().
absl::Status CheckId(const FieldPath& field, std::string_view value, std::size_t max_bytes);

absl::Status CheckSessionId(std::string_view value);

// At most `max_bytes` of text.
absl::Status CheckText(const FieldPath& field, std::string_view value, std::size_t max_bytes);

// Nothing, or any JSON value of at most kMaxText bytes; unless `any_value` an object of at most
// kMaxJson bytes.
absl::Status CheckJson(const FieldPath& field, std::string_view value, bool any_value);

// Within the years 1 to 9999.
absl::Status CheckTime(const FieldPath& field, const google::protobuf::Timestamp& time);

// A time by a server's clock, which is not before 1970.
absl::Status CheckServerTime(const FieldPath& field, const google::protobuf::Timestamp& time);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_FIELD_CHECKS_H_
