// One stream of an attached worker.
#ifndef MEMORYD_SERVER_RPC_WORKER_STREAM_H_
#define MEMORYD_SERVER_RPC_WORKER_STREAM_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/workers/worker_registry.h"
#include "memoryd/v1/worker_service.pb.h"
#include "server/rpc/worker_service.h"

namespace memoryd {

// Reads one message at a time and writes one at a time. What waits to be written is what the
// registry lets a worker have at once, and at most one cancellation for each: a worker that does
// not read can't make it grow.
class WorkerStream final : public WorkerLink,
                           public RpcHandler,
                           public std::enable_shared_from_this<WorkerStream> {
 public:
  using Clock = std::chrono::steady_clock;

  WorkerStream(WorkerService* service, RpcCallPtr rpc);

  // Begins to read, or ends with why it must not. Once.
  void Begin(const absl::Status& admitted) MEMORYD_EXCLUDES(mutex_);
  // Ends the stream with `status`, once what is being written, and what was told, is out. Later
  // ends are ignored. Any thread.
  void End(const absl::Status& status) MEMORYD_EXCLUDES(mutex_);
  void Tell(const v1::AttachResponse& message) MEMORYD_EXCLUDES(mutex_);
  // Ends the stream if it should not go on at `now`.
  void Look(Clock::time_point now) MEMORYD_EXCLUDES(mutex_);

  // WorkerLink.
  void Send(std::int64_t call_id, std::shared_ptr<const WorkerCall> call) override
      MEMORYD_EXCLUDES(mutex_);
  bool Cancel(std::int64_t call_id) override MEMORYD_EXCLUDES(mutex_);
  void Flush() override MEMORYD_EXCLUDES(mutex_);

  // RpcHandler.
  void OnMessage(std::string_view bytes) override MEMORYD_EXCLUDES(mutex_);
  void OnReadEnd(const absl::Status& status) override MEMORYD_EXCLUDES(mutex_);
  void OnSent() override MEMORYD_EXCLUDES(mutex_);
  void OnCancel() override;
  void OnDone() override;

  // Whose worker it is, empty until admitted; set before it begins.
  const std::string& tenant() const { return tenant_; }
  void set_tenant(std::string tenant) { tenant_ = std::move(tenant); }
  RpcCall& rpc() { return *rpc_; }

 private:
  // A call to be encoded when its turn comes, or what is said already.
  struct Outgoing {
    std::int64_t call_id = 0;  // 0: about no call.
    std::shared_ptr<const WorkerCall> call;
    std::string bytes;
  };

  absl::Status Take(std::string_view bytes) MEMORYD_EXCLUDES(mutex_);
  absl::Status Hello(const v1::WorkerHello& hello) MEMORYD_EXCLUDES(mutex_);
  // Whether its credential still lets the worker of this tenant in.
  absl::Status CheckCaller() const;
  // Finishes a stream that has ended, when nothing of it is being sent.
  void FinishIfSent() MEMORYD_EXCLUDES(mutex_);

  WorkerService& service_;
  const Clock::time_point start_ = Clock::now();
  const RpcCallPtr rpc_;
  std::string tenant_;

  mutable Mutex mutex_;
  std::deque<Outgoing> queue_ MEMORYD_GUARDED_BY(mutex_);
  bool writing_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool begun_ MEMORYD_GUARDED_BY(mutex_) = false;
  bool greeted_ MEMORYD_GUARDED_BY(mutex_) = false;
  std::int64_t worker_ MEMORYD_GUARDED_BY(mutex_) = 0;  // In the registry; 0: not attached.
  bool ended_ MEMORYD_GUARDED_BY(mutex_) = false;
  Clock::time_point ended_at_ MEMORYD_GUARDED_BY(mutex_);
  absl::Status end_ MEMORYD_GUARDED_BY(mutex_);
  bool finished_ MEMORYD_GUARDED_BY(mutex_) = false;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_WORKER_STREAM_H_
