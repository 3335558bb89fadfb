// An item: a value under a key, in a namespace.
#ifndef MEMORYD_CORE_ITEMS_ITEM_H_
#define MEMORYD_CORE_ITEMS_ITEM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace memoryd {

// As stores keep it: never change a number.
enum class ItemValueKind : std::int16_t {
  kJson = 0,   // The value is a JSON value.
  kBytes = 1,  // Any bytes.
};

// What a caller stores under a key.
struct ItemContent {
  ItemValueKind kind = ItemValueKind::kJson;
  std::string mime_type;  // Empty for JSON.
  std::string value;
  // A JSON array of the paths of fields that are searched; absent: the namespace's.
  std::optional<std::string> search;
  // Empty: none. All vectors of a namespace have the same size.
  std::vector<float> vector;
  // The credential that wrote it, see memoryd.v1.Message.writer.
  std::string writer;
  bool untrusted = false;

  friend bool operator==(const ItemContent&, const ItemContent&) = default;
};

// An item as it is stored. Times are microseconds since the epoch.
struct Item {
  std::string key;
  // Above that of everything written to the namespace before.
  std::int64_t version = 0;
  std::int64_t create_us = 0;
  std::int64_t update_us = 0;
  std::int64_t expire_us = 0;  // 0: never.
  std::int64_t ttl_us = 0;     // 0: none.
  ItemContent content;

  friend bool operator==(const Item&, const Item&) = default;
};

// Whether an item is there at `now_us`.
inline bool IsLive(std::int64_t expire_us, std::int64_t now_us) {
  return expire_us == 0 || expire_us > now_us;
}

// Bytes that an item counts for quotas and in its namespace's row: its key, value, vector, and what
// stands beside them.
inline std::int64_t CountedBytes(const std::string& key, const ItemContent& content) {
  return static_cast<std::int64_t>(key.size() + content.value.size() + content.mime_type.size() +
                                   content.search.value_or(std::string()).size() +
                                   content.vector.size() * sizeof(float));
}

}  // namespace memoryd

#endif  // MEMORYD_CORE_ITEMS_ITEM_H_
