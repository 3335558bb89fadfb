#include "core/storage/postgres/settle.h"

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/postgres/batch_connection.h"
#include "core/storage/postgres/batch_statement.h"
#include "core/storage/postgres/batch_writer.h"
#include "core/storage/postgres/conflicts.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/postgres/sqlstate.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

// A write rather than a read: its own commit waits for the standby, and so proves that the row it
// found is as durable as an answered commit.
constexpr char kConfirm[] =
    "UPDATE memoryd_sessions SET commit_tag = $3 WHERE tenant = $1 AND session = $2 "
    "AND commit_tag = $3 AND revision = $4 RETURNING revision";

// The same for what others have written over since.
constexpr char kConfirmOthers[] =
    "UPDATE memoryd_sessions SET commit_tag = commit_tag WHERE tenant = $1 AND session = $2";

constexpr Query kEvidence{
    "settle_evidence",
    "SELECT s.revision, m.ingest_us, m.body FROM memoryd_sessions s LEFT JOIN memoryd_messages m "
    "ON m.tenant = s.tenant AND m.session = s.session AND m.generation = $3::bigint "
    "AND m.position = $4::bigint WHERE s.tenant = $1 AND s.session = $2"};

constexpr int kMaxTries = 5;

// The first message, content or entry that the change appends, and its generation; null for none.
std::pair<std::uint64_t, const Message*> FirstRow(const SessionChange& change) {
  if (!change.messages.empty()) return {change.row.generation, change.messages.front().get()};
  if (!change.contents.empty()) {
    return {change.row.content_generation, change.contents.front().get()};
  }
  if (change.entries.empty()) return {0, nullptr};
  return {change.entries.front().generation, change.entries.front().row.get()};
}

// Settle() gives it its status.
CommitResult Unknown() { return {CommitOutcome::kUnknown, absl::OkStatus()}; }

std::optional<BatchReply> Rerun(const CommitContext& context,
                                std::span<const SessionChange* const> changes) {
  auto connection = context.writers.Acquire(context.settle_deadline, /*patient=*/true);
  if (!connection.ok()) return std::nullopt;
  BatchReply reply =
      (*connection)
          ->Execute(BatchStatement(changes, (*connection)->texts()), context.settle_deadline);
  if (SpoilsAllConnections(reply.sqlstate)) context.dropper.DropConnections();
  return reply;
}

// Whether the statement was done, and with it is replicated what it found; its parameters are text.
BatchReply Confirm(const CommitContext& context, const char* sql,
                   std::span<const std::string> parameters) {
  auto connection = context.writers.Acquire(context.settle_deadline, /*patient=*/true);
  if (!connection.ok()) return {};
  return (*connection)->Execute(sql, parameters, context.settle_deadline);
}

// The session's row is not what the change expects, or an id of it is taken: by whom?
CommitResult Investigate(const CommitContext& context, const SessionChange& change,
                         CommitOutcome conflict) {
  const SessionKey& key = change.key;
  const std::vector<std::string> tagged = {
      key.tenant, key.session, std::to_string(std::bit_cast<std::int64_t>(change.row.commit_tag)),
      std::to_string(change.row.revision)};
  const BatchReply reply = Confirm(context, kConfirm, tagged);
  if (reply.kind != BatchReply::Kind::kDone) return Unknown();
  if (reply.rows == 1) return {CommitOutcome::kCommitted, absl::OkStatus()};
  auto connection = context.readers.Acquire(context.settle_deadline, /*patient=*/true);
  if (!connection.ok()) return Unknown();
  const auto [generation, first] = FirstRow(change);
  const auto found =
      (*connection)
          ->Run(kEvidence,
                std::vector<std::string>{key.tenant, key.session,
                                         std::to_string(std::bit_cast<std::int64_t>(generation)),
                                         std::to_string(first == nullptr ? 0 : first->position)},
                context.settle_deadline);
  if (!found.ok() || found->size() == 0) return Unknown();
  const std::int64_t revision = found->Int(0, 0);
  if (revision == change.expected_revision) return {conflict, absl::OkStatus()};
  // Revisions rise with every commit: had the change been stored, and others after it, the row's
  // would be higher than the change's own.
  if (revision <= change.row.revision) return {CommitOutcome::kRevisionLost, absl::OkStatus()};
  if (first == nullptr || found->IsNull(0, 1)) return Unknown();
  if (found->Int(0, 1) == first->ingest_us && found->Bytes(0, 2) == first->body) {
    const std::vector<std::string> session = {key.tenant, key.session};
    if (Confirm(context, kConfirmOthers, session).kind != BatchReply::Kind::kDone) return Unknown();
    return {CommitOutcome::kCommitted, absl::OkStatus()};
  }
  return {CommitOutcome::kRevisionLost, absl::OkStatus()};
}

CommitResult SettleOne(const CommitContext& context, const SessionChange& change) {
  const SessionChange* const changes[] = {&change};
  for (int i = 0; i < kMaxTries; ++i) {
    const std::optional<BatchReply> reply = Rerun(context, changes);
    if (!reply.has_value()) break;
    if (reply->kind == BatchReply::Kind::kDone) {
      return {CommitOutcome::kCommitted, absl::OkStatus()};
    }
    if (reply->kind == BatchReply::Kind::kNotReplicated) break;
    if (reply->kind != BatchReply::Kind::kError || IsWorthRetrying(reply->sqlstate)) continue;
    if (const auto conflict = ConflictOutcome(*reply); conflict.has_value()) {
      return Investigate(context, change, *conflict);
    }
    break;
  }
  return Unknown();
}

}  // namespace

void Settle(const CommitContext& context, std::span<const PendingChange> batch,
            const BatchReply& first) {
  const absl::Status unknown = WithServersCause(
      absl::UnavailableError("the store's answer was lost, the change may be stored"),
      first.sqlstate, first.said);
  std::vector<const SessionChange*> changes;
  for (const PendingChange& pending : batch) changes.push_back(pending.change);
  const std::optional<BatchReply> reply = Rerun(context, changes);
  for (const PendingChange& pending : batch) {
    if (!reply.has_value() || reply->kind == BatchReply::Kind::kNotReplicated) {
      *pending.result = Unknown();
    } else if (reply->kind == BatchReply::Kind::kDone) {
      *pending.result = {CommitOutcome::kCommitted, absl::OkStatus()};
    } else {
      *pending.result = SettleOne(context, *pending.change);
    }
    pending.result->in_doubt = true;
    if (pending.result->outcome == CommitOutcome::kUnknown) pending.result->status = unknown;
  }
}

}  // namespace memoryd
