// The RPC of memoryd.v1.WorkerService.
#ifndef MEMORYD_SERVER_RPC_WORKER_SERVICE_H_
#define MEMORYD_SERVER_RPC_WORKER_SERVICE_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "core/workers/worker_registry.h"
#include "server/rpc/unary_call.h"

namespace memoryd {

class WorkerStream;

struct WorkerServiceOptions {
  std::string_view version;
  // Of a message of a worker; the front refuses more.
  std::int64_t max_message_bytes = std::int64_t{36} << 20;
  // A worker says hello within this.
  std::chrono::milliseconds hello_time = std::chrono::seconds(10);
  // How often streams are looked at: for a hello that does not come, and for credentials that are
  // no longer good.
  std::chrono::milliseconds look_interval = std::chrono::seconds(1);
  // What a stream has to send when it ends gets this to leave.
  std::chrono::milliseconds flush_time = std::chrono::seconds(5);
  std::size_t max_streams = 1024;
  std::size_t max_streams_per_tenant = 64;
};

// Streams are no calls in flight: a drain does not wait for them. See docs/adr/0014-workers.md.
class WorkerService final {
 public:
  // `registry` outlives the service, which outlives the server it is registered with.
  WorkerService(WorkerRegistry* registry, const CallEnvironment& environment,
                const WorkerServiceOptions& options);
  ~WorkerService();

  // The service outlives `methods`.
  void AddTo(RpcMethods& methods);

  void Attach(RpcCallPtr rpc);

  // Takes no more workers and tells those that are attached; calls still reach them.
  void BeginDrain() MEMORYD_EXCLUDES(mutex_);
  // Ends all streams, UNAVAILABLE, and waits until they have ended: true, or until `deadline`.
  bool EndStreams(std::chrono::steady_clock::time_point deadline) MEMORYD_EXCLUDES(mutex_);

  std::size_t stream_count() const MEMORYD_EXCLUDES(mutex_);

 private:
  friend class WorkerStream;

  absl::Status Admit(const std::shared_ptr<WorkerStream>& stream) MEMORYD_EXCLUDES(mutex_);
  void Forget(WorkerStream* stream) MEMORYD_EXCLUDES(mutex_);
  std::vector<std::shared_ptr<WorkerStream>> Streams() const MEMORYD_EXCLUDES(mutex_);
  void Watch() MEMORYD_EXCLUDES(mutex_);

  WorkerRegistry& registry_;
  const CallEnvironment environment_;
  const WorkerServiceOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool draining_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  // All whose calls have not ended, admitted or not.
  std::map<WorkerStream*, std::shared_ptr<WorkerStream>> streams_ MEMORYD_GUARDED_BY(mutex_);
  std::size_t admitted_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::size_t, std::less<>> per_tenant_ MEMORYD_GUARDED_BY(mutex_);
  std::thread watcher_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_WORKER_SERVICE_H_
