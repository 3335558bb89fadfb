// Jobs outside commits: the calls of store.h over one connection.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_SQLITE_JOBS_H_
#define MEMORYD_CORE_STORAGE_SQLITE_SQLITE_JOBS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/sqlite/database.h"
#include "core/storage/store.h"

namespace memoryd::sqlite {

// Whether ClaimJobs() would find one now; needs no connection that writes.
absl::StatusOr<bool> HasClaimableJob(Database& db, const ClaimRequest& request);

// These write.
absl::StatusOr<std::vector<Job>> ClaimJobs(Database& db, const ClaimRequest& request);
absl::Status RenewJobs(Database& db, std::uint64_t lease, std::span<const JobKey> jobs,
                       std::int64_t lease_us);
absl::Status ReleaseJob(Database& db, std::uint64_t lease, const JobKey& job, std::int64_t delay_us,
                        std::string_view error, const Usage& usage, bool begun);

absl::StatusOr<std::vector<Job>> ListJobs(Database& db, const SessionKey& key,
                                          const JobFilter& filter);
absl::StatusOr<std::optional<Job>> FindJob(Database& db, const JobKey& key);
absl::StatusOr<JobCounts> CountJobs(Database& db);

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_SQLITE_JOBS_H_
