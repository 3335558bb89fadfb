// Damage in SQLite's write-ahead log, told apart from the end that a loss of power leaves.
#ifndef MEMORYD_CORE_STORAGE_SQLITE_LOG_DAMAGE_H_
#define MEMORYD_CORE_STORAGE_SQLITE_LOG_DAMAGE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace memoryd::sqlite {

struct LogDamage {
  std::int64_t offset = 0;   // Of the first bad frame in the log, or 0 for the log's header.
  std::int64_t commits = 0;  // Commits from there on that SQLite would drop; at least.

  // `COMMITS@OFFSET`: what an operator repeats to accept the loss, and no other.
  std::string Name() const;
};

// Reads a log as it was left, before SQLite opens it. SQLite takes the log up to its first bad
// frame and silently drops the rest. With synchronous=FULL each transaction is synced before the
// next one is written. So a loss of power can only tear the last transaction, and a good frame
// behind the commit frame that ends a bad frame's transaction proves damage. nullopt: none, or no
// log. A flipped bit in the last transaction looks like a loss of power: nullopt too. UNAVAILABLE
// when the log can't be read.
absl::StatusOr<std::optional<LogDamage>> FindLogDamage(const std::string& log_path);

}  // namespace memoryd::sqlite

#endif  // MEMORYD_CORE_STORAGE_SQLITE_LOG_DAMAGE_H_
