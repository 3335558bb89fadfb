// What calls of every connection have in common, whatever is spoken over it.
#ifndef MEMORYD_SERVER_HTTP2_LOOP_CALL_H_
#define MEMORYD_SERVER_HTTP2_LOOP_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/exception.h"
#include "core/base/memory_budget.h"
#include "server/http2/connection.h"
#include "server/http2/event_loop.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

// Belongs to a loop: other threads reach it by tasks of that. It ends with the exceptions that it
// meets, and its handler is told of each event on the loop's thread.
class LoopCall : public RpcCall, public std::enable_shared_from_this<LoopCall> {
 public:
  using Clock = std::chrono::steady_clock;

  LoopCall(const LoopCall&) = delete;
  LoopCall& operator=(const LoopCall&) = delete;

  // RpcCall.
  const std::vector<std::string>& certificate_names() const final { return *names_; }
  bool IsCancelled() const final { return cancelled_.load(std::memory_order_acquire); }
  void SetHandler(std::shared_ptr<RpcHandler> handler) final;
  void Read() final;
  absl::StatusOr<MemoryBudget::Hold> Take(MemoryUse use, std::int64_t bytes) final;
  void Cancel() final;

 protected:
  // `environment` outlives the connection, and what it names outlives the call.
  LoopCall(const Http2Environment& environment, std::shared_ptr<EventLoop> loop,
           std::shared_ptr<const std::vector<std::string>> certificate_names);
  ~LoopCall() override;

  // On the loop's thread.
  virtual void DoRead() = 0;
  virtual void DoCancel() = 0;
  // Runs `task`, which has come from another thread.
  virtual void RunTask(absl::FunctionRef<void()> task) { Guarded(task); }

  // On the loop's thread now, or as its task.
  template <typename Function>
  void InLoop(Function function) {
    if (loop_->IsThisThread()) {
      function();
    } else {
      loop_->Post([self = shared_from_this(), function = std::move(function)]() mutable {
        self->RunTask([&function] { function(); });
      });
    }
  }
  // Does `work`; the call ends with what it throws. Any thread.
  template <typename Work>
  void Guarded(const Work& work) {
    try {
      work();
    } catch (...) {
      Increment(*stats_.exception_counter());
      Finish(CaughtException(), {});
    }
  }
  // Tells `handler`, unless it is null. On the loop's thread.
  template <typename Event>
  void Tell(std::shared_ptr<RpcHandler> handler, const Event& event) {
    if (handler != nullptr) Guarded([&handler, &event] { event(*handler); });
  }
  void TellHandler(void (RpcHandler::*event)()) {
    Tell(handler_, [event](RpcHandler& handler) { (handler.*event)(); });
  }
  // The last that the handler hears; `cancelled` unless it was told so before.
  void TellEnd(bool cancelled);
  // True the first time.
  bool BecomesCancelled() { return !cancelled_.exchange(true, std::memory_order_acq_rel); }

  // Counts the call, which holds so much, for the tenant from now on.
  absl::Status CountFor(std::string_view tenant, std::int64_t bytes);
  bool charged() const { return charged_; }

  // Not to be used once the connection is gone.
  const Http2Environment& environment_;
  MemoryBudget& budget_;
  Http2Stats& stats_;
  const std::shared_ptr<EventLoop> loop_;
  std::shared_ptr<RpcHandler> handler_;
  std::string tenant_;
  // What has come of the request, once it counts for a tenant.
  MemoryBudget::Hold hold_;

 private:
  const std::shared_ptr<const std::vector<std::string>> names_;
  bool charged_ = false;
  std::atomic<bool> cancelled_{false};
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_LOOP_CALL_H_
