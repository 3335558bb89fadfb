#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/items/item.h"
#include "core/storage/item_rows.h"
#include "core/storage/item_store.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/sqlite/sqlite_items.h"

namespace memoryd::sqlite {
namespace {

constexpr char kInsertStaging[] =
    "INSERT INTO memoryd_item_requests (tenant, path, request_id, fingerprint, results, create_us)"
    " VALUES (?, ?, ?, x'', '', ?)";

constexpr char kTouchStaging[] =
    "UPDATE memoryd_item_requests SET create_us = ?"
    " WHERE tenant = ? AND path = ? AND request_id = ?";

constexpr char kDeleteStaging[] =
    "DELETE FROM memoryd_item_requests WHERE tenant = ? AND path = ? AND request_id = ?";

constexpr char kGiveUpItems[] =
    "INSERT INTO memoryd_item_garbage (tenant, generation) VALUES (?, ?)";

constexpr char kCountStaged[] =
    "SELECT count(*), coalesce(sum(bytes), 0) FROM memoryd_items"
    " WHERE tenant = ? AND generation = ?";

// Whether it was there.
absl::StatusOr<bool> ForgetStaging(Database& db, const StagedNamespace& staged) {
  const std::string digest = NamespaceDigest(staged.key.path);
  const std::string id = StagingId(staged.generation);
  Query query = db.Prepare(kDeleteStaging);
  query.BindText(staged.key.tenant).BindBlob(digest).BindText(id);
  MEMORYD_RETURN_IF_ERROR(ToStatus(query.Run()));
  return db.changes() > 0;
}

absl::Status GiveUp(Database& db, const StagedNamespace& staged) {
  Query query = db.Prepare(kGiveUpItems);
  query.BindText(staged.key.tenant).BindBits(staged.generation);
  return ToStatus(query.Run());
}

}  // namespace

absl::StatusOr<std::optional<StagedNamespace>> StageNamespace(Database& db, const NamespaceKey& key,
                                                              std::int64_t now_us) {
  using Staged = std::optional<StagedNamespace>;
  return InWriteTransaction(db, [&]() -> absl::StatusOr<Staged> {
    MEMORYD_ASSIGN_OR_RETURN(const std::optional<NamespaceRow> row, FindNamespace(db, key));
    if (row.has_value()) return std::nullopt;
    MEMORYD_ASSIGN_OR_RETURN(const Deletion before, FindDeletion(db, key));
    StagedNamespace staged{key, NewNamespaceGeneration(),
                           std::max(FirstNamespaceVersion(now_us), before.version + 1)};
    const std::string digest = NamespaceDigest(key.path);
    const std::string id = StagingId(staged.generation);
    Query query = db.Prepare(kInsertStaging);
    query.BindText(key.tenant).BindBlob(digest).BindText(id).Bind(StagingTime(now_us));
    MEMORYD_RETURN_IF_ERROR(ToStatus(query.Run()));
    return Staged(std::move(staged));
  });
}

absl::StatusOr<bool> StageItems(Database& db, const StagedNamespace& staged,
                                std::span<const Item> items, std::int64_t now_us) {
  return InWriteTransaction(db, [&]() -> absl::StatusOr<bool> {
    const std::string digest = NamespaceDigest(staged.key.path);
    const std::string id = StagingId(staged.generation);
    Query touch = db.Prepare(kTouchStaging);
    touch.Bind(StagingTime(now_us)).BindText(staged.key.tenant).BindBlob(digest).BindText(id);
    MEMORYD_RETURN_IF_ERROR(ToStatus(touch.Run()));
    if (db.changes() == 0) return false;
    for (const Item& item : items) {
      const ItemPlace place{staged.key.tenant, staged.generation, item.key};
      MEMORYD_ASSIGN_OR_RETURN(const std::optional<OldItem> old, FindItem(db, place));
      const NewItem stored{.version = item.version,
                           .create_us = item.create_us,
                           .update_us = item.update_us,
                           .expire_us = item.expire_us,
                           .ttl_us = item.ttl_us,
                           .content = &item.content};
      MEMORYD_RETURN_IF_ERROR(ToStatus(StoreItem(db, place, stored, old)));
    }
    return true;
  });
}

absl::StatusOr<bool> PublishNamespace(Database& db, const StagedNamespace& staged,
                                      const NamespaceRow& row) {
  return InWriteTransaction(db, [&]() -> absl::StatusOr<bool> {
    MEMORYD_ASSIGN_OR_RETURN(const bool is_there, ForgetStaging(db, staged));
    if (!is_there) return false;
    MEMORYD_ASSIGN_OR_RETURN(const std::optional<NamespaceRow> other,
                             FindNamespace(db, staged.key));
    MEMORYD_ASSIGN_OR_RETURN(const Deletion before, FindDeletion(db, staged.key));
    if (other.has_value() || before.version >= staged.first_version) {
      MEMORYD_RETURN_IF_ERROR(GiveUp(db, staged));
      return false;
    }
    NamespaceRow made = row;
    made.generation = staged.generation;
    made.config_version = made.version;
    {
      // What has expired may be gone already.
      Query count = db.Prepare(kCountStaged);
      count.BindText(staged.key.tenant).BindBits(staged.generation);
      MEMORYD_RETURN_IF_ERROR(count.Next().status());
      made.item_count = count.Int(0);
      made.item_bytes = count.Int(1);
    }
    MEMORYD_RETURN_IF_ERROR(ToStatus(InsertNamespace(db, staged.key, made, /*tag=*/0)));
    return true;
  });
}

absl::Status DropNamespace(Database& db, const StagedNamespace& staged) {
  return InWriteTransaction(db,
                            [&]() -> absl::StatusOr<bool> {
                              MEMORYD_ASSIGN_OR_RETURN(const bool is_there,
                                                       ForgetStaging(db, staged));
                              if (is_there) MEMORYD_RETURN_IF_ERROR(GiveUp(db, staged));
                              return is_there;
                            })
      .status();
}

}  // namespace memoryd::sqlite
