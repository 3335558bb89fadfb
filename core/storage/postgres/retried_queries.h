// Runs what may be done twice.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_RETRIED_QUERIES_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_RETRIED_QUERIES_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/storage/postgres/batch_writer.h"
#include "core/storage/postgres/query_connection.h"

namespace memoryd {

// Any thread.
class RetriedQueries {
 public:
  // What is referred to outlives it. `timeout` bounds each call.
  RetriedQueries(QueryPool& pool, PoolDropper& dropper, std::chrono::milliseconds timeout)
      : pool_(pool), dropper_(dropper), timeout_(timeout) {}

  // Tried once more on another connection when its own is lost.
  absl::StatusOr<QueryResult> Run(const Query& query, const std::vector<std::string>& parameters);

 private:
  QueryPool& pool_;
  PoolDropper& dropper_;
  const std::chrono::milliseconds timeout_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_RETRIED_QUERIES_H_
