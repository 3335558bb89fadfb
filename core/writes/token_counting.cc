#include "core/writes/token_counting.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/exception.h"
#include "core/base/histogram.h"
#include "core/base/memory_budget.h"

namespace memoryd {
namespace {

// Bytes of text that a turn counts, its last text not limited.
constexpr std::int64_t kTurnBytes = std::int64_t{64} << 10;

}  // namespace

void TokenCounting::Start(std::shared_ptr<Task> task) {
  Task& started = *task;
  executor_.Submit(started.tenant, [this, task = std::move(task)] { TakeTurn(task); });
}

void TokenCounting::TakeTurn(const std::shared_ptr<Task>& task) {
  absl::StatusOr<bool> all = true;
  try {
    if (task->has_ended && task->has_ended()) return;
    MemoryBudget::Hold memory = memory_.Count(task->tenant, MemoryUse::kRequests, 0);
    all = rules_.CountNext(task->rules, *task->items, kTurnBytes, memory, task->progress);
    if (all.ok() && !*all) {
      Start(task);
      return;
    }
  } catch (...) {
    Increment(exceptions_);
    all = CaughtException();
  }
  if (all.ok()) {
    task->done(std::move(task->progress.counts));
  } else {
    task->done(all.status());
  }
}

}  // namespace memoryd
