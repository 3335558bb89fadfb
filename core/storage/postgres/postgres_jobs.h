// Jobs outside commits: the calls of store.h over PostgreSQL.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_POSTGRES_JOBS_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_POSTGRES_JOBS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/postgres/retried_queries.h"
#include "core/storage/store.h"

namespace memoryd {

// Any thread.
class PostgresJobs {
 public:
  // `queries` outlives it.
  explicit PostgresJobs(RetriedQueries& queries) : queries_(queries) {}

  absl::StatusOr<std::vector<Job>> ClaimJobs(const ClaimRequest& request);
  absl::Status RenewJobs(std::uint64_t lease, std::span<const JobKey> jobs, std::int64_t lease_us);
  absl::Status ReleaseJob(std::uint64_t lease, const JobKey& job, std::int64_t delay_us,
                          std::string_view error, const Usage& usage, bool begun);
  absl::StatusOr<std::vector<Job>> ListJobs(const SessionKey& key, const JobFilter& filter);
  absl::StatusOr<std::optional<Job>> FindJob(const JobKey& key);
  absl::StatusOr<JobCounts> CountJobs();

 private:
  RetriedQueries& queries_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_POSTGRES_JOBS_H_
