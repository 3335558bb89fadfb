#include "core/sessions/session_reader.h"

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/calls/calls.h"
#include "core/calls/executor.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_info.h"

namespace memoryd {

void SessionReader::WithCurrent(const std::shared_ptr<CachedSession>& session,
                                const std::shared_ptr<PendingRead>& read, Executor::Task work) {
  loader_.WithCurrent(session, {[read, work = std::move(work)](const absl::Status& status) {
                                  if (status.ok()) {
                                    work();
                                  } else {
                                    read->Fail(status);
                                  }
                                },
                                [read] { return read->HasEnded(); }});
}

void SessionReader::RunCurrent(const std::shared_ptr<CachedSession>& session,
                               const std::shared_ptr<PendingRead>& read, Executor::Task task) {
  WithCurrent(session, read, [this, session, read, task = std::move(task)] {
    calls_.Run(session->key.tenant, read, task);
  });
}

void SessionReader::WhenShown(const std::shared_ptr<CachedSession>& session,
                              const std::shared_ptr<PendingRead>& read,
                              std::function<void()> work) {
  std::function<void()> end = [this, read, work = std::move(work)] { calls_.Guarded(read, work); };
  {
    MutexLock lock(session->mutex);
    // Where others write too, every read asks the store for the revision first.
    if (session->committing && !loader_.shared()) {
      session->after_commit.push_back(std::move(end));
      return;
    }
  }
  end();
}

SessionInfo InfoOf(CachedSession& session) {
  MutexLock lock(session.mutex);
  return {session.session.row, session.session.config};
}

}  // namespace memoryd
