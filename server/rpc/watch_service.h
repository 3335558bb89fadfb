// WatchSession: all its streams, and the one thread that looks for news of them.
#ifndef MEMORYD_SERVER_RPC_WATCH_SERVICE_H_
#define MEMORYD_SERVER_RPC_WATCH_SERVICE_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "core/reads/session_reads.h"
#include "server/rpc/unary_call.h"

namespace memoryd {

class WatchStream;

struct WatchServiceOptions {
  // Between two looks for news: of a store that this server alone writes to, and of one that others
  // write to too. Also the least time between two replies of a stream.
  std::chrono::milliseconds look_interval = std::chrono::milliseconds(100);
  std::chrono::milliseconds shared_look_interval = std::chrono::milliseconds(250);
  // When a reader is told that there is no news.
  std::chrono::milliseconds quiet_time = std::chrono::seconds(15);
  std::size_t max_streams = 10'000;
};

// Every look asks the store for the revisions of what is watched, some hundred at a time, and reads
// only the sessions that have another one than their reader knows. So it sees what any server has
// written, and costs nothing while nobody watches. Watches are no calls in flight: a drain ends
// them. See docs/adr/0067-watches-compare-states.md.
class WatchService final {
 public:
  // `reads` outlives the service, which outlives the server it is registered with.
  WatchService(SessionReads* reads, const CallEnvironment& environment,
               const WatchServiceOptions& options);
  ~WatchService();

  // The service outlives `methods`.
  void AddTo(RpcMethods& methods);

  void WatchSession(RpcCallPtr rpc);

  // Takes no more watches, and ends those that there are: UNAVAILABLE `DRAINING`.
  void Drain() MEMORYD_EXCLUDES(mutex_);

  std::size_t stream_count() const MEMORYD_EXCLUDES(mutex_);

 private:
  friend class WatchStream;

  absl::Status Add(const std::shared_ptr<WatchStream>& stream) MEMORYD_EXCLUDES(mutex_);
  void Forget(WatchStream* stream) MEMORYD_EXCLUDES(mutex_);
  std::vector<std::shared_ptr<WatchStream>> Streams() const MEMORYD_EXCLUDES(mutex_);
  void Run() MEMORYD_EXCLUDES(mutex_);
  void LookAtAll();

  SessionReads& reads_;
  const CallEnvironment environment_;
  const WatchServiceOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool draining_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  // All that were admitted and whose calls have not ended.
  std::map<WatchStream*, std::shared_ptr<WatchStream>> streams_ MEMORYD_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_WATCH_SERVICE_H_
