#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/items/item.h"
#include "core/storage/item_rows.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/sqlite/sqlite_items.h"
#include "core/storage/sqlite/value.h"

namespace memoryd::sqlite {
namespace {

constexpr char kSelectItem[] =
    "SELECT id, version, create_us, expire_us, bytes, value IS NULL FROM memoryd_items"
    " WHERE tenant = ? AND generation = ? AND key = ?";

constexpr char kInsertItem[] =
    "INSERT INTO memoryd_items (version, create_us, update_us, expire_us, ttl_us, bytes, kind,"
    " untrusted, checksum, mime_type, writer, search, vector, value, tenant, generation, key)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

constexpr char kUpdateItem[] =
    "UPDATE memoryd_items SET version = ?, create_us = ?, update_us = ?, expire_us = ?, ttl_us = ?,"
    " bytes = ?, kind = ?, untrusted = ?, checksum = ?, mime_type = ?, writer = ?, search = ?,"
    " vector = ?, value = ? WHERE tenant = ? AND generation = ? AND key = ?";

constexpr char kPutValue[] = "REPLACE INTO memoryd_item_values (id, value) VALUES (?, ?)";
constexpr char kDeleteValue[] = "DELETE FROM memoryd_item_values WHERE id = ?";

// NULL unless `is_there`.
void BindIf(Query& query, bool is_there, std::string_view bytes) {
  if (is_there) {
    query.BindBlob(bytes);
  } else {
    query.BindNull();
  }
}

}  // namespace

absl::StatusOr<std::optional<OldItem>> FindItem(Database& db, const ItemPlace& place) {
  Query query = db.Prepare(kSelectItem);
  query.BindText(place.tenant).BindBits(place.generation).BindText(place.key);
  MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
  if (!found) return std::nullopt;
  return OldItem{.id = query.Int(0),
                 .version = query.Int(1),
                 .create_us = query.Int(2),
                 .expire_us = query.Int(3),
                 .bytes = query.Int(4),
                 .is_apart = query.Int(5) != 0};
}

int StoreItem(Database& db, const ItemPlace& place, const NewItem& item,
              const std::optional<OldItem>& old) {
  const ItemContent& content = *item.content;
  const bool apart = content.value.size() > kLargestInRow;
  const std::string key(place.key);
  const std::string search = content.search.value_or(std::string());
  const std::string vector = EncodeVector(content.vector);
  Query query = db.Prepare(old.has_value() ? kUpdateItem : kInsertItem);
  query.Bind(item.version)
      .Bind(item.create_us)
      .Bind(item.update_us)
      .Bind(item.expire_us)
      .Bind(item.ttl_us)
      .Bind(CountedBytes(key, content))
      .Bind(static_cast<std::int64_t>(content.kind))
      .Bind(content.untrusted ? 1 : 0)
      .Bind(ItemChecksum(key, content))
      .BindText(content.mime_type)
      .BindText(content.writer);
  BindIf(query, content.search.has_value(), search);
  BindIf(query, !vector.empty(), vector);
  BindIf(query, !apart, content.value);
  query.BindText(place.tenant).BindBits(place.generation).BindText(key);
  if (const int code = query.Run(); code != SQLITE_OK) return code;
  if (!apart && !(old.has_value() && old->is_apart)) return SQLITE_OK;
  const std::int64_t id = old.has_value() ? old->id : db.last_inserted_id();
  Query value = db.Prepare(apart ? kPutValue : kDeleteValue);
  value.Bind(id);
  if (apart) value.BindBlob(content.value);
  return value.Run();
}

}  // namespace memoryd::sqlite
