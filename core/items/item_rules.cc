#include "core/items/item_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/json_check.h"
#include "core/base/status_macros.h"
#include "core/base/utf8_decode.h"
#include "core/base/visible_text.h"
#include "core/items/item.h"

namespace memoryd {
namespace {

constexpr char32_t kLineSeparator = 0x2028;
constexpr char32_t kParagraphSeparator = 0x2029;

// Characters that would break a line of a log or a stored path. Those that hide are looked for
// apart, since some of them may stand between letters.
bool IsControl(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == kLineSeparator || c == kParagraphSeparator;
}

absl::Status CheckSize(const FieldPath& field, std::string_view text, std::size_t max_bytes) {
  if (!text.empty() && text.size() <= max_bytes) return absl::OkStatus();
  return InvalidField(field, fmt::format("must be 1 to {} bytes; got {}", max_bytes, text.size()));
}

absl::Status CheckJsonValue(const FieldPath& field, std::string_view json) {
  absl::Status status = CheckJsonObject(json, kItemJsonLimits);
  if (status.ok()) return status;
  return InvalidField(field, std::string(status.message()));
}

absl::Status CheckValue(const FieldPath& above, const ItemContent& content, std::size_t max_bytes) {
  const bool is_json = content.kind == ItemValueKind::kJson;
  const FieldPath field = above.Field(is_json ? "json" : "bytes_value");
  if (content.value.size() > max_bytes) {
    return InvalidField(
        field, fmt::format("must be at most {} bytes; got {}", max_bytes, content.value.size()));
  }
  if (is_json) return CheckJsonValue(field, content.value);
  return absl::OkStatus();
}

absl::Status CheckMimeType(const FieldPath& field, const ItemContent& content) {
  if (content.mime_type.empty()) return absl::OkStatus();
  if (content.kind == ItemValueKind::kJson) {
    return InvalidField(field, "must be empty for JSON, which is application/json");
  }
  return CheckItemName(field, content.mime_type, kMaxItemMimeTypeBytes);
}

}  // namespace

absl::Status CheckItemName(const FieldPath& field, std::string_view name, std::size_t max_bytes) {
  MEMORYD_RETURN_IF_ERROR(CheckSize(field, name, max_bytes));
  const char* const end = name.data() + name.size();
  for (const char* p = name.data(); p < end;) {
    const DecodedUtf8 next = DecodeUtf8(p, end);
    if (next.length == 0) return InvalidField(field, "must be UTF-8");
    if (IsControl(next.code_point)) {
      return InvalidField(field, "must not contain control characters or line separators");
    }
    p += next.length;
  }
  if (ShowsAllCharacters(name)) return absl::OkStatus();
  return InvalidField(field,
                      "must not contain characters that do not show (Unicode: default-ignorable), "
                      "except joiners that change letters, and emoji");
}

absl::Status CheckItemKey(const FieldPath& field, std::string_view key) {
  return CheckItemName(field, key, kMaxItemKeyBytes);
}

absl::Status CheckItemContent(const FieldPath& field, const ItemContent& content,
                              std::size_t max_bytes) {
  MEMORYD_RETURN_IF_ERROR(CheckValue(field, content, max_bytes));
  MEMORYD_RETURN_IF_ERROR(CheckMimeType(field.Field("mime_type"), content));
  MEMORYD_RETURN_IF_ERROR(CheckVector(field.Field("vector"), content.vector));
  if (content.kind == ItemValueKind::kBytes && content.search.value_or("[]") != "[]") {
    return InvalidField(field.Field("search.fields"), "must be empty for bytes: they have no text");
  }
  return absl::OkStatus();
}

absl::Status CheckTtl(const FieldPath& field, std::int64_t ttl_us) {
  if (ttl_us >= kMinTtlUs && ttl_us <= kMaxTtlUs) return absl::OkStatus();
  return InvalidField(field, "must be 1 ms to 36,500 days");
}

absl::Status CheckVector(const FieldPath& field, std::span<const float> vector) {
  if (vector.size() > kMaxVectorSize) {
    return InvalidField(
        field, fmt::format("must have at most {} numbers; got {}", kMaxVectorSize, vector.size()));
  }
  if (std::all_of(vector.begin(), vector.end(), [](float x) { return std::isfinite(x); })) {
    return absl::OkStatus();
  }
  return InvalidField(field, "must have finite numbers only");
}

absl::StatusOr<std::string> StoredSearch(const FieldPath& above,
                                         std::span<const std::string> fields) {
  if (fields.size() > kMaxSearchedFields) {
    return InvalidField(above.Field("fields"), fmt::format("must have at most {} paths; got {}",
                                                           kMaxSearchedFields, fields.size()));
  }
  nlohmann::json stored = nlohmann::json::array();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const FieldPath field = above.Element("fields", static_cast<std::int64_t>(i));
    MEMORYD_RETURN_IF_ERROR(CheckSize(field, fields[i], kMaxSearchedFieldBytes));
    if (!IsUtf8(fields[i])) return InvalidField(field, "must be UTF-8");
    stored.push_back(fields[i]);
  }
  return stored.dump();
}

}  // namespace memoryd
