// Counts the tokens of texts that take long, apart from threads that others wait for.
#ifndef MEMORYD_CORE_WRITES_TOKEN_COUNTING_H_
#define MEMORYD_CORE_WRITES_TOKEN_COUNTING_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/histogram.h"
#include "core/base/memory_budget.h"
#include "core/calls/executor.h"
#include "core/model/session_config.h"
#include "core/writes/incoming.h"
#include "core/writes/token_rules.h"

namespace memoryd {

// Tenants share the executor's threads. A turn counts one long text, or some short ones, so a
// request of many waits between them for others. Any thread may call.
class TokenCounting {
 public:
  struct Task {
    std::string tenant;
    CountingRules rules;
    const IncomingItems* items = nullptr;  // Until `done`.
    CountProgress progress;
    // Whether nobody waits for the counts any more; then the task is dropped. May be empty.
    std::function<bool()> has_ended;
    // Called once, by a thread that counts. RESOURCE_EXHAUSTED `MEMORY_SHORT`; see also TokenRules.
    std::function<void(absl::StatusOr<TokenCounts>)> done;
  };

  // All must outlive it.
  TokenCounting(const TokenRules* rules, Executor* executor, MemoryBudget* memory,
                Counter* exceptions)
      : rules_(*rules), executor_(*executor), memory_(*memory), exceptions_(*exceptions) {}

  // The number of tasks is bounded by admission.
  void Start(std::shared_ptr<Task> task);

 private:
  void TakeTurn(const std::shared_ptr<Task>& task);

  const TokenRules& rules_;
  Executor& executor_;
  MemoryBudget& memory_;
  Counter& exceptions_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_TOKEN_COUNTING_H_
