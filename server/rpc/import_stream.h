// A call that takes something as a stream of pieces, and makes it whole or not at all.
#ifndef MEMORYD_SERVER_RPC_IMPORT_STREAM_H_
#define MEMORYD_SERVER_RPC_IMPORT_STREAM_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/engine/engine.h"
#include "server/rpc/unary_call.h"

namespace memoryd {

// One such call: admitted, counted and logged as other calls are. Its first request begins an
// import, the last one ends it. The next request is read when the one before is stored, so that a
// stream keeps one. It ends at the next request when the server drains or lacks memory. Either a
// request is being read or one is being stored, and whichever ends goes on, or finishes.
class ImportStream : public RpcHandler, public std::enable_shared_from_this<ImportStream> {
 public:
  // Needs the rights of `method` and of `write`.
  ImportStream(const CallEnvironment& environment, Method method, Method write, RpcCallPtr rpc);
  ~ImportStream() override;

  void Begin();
  void OnMessage(std::string_view bytes) override;
  void OnReadEnd(const absl::Status& status) override;

 protected:
  // Of one request. What it begins calls GoOn(), or End(), once.
  virtual absl::Status Take(std::string_view bytes) = 0;
  // Gives up what is stored, if anything.
  virtual void Drop() = 0;
  // What the import is about, for the logs.
  virtual std::string_view session_id() const { return {}; }
  virtual std::string name_space() const { return {}; }

  void GoOn(absl::Status status);
  void End(const absl::Status& status, std::string reply);
  // By the destructor of each class that Drop() needs: the caller may have gone before the end.
  void EndCancelled() { End(absl::CancelledError("the call was cancelled"), {}); }

  const Caller& caller() const { return caller_; }
  RpcCall& rpc() { return *rpc_; }

 private:
  absl::Status Admit();

  const CallEnvironment environment_;
  const Method method_;
  const Method write_;
  const RpcCallPtr rpc_;
  const bool admitted_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Caller caller_;
  TracePtr trace_;  // Null until the caller is known.
  TenantLimiter::Place place_;
  std::atomic<bool> ended_{false};
};

// Begin to take an ImportSession, and an ImportNamespace, whose values may have `item_bytes`.
void RunSessionImport(Engine& engine, const CallEnvironment& environment, RpcCallPtr rpc);
void RunNamespaceImport(Engine& engine, std::size_t item_bytes, const CallEnvironment& environment,
                        RpcCallPtr rpc);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_IMPORT_STREAM_H_
