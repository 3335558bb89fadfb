#include "core/storage/postgres/conflicts.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/model/message.h"
#include "core/storage/postgres/batch_connection.h"
#include "core/storage/postgres/batch_statement.h"
#include "core/storage/postgres/batch_writer.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/postgres/sqlstate.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

constexpr Query kStoredRevisions{
    "conflict_revisions",
    "SELECT k.n, s.revision FROM unnest($1::text[], $2::text[]) WITH ORDINALITY "
    "AS k (tenant, session, n) JOIN memoryd_sessions s ON s.tenant = k.tenant "
    "AND s.session = k.session"};

constexpr Query kStoredMessageIds{
    "conflict_message_ids",
    "SELECT k.n FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[]) "
    "AS k (tenant, session, generation, message_id, n) JOIN memoryd_messages m "
    "ON m.tenant = k.tenant AND m.session = k.session AND m.generation = k.generation "
    "AND m.message_id = k.message_id"};

constexpr Query kStoredRequestIds{
    "conflict_request_ids",
    "SELECT k.n FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) "
    "AS k (tenant, session, request_id, n) JOIN memoryd_requests r "
    "ON r.tenant = k.tenant AND r.session = k.session AND r.request_id = k.request_id"};

// Array parameters, filled row by row.
class Arrays {
 public:
  explicit Arrays(std::size_t columns) : columns_(columns) {}
  template <typename... Values>
  void Add(const Values&... values) {
    std::size_t column = 0;
    (columns_[column++].push_back(values), ...);
  }
  std::vector<std::string> Parameters() const {
    std::vector<std::string> parameters;
    parameters.reserve(columns_.size());
    for (const auto& column : columns_) parameters.push_back(ArrayParameter(column));
    return parameters;
  }

 private:
  std::vector<std::vector<std::string>> columns_;
};

std::vector<bool> FindByMessageId(QueryConnection& connection, std::span<const PendingChange> batch,
                                  Deadline deadline) {
  Arrays arrays(5);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const SessionChange& change = *batch[i].change;
    const auto add = [&](std::uint64_t generation, const Message& message) {
      if (message.ids->message_id.empty()) return;
      arrays.Add(change.key.tenant, change.key.session,
                 std::to_string(std::bit_cast<std::int64_t>(generation)), message.ids->message_id,
                 std::to_string(i));
    };
    for (const MessagePtr& message : change.messages) add(change.row.generation, *message);
    for (const ContentPtr& content : change.contents) add(change.row.content_generation, *content);
    for (const BlockEntry& entry : change.entries) add(entry.generation, *entry.row);
  }
  std::vector<bool> lost(batch.size());
  const auto found = connection.Run(kStoredMessageIds, arrays.Parameters(), deadline);
  for (int row = 0; found.ok() && row < found->size(); ++row) {
    lost[static_cast<std::size_t>(found->Int(row, 0))] = true;
  }
  return lost;
}

std::vector<bool> FindByRequestId(QueryConnection& connection, std::span<const PendingChange> batch,
                                  Deadline deadline) {
  Arrays arrays(4);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const SessionChange& change = *batch[i].change;
    for (const RequestRecord& request : change.requests) {
      arrays.Add(change.key.tenant, change.key.session, request.request_id, std::to_string(i));
    }
  }
  std::vector<bool> lost(batch.size());
  const auto found = connection.Run(kStoredRequestIds, arrays.Parameters(), deadline);
  for (int row = 0; found.ok() && row < found->size(); ++row) {
    lost[static_cast<std::size_t>(found->Int(row, 0))] = true;
  }
  return lost;
}

std::vector<bool> FindByRevision(QueryConnection& connection, std::span<const PendingChange> batch,
                                 Deadline deadline) {
  Arrays arrays(2);
  for (const PendingChange& pending : batch) {
    arrays.Add(pending.change->key.tenant, pending.change->key.session);
  }
  const auto found = connection.Run(kStoredRevisions, arrays.Parameters(), deadline);
  if (!found.ok()) return std::vector<bool>(batch.size());
  std::vector<std::int64_t> revisions(batch.size(), 0);
  for (int row = 0; row < found->size(); ++row) {
    revisions[static_cast<std::size_t>(found->Int(row, 0) - 1)] = found->Int(row, 1);
  }
  std::vector<bool> lost(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    lost[i] = revisions[i] != batch[i].change->expected_revision;
  }
  return lost;
}

}  // namespace

std::optional<CommitOutcome> ConflictOutcome(const BatchReply& reply) {
  if (reply.sqlstate == kSqlStateSessionLost) return CommitOutcome::kRevisionLost;
  if (reply.sqlstate != kSqlStateUniqueViolation) return std::nullopt;
  // A distributed PostgreSQL adds the shard's number to the name.
  if (reply.constraint.starts_with(kMessageIdConstraint)) return CommitOutcome::kMessageIdTaken;
  if (reply.constraint.starts_with(kRequestIdConstraint)) return CommitOutcome::kRequestIdTaken;
  return std::nullopt;
}

std::vector<bool> FindLosers(const CommitContext& context, std::span<const PendingChange> batch,
                             CommitOutcome conflict) {
  auto connection = context.readers.Acquire(context.write_deadline);
  if (!connection.ok()) return std::vector<bool>(batch.size());
  QueryConnection& reader = *connection->operator->();
  switch (conflict) {
    case CommitOutcome::kMessageIdTaken:
      return FindByMessageId(reader, batch, context.write_deadline);
    case CommitOutcome::kRequestIdTaken:
      return FindByRequestId(reader, batch, context.write_deadline);
    default:
      return FindByRevision(reader, batch, context.write_deadline);
  }
}

}  // namespace memoryd
