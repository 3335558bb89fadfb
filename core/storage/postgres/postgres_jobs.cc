#include "core/storage/postgres/postgres_jobs.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/model/job.h"
#include "core/storage/postgres/job_queries.h"
#include "core/storage/postgres/query_connection.h"
#include "core/storage/postgres/row_codec.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

using Parameters = std::vector<std::string>;

// The first columns of these rows, each as an array parameter.
Parameters ArraysOf(const QueryResult& result, const std::vector<int>& rows, int columns) {
  Parameters arrays;
  for (int column = 0; column < columns; ++column) {
    std::vector<std::string> values;
    values.reserve(rows.size());
    for (const int row : rows) values.emplace_back(result.Text(row, column));
    arrays.push_back(ArrayParameter(values));
  }
  return arrays;
}

}  // namespace

absl::StatusOr<std::vector<Job>> PostgresJobs::ClaimJobs(const ClaimRequest& request) {
  // Who loses all of its candidates to others looks for more.
  constexpr int kMaxTries = 5;
  if (request.max_jobs <= 0) return std::vector<Job>();
  const std::string lease = BitsParameter(request.lease);
  const std::int64_t candidates = request.max_jobs + (request.skip ? kMaxSkippedJobs : 0);
  for (int tries = 1;; ++tries) {
    MEMORYD_ASSIGN_OR_RETURN(const QueryResult found,
                             queries_.Run(kClaimableJobs, {request.take_over ? "true" : "false",
                                                           lease, std::to_string(candidates)}));
    std::vector<int> wanted;
    for (int row = 0; row < found.size() && std::ssize(wanted) < request.max_jobs; ++row) {
      if (!request.skip || !request.skip(DecodeJobKey(found, row))) wanted.push_back(row);
    }
    if (wanted.empty()) return std::vector<Job>();
    constexpr int kColumns = 8;
    Parameters parameters = ArraysOf(found, wanted, kColumns);
    parameters.push_back(lease);
    parameters.push_back(std::to_string(request.lease_us));
    MEMORYD_ASSIGN_OR_RETURN(const QueryResult claimed, queries_.Run(kClaimJobs, parameters));
    if (claimed.size() == 0 && tries < kMaxTries) continue;
    MEMORYD_ASSIGN_OR_RETURN(std::vector<Job> jobs, DecodeJobs(claimed));
    std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
      return std::tie(a.due_us, a.key) < std::tie(b.due_us, b.key);
    });
    return jobs;
  }
}

absl::Status PostgresJobs::RenewJobs(std::uint64_t lease, std::span<const JobKey> jobs,
                                     std::int64_t lease_us) {
  if (jobs.empty()) return absl::OkStatus();
  std::vector<std::string> tenants, sessions, generations, blocks, numbers;
  for (const JobKey& job : jobs) {
    tenants.push_back(job.session.tenant);
    sessions.push_back(job.session.session);
    generations.push_back(BitsParameter(job.generation));
    blocks.push_back(job.block);
    numbers.push_back(std::to_string(job.number));
  }
  return queries_
      .Run(kRenewJobs, {ArrayParameter(tenants), ArrayParameter(sessions),
                        ArrayParameter(generations), ArrayParameter(blocks),
                        ArrayParameter(numbers), BitsParameter(lease), std::to_string(lease_us)})
      .status();
}

absl::Status PostgresJobs::ReleaseJob(std::uint64_t lease, const JobKey& job, std::int64_t delay_us,
                                      std::string_view error, const Usage& usage, bool begun) {
  return queries_
      .Run(kReleaseJob,
           {job.session.tenant, job.session.session, BitsParameter(job.generation), job.block,
            std::to_string(job.number), BitsParameter(lease), std::to_string(delay_us),
            BytesParameter(error), std::to_string(usage.calls), std::to_string(usage.prompt_tokens),
            std::to_string(usage.completion_tokens), begun ? "0" : "1"})
      .status();
}

absl::StatusOr<std::vector<Job>> PostgresJobs::ListJobs(const SessionKey& key,
                                                        const JobFilter& filter) {
  const int state = filter.state ? static_cast<int>(*filter.state) : -1;
  MEMORYD_ASSIGN_OR_RETURN(
      const QueryResult result,
      queries_.Run(kListJobs,
                   {key.tenant, key.session, BitsParameter(filter.generation), filter.after_block,
                    std::to_string(filter.after_number), std::to_string(state),
                    std::to_string(std::max<std::int64_t>(0, filter.max_jobs))}));
  return DecodeJobs(result);
}

absl::StatusOr<std::optional<Job>> PostgresJobs::FindJob(const JobKey& key) {
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult result,
                           queries_.Run(kFindJob, {key.session.tenant, key.session.session,
                                                   BitsParameter(key.generation), key.block,
                                                   std::to_string(key.number)}));
  if (result.size() == 0) return std::nullopt;
  return DecodeJob(result, 0);
}

absl::StatusOr<JobCounts> PostgresJobs::CountJobs() {
  MEMORYD_ASSIGN_OR_RETURN(const QueryResult result, queries_.Run(kCountJobs, {}));
  return JobCounts{result.Int(0, 0), result.Int(0, 1), result.Int(0, 2)};
}

}  // namespace memoryd
