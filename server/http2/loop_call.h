// A call on a connection's event loop, for any protocol.
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

// The base of Http2Call and ConnectCall. A call belongs to whoever has the turn of its EventLoop.
// Any thread may call the methods of RpcCall. Those that change the call run with the turn: at
// once, or as a task that is posted to the loop. The handler hears of events with the turn, except
// for large messages, which an executor delivers. An exception in the call or its handler ends the
// call with an error.
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
  // `environment` must outlive the connection. The objects that it names must outlive the call.
  LoopCall(const Http2Environment& environment, std::shared_ptr<EventLoop> loop,
           std::shared_ptr<const std::vector<std::string>> certificate_names);
  ~LoopCall() override;

  // Read() and Cancel(), with the turn.
  virtual void DoRead() = 0;
  virtual void DoCancel() = 0;
  // Runs a task that another thread has posted. With the turn.
  virtual void RunTask(absl::FunctionRef<void()> task) { Guarded(task); }

  // Runs `function` with the turn: now if this thread has it, otherwise as a task.
  template <typename Function>
  void InLoop(Function function) {
    if (loop_->HasTurn()) {
      function();
    } else {
      loop_->Post([self = shared_from_this(), function = std::move(function)]() mutable {
        self->RunTask([&function] { function(); });
      });
    }
  }
  // Runs `work`. If it throws, the call ends with the exception as its status. Any thread.
  template <typename Work>
  void Guarded(const Work& work) {
    try {
      work();
    } catch (...) {
      Increment(*stats_.exception_counter());
      Finish(CaughtException(), {});
    }
  }
  // Calls event(*handler), unless `handler` is null. With the turn.
  template <typename Event>
  void Tell(std::shared_ptr<RpcHandler> handler, const Event& event) {
    if (handler != nullptr) Guarded([&handler, &event] { event(*handler); });
  }
  void TellHandler(void (RpcHandler::*event)()) {
    Tell(handler_, [event](RpcHandler& handler) { (handler.*event)(); });
  }
  // Sends the handler its last event, OnDone(), and releases it. With `cancelled` OnCancel() comes
  // first, unless the call was marked as cancelled before.
  void TellEnd(bool cancelled);
  // Marks the call as cancelled. True only the first time.
  bool BecomesCancelled() { return !cancelled_.exchange(true, std::memory_order_acq_rel); }

  // Counts the call for the tenant from now on, at first with `bytes` of memory.
  // RESOURCE_EXHAUSTED `MEMORY_SHORT`.
  absl::Status CountFor(std::string_view tenant, std::int64_t bytes);
  // Whether CountFor() has succeeded.
  bool charged() const { return charged_; }

  // Must not be used after the connection has been destroyed.
  const Http2Environment& environment_;
  MemoryBudget& budget_;
  Http2Stats& stats_;
  const std::shared_ptr<EventLoop> loop_;
  std::shared_ptr<RpcHandler> handler_;
  std::string tenant_;
  // The memory of the request's bytes, once the call counts for a tenant.
  MemoryBudget::Hold hold_;

 private:
  const std::shared_ptr<const std::vector<std::string>> names_;
  bool charged_ = false;
  std::atomic<bool> cancelled_{false};
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP2_LOOP_CALL_H_
