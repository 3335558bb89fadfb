#include "core/storage/postgres/batch_writer.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error_cause.h"
#include "core/storage/postgres/batch_connection.h"
#include "core/storage/postgres/batch_statement.h"
#include "core/storage/postgres/conflicts.h"
#include "core/storage/postgres/settle.h"
#include "core/storage/postgres/sqlstate.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

using Batch = std::span<const PendingChange>;

constexpr int kMaxTries = 3;

void SetAll(Batch batch, CommitOutcome outcome, const absl::Status& status = absl::OkStatus()) {
  for (const PendingChange& pending : batch) *pending.result = {outcome, status};
}

// Why there is no connection.
std::string SaidBy(const absl::Status& status) {
  const std::string said = CauseOf(status).text;
  return said.empty() ? std::string(status.message()) : said;
}

// Writes the batches of one Commit call on one connection, as long as that is usable.
class Writer {
 public:
  explicit Writer(const CommitContext& context) : context_(context) {}

  // `tries`: how often these changes have been tried already.
  void Write(Batch batch, int tries);

 private:
  BatchReply Execute(Batch batch);
  void OnError(Batch batch, int tries, const BatchReply& reply);
  void WriteSingly(Batch batch, int tries) {
    for (const PendingChange& pending : batch) Write({&pending, 1}, tries);
  }

  const CommitContext& context_;
};

BatchReply Writer::Execute(Batch batch) {
  const absl::StatusOr<BatchPool::Lease> connection =
      context_.writers.Acquire(context_.write_deadline);
  // Connecting may have taken all the time: what can't be awaited is not sent.
  const bool late = std::chrono::steady_clock::now() >= context_.write_deadline;
  if (!connection.ok() || late) {
    BatchReply reply;
    reply.said = connection.ok() ? "connecting took all the time" : SaidBy(connection.status());
    return reply;
  }
  std::vector<const SessionChange*> changes;
  changes.reserve(batch.size());
  for (const PendingChange& pending : batch) changes.push_back(pending.change);
  return (*connection)
      ->Execute(BatchStatement(changes, (*connection)->texts()), context_.write_deadline);
}

void Writer::Write(Batch batch, int tries) {
  const BatchReply reply = Execute(batch);
  if (SpoilsAllConnections(reply.sqlstate)) context_.dropper.DropConnections();
  switch (reply.kind) {
    case BatchReply::Kind::kDone:
      SetAll(batch, CommitOutcome::kCommitted);
      break;
    case BatchReply::Kind::kNotReplicated:
      SetAll(batch, CommitOutcome::kUnknown,
             absl::UnavailableError("the change may not have reached the standby"));
      for (const PendingChange& pending : batch) pending.result->in_doubt = true;
      break;
    case BatchReply::Kind::kInDoubt:
      Settle(context_, batch, reply);
      break;
    case BatchReply::Kind::kNotSent:
      SetAll(batch, CommitOutcome::kFailed, StatusForSqlState(reply.sqlstate, reply.said));
      break;
    case BatchReply::Kind::kError:
      OnError(batch, tries, reply);
      break;
  }
}

void Writer::OnError(Batch batch, int tries, const BatchReply& reply) {
  const std::string& sqlstate = reply.sqlstate;
  if (IsWorthRetrying(sqlstate)) {
    if (batch.size() == 1 && tries + 1 >= kMaxTries) {
      SetAll(batch, CommitOutcome::kFailed, StatusForSqlState(sqlstate, reply.said));
    } else if (batch.size() == 1 || (sqlstate.starts_with("40") && tries + 1 < kMaxTries)) {
      Write(batch, tries + 1);
    } else {
      // Somebody holds one of the sessions; the others must not wait for him again.
      WriteSingly(batch, kMaxTries - 1);
    }
    return;
  }
  const std::optional<CommitOutcome> conflict = ConflictOutcome(reply);
  if (batch.size() == 1) {
    SetAll(batch, conflict.value_or(CommitOutcome::kFailed),
           conflict ? absl::OkStatus() : StatusForSqlState(sqlstate, reply.said));
  } else if (conflict && tries == 0) {
    // The losers as a batch cost one look-up; the others are written again together.
    std::vector<PendingChange> others;
    const std::vector<bool> lost = FindLosers(context_, batch, *conflict);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (lost[i]) {
        *batch[i].result = {*conflict, absl::OkStatus()};
      } else {
        others.push_back(batch[i]);
      }
    }
    if (!others.empty()) Write(others, 1);
  } else if (conflict || IsOfOneChange(sqlstate)) {
    WriteSingly(batch, tries + 1);
  } else {
    SetAll(batch, CommitOutcome::kFailed, StatusForSqlState(sqlstate, reply.said));
  }
}

}  // namespace

void WriteChanges(const CommitContext& context, std::vector<PendingChange> pending) {
  // In key order every batch locks its sessions in the same order as every other one.
  std::sort(pending.begin(), pending.end(), [](const PendingChange& a, const PendingChange& b) {
    return a.change->key < b.change->key;
  });
  // Large changes go last, each alone.
  const auto large = std::stable_partition(
      pending.begin(), pending.end(),
      [](const PendingChange& p) { return !BatchStatement::NeedsArrays(*p.change); });
  Writer writer(context);
  for (auto begin = pending.begin(); begin != pending.end();) {
    auto end = begin + 1;
    if (begin < large) {
      std::size_t parameters = BatchStatement::ParameterCount(*begin->change);
      for (; end != large; ++end) {
        parameters += BatchStatement::ParameterCount(*end->change);
        if (parameters > BatchStatement::kMaxParameters) break;
      }
    }
    writer.Write({begin, end}, 0);
    begin = end;
  }
}

}  // namespace memoryd
