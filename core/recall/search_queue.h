// Steps of searches, run on threads of their own.
#ifndef MEMORYD_CORE_RECALL_SEARCH_QUEUE_H_
#define MEMORYD_CORE_RECALL_SEARCH_QUEUE_H_

#include <memory>

#include "core/calls/executor.h"
#include "core/sessions/session_cache.h"

namespace memoryd {

// A session takes one searcher at the most, and a long search gives way to those of other sessions.
// Any thread may call; nothing waits.
class SearchQueue {
 public:
  // Outlives what is pushed.
  explicit SearchQueue(Executor* searchers) : searchers_(*searchers) {}

  // Runs the step behind those of the session that were pushed before. Their number is bounded by
  // admission.
  void Push(const std::shared_ptr<CachedSession>& session, Executor::Task step);

 private:
  void RunNext(const std::shared_ptr<CachedSession>& session);

  Executor& searchers_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RECALL_SEARCH_QUEUE_H_
