#include "core/storage/postgres/sweep.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/model/session.h"
#include "core/storage/before_schema_12.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

constexpr std::int64_t kStepRows = 500;

constexpr Query kListForgotten{"sweep_list_forgotten",
                               "SELECT tenant, session, before_us FROM memoryd_forgotten LIMIT 50"};

constexpr Query kListForgottenOfSession{
    "sweep_list_forgotten_of_session",
    "SELECT tenant, session, before_us FROM memoryd_forgotten WHERE tenant = $1 AND session = $2"};

constexpr Query kListGarbage{
    "sweep_list_garbage",
    "SELECT tenant, session, generation, begin_position, end_position FROM memoryd_garbage "
    "LIMIT 50"};

constexpr Query kListGarbageOfSession{
    "sweep_list_garbage_of_session",
    "SELECT tenant, session, generation, begin_position, end_position FROM memoryd_garbage "
    "WHERE tenant = $1 AND session = $2 LIMIT 50"};

// In the order of the key, so that two sweepers never wait for each other in a ring.
constexpr Query kForgetRequests{
    "sweep_forget_requests",
    "UPDATE memoryd_requests SET fingerprint = '', reply = '' WHERE tenant = $1 AND session = $2 "
    "AND fingerprint <> '' AND request_id = ANY (ARRAY(SELECT r.request_id FROM memoryd_requests r "
    "WHERE r.tenant = $1 AND r.session = $2 AND r.create_us < $3::bigint AND r.fingerprint <> '' "
    "ORDER BY r.request_id LIMIT $4::bigint))"};

// Unless a commit has raised the time meanwhile, or another sweeper is still at the records.
constexpr Query kDeleteForgotten{
    "sweep_delete_forgotten",
    "DELETE FROM memoryd_forgotten WHERE tenant = $1 AND session = $2 "
    "AND before_us <= $3::bigint AND NOT EXISTS (SELECT 1 FROM memoryd_requests r "
    "WHERE r.tenant = $1 AND r.session = $2 AND r.create_us < $3::bigint "
    "AND r.fingerprint <> '')"};

// The same as servers of schema 11 and before have it.
constexpr Query kDeleteForgottenGarbage{
    "sweep_delete_forgotten_garbage",
    "DELETE FROM memoryd_garbage WHERE tenant = $1 AND session = $2 AND generation = 0 "
    "AND end_position <= $3::bigint AND NOT EXISTS (SELECT 1 FROM memoryd_requests r "
    "WHERE r.tenant = $1 AND r.session = $2 AND r.create_us < $3::bigint "
    "AND r.fingerprint <> '')"};

// Index entries of deleted messages stay until the next vacuum: whoever comes next begins behind
// them. All messages up to the last deleted one are gone then, by this statement or by another
// sweeper's that it has waited for. A beginning that a commit has lowered meanwhile stays.
constexpr Query kDeleteMessages{
    "sweep_delete_messages",
    "WITH gone AS (DELETE FROM memoryd_messages WHERE tenant = $1 AND session = $2 "
    "AND generation = $3::bigint "
    "AND position = ANY (ARRAY(SELECT m.position FROM memoryd_messages m WHERE m.tenant = $1 "
    "AND m.session = $2 AND m.generation = $3::bigint AND m.position >= $4::bigint "
    "AND m.position < $5::bigint ORDER BY m.position LIMIT $6::bigint)) RETURNING position), "
    "raised AS (UPDATE memoryd_garbage g SET begin_position = l.next "
    "FROM (SELECT max(position) + 1 AS next FROM gone) l WHERE l.next IS NOT NULL "
    "AND g.tenant = $1 AND g.session = $2 AND g.generation = $3::bigint "
    "AND g.begin_position = $4::bigint AND g.end_position = $5::bigint) "
    "SELECT count(*), max(position) + 1 FROM gone"};

// Unless a commit has added to it meanwhile, or another sweeper is still at its messages.
constexpr Query kDeleteGarbage{
    "sweep_delete_garbage",
    "DELETE FROM memoryd_garbage WHERE tenant = $1 AND session = $2 AND generation = $3::bigint "
    "AND begin_position = $4::bigint AND end_position = $5::bigint "
    "AND NOT EXISTS (SELECT 1 FROM memoryd_messages m WHERE m.tenant = $1 AND m.session = $2 "
    "AND m.generation = $3::bigint AND m.position >= $4::bigint AND m.position < $5::bigint) "
    "AND NOT EXISTS (SELECT 1 FROM memoryd_blocks b WHERE b.tenant = $1 AND b.session = $2 "
    "AND b.generation = $3::bigint) "
    "AND NOT EXISTS (SELECT 1 FROM memoryd_jobs j WHERE j.tenant = $1 AND j.session = $2 "
    "AND j.generation = $3::bigint)"};

// Entries that nothing but their block's row names are garbage from then on.
constexpr Query kDeleteBlocks{
    "sweep_delete_blocks",
    "WITH gone AS (DELETE FROM memoryd_blocks WHERE tenant = $1 AND session = $2 "
    "AND generation = $3::bigint "
    "AND name = ANY (ARRAY(SELECT b.name FROM memoryd_blocks b WHERE b.tenant = $1 "
    "AND b.session = $2 AND b.generation = $3::bigint ORDER BY b.name LIMIT $4::bigint)) "
    "RETURNING tenant, session, entry_generation, next_entry), "
    "entries AS (INSERT INTO memoryd_garbage (tenant, session, generation, begin_position, "
    "end_position) SELECT tenant, session, entry_generation, 0, next_entry FROM gone "
    "WHERE entry_generation <> 0 ON CONFLICT DO NOTHING) "
    "SELECT 1 FROM gone"};

// Of one block: in the order of the key, so that two sweepers never wait for each other in a ring.
constexpr Query kDeleteJobs{
    "sweep_delete_jobs",
    "WITH f AS (SELECT min(block) AS block FROM memoryd_jobs WHERE tenant = $1 AND session = $2 "
    "AND generation = $3::bigint) "
    "DELETE FROM memoryd_jobs WHERE tenant = $1 AND session = $2 AND generation = $3::bigint "
    "AND block = (SELECT block FROM f) AND number = ANY (ARRAY(SELECT j.number FROM memoryd_jobs j "
    "WHERE j.tenant = $1 AND j.session = $2 AND j.generation = $3::bigint "
    "AND j.block = (SELECT block FROM f) ORDER BY j.number LIMIT $4::bigint))"};

constexpr Query kListEndedJobs{
    "sweep_list_ended_jobs",
    "SELECT tenant, session, generation, block, number FROM memoryd_jobs WHERE state <> 0 "
    "AND update_us < $1::bigint ORDER BY update_us LIMIT $2::bigint"};

constexpr Query kDeleteEndedJobs{
    "sweep_delete_ended_jobs",
    "DELETE FROM memoryd_jobs j USING unnest($1::text[], $2::text[], $3::bigint[], $4::text[], "
    "$5::bigint[]) AS k (tenant, session, generation, block, number) WHERE j.tenant = k.tenant "
    "AND j.session = k.session AND j.generation = k.generation AND j.block = k.block "
    "AND j.number = k.number AND j.state <> 0 AND j.update_us < $6::bigint"};

constexpr Query kListRequests{
    "sweep_list_requests",
    "SELECT tenant, session, request_id FROM memoryd_requests WHERE create_us < $1::bigint "
    "ORDER BY create_us LIMIT $2::bigint"};

constexpr Query kDeleteRequests{
    "sweep_delete_requests",
    "DELETE FROM memoryd_requests r USING unnest($1::text[], $2::text[], $3::text[]) "
    "AS k (tenant, session, request_id) WHERE r.tenant = k.tenant AND r.session = k.session "
    "AND r.request_id = k.request_id AND r.create_us < $4::bigint"};

constexpr Query kListTombstones{
    "sweep_list_tombstones",
    "SELECT tenant, session FROM memoryd_sessions WHERE deleted AND update_us < $1::bigint "
    "LIMIT $2::bigint"};

// What was staged under a tombstone and never published is garbage from then on.
constexpr Query kDeleteTombstones{
    "sweep_delete_tombstones",
    "WITH gone AS (DELETE FROM memoryd_sessions s USING unnest($1::text[], $2::text[]) "
    "AS k (tenant, session) WHERE s.tenant = k.tenant AND s.session = k.session AND s.deleted "
    "AND s.update_us < $3::bigint RETURNING s.tenant, s.session, s.generation, s.next_position, "
    "s.message_bytes, s.content_generation, s.next_content, s.block_generation), "
    "staged AS (INSERT INTO memoryd_garbage (tenant, session, generation, begin_position, "
    "end_position) SELECT tenant, session, generation, 0, next_position FROM gone "
    "WHERE message_bytes > 0 "
    "UNION ALL SELECT tenant, session, content_generation, 0, next_content FROM gone "
    "WHERE content_generation <> 0 "
    "UNION ALL SELECT tenant, session, block_generation, 0, 1 FROM gone "
    "WHERE block_generation <> 0 ON CONFLICT DO NOTHING) "
    "SELECT 1 FROM gone"};

class Sweeper {
 public:
  Sweeper(QueryConnection& connection, const PurgeLimits& limits,
          std::chrono::milliseconds step_timeout)
      : connection_(connection),
        cutoff_(std::to_string(limits.now_us - limits.keep_us)),
        step_timeout_(step_timeout),
        left_(limits.max_rows) {}

  // What there is to forget and to delete, of one session or of all, until there is no more of it
  // or no room: true in the first case.
  absl::StatusOr<bool> SweepGarbage(const SessionKey* key);
  // Rows of one table that are older than the cutoff, named by their first `key_columns` columns.
  absl::Status SweepOld(const Query& list, const Query& drop, int key_columns);
  std::int64_t left() const { return left_; }

 private:
  using Parameters = std::vector<std::string>;

  absl::StatusOr<QueryResult> Run(const Query& query, const Parameters& parameters) {
    return connection_.Run(query, parameters, std::chrono::steady_clock::now() + step_timeout_);
  }
  // The same of what one query lists, by its first columns.
  absl::StatusOr<bool> SweepListed(const Query& list, const Parameters& of, int columns,
                                   absl::StatusOr<bool> (Sweeper::*sweep)(Parameters));
  // What one row of memoryd_garbage names, and the row itself once that is gone. Says whether
  // anything was deleted.
  absl::StatusOr<bool> SweepOne(Parameters garbage);
  // The same of memoryd_forgotten. Servers of schema 11 and before know only its row of garbage,
  // which goes with it.
  absl::StatusOr<bool> ForgetRequests(Parameters forgotten);
  // Deletes the generation's rows of one table by `drop`, in steps. Says whether there were any.
  absl::StatusOr<bool> SweepGeneration(const Parameters& garbage, const Query& drop);

  QueryConnection& connection_;
  const std::string cutoff_;
  const std::chrono::milliseconds step_timeout_;
  std::int64_t left_;
};

absl::StatusOr<bool> Sweeper::SweepOne(Parameters garbage) {
  if (garbage[2] == std::to_string(kForgottenGeneration)) {
    return ForgetRequests({garbage[0], garbage[1], garbage[4]});
  }
  bool deleted_any = false;
  while (left_ > 0) {
    const std::int64_t rows = std::min(left_, kStepRows);
    Parameters step = garbage;
    step.push_back(std::to_string(rows));
    MEMORYD_ASSIGN_OR_RETURN(const QueryResult deleted, Run(kDeleteMessages, step));
    const std::int64_t count = deleted.Int(0, 0);
    left_ -= count;
    if (count > 0) {
      deleted_any = true;
      garbage[3] = deleted.Text(0, 1);
    }
    if (count == rows) continue;
    // The others of the step were another sweeper's, or there are no more.
    MEMORYD_ASSIGN_OR_RETURN(const QueryResult dropped, Run(kDeleteGarbage, garbage));
    if (dropped.affected() > 0) return true;
    // Only now, since most generations have none of these.
    MEMORYD_ASSIGN_OR_RETURN(const bool had_jobs, SweepGeneration(garbage, kDeleteJobs));
    MEMORYD_ASSIGN_OR_RETURN(const bool had_blocks, SweepGeneration(garbage, kDeleteBlocks));
    if (!had_jobs && !had_blocks) return deleted_any;
    MEMORYD_RETURN_IF_ERROR(Run(kDeleteGarbage, garbage).status());
    return true;
  }
  return deleted_any;
}

absl::StatusOr<bool> Sweeper::ForgetRequests(Parameters forgotten) {
  bool forgot_any = false;
  while (left_ > 0) {
    const std::int64_t rows = std::min(left_, kStepRows);
    Parameters step = forgotten;
    step.push_back(std::to_string(rows));
    MEMORYD_ASSIGN_OR_RETURN(const QueryResult emptied, Run(kForgetRequests, step));
    left_ -= emptied.affected();
    forgot_any = forgot_any || emptied.affected() > 0;
    if (emptied.affected() == rows) continue;
    for (const Query* drop : {&kDeleteForgotten, &kDeleteForgottenGarbage}) {
      MEMORYD_ASSIGN_OR_RETURN(const QueryResult dropped, Run(*drop, forgotten));
      forgot_any = forgot_any || dropped.affected() > 0;
    }
    break;
  }
  return forgot_any;
}

absl::StatusOr<bool> Sweeper::SweepGeneration(const Parameters& garbage, const Query& drop) {
  bool deleted_any = false;
  while (left_ > 0) {
    const std::int64_t rows = std::min(left_, kStepRows);
    MEMORYD_ASSIGN_OR_RETURN(const QueryResult deleted,
                             Run(drop, {garbage[0], garbage[1], garbage[2], std::to_string(rows)}));
    left_ -= deleted.affected();
    deleted_any = deleted_any || deleted.affected() > 0;
    if (deleted.affected() == 0) break;
  }
  return deleted_any;
}

absl::StatusOr<bool> Sweeper::SweepGarbage(const SessionKey* key) {
  Parameters of;
  if (key != nullptr) of = {key->tenant, key->session};
  MEMORYD_ASSIGN_OR_RETURN(const bool forgotten,
                           SweepListed(key == nullptr ? kListForgotten : kListForgottenOfSession,
                                       of, 3, &Sweeper::ForgetRequests));
  MEMORYD_ASSIGN_OR_RETURN(const bool deleted,
                           SweepListed(key == nullptr ? kListGarbage : kListGarbageOfSession, of, 5,
                                       &Sweeper::SweepOne));
  return forgotten && deleted;
}

absl::StatusOr<bool> Sweeper::SweepListed(const Query& list, const Parameters& of, int columns,
                                          absl::StatusOr<bool> (Sweeper::*sweep)(Parameters)) {
  // A round without any deletion has met other sweepers only: what they leave is for the next call.
  for (bool deleted_any = true; deleted_any && left_ > 0;) {
    deleted_any = false;
    MEMORYD_ASSIGN_OR_RETURN(const QueryResult listed, Run(list, of));
    if (listed.size() == 0) return true;
    for (int row = 0; row < listed.size() && left_ > 0; ++row) {
      Parameters parameters;
      for (int column = 0; column < columns; ++column) {
        parameters.emplace_back(listed.Text(row, column));
      }
      MEMORYD_ASSIGN_OR_RETURN(const bool deleted, (this->*sweep)(std::move(parameters)));
      deleted_any = deleted_any || deleted;
    }
  }
  return false;
}

absl::Status Sweeper::SweepOld(const Query& list, const Query& drop, int key_columns) {
  while (left_ > 0) {
    const std::int64_t rows = std::min(left_, kStepRows);
    MEMORYD_ASSIGN_OR_RETURN(const QueryResult old, Run(list, {cutoff_, std::to_string(rows)}));
    if (old.size() == 0) break;
    Parameters parameters;
    for (int column = 0; column < key_columns; ++column) {
      std::vector<std::string> values;
      values.reserve(static_cast<std::size_t>(old.size()));
      for (int row = 0; row < old.size(); ++row) values.emplace_back(old.Text(row, column));
      parameters.push_back(ArrayParameter(values));
    }
    parameters.push_back(cutoff_);
    MEMORYD_ASSIGN_OR_RETURN(const QueryResult deleted, Run(drop, parameters));
    left_ -= deleted.affected();
    if (old.size() < rows) break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::int64_t> Sweep(QueryConnection& connection, const PurgeLimits& limits,
                                   std::chrono::milliseconds step_timeout) {
  Sweeper sweeper(connection, limits, step_timeout);
  MEMORYD_RETURN_IF_ERROR(sweeper.SweepGarbage(nullptr).status());
  MEMORYD_RETURN_IF_ERROR(sweeper.SweepOld(kListRequests, kDeleteRequests, 3));
  MEMORYD_RETURN_IF_ERROR(sweeper.SweepOld(kListEndedJobs, kDeleteEndedJobs, 5));
  MEMORYD_RETURN_IF_ERROR(sweeper.SweepOld(kListTombstones, kDeleteTombstones, 2));
  return limits.max_rows - sweeper.left();
}

absl::StatusOr<SessionPurge> SweepSession(QueryConnection& connection, const SessionKey& key,
                                          std::int64_t max_rows,
                                          std::chrono::milliseconds step_timeout) {
  Sweeper sweeper(connection, {0, 0, max_rows}, step_timeout);
  SessionPurge purged;
  MEMORYD_ASSIGN_OR_RETURN(purged.done, sweeper.SweepGarbage(&key));
  purged.rows = max_rows - sweeper.left();
  return purged;
}

}  // namespace memoryd
