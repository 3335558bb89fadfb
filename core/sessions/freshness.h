// Asks the store whether cached sessions are current, many at a time.
#ifndef MEMORYD_CORE_SESSIONS_FRESHNESS_H_
#define MEMORYD_CORE_SESSIONS_FRESHNESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/calls/serial_worker.h"
#include "core/sessions/session_cache.h"
#include "core/storage/store.h"

namespace memoryd {

// With several servers on one store a cached session may be old. Every read asks; reads that come
// while a look-up is under way share the next one, which is sent after they came, so that they see
// every write acknowledged before.
class Freshness {
 public:
  // True: what is cached may be served. False: it must be loaded again.
  using Done = std::function<void(absl::StatusOr<bool>)>;

  explicit Freshness(Store* store);
  // Answers what is queued.
  ~Freshness() = default;
  Freshness(const Freshness&) = delete;
  Freshness& operator=(const Freshness&) = delete;

  // `done` runs on the thread that asks the store. Any thread may call; bounded by the callers'
  // admission.
  void Check(std::shared_ptr<CachedSession> session, Done done) MEMORYD_EXCLUDES(mutex_);

 private:
  struct Question {
    std::shared_ptr<CachedSession> session;
    SessionVersion asked_at;  // What was cached when it was asked.
    Done done;
  };

  // Until nothing is queued.
  void AnswerQueued() MEMORYD_EXCLUDES(mutex_);
  void Answer(std::vector<Question>& questions);

  Store* const store_;
  Mutex mutex_;
  std::vector<Question> queue_ MEMORYD_GUARDED_BY(mutex_);
  SerialWorker worker_{[this] { AnswerQueued(); }};
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_SESSIONS_FRESHNESS_H_
