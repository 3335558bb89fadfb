#include "core/storage/postgres/item_writer.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error_cause.h"
#include "core/base/status_macros.h"
#include "core/storage/item_batch.h"
#include "core/storage/item_rows.h"
#include "core/storage/postgres/batch_connection.h"
#include "core/storage/postgres/batch_writer.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/item_queries.h"
#include "core/storage/postgres/item_statement.h"
#include "core/storage/postgres/namespace_writer.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/postgres/sqlstate.h"

namespace memoryd {
namespace {

using Clock = std::chrono::steady_clock;
using Parameters = std::vector<std::string>;

// A try is lost to other servers that write the same namespace, or to what stands against a batch;
// all of that is looked up at once.
constexpr int kMaxTries = 10;

void SetAll(std::span<const PendingItems> batches, ItemBatchOutcome outcome,
            const absl::Status& status = absl::OkStatus()) {
  for (const PendingItems& pending : batches) {
    *pending.result = ItemBatchResult();
    pending.result->outcome = outcome;
    pending.result->status = status;
  }
}

absl::Status KeptBeingWritten() {
  return absl::UnavailableError("the namespace kept being written by others; retry");
}

bool Stores(const ItemBatch& batch) {
  return std::any_of(batch.writes.begin(), batch.writes.end(),
                     [](const ItemWrite& write) { return write.content.has_value(); });
}

// Array parameters, filled row by row.
class Arrays {
 public:
  explicit Arrays(std::size_t columns) : columns_(columns) {}
  template <typename... Values>
  void Add(const Values&... values) {
    std::size_t column = 0;
    (columns_[column++].push_back(values), ...);
  }
  bool empty() const { return columns_.front().empty(); }
  Parameters Take() const {
    Parameters parameters;
    for (const auto& column : columns_) parameters.push_back(ArrayParameter(column));
    return parameters;
  }

 private:
  std::vector<std::vector<std::string>> columns_;
};

// What stands where some batches are to be written.
struct Stored {
  // By index of the batch.
  std::vector<bool> request_taken;
  std::vector<std::optional<std::int64_t>> vector_size;  // None: there is no namespace.
  std::vector<std::string> subject;
  // By index of the batch and of the write; 0 for no item.
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> versions;
};

// Writes the batches of one call.
class Writer {
 public:
  Writer(const CommitContext& context, std::int64_t now_us) : context_(context), now_us_(now_us) {}

  // `tries`: how often these batches have been tried already.
  void Write(std::span<const PendingItems> batches, int tries);

 private:
  // Fills `results` by ItemStatement::Results().
  BatchReply Execute(std::span<const PendingItems> batches,
                     std::vector<std::vector<ItemWriteResult>>& results);
  void OnDone(std::span<const PendingItems> batches, int tries,
              std::vector<std::vector<ItemWriteResult>> results);
  void OnError(std::span<const PendingItems> batches, int tries, const BatchReply& reply);
  // Says of each batch that can't be written why, and writes the others again.
  void SortOut(std::span<const PendingItems> batches, int tries);
  absl::StatusOr<Stored> LookUp(std::span<const PendingItems> batches);
  absl::Status LookUpRequests(std::span<const PendingItems> batches, Stored& stored);
  absl::Status LookUpNamespaces(std::span<const PendingItems> batches, Stored& stored);
  absl::Status LookUpVersions(std::span<const PendingItems> batches, Stored& stored);
  // False when `result` says why the batch is refused.
  static bool Holds(std::size_t index, const ItemBatch& batch, const Stored& stored,
                    ItemBatchResult& result);
  // For a batch of deletions where there is no namespace.
  void KeepNothing(const PendingItems& pending);
  // Takes out those whose calls began before their namespaces were erased.
  absl::Status MakeNamespaces(std::vector<PendingItems>& batches);
  // What became of batches whose answer was lost.
  void Settle(std::span<const PendingItems> batches, const BatchReply& reply);
  absl::StatusOr<QueryResult> Run(const Query& query, const Parameters& parameters) {
    return RunItemQuery(context_.readers, context_.dropper, query, parameters, deadline());
  }
  Deadline deadline() const {
    return settling_ ? context_.settle_deadline : context_.write_deadline;
  }

  const CommitContext& context_;
  const std::int64_t now_us_;
  // Batches, one of each namespace that was made for them.
  std::set<const ItemBatch*> makers_;
  bool settling_ = false;
};

BatchReply Writer::Execute(std::span<const PendingItems> batches,
                           std::vector<std::vector<ItemWriteResult>>& results) {
  const absl::StatusOr<BatchPool::Lease> connection =
      context_.writers.Acquire(deadline(), /*patient=*/settling_);
  // Connecting may have taken all the time: what can't be awaited is not sent.
  const bool late = Clock::now() >= deadline();
  if (!connection.ok() || late) {
    BatchReply reply;
    reply.said = connection.ok() ? "connecting took all the time"
                                 : std::string(CauseOf(connection.status()).text);
    return reply;
  }
  std::vector<const ItemBatch*> written;
  written.reserve(batches.size());
  for (const PendingItems& pending : batches) written.push_back(pending.batch);
  const ItemStatement statement(written, now_us_, NewNamespaceGeneration(), (*connection)->texts());
  BatchReply reply = (*connection)->Execute(statement, deadline());
  if (reply.kind == BatchReply::Kind::kDone) results = statement.Results(reply.numbers);
  return reply;
}

void Writer::Write(std::span<const PendingItems> batches, int tries) {
  if (batches.empty()) return;
  std::vector<std::vector<ItemWriteResult>> results;
  const BatchReply reply = Execute(batches, results);
  if (SpoilsAllConnections(reply.sqlstate)) context_.dropper.DropConnections();
  switch (reply.kind) {
    case BatchReply::Kind::kDone:
      OnDone(batches, tries, std::move(results));
      break;
    case BatchReply::Kind::kNotReplicated:
      SetAll(batches, ItemBatchOutcome::kUnknown,
             absl::UnavailableError("the change may not have reached the standby"));
      break;
    case BatchReply::Kind::kInDoubt:
      Settle(batches, reply);
      break;
    case BatchReply::Kind::kNotSent:
      SetAll(batches, settling_ ? ItemBatchOutcome::kUnknown : ItemBatchOutcome::kFailed,
             StatusForSqlState(reply.sqlstate, reply.said));
      break;
    case BatchReply::Kind::kError:
      OnError(batches, tries, reply);
      break;
  }
}

void Writer::OnDone(std::span<const PendingItems> batches, int tries,
                    std::vector<std::vector<ItemWriteResult>> results) {
  SetAll(batches, ItemBatchOutcome::kWritten);
  std::vector<PendingItems> others;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (results[i].empty()) {
      others.push_back(batches[i]);
      continue;
    }
    batches[i].result->writes = std::move(results[i]);
    batches[i].result->made_namespace = makers_.contains(batches[i].batch);
  }
  if (others.empty()) return;
  if (tries + 1 < kMaxTries && Clock::now() < deadline()) return SortOut(others, tries + 1);
  SetAll(others, ItemBatchOutcome::kFailed, KeptBeingWritten());
}

void Writer::OnError(std::span<const PendingItems> batches, int tries, const BatchReply& reply) {
  const std::string& sqlstate = reply.sqlstate;
  const bool taken =
      sqlstate == kSqlStateUniqueViolation && reply.constraint == kItemRequestConstraint;
  if (tries + 1 < kMaxTries && Clock::now() < deadline()) {
    if (sqlstate == kSqlStateSessionLost || taken) return SortOut(batches, tries + 1);
    if (IsWorthRetrying(sqlstate)) {
      if (batches.size() == 1 || sqlstate.starts_with("40")) return Write(batches, tries + 1);
      // Somebody holds one of the namespaces; the others must not wait for him again.
      for (const PendingItems& pending : batches) Write({&pending, 1}, kMaxTries - 1);
      return;
    }
    if (batches.size() > 1 && IsOfOneChange(sqlstate)) {
      for (const PendingItems& pending : batches) Write({&pending, 1}, kMaxTries - 1);
      return;
    }
  }
  const bool raced = sqlstate == kSqlStateSessionLost || taken;
  SetAll(batches, ItemBatchOutcome::kFailed,
         raced ? KeptBeingWritten() : StatusForSqlState(sqlstate, reply.said));
}

bool Writer::Holds(std::size_t index, const ItemBatch& batch, const Stored& stored,
                   ItemBatchResult& result) {
  result = ItemBatchResult();
  // First, so that the batch tells nothing else of a namespace that is another's.
  if (stored.vector_size[index].has_value() && !batch.subject.empty() &&
      stored.subject[index] != batch.subject) {
    result.outcome = ItemBatchOutcome::kOtherSubject;
    return false;
  }
  if (stored.request_taken[index]) {
    result.outcome = ItemBatchOutcome::kRequestIdTaken;
    return false;
  }
  std::int64_t vector_size = stored.vector_size[index].value_or(0);
  for (result.lost = 0; result.lost < batch.writes.size(); ++result.lost) {
    const ItemWrite& write = batch.writes[result.lost];
    if (write.expected_version.has_value()) {
      const auto found = stored.versions.find({index, result.lost});
      result.stored = found == stored.versions.end() ? 0 : found->second;
      if (result.stored != *write.expected_version) {
        result.outcome = ItemBatchOutcome::kVersionLost;
        return false;
      }
    }
    if (!write.content.has_value() || write.content->vector.empty()) continue;
    const std::int64_t size = std::ssize(write.content->vector);
    if (vector_size == 0) vector_size = size;
    if (vector_size != size) {
      result.outcome = ItemBatchOutcome::kVectorSize;
      result.stored = vector_size;
      return false;
    }
  }
  result.lost = 0;
  result.stored = 0;
  return true;
}

void Writer::SortOut(std::span<const PendingItems> batches, int tries) {
  const absl::StatusOr<Stored> stored = LookUp(batches);
  if (!stored.ok()) return SetAll(batches, ItemBatchOutcome::kFailed, stored.status());
  std::vector<PendingItems> others, homeless;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const PendingItems& pending = batches[i];
    if (!Holds(i, *pending.batch, *stored, *pending.result)) continue;
    const bool has_namespace = stored->vector_size[i].has_value();
    if (!has_namespace && !Stores(*pending.batch)) {
      KeepNothing(pending);
      continue;
    }
    (has_namespace ? others : homeless).push_back(pending);
  }
  if (!homeless.empty()) {
    const absl::Status status = MakeNamespaces(homeless);
    others.insert(others.end(), homeless.begin(), homeless.end());
    if (!status.ok()) return SetAll(others, ItemBatchOutcome::kFailed, status);
  }
  // Two batches under one request_id, or two of a new namespace with vectors of different sizes or
  // with different subjects, stand against each other: one at a time they are told apart.
  const bool alone = tries > 2;
  if (!alone) return Write(others, tries);
  for (const PendingItems& pending : others) Write({&pending, 1}, tries);
}

absl::StatusOr<Stored> Writer::LookUp(std::span<const PendingItems> batches) {
  Stored stored;
  stored.request_taken.resize(batches.size());
  stored.vector_size.resize(batches.size());
  stored.subject.resize(batches.size());
  MEMORYD_RETURN_IF_ERROR(LookUpNamespaces(batches, stored));
  MEMORYD_RETURN_IF_ERROR(LookUpVersions(batches, stored));
  // Last: a version that the first try of a repeated batch has raised is not held against it.
  MEMORYD_RETURN_IF_ERROR(LookUpRequests(batches, stored));
  return stored;
}

absl::Status Writer::LookUpRequests(std::span<const PendingItems> batches, Stored& stored) {
  Arrays arrays(3);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const ItemBatch& batch = *batches[i].batch;
    if (batch.request_id.empty()) continue;
    arrays.Add(batch.key.tenant, DigestParameter(batch.key), batch.request_id);
    indices.push_back(i);
  }
  if (indices.empty()) return absl::OkStatus();
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult found, Run(kFindTakenRequests, arrays.Take()));
  for (int row = 0; row < found.size(); ++row) {
    stored.request_taken[indices[static_cast<std::size_t>(found.Int(row, 0) - 1)]] = true;
  }
  return absl::OkStatus();
}

absl::Status Writer::LookUpNamespaces(std::span<const PendingItems> batches, Stored& stored) {
  Arrays arrays(2);
  for (const PendingItems& pending : batches) {
    arrays.Add(pending.batch->key.tenant, DigestParameter(pending.batch->key));
  }
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult found, Run(kFindNamespaces, arrays.Take()));
  constexpr int kVectorSize = 6;
  constexpr int kSubject = 10;
  for (int row = 0; row < found.size(); ++row) {
    const auto index = static_cast<std::size_t>(found.Int(row, 0) - 1);
    stored.vector_size[index] = found.Int(row, kVectorSize);
    stored.subject[index] = std::string(found.Text(row, kSubject));
  }
  return absl::OkStatus();
}

absl::Status Writer::LookUpVersions(std::span<const PendingItems> batches, Stored& stored) {
  Arrays arrays(3);
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const ItemBatch& batch = *batches[i].batch;
    for (std::size_t write = 0; write < batch.writes.size(); ++write) {
      if (!batch.writes[write].expected_version.has_value()) continue;
      arrays.Add(batch.key.tenant, DigestParameter(batch.key), batch.writes[write].key);
      places.emplace_back(i, write);
    }
  }
  if (places.empty()) return absl::OkStatus();
  Parameters parameters = arrays.Take();
  parameters.push_back(std::to_string(now_us_));
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult found, Run(kReadVersions, parameters));
  for (int row = 0; row < found.size(); ++row) {
    stored.versions[places[static_cast<std::size_t>(found.Int(row, 0) - 1)]] = found.Int(row, 1);
  }
  return absl::OkStatus();
}

void Writer::KeepNothing(const PendingItems& pending) {
  const ItemBatch& batch = *pending.batch;
  ItemBatchResult& result = *pending.result;
  if (!batch.request_id.empty()) {
    const absl::StatusOr<BatchPool::Lease> connection = context_.writers.Acquire(deadline());
    if (!connection.ok())
      return SetAll({&pending, 1}, ItemBatchOutcome::kFailed, connection.status());
    const BatchReply reply =
        (*connection)
            ->Execute(kKeepNothing,
                      Parameters{batch.key.tenant, DigestParameter(batch.key), batch.request_id,
                                 BytesParameter(batch.fingerprint), std::to_string(now_us_)},
                      deadline());
    if (reply.kind == BatchReply::Kind::kError || reply.kind == BatchReply::Kind::kNotSent) {
      return SetAll({&pending, 1}, ItemBatchOutcome::kFailed,
                    StatusForSqlState(reply.sqlstate, reply.said));
    }
    if (reply.kind != BatchReply::Kind::kDone) {
      return SetAll({&pending, 1}, ItemBatchOutcome::kUnknown,
                    absl::UnavailableError("the store's answer was lost"));
    }
    if (reply.rows == 0) return SetAll({&pending, 1}, ItemBatchOutcome::kRequestIdTaken);
  }
  result.outcome = ItemBatchOutcome::kWritten;
  result.writes.resize(batch.writes.size());
}

absl::Status Writer::MakeNamespaces(std::vector<PendingItems>& batches) {
  std::map<NamespaceKey, const ItemBatch*> youngest;
  for (const PendingItems& pending : batches) {
    const ItemBatch*& batch = youngest[pending.batch->key];
    if (batch == nullptr || batch->begun_us < pending.batch->begun_us) batch = pending.batch;
  }
  std::vector<NeededNamespace> needed;
  needed.reserve(youngest.size());
  for (const auto& [key, batch] : youngest) {
    needed.push_back({key, batch->begun_us, batch->subject});
  }
  MEMORYD_ASSIGN_OR_RETURN(std::vector<MadeNamespace> made,
                           memoryd::MakeNamespaces(context_, needed, now_us_));
  std::map<NamespaceKey, MadeNamespace*> made_at;
  for (std::size_t i = 0; i < needed.size(); ++i) made_at[needed[i].key] = &made[i];
  std::erase_if(batches, [&](const PendingItems& pending) {
    MadeNamespace& name_space = *made_at[pending.batch->key];
    if (name_space.erased_us > 0 && name_space.erased_us >= pending.batch->begun_us) {
      pending.result->outcome = ItemBatchOutcome::kErased;
      return true;
    }
    // Quotas count the subject that it was made with.
    if (name_space.made && pending.batch == youngest[pending.batch->key]) {
      makers_.insert(pending.batch);
    }
    return false;
  });
  return absl::OkStatus();
}

void Writer::Settle(std::span<const PendingItems> batches, const BatchReply& reply) {
  const absl::Status unknown = WithServersCause(
      absl::UnavailableError("the store's answer was lost, the change may be stored"),
      reply.sqlstate, reply.said);
  SetAll(batches, ItemBatchOutcome::kUnknown, unknown);
  if (settling_) return;
  // Written again under its request_id a batch is stored once, whether the lost statement has come,
  // comes later, or never does. Without one nobody can tell.
  settling_ = true;
  std::vector<PendingItems> repeatable;
  for (const PendingItems& pending : batches) {
    if (!pending.batch->request_id.empty()) repeatable.push_back(pending);
  }
  Write(repeatable, 0);
  for (const PendingItems& pending : repeatable) {
    const ItemBatch& batch = *pending.batch;
    // It may have been stored before the namespace was given to another.
    if (pending.result->outcome == ItemBatchOutcome::kFailed ||
        pending.result->outcome == ItemBatchOutcome::kOtherSubject) {
      SetAll({&pending, 1}, ItemBatchOutcome::kUnknown, unknown);
    }
    if (pending.result->outcome != ItemBatchOutcome::kRequestIdTaken) continue;
    const auto records = ReadItemRequests(context_, batch.key, {&batch.request_id, 1});
    if (!records.ok() || !records->front().has_value()) {
      SetAll({&pending, 1}, ItemBatchOutcome::kUnknown, unknown);
      continue;
    }
    const ItemRequestRecord& record = *records->front();
    if (record.fingerprint != batch.fingerprint) continue;
    pending.result->outcome = ItemBatchOutcome::kWritten;
    pending.result->writes = record.writes;
    pending.result->writes.resize(batch.writes.size());
  }
  settling_ = false;
}

}  // namespace

absl::StatusOr<QueryResult> RunItemQuery(QueryPool& pool, PoolDropper& dropper, const Query& query,
                                         const std::vector<std::string>& parameters,
                                         Deadline deadline) {
  int lost = 0;
  for (int tries = 1;; ++tries) {
    MEMORYD_ASSIGN_OR_RETURN(const QueryPool::Lease connection, pool.Acquire(deadline));
    absl::StatusOr<QueryResult> result = connection->Run(query, parameters, deadline);
    if (result.ok()) return result;
    if (connection->spoilt()) dropper.DropConnections();
    if (tries == kMaxTries || Clock::now() >= deadline) return result.status();
    // Rows of items are locked by batches in one order, by what reads or purges them in another.
    if (connection->usable() ? !IsLostToOthers(connection->sqlstate()) : ++lost > 1) {
      return result.status();
    }
  }
}

std::string DigestParameter(const NamespaceKey& key) {
  return BytesParameter(NamespaceDigest(key.path));
}

absl::StatusOr<std::vector<std::optional<ItemRequestRecord>>> ReadItemRequests(
    const CommitContext& context, const NamespaceKey& key,
    std::span<const std::string> request_ids) {
  std::vector<std::optional<ItemRequestRecord>> records(request_ids.size());
  if (request_ids.empty()) return records;
  const Parameters parameters = {key.tenant, DigestParameter(key), ArrayParameter(request_ids)};
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult found,
                           RunItemQuery(context.readers, context.dropper, kFindItemRequests,
                                        parameters, context.settle_deadline));
  if (found.size() == 0) return records;
  MEMORYD_ASSIGN_OR_RETURN(const BatchPool::Lease connection,
                           context.writers.Acquire(context.settle_deadline, /*patient=*/true));
  const BatchReply confirmed =
      connection->Execute(kConfirmItemRequests, parameters, context.settle_deadline);
  if (confirmed.kind != BatchReply::Kind::kDone) {
    return WithServersCause(
        absl::UnavailableError("whether what is recorded is replicated is not known"),
        confirmed.sqlstate, confirmed.said);
  }
  std::map<std::string, ItemRequestRecord, std::less<>> by_id;
  for (int row = 0; row < found.size(); ++row) {
    ItemRequestRecord& record = by_id[std::string(found.Text(row, 0))];
    record.fingerprint = found.Bytes(row, 1);
    record.create_us = found.Int(row, 3);
    if (!DecodeItemResults(found.Text(row, 2), record.writes)) {
      return absl::DataLossError("what is kept under a request_id can't be read back");
    }
  }
  for (std::size_t i = 0; i < request_ids.size(); ++i) {
    const auto record = by_id.find(request_ids[i]);
    if (record != by_id.end()) records[i] = record->second;
  }
  return records;
}

void WriteItemBatches(const CommitContext& context, std::vector<PendingItems> pending,
                      std::int64_t now_us) {
  Writer writer(context, now_us);
  for (auto begin = pending.begin(); begin != pending.end();) {
    auto end = begin;
    std::size_t parameters = 0;
    while (end != pending.end()) {
      parameters += ItemStatement::ParameterCount(*end->batch);
      if (end != begin && parameters > ItemStatement::kMaxParameters) break;
      ++end;
    }
    writer.Write({begin, end}, 0);
    begin = end;
  }
}

}  // namespace memoryd
