#include "core/sessions/session_reader.h"

#include <utility>

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

SessionInfo InfoOf(CachedSession& session) {
  MutexLock lock(session.mutex);
  return {session.session.row, session.session.config};
}

}  // namespace memoryd
