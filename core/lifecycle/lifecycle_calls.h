// Calls that take many writes: ForkSession, ImportSession, EraseSubject.
#ifndef MEMORYD_CORE_LIFECYCLE_LIFECYCLE_CALLS_H_
#define MEMORYD_CORE_LIFECYCLE_LIFECYCLE_CALLS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/random_source.h"
#include "core/base/wall_clock.h"
#include "core/blocks/entry_index_cache.h"
#include "core/calls/calls.h"
#include "core/lifecycle/session_fork.h"
#include "core/lifecycle/session_import.h"
#include "core/lifecycle/subject_erase.h"
#include "core/model/body_reader.h"
#include "core/model/session_template.h"
#include "core/recall/session_search.h"
#include "core/sessions/session_blocks.h"
#include "core/sessions/session_loader.h"
#include "core/sessions/session_reader.h"
#include "core/storage/store.h"
#include "core/writes/token_counting.h"
#include "core/writes/write_queue.h"

namespace memoryd {

// Any thread may call; nothing waits.
class LifecycleCalls {
 public:
  // What is pointed to outlives it.
  struct Options {
    Store* store = nullptr;
    const BodyReader* bodies = nullptr;
    Calls* calls = nullptr;
    SessionReader* reader = nullptr;
    SessionLoader* loader = nullptr;
    const SessionBlocks* blocks = nullptr;
    WriteQueue* writes = nullptr;
    TokenCounting* counting = nullptr;
    const SessionDefaultsLookup* defaults_of = nullptr;  // May be empty.
    // What is kept in memory of a session beside itself.
    SessionSearch* search = nullptr;
    EntryIndexCache* entries = nullptr;
    RandomSource* random = nullptr;
    const WallClock* clock = nullptr;
  };
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;

  explicit LifecycleCalls(const Options& options) : options_(options) {}

  // Makes a copy of a session. ALREADY_EXISTS `SESSION_EXISTS`, NOT_FOUND `SESSION_NOT_FOUND` or
  // `MESSAGE_NOT_FOUND`, OUT_OF_RANGE `POSITION_OUT_OF_RANGE`, ABORTED `REVISION_MISMATCH` or
  // `SESSION_REPLACED`, DEADLINE_EXCEEDED `SESSION_TOO_LARGE`.
  void ForkSession(ForkRequest request, Done<ForkReply> done);
  // An import that can be begun; INVALID_ARGUMENT for its configuration. All this outlives it.
  absl::StatusOr<std::shared_ptr<SessionImport>> ImportSession(ImportRequest request);
  // Removes all sessions of a subject, and says what went. Ends without an error before the
  // deadline, even where more is left.
  void EraseSubject(EraseRequest request, Done<EraseReceipt> done);

 private:
  // Runs the tasks of one call.
  template <typename T>
  std::function<void(Executor::Task)> RunFor(const std::shared_ptr<ReadCall<T>>& read,
                                             const std::string& tenant);
  // Lets go of what is in memory of a session that is no more.
  void Forget(const SessionKey& key);

  const Options options_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LIFECYCLE_LIFECYCLE_CALLS_H_
