#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/failpoint.h"
#include "core/base/status_macros.h"
#include "core/items/item.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_rows.h"
#include "core/storage/item_store.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/sqlite/sqlite_items.h"

namespace memoryd::sqlite {
namespace {

constexpr char kBegin[] = "BEGIN IMMEDIATE";
constexpr char kCommit[] = "COMMIT";

constexpr char kInsertNamespace[] =
    "INSERT INTO memoryd_namespaces (tenant, path, generation, version, config_version, item_count,"
    " item_bytes, vector_size, ttl_us, create_us, update_us, commit_tag, subject, config)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

constexpr char kUpdateNamespace[] =
    "UPDATE memoryd_namespaces SET version = ?, item_count = ?, item_bytes = ?, vector_size = ?,"
    " update_us = ?, commit_tag = ? WHERE tenant = ? AND path = ?";

// Apart from kUpdateNamespace, which no index knows of.
constexpr char kSetNamespaceConfig[] =
    "UPDATE memoryd_namespaces SET version = ?, config_version = ?, ttl_us = ?, update_us = ?,"
    " subject = ?, config = ? WHERE tenant = ? AND path = ?";

constexpr char kSelectTag[] =
    "SELECT commit_tag FROM memoryd_namespaces WHERE tenant = ? AND path = ?";

constexpr char kDeleteItem[] =
    "DELETE FROM memoryd_items WHERE tenant = ? AND generation = ? AND key = ?";

constexpr char kSelectRequest[] =
    "SELECT 1 FROM memoryd_item_requests WHERE tenant = ? AND path = ? AND request_id = ?";

constexpr char kInsertRequest[] =
    "INSERT INTO memoryd_item_requests (tenant, path, request_id, fingerprint, results, create_us)"
    " VALUES (?, ?, ?, ?, ?, ?)";

// Writes one batch into the open transaction. Everything is decided before anything is written, so
// that a batch that is refused leaves nothing behind.
class BatchWriter {
 public:
  BatchWriter(Database& db, const ItemBatch& batch, std::int64_t now_us, std::uint64_t tag)
      : db_(db), batch_(batch), now_us_(now_us), tag_(tag) {}

  // An error ends the transaction.
  absl::StatusOr<ItemBatchResult> Write();

 private:
  absl::StatusOr<bool> IsRequestTaken();
  // False when `result` says why the batch is refused.
  absl::StatusOr<bool> Decide(ItemBatchResult& result);
  absl::Status ReadOld();
  int WriteItem(const ItemWrite& write, const std::optional<OldItem>& old, ItemWriteResult& result);
  int PutItem(const ItemWrite& write, const std::optional<OldItem>& old,
              const ItemWriteResult& result);
  int WriteRow();
  int WriteRequest(const std::vector<ItemWriteResult>& results);
  bool IsThere(const std::optional<OldItem>& old) const {
    return old.has_value() && IsLive(old->expire_us, now_us_);
  }

  Database& db_;
  const ItemBatch& batch_;
  const std::int64_t now_us_;
  const std::uint64_t tag_;
  // As it is to be; absent while there is no namespace and none is made.
  std::optional<NamespaceRow> row_;
  bool is_new_ = false;
  // By index of the write.
  std::vector<std::optional<OldItem>> old_;
};

absl::StatusOr<bool> BatchWriter::IsRequestTaken() {
  if (batch_.request_id.empty()) return false;
  Query query = db_.Prepare(kSelectRequest);
  query.BindText(batch_.key.tenant).BindText(batch_.key.path.stored()).BindText(batch_.request_id);
  return query.Next();
}

absl::Status BatchWriter::ReadOld() {
  old_.resize(batch_.writes.size());
  if (!row_.has_value() || is_new_) return absl::OkStatus();
  for (std::size_t i = 0; i < old_.size(); ++i) {
    MEMORYD_ASSIGN_OR_RETURN(
        old_[i], FindItem(db_, {batch_.key.tenant, row_->generation, batch_.writes[i].key}));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> BatchWriter::Decide(ItemBatchResult& result) {
  MEMORYD_ASSIGN_OR_RETURN(row_, FindNamespace(db_, batch_.key));
  // First, so that the batch tells nothing else of a namespace that is another's.
  if (row_.has_value() && !batch_.subject.empty() && row_->subject != batch_.subject) {
    result.outcome = ItemBatchOutcome::kOtherSubject;
    return false;
  }
  MEMORYD_ASSIGN_OR_RETURN(const bool taken, IsRequestTaken());
  if (taken) {
    result.outcome = ItemBatchOutcome::kRequestIdTaken;
    return false;
  }
  const bool stores = std::any_of(batch_.writes.begin(), batch_.writes.end(),
                                  [](const ItemWrite& write) { return write.content.has_value(); });
  if (!row_.has_value() && stores) {
    MEMORYD_ASSIGN_OR_RETURN(const Deletion before, FindDeletion(db_, batch_.key));
    if (before.erased_us >= batch_.begun_us) {
      result.outcome = ItemBatchOutcome::kErased;
      return false;
    }
    is_new_ = true;
    row_.emplace();
    row_->generation = NewNamespaceGeneration();
    row_->version = row_->config_version =
        std::max(FirstNamespaceVersion(now_us_), before.version + 1);
    row_->create_us = row_->update_us = now_us_;
    row_->subject = batch_.subject;
  }
  MEMORYD_RETURN_IF_ERROR(ReadOld());
  for (result.lost = 0; result.lost < old_.size(); ++result.lost) {
    const ItemWrite& write = batch_.writes[result.lost];
    const std::optional<OldItem>& old = old_[result.lost];
    const std::int64_t version = IsThere(old) ? old->version : 0;
    if (write.expected_version.value_or(version) != version) {
      result.outcome = ItemBatchOutcome::kVersionLost;
      result.stored = version;
      return false;
    }
    if (!write.content.has_value() || write.content->vector.empty()) continue;
    const auto size = static_cast<std::int64_t>(write.content->vector.size());
    if (row_->vector_size == 0) row_->vector_size = size;
    if (row_->vector_size != size) {
      result.outcome = ItemBatchOutcome::kVectorSize;
      result.stored = row_->vector_size;
      return false;
    }
  }
  result.lost = 0;
  return true;
}

int BatchWriter::PutItem(const ItemWrite& write, const std::optional<OldItem>& old,
                         const ItemWriteResult& result) {
  return StoreItem(db_, {batch_.key.tenant, row_->generation, write.key},
                   {.version = result.version,
                    .create_us = result.create_us,
                    .update_us = now_us_,
                    .expire_us = result.expire_us,
                    .ttl_us = write.ttl_us.value_or(row_->ttl_us),
                    .content = &*write.content},
                   old);
}

int BatchWriter::WriteItem(const ItemWrite& write, const std::optional<OldItem>& old,
                           ItemWriteResult& result) {
  result.existed = IsThere(old);
  result.create_us = result.existed ? old->create_us : write.content.has_value() ? now_us_ : 0;
  if (old.has_value()) {
    --row_->item_count;
    row_->item_bytes -= old->bytes;
  }
  if (write.content.has_value()) {
    result.version = ++row_->version;
    result.expire_us = ExpireTime(now_us_, write.ttl_us.value_or(row_->ttl_us));
    ++row_->item_count;
    row_->item_bytes += CountedBytes(write.key, *write.content);
    return PutItem(write, old, result);
  }
  if (!old.has_value()) return SQLITE_OK;
  ++row_->version;
  Query query = db_.Prepare(kDeleteItem);
  query.BindText(batch_.key.tenant).BindBits(row_->generation).BindText(write.key);
  return query.Run();
}

int BatchWriter::WriteRow() {
  const NamespaceRow& row = *row_;
  if (is_new_) return InsertNamespace(db_, batch_.key, row, tag_);
  Query query = db_.Prepare(kUpdateNamespace);
  query.Bind(row.version)
      .Bind(row.item_count)
      .Bind(row.item_bytes)
      .Bind(row.vector_size)
      .Bind(now_us_)
      .BindBits(tag_)
      .BindText(batch_.key.tenant)
      .BindText(batch_.key.path.stored());
  return query.Run();
}

int BatchWriter::WriteRequest(const std::vector<ItemWriteResult>& results) {
  if (batch_.request_id.empty()) return SQLITE_OK;
  const std::string text = EncodeItemResults(results);
  Query query = db_.Prepare(kInsertRequest);
  query.BindText(batch_.key.tenant)
      .BindText(batch_.key.path.stored())
      .BindText(batch_.request_id)
      .BindBlob(batch_.fingerprint)
      .BindText(text)
      .Bind(now_us_);
  return query.Run();
}

absl::StatusOr<ItemBatchResult> BatchWriter::Write() {
  ItemBatchResult result;
  MEMORYD_ASSIGN_OR_RETURN(const bool holds, Decide(result));
  if (!holds) return result;
  result.writes.resize(batch_.writes.size());
  // Without a namespace there is nothing to delete.
  for (std::size_t i = 0; row_.has_value() && i < batch_.writes.size(); ++i) {
    const int code = WriteItem(batch_.writes[i], old_[i], result.writes[i]);
    if (code != SQLITE_OK) return ToStatus(code);
  }
  if (row_.has_value()) MEMORYD_RETURN_IF_ERROR(ToStatus(WriteRow()));
  MEMORYD_RETURN_IF_ERROR(ToStatus(WriteRequest(result.writes)));
  result.outcome = ItemBatchOutcome::kWritten;
  result.made_namespace = is_new_;
  return result;
}

void SetWritten(std::vector<ItemBatchResult>& results, ItemBatchOutcome outcome,
                const absl::Status& status) {
  for (ItemBatchResult& result : results) {
    if (result.outcome != ItemBatchOutcome::kWritten) continue;
    result = ItemBatchResult();
    result.outcome = outcome;
    result.status = status;
  }
}

std::vector<ItemBatchResult> AllFailed(std::size_t count, const absl::Status& status) {
  ItemBatchResult failed;
  failed.status = status;
  return std::vector<ItemBatchResult>(count, failed);
}

// After an I/O error at COMMIT this process no longer sees the transaction, but all of it may stand
// in the log, and recovery after a crash would bring it back. An emptied log settles that: the
// transaction is there whole or not at all, so that one row tells of every batch.
void Settle(Database& db, std::span<const ItemBatch> batches, std::uint64_t tag,
            const absl::Status& error, std::vector<ItemBatchResult>& results) {
  if (db.TruncateLog() != SQLITE_OK) {
    SetWritten(results, ItemBatchOutcome::kUnknown, error);
    return;
  }
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (results[i].outcome != ItemBatchOutcome::kWritten) continue;
    Query query = db.Prepare(kSelectTag);
    query.BindText(batches[i].key.tenant).BindText(batches[i].key.path.stored());
    const int code = query.Step();
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
      SetWritten(results, ItemBatchOutcome::kUnknown, error);
      return;
    }
    if (code == SQLITE_ROW && query.Bits(0) == tag) return;
  }
  SetWritten(results, ItemBatchOutcome::kFailed, error);
}

}  // namespace

int InsertNamespace(Database& db, const NamespaceKey& key, const NamespaceRow& row,
                    std::uint64_t tag) {
  Query query = db.Prepare(kInsertNamespace);
  query.BindText(key.tenant)
      .BindText(key.path.stored())
      .BindBits(row.generation)
      .Bind(row.version)
      .Bind(row.config_version)
      .Bind(row.item_count)
      .Bind(row.item_bytes)
      .Bind(row.vector_size)
      .Bind(row.ttl_us)
      .Bind(row.create_us)
      .Bind(row.update_us)
      .BindBits(tag)
      .BindText(row.subject)
      .BindBlob(row.config);
  return query.Run();
}

std::vector<ItemBatchResult> WriteItems(Database& db, std::span<const ItemBatch> batches,
                                        std::int64_t now_us) {
  if (const int code = db.Run(kBegin); code != SQLITE_OK) {
    return AllFailed(batches.size(), ToStatus(code));
  }
  // Should something be thrown: a transaction left open would hold up all that come after.
  const absl::Cleanup end = [&db] { db.Rollback(); };
  ReachFailpoint("commit_begun");
  const std::uint64_t tag = NewNamespaceGeneration();
  std::vector<ItemBatchResult> results;
  results.reserve(batches.size());
  for (const ItemBatch& batch : batches) {
    absl::StatusOr<ItemBatchResult> result = BatchWriter(db, batch, now_us, tag).Write();
    if (!result.ok()) return AllFailed(batches.size(), result.status());
    results.push_back(*std::move(result));
  }
  ReachFailpoint("commit_sent");
  const int code = db.Run(kCommit);
  if (code == SQLITE_OK) return results;
  db.Rollback();
  if ((code & 0xFF) == SQLITE_IOERR) {
    Settle(db, batches, tag, ToStatus(code), results);
  } else {
    // The log lacks at least the end of the transaction (full), or all of it (busy).
    SetWritten(results, ItemBatchOutcome::kFailed, ToStatus(code));
  }
  return results;
}

absl::StatusOr<bool> WriteNamespace(Database& db, const NamespaceKey& key,
                                    const NamespaceChange& change, std::int64_t now_us) {
  return InWriteTransaction(db, [&]() -> absl::StatusOr<bool> {
    MEMORYD_ASSIGN_OR_RETURN(const std::optional<NamespaceRow> row, FindNamespace(db, key));
    const std::int64_t stored = row.has_value() ? row->config_version : 0;
    if (stored != change.expected_config_version) return false;
    Deletion before;
    if (!row.has_value()) {
      MEMORYD_ASSIGN_OR_RETURN(before, FindDeletion(db, key));
      if (before.erased_us >= change.begun_us) return false;
    }
    const std::int64_t version = row.has_value()
                                     ? row->version + 1
                                     : std::max(FirstNamespaceVersion(now_us), before.version + 1);
    if (!row.has_value()) {
      const NamespaceRow made{.generation = NewNamespaceGeneration(),
                              .version = version,
                              .config_version = version,
                              .ttl_us = change.ttl_us,
                              .create_us = now_us,
                              .update_us = now_us,
                              .subject = change.subject,
                              .config = change.config};
      MEMORYD_RETURN_IF_ERROR(ToStatus(InsertNamespace(db, key, made, /*tag=*/0)));
      return true;
    }
    Query query = db.Prepare(kSetNamespaceConfig);
    query.Bind(version)
        .Bind(version)
        .Bind(change.ttl_us)
        .Bind(now_us)
        .BindText(change.subject)
        .BindBlob(change.config)
        .BindText(key.tenant)
        .BindText(key.path.stored());
    MEMORYD_RETURN_IF_ERROR(ToStatus(query.Run()));
    return true;
  });
}

}  // namespace memoryd::sqlite
