// A call as its handler sees it, whatever carries it: bytes in, who calls, until when, and replies
// that may come later.
#ifndef MEMORYD_SERVER_WIRE_RPC_CALL_H_
#define MEMORYD_SERVER_WIRE_RPC_CALL_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/memory_budget.h"
#include "server/wire/method.h"

namespace memoryd {

// The metadata of a call that the server reads. Other entries are counted and dropped.
struct CallMetadata {
  // The last `authorization`, and how many there are.
  std::string authorization;
  int authorizations = 0;
  std::string request_id;  // The first `x-request-id`; empty for none.
  std::string traceparent;
  int traceparents = 0;
  std::string tracestate;  // All values, joined by commas.
  // By HTTP/2's count (RFC 9113, section 6.5.2): 32 bytes an entry beside its name and value.
  std::size_t entries = 0;
  std::size_t bytes = 0;
  // Of `bytes`: values of `authorization`.
  std::size_t authorization_bytes = 0;
};

// Receives the events of one call. Each comes when the one before has returned, from any thread,
// but OnCancel(), which may come beside any other.
class RpcHandler {
 public:
  virtual ~RpcHandler() = default;

  // The message that RpcCall::Read() asked for. `bytes` are valid until it returns.
  virtual void OnMessage(std::string_view bytes) = 0;
  // No message comes any more: OK when the caller has sent all, else why the next one can't be
  // taken. Instead of OnMessage().
  virtual void OnReadEnd(const absl::Status& status) = 0;
  // All messages sent so far have left, as far as the caller's window lets them.
  virtual void OnSent() {}
  // The caller is gone, or its deadline has passed: nothing is sent any more.
  virtual void OnCancel() {}
  // The call has ended in whatever way; the last event.
  virtual void OnDone() {}
};

// Any thread may call any method. Lives as long as anybody refers to it, also after the call has
// ended; then it does nothing.
class RpcCall {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  virtual ~RpcCall() = default;

  virtual const CallMetadata& metadata() const = 0;
  // What a verified client certificate names: its URIs, which hold a colon, and its DNS names, or
  // else its common name, which don't.
  virtual const std::vector<std::string>& certificate_names() const = 0;
  // As the caller set it; TimePoint::max() for none.
  virtual TimePoint deadline() const = 0;
  // Whether the caller is gone or its deadline has passed.
  virtual bool IsCancelled() const = 0;

  // Who hears of the call from now on; null for nobody. To be set before Read(), Send() or the end
  // of the function that starts the call.
  virtual void SetHandler(std::shared_ptr<RpcHandler> handler) = 0;
  // From now on the bytes that the call holds are this tenant's. RESOURCE_EXHAUSTED `MEMORY_SHORT`.
  // To be called once, from the function that starts the call, and before Read() in whatever is not
  // for everybody.
  virtual absl::Status ChargeTo(std::string_view tenant) = 0;
  // Asks for the next message. Once for each message.
  virtual void Read() = 0;
  // Takes memory from the call's tenant: for a request that is yet to be parsed, beside what the
  // call holds of its bytes, or for a reply that is yet to be made. Empty for a call that no tenant
  // is known of. RESOURCE_EXHAUSTED `MEMORY_SHORT`.
  virtual absl::StatusOr<MemoryBudget::Hold> Take(MemoryUse use, std::int64_t bytes) = 0;
  // Sends a message. `hold` is that of Take(), for kReplies; without one the bytes are counted, and
  // never refused.
  virtual void Send(std::string message, MemoryBudget::Hold hold) = 0;
  // Send(), then Finish() with OK.
  virtual void SendLast(std::string message, MemoryBudget::Hold hold) = 0;
  // Ends the call when what was sent has left; what comes later is dropped. `request_id`: for the
  // trailing metadata `x-request-id`, empty for none.
  virtual void Finish(const absl::Status& status, std::string_view request_id) = 0;
  // Ends the call now, with what was sent or not.
  virtual void Cancel() = 0;
};

using RpcCallPtr = std::shared_ptr<RpcCall>;

// What a server answers: a function for each path (`/package.Service/Method`) that starts a call.
// It runs when the headers have come and before anything is read of the body, and must not wait.
class RpcMethods {
 public:
  using Start = std::function<void(RpcCallPtr)>;

  void Add(std::string path, Start start) { starts_.emplace(std::move(path), std::move(start)); }
  // A method of `service`, which outlives it.
  template <typename Service>
  void Add(Method method, Service* service, void (Service::*start)(RpcCallPtr)) {
    Add(PathOf(TraitsOf(method)),
        [service, start](RpcCallPtr rpc) { (service->*start)(std::move(rpc)); });
  }

  // Null for an unknown path.
  const Start* Find(std::string_view path) const {
    const auto found = starts_.find(absl::string_view(path.data(), path.size()));
    return found == starts_.end() ? nullptr : &found->second;
  }

 private:
  absl::flat_hash_map<std::string, Start> starts_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_RPC_CALL_H_
