#include "core/recall/search_queue.h"

#include <memory>
#include <utility>

#include "core/base/mutex.h"
#include "core/calls/executor.h"
#include "core/sessions/session_cache.h"

namespace memoryd {

void SearchQueue::Push(const std::shared_ptr<CachedSession>& session, Executor::Task step) {
  {
    MutexLock lock(session->mutex);
    session->searches.push_back(std::move(step));
    if (session->searching) return;
    session->searching = true;
  }
  searchers_.Submit(session->key.tenant, [this, session] { RunNext(session); });
}

void SearchQueue::RunNext(const std::shared_ptr<CachedSession>& session) {
  Executor::Task step;
  {
    MutexLock lock(session->mutex);
    step = std::move(session->searches.front());
    session->searches.pop_front();
  }
  step();
  {
    MutexLock lock(session->mutex);
    session->searching = !session->searches.empty();
    if (!session->searching) return;
  }
  searchers_.Submit(session->key.tenant, [this, session] { RunNext(session); });
}

}  // namespace memoryd
