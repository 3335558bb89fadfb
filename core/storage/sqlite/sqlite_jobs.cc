#include "core/storage/sqlite/sqlite_jobs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/model/job.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/store.h"

namespace memoryd::sqlite {
namespace {

#define MEMORYD_JOB_COLUMNS                                                                        \
  "j.tenant, j.session, j.generation, j.block, j.number, j.message_generation, j.begin_position,"  \
  " j.end_position, j.state, j.attempts, j.create_us, j.update_us, j.due, j.lease, j.lease_until," \
  " j.last_error, j.calls, j.prompt_tokens, j.completion_tokens"

// CROSS: from the jobs that are due to their blocks and sessions, never the other way round.
constexpr char kSelectClaimable[] =
    "SELECT " MEMORYD_JOB_COLUMNS
    " FROM memoryd_jobs AS j"
    " CROSS JOIN memoryd_blocks AS b ON b.tenant = j.tenant AND b.session = j.session"
    " AND b.generation = j.generation AND b.name = j.block AND b.done + 1 = j.number"
    " CROSS JOIN memoryd_sessions AS s ON s.tenant = j.tenant AND s.session = j.session"
    " AND s.block_generation = j.generation AND NOT s.deleted"
    " WHERE j.state = 0 AND j.ready = 1 AND j.due BETWEEN ? AND ?"
    " AND (j.lease = 0 OR j.lease_until <= ? OR (? AND j.lease <> ?)) ORDER BY j.due LIMIT ?";

constexpr char kListJobs[] =
    "SELECT " MEMORYD_JOB_COLUMNS
    " FROM memoryd_jobs AS j WHERE j.tenant = ? AND j.session = ? AND j.generation = ?"
    " AND (j.block, j.number) > (?, ?) AND (? < 0 OR j.state = ?)"
    " ORDER BY j.block, j.number LIMIT ?";

constexpr char kSelectJob[] =
    "SELECT " MEMORYD_JOB_COLUMNS
    " FROM memoryd_jobs AS j WHERE j.tenant = ? AND j.session = ? AND j.generation = ?"
    " AND j.block = ? AND j.number = ?";

#undef MEMORYD_JOB_COLUMNS

constexpr char kClaimJob[] =
    "UPDATE memoryd_jobs SET lease = ?, lease_until = ?, attempts = ?"
    " WHERE tenant = ? AND session = ? AND generation = ? AND block = ? AND number = ?";

constexpr char kRenewJob[] =
    "UPDATE memoryd_jobs SET lease_until = ?"
    " WHERE tenant = ? AND session = ? AND generation = ? AND block = ? AND number = ?"
    " AND state = 0 AND lease = ?";

constexpr char kReleaseJob[] =
    "UPDATE memoryd_jobs SET lease = 0, lease_until = 0, due = ?, update_us = ?,"
    " attempts = max(0, attempts - ?), last_error = coalesce(?, last_error), calls = calls + ?,"
    " prompt_tokens = prompt_tokens + ?, completion_tokens = completion_tokens + ?"
    " WHERE tenant = ? AND session = ? AND generation = ? AND block = ? AND number = ?"
    " AND state = 0 AND lease = ?";

// 0 is JobState::kOpen, 2 kFailed. By the index of both, whose condition must be repeated.
constexpr char kCountJobs[] =
    "SELECT (SELECT count(*) FROM memoryd_jobs WHERE state = 0 AND state IN (0, 2)),"
    " (SELECT count(*) FROM memoryd_jobs WHERE state = 2 AND state IN (0, 2)),"
    " (SELECT min(create_us) FROM memoryd_jobs WHERE state = 0 AND state IN (0, 2))";

absl::StatusOr<Job> ReadJob(const Query& query) {
  Job job;
  job.key.session = {query.String(0), query.String(1)};
  job.key.generation = query.Bits(2);
  job.key.block = query.String(3);
  job.key.number = query.Int(4);
  job.message_generation = query.Bits(5);
  job.begin = query.Int(6);
  job.end = query.Int(7);
  const std::int64_t state = query.Int(8);
  if (state < 0 || state > static_cast<std::int64_t>(JobState::kCancelled)) return UnreadableRow();
  job.state = static_cast<JobState>(state);
  job.attempts = query.Int(9);
  job.create_us = query.Int(10);
  job.update_us = query.Int(11);
  job.due_us = query.Int(12);
  job.lease = query.Bits(13);
  job.lease_until_us = query.Int(14);
  job.last_error = query.String(15);
  job.usage = {query.Int(16), query.Int(17), query.Int(18)};
  return job;
}

absl::StatusOr<std::vector<Job>> ReadJobs(Query& query) {
  std::vector<Job> jobs;
  for (;;) {
    MEMORYD_ASSIGN_OR_RETURN(const bool found, query.Next());
    if (!found) return jobs;
    MEMORYD_ASSIGN_OR_RETURN(jobs.emplace_back(), ReadJob(query));
  }
}

Query& BindKey(Query& query, const JobKey& key) {
  return query.BindText(key.session.tenant)
      .BindText(key.session.session)
      .BindBits(key.generation)
      .BindText(key.block)
      .Bind(key.number);
}

constexpr std::int64_t kLongestDelayUs = std::int64_t{10} * 60 * 1'000'000;

// Those that are due from `begin_us` to `end_us`, longest due first.
absl::StatusOr<std::vector<Job>> DueWithin(Database& db, const ClaimRequest& request,
                                           std::int64_t begin_us, std::int64_t end_us,
                                           std::int64_t now_us, std::int64_t max_jobs) {
  Query query = db.Prepare(kSelectClaimable);
  query.Bind(begin_us)
      .Bind(end_us)
      .Bind(now_us)
      .Bind(request.take_over ? 1 : 0)
      .BindBits(request.lease)
      .Bind(max_jobs + (request.skip ? kMaxSkippedJobs : 0));
  MEMORYD_ASSIGN_OR_RETURN(std::vector<Job> jobs, ReadJobs(query));
  if (request.skip) {
    std::erase_if(jobs, [&request](const Job& job) { return request.skip(job.key); });
    if (std::ssize(jobs) > max_jobs) jobs.resize(static_cast<std::size_t>(max_jobs));
  }
  return jobs;
}

absl::StatusOr<std::vector<Job>> Claimable(Database& db, const ClaimRequest& request,
                                           std::int64_t now_us, std::int64_t max_jobs) {
  MEMORYD_ASSIGN_OR_RETURN(std::vector<Job> jobs,
                           DueWithin(db, request, INT64_MIN, now_us, now_us, max_jobs));
  if (!jobs.empty()) return jobs;
  // A job due later than any delay was stored by a clock that was ahead of this one.
  return DueWithin(db, request, now_us + kLongestDelayUs + 1, INT64_MAX, now_us, max_jobs);
}

}  // namespace

absl::StatusOr<bool> HasClaimableJob(Database& db, const ClaimRequest& request) {
  if (request.max_jobs <= 0) return false;
  MEMORYD_ASSIGN_OR_RETURN(const std::vector<Job> jobs, Claimable(db, request, NowUs(), 1));
  return !jobs.empty();
}

absl::StatusOr<std::vector<Job>> ClaimJobs(Database& db, const ClaimRequest& request) {
  std::vector<Job> jobs;
  if (request.max_jobs <= 0) return jobs;
  absl::Status status = InWriteTransaction(db, [&]() -> absl::Status {
    const std::int64_t now_us = NowUs();
    MEMORYD_ASSIGN_OR_RETURN(jobs, Claimable(db, request, now_us, request.max_jobs));
    for (Job& job : jobs) {
      job.lease = request.lease;
      job.lease_until_us = now_us + request.lease_us;
      ++job.attempts;
      Query query = db.Prepare(kClaimJob);
      query.BindBits(job.lease).Bind(job.lease_until_us).Bind(job.attempts);
      MEMORYD_RETURN_IF_ERROR(BindKey(query, job.key).Next().status());
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return jobs;
}

absl::Status RenewJobs(Database& db, std::uint64_t lease, std::span<const JobKey> jobs,
                       std::int64_t lease_us) {
  return InWriteTransaction(db, [&]() -> absl::Status {
    const std::int64_t now_us = NowUs();
    for (const JobKey& job : jobs) {
      Query query = db.Prepare(kRenewJob);
      query.Bind(now_us + lease_us);
      MEMORYD_RETURN_IF_ERROR(BindKey(query, job).BindBits(lease).Next().status());
    }
    return absl::OkStatus();
  });
}

absl::Status ReleaseJob(Database& db, std::uint64_t lease, const JobKey& job, std::int64_t delay_us,
                        std::string_view error, const Usage& usage, bool begun) {
  const std::int64_t now_us = NowUs();
  Query query = db.Prepare(kReleaseJob);
  query.Bind(now_us + delay_us).Bind(now_us).Bind(begun ? 0 : 1);
  if (error.empty()) {
    query.BindNull();
  } else {
    query.BindBlob(error);
  }
  query.Bind(usage.calls).Bind(usage.prompt_tokens).Bind(usage.completion_tokens);
  return BindKey(query, job).BindBits(lease).Next().status();
}

absl::StatusOr<std::vector<Job>> ListJobs(Database& db, const SessionKey& key,
                                          const JobFilter& filter) {
  const std::int64_t state = filter.state ? static_cast<std::int64_t>(*filter.state) : -1;
  Query query = db.Prepare(kListJobs);
  query.BindText(key.tenant)
      .BindText(key.session)
      .BindBits(filter.generation)
      .BindText(filter.after_block)
      .Bind(filter.after_number)
      .Bind(state)
      .Bind(state)
      .Bind(std::max<std::int64_t>(0, filter.max_jobs));
  return ReadJobs(query);
}

absl::StatusOr<std::optional<Job>> FindJob(Database& db, const JobKey& key) {
  Query query = db.Prepare(kSelectJob);
  MEMORYD_ASSIGN_OR_RETURN(const bool found, BindKey(query, key).Next());
  if (!found) return std::nullopt;
  return ReadJob(query);
}

absl::StatusOr<JobCounts> CountJobs(Database& db) {
  Query query = db.Prepare(kCountJobs);
  MEMORYD_RETURN_IF_ERROR(query.Next().status());
  JobCounts counts{query.Int(0), query.Int(1), 0};
  if (counts.open > 0) {
    counts.oldest_open_us = std::max<std::int64_t>(0, NowUs() - query.Int(2));
  }
  return counts;
}

}  // namespace memoryd::sqlite
