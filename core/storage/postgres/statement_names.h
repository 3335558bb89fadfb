// Names of prepared statements (docs/adr/0072-names-behind-a-pooler.md).
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_STATEMENT_NAMES_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_STATEMENT_NAMES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/storage/stores.h"

namespace memoryd {

// A hash of the text and of the types, OIDs, that the parameters are sent with: statements of one
// name are the same statement, whoever has prepared it on whichever connection.
std::string StatementName(std::string_view sql, std::span<const unsigned> types = {});

// Whether the connections of a store prepare statements under names. Thread-safe.
class StatementNames {
 public:
  // `warn` may be empty.
  StatementNames(Pooling pooling, std::function<void(const std::string& line)> warn)
      : pooled_(pooling != Pooling::kNone),
        used_(pooling != Pooling::kUnnamed),
        warn_(std::move(warn)) {}

  bool used() const { return used_.load(std::memory_order_relaxed); }
  // Whether connections share their server's, and with it what others have prepared there.
  bool pooled() const { return pooled_; }

  void CountUnnamed() { unnamed_.fetch_add(1, std::memory_order_relaxed); }
  // How many statements were run without a name.
  std::int64_t unnamed() const { return unnamed_.load(std::memory_order_relaxed); }

  // Takes the server's error for a statement with a name. True if it says that whoever stands
  // between has lost the name, or has it twice. Then the statement was not run, and the same
  // without a name may be; no more names are used from now on, and the log says so.
  bool GiveUpAfter(std::string_view sqlstate);

 private:
  const bool pooled_;
  std::atomic<bool> used_;
  std::atomic<std::int64_t> unnamed_{0};
  const std::function<void(const std::string& line)> warn_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_STATEMENT_NAMES_H_
