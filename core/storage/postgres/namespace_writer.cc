#include "core/storage/postgres/namespace_writer.h"

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/storage/item_rows.h"
#include "core/storage/item_store.h"
#include "core/storage/postgres/batch_connection.h"
#include "core/storage/postgres/batch_writer.h"
#include "core/storage/postgres/item_writer.h"
#include "core/storage/postgres/namespace_queries.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/postgres/sqlstate.h"

namespace memoryd {
namespace {

using Parameters = std::vector<std::string>;

constexpr int kMaxTries = 10;

// What kDeleteNamespace says, first of its numbers.
enum class FoundForDeletion : std::int64_t { kNothing, kDeleted, kOfOther, kChanged };

absl::Status OutcomeUnknown(const BatchReply& reply) {
  return WithServersCause(
      Error(absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN",
            "the store did not confirm the change in time: it may be stored; repeat the call"),
      reply.sqlstate, reply.said);
}

std::string Bits(std::uint64_t number) {
  return std::to_string(std::bit_cast<std::int64_t>(number));
}

Parameters MakingParameters(std::span<const NeededNamespace> needed, const NamespaceChange& change,
                            std::int64_t now_us) {
  std::vector<std::string> tenants, namespaces, paths, generations, begun, subjects;
  for (const NeededNamespace& one : needed) {
    tenants.push_back(one.key.tenant);
    namespaces.push_back(DigestParameter(one.key));
    paths.push_back(one.key.path.stored());
    generations.push_back(Bits(NewNamespaceGeneration()));
    begun.push_back(std::to_string(one.begun_us));
    subjects.push_back(one.subject);
  }
  return {ArrayParameter(tenants),       ArrayParameter(namespaces),
          ArrayParameter(paths),         ArrayParameter(generations),
          ArrayParameter(begun),         std::to_string(FirstNamespaceVersion(now_us)),
          std::to_string(change.ttl_us), ArrayParameter(subjects),
          BytesParameter(change.config)};
}

}  // namespace

absl::StatusOr<BatchReply> RunDurably(const CommitContext& context, const Query& query,
                                      const Parameters& parameters) {
  for (int tries = 1;; ++tries) {
    MEMORYD_ASSIGN_OR_RETURN(const BatchPool::Lease connection,
                             context.writers.Acquire(context.write_deadline));
    BatchReply reply = connection->Execute(query.sql, parameters, context.write_deadline);
    if (SpoilsAllConnections(reply.sqlstate)) context.dropper.DropConnections();
    switch (reply.kind) {
      case BatchReply::Kind::kDone:
        return reply;
      case BatchReply::Kind::kNotReplicated:
      case BatchReply::Kind::kInDoubt:
        return OutcomeUnknown(reply);
      case BatchReply::Kind::kNotSent:
        return StatusForSqlState(reply.sqlstate, reply.said);
      case BatchReply::Kind::kError:
        break;
    }
    const bool late = std::chrono::steady_clock::now() >= context.write_deadline;
    if (!IsLostToOthers(reply.sqlstate) || tries == kMaxTries || late) {
      return StatusForSqlState(reply.sqlstate, reply.said);
    }
  }
}

absl::StatusOr<std::vector<MadeNamespace>> MakeNamespaces(const CommitContext& context,
                                                          std::span<const NeededNamespace> needed,
                                                          std::int64_t now_us) {
  MEMORYD_ASSIGN_OR_RETURN(
      const QueryResult found,
      RunItemQuery(context.readers, context.dropper, kMakeNamespaces,
                   MakingParameters(needed, {}, now_us), context.write_deadline));
  std::vector<MadeNamespace> made(needed.size());
  for (int row = 0; row < found.size(); ++row) {
    made[static_cast<std::size_t>(found.Int(row, 0) - 1)] = {found.Int(row, 1) != 0,
                                                             found.Int(row, 2)};
  }
  return made;
}

absl::StatusOr<bool> WriteNamespaceRow(const CommitContext& context, const NamespaceKey& key,
                                       const NamespaceChange& change, std::int64_t now_us) {
  if (change.expected_config_version == 0) {
    const NeededNamespace needed{key, change.begun_us, change.subject};
    MEMORYD_ASSIGN_OR_RETURN(
        const BatchReply made,
        RunDurably(context, kMakeNamespaces, MakingParameters({&needed, 1}, change, now_us)));
    return made.numbers.size() > 1 && made.numbers[1] != 0;
  }
  MEMORYD_ASSIGN_OR_RETURN(
      const BatchReply changed,
      RunDurably(context, kConfigureNamespace,
                 {key.tenant, DigestParameter(key), std::to_string(change.expected_config_version),
                  std::to_string(change.ttl_us), std::to_string(now_us), change.subject,
                  BytesParameter(change.config)}));
  return changed.rows > 0;
}

absl::StatusOr<DeletedNamespace> DeleteNamespaceRow(const CommitContext& context,
                                                    const NamespaceKey& key,
                                                    const NamespaceDeletion& deletion,
                                                    std::int64_t now_us) {
  for (int tries = 1;; ++tries) {
    MEMORYD_ASSIGN_OR_RETURN(
        const BatchReply reply,
        RunDurably(context, kDeleteNamespace,
                   {key.tenant, DigestParameter(key), deletion.forget ? "true" : "false",
                    std::to_string(now_us), std::to_string(DeletionKeptAbove(now_us)),
                    Bits(NewNamespaceGeneration()), deletion.subject}));
    if (reply.numbers.size() < 3) return absl::InternalError("a deletion said nothing");
    const auto found = static_cast<FoundForDeletion>(reply.numbers[0]);
    if (found == FoundForDeletion::kChanged && tries < kMaxTries) continue;
    return DeletedNamespace{.existed = found == FoundForDeletion::kDeleted,
                            .of_other = found == FoundForDeletion::kOfOther,
                            .item_count = reply.numbers[1],
                            .item_bytes = reply.numbers[2]};
  }
}

}  // namespace memoryd
