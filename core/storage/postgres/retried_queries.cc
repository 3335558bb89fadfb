#include "core/storage/postgres/retried_queries.h"

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/storage/postgres/connection_settings.h"
#include "core/storage/postgres/query_connection.h"

namespace memoryd {

absl::StatusOr<QueryResult> RetriedQueries::Run(const Query& query,
                                                const std::vector<std::string>& parameters) {
  using Clock = std::chrono::steady_clock;
  const Deadline deadline = Clock::now() + timeout_;
  for (int tries = 1;; ++tries) {
    MEMORYD_ASSIGN_OR_RETURN(const QueryPool::Lease connection, pool_.Acquire(deadline));
    absl::StatusOr<QueryResult> result = connection->Run(query, parameters, deadline);
    if (result.ok()) return result;
    if (connection->spoilt()) dropper_.DropConnections();
    if (connection->usable() || tries > 1 || Clock::now() >= deadline) return result.status();
  }
}

}  // namespace memoryd
