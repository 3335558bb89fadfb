// What names, keys and values of items may be.
#ifndef MEMORYD_CORE_ITEMS_ITEM_RULES_H_
#define MEMORYD_CORE_ITEMS_ITEM_RULES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/field_path.h"
#include "core/base/json_check.h"
#include "core/items/item.h"

namespace memoryd {

inline constexpr std::size_t kMaxItemKeyBytes = 1024;
inline constexpr std::size_t kMaxItemMimeTypeBytes = 128;
inline constexpr std::size_t kMaxVectorSize = 8192;
inline constexpr std::size_t kMaxSearchedFields = 64;
inline constexpr std::size_t kMaxSearchedFieldBytes = 1024;
inline constexpr std::int64_t kMinTtlUs = 1000;
inline constexpr std::int64_t kMaxTtlUs = std::int64_t{36'500} * 24 * 3600 * 1'000'000;

// What a JSON value may hold.
inline constexpr JsonLimits kItemJsonLimits = {
    .any_value = true,
    // A value may be many records of one kind; the reader's memory grows with the keys of open
    // objects.
    .max_object_keys = 10'000,
    .max_total_keys = 1'000'000,
};

// These all give INVALID_ARGUMENT that names `field` for what memoryd.v1.ItemService refuses. Texts
// need not be UTF-8.

// A name of a namespace, or a key: 1 to `max_bytes` bytes of UTF-8, without control characters,
// line separators, and characters that do not show where they change nothing.
absl::Status CheckItemName(const FieldPath& field, std::string_view name, std::size_t max_bytes);

absl::Status CheckItemKey(const FieldPath& field, std::string_view key);

// Value, MIME type, search and vector of an item that the message at `field` describes. `max_bytes`
// is the most that a value may have.
absl::Status CheckItemContent(const FieldPath& field, const ItemContent& content,
                              std::size_t max_bytes);

// kMinTtlUs to kMaxTtlUs.
absl::Status CheckTtl(const FieldPath& field, std::int64_t ttl_us);

// Numbers that are finite, at most kMaxVectorSize.
absl::Status CheckVector(const FieldPath& field, std::span<const float> vector);

// The stored form of paths of searched fields, see ItemContent::search. INVALID_ARGUMENT names the
// element of `fields` below `above`.
absl::StatusOr<std::string> StoredSearch(const FieldPath& above,
                                         std::span<const std::string> fields);

}  // namespace memoryd

#endif  // MEMORYD_CORE_ITEMS_ITEM_RULES_H_
