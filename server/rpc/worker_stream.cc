#include "server/rpc/worker_stream.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/workers/worker_call.h"
#include "server/access/authenticator.h"
#include "server/ops/call_log.h"
#include "server/rpc/parse_request.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/worker_service.h"
#include "server/settings/limits.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"
#include "server/wire/worker_codec.h"

namespace memoryd {
namespace {

absl::Status BadMessage(std::string_view message) {
  return Error(absl::StatusCode::kInvalidArgument, "WORKER_PROTOCOL", message);
}

}  // namespace

WorkerStream::WorkerStream(WorkerService* service, RpcCallPtr rpc)
    : service_(*service), rpc_(std::move(rpc)) {}

void WorkerStream::Begin(const absl::Status& admitted) {
  rpc_->SetHandler(shared_from_this());
  if (!admitted.ok()) {
    End(admitted);
    return;
  }
  {
    MutexLock lock(mutex_);
    if (ended_) return;
    begun_ = true;
  }
  rpc_->Read();
}

void WorkerStream::End(const absl::Status& status) {
  std::int64_t worker = 0;
  {
    MutexLock lock(mutex_);
    if (ended_) return;
    ended_ = true;
    ended_at_ = Clock::now();
    end_ = status;
    // What was told is still told, of calls nothing.
    std::erase_if(queue_, [](const Outgoing& outgoing) { return outgoing.call_id != 0; });
    worker = std::exchange(worker_, 0);
  }
  if (worker != 0) service_.registry_.Detach(worker);
  Flush();
  FinishIfSent();
}

void WorkerStream::FinishIfSent() {
  absl::Status status;
  {
    MutexLock lock(mutex_);
    if (!ended_ || finished_ || writing_ || !queue_.empty()) return;
    finished_ = true;
    status = end_;
  }
  const CallEnvironment& environment = service_.environment_;
  const auto took = Clock::now() - start_;
  environment.stats->Ended(Method::kAttach, status.code(), took);
  const bool logged = environment.log->Wants(status.code());
  std::string request_id;
  if (logged || !status.ok()) {
    request_id = RequestId(rpc_->metadata().request_id);
    if (logged) {
      environment.log->Write({Method::kAttach,
                              status,
                              took,
                              request_id,
                              TraceId(rpc_->metadata().traceparent),
                              tenant_,
                              {}});
    }
  }
  rpc_->Finish(status, request_id);
}

void WorkerStream::Tell(const v1::AttachResponse& message) {
  {
    MutexLock lock(mutex_);
    if (ended_ || !begun_) return;
    queue_.push_back({0, nullptr, message.SerializeAsString()});
  }
  Flush();
}

absl::Status WorkerStream::CheckCaller() const {
  MEMORYD_ASSIGN_OR_RETURN(const Caller caller, CallerOf(service_.environment_, *rpc_));
  MEMORYD_RETURN_IF_ERROR(Authorize(service_.environment_, caller, Method::kAttach));
  if (caller.tenant == tenant_) return absl::OkStatus();
  return Error(absl::StatusCode::kUnauthenticated, "UNAUTHENTICATED",
               "the credential belongs to another tenant now; attach again");
}

void WorkerStream::Look(Clock::time_point now) {
  bool stuck = false;
  absl::Status status;
  {
    MutexLock lock(mutex_);
    if (finished_ || !begun_) return;
    if (ended_) {
      stuck = now - ended_at_ > service_.options_.flush_time;
    } else if (!greeted_ && now - start_ > service_.options_.hello_time) {
      status = Error(absl::StatusCode::kDeadlineExceeded, "HELLO_MISSING",
                     "a worker says hello as soon as it is connected");
    } else {
      status = CheckCaller();
    }
  }
  if (stuck) rpc_->Cancel();
  if (!status.ok()) End(status);
}

void WorkerStream::Send(std::int64_t call_id, std::shared_ptr<const WorkerCall> call) {
  MutexLock lock(mutex_);
  if (!ended_) queue_.push_back({call_id, std::move(call), {}});
}

bool WorkerStream::Cancel(std::int64_t call_id) {
  MutexLock lock(mutex_);
  if (ended_) return false;
  const auto found =
      std::find_if(queue_.begin(), queue_.end(), [call_id](const Outgoing& outgoing) {
        return outgoing.call != nullptr && outgoing.call_id == call_id;
      });
  if (found != queue_.end()) {
    queue_.erase(found);
    return true;
  }
  v1::AttachResponse message;
  message.mutable_cancel()->set_call_id(call_id);
  queue_.push_back({call_id, nullptr, message.SerializeAsString()});
  return false;
}

void WorkerStream::Flush() {
  Outgoing next;
  {
    MutexLock lock(mutex_);
    if (finished_ || writing_ || queue_.empty()) return;
    next = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
  }
  // One message at a time is encoded, so that many large calls that wait don't take their room
  // twice.
  rpc_->Send(next.call == nullptr ? next.bytes : EncodeCall(next.call_id, *next.call, Clock::now()),
             {});
}

void WorkerStream::OnSent() {
  {
    MutexLock lock(mutex_);
    writing_ = false;
  }
  Flush();
  FinishIfSent();
}

void WorkerStream::OnMessage(std::string_view bytes) {
  absl::Status status;
  try {
    status = Take(bytes);
  } catch (...) {
    status = CaughtException();
  }
  if (status.ok()) {
    rpc_->Read();
  } else {
    End(status);
  }
}

void WorkerStream::OnReadEnd(const absl::Status& status) { End(status); }

void WorkerStream::OnCancel() {
  End(absl::CancelledError("the worker went"));
  {
    MutexLock lock(mutex_);
    queue_.clear();
    writing_ = false;
  }
  FinishIfSent();
}

void WorkerStream::OnDone() { service_.Forget(this); }

absl::Status WorkerStream::Take(std::string_view bytes) {
  v1::AttachRequest request;
  MEMORYD_ASSIGN_OR_RETURN(const MemoryBudget::Hold hold, ParseRequest(*rpc_, bytes, request));
  std::int64_t worker = 0;
  bool greeted = false;
  {
    MutexLock lock(mutex_);
    if (ended_) return absl::OkStatus();
    greeted = greeted_;
    worker = worker_;
  }
  switch (request.kind_case()) {
    case v1::AttachRequest::kHello:
      if (greeted) return BadMessage("a worker says hello once");
      return Hello(request.hello());
    case v1::AttachRequest::kResult: {
      if (!greeted) return BadMessage("a worker says hello first");
      v1::WorkerResult& result = *request.mutable_result();
      service_.registry_.Answer(worker, result.call_id(), FromProto(result));
      return absl::OkStatus();
    }
    case v1::AttachRequest::KIND_NOT_SET:
      break;
  }
  return BadMessage("a worker says hello or result");
}

absl::Status WorkerStream::Hello(const v1::WorkerHello& hello) {
  MEMORYD_ASSIGN_OR_RETURN(WorkerOffer offer, FromProto(hello));
  v1::AttachResponse message;
  v1::WorkerWelcome& welcome = *message.mutable_welcome();
  welcome.set_server_version(std::string(service_.options_.version));
  welcome.set_max_concurrent_calls(offer.max_concurrent_calls);
  welcome.set_max_message_bytes(service_.options_.max_message_bytes);
  welcome.mutable_keepalive()->set_seconds(kKeepalive.count());
  {
    MutexLock lock(mutex_);
    greeted_ = true;
  }
  // First in the queue, before any call can be.
  Tell(message);
  const std::int64_t worker =
      service_.registry_.Attach(tenant_, std::move(offer), shared_from_this());
  bool too_late = false;
  {
    MutexLock lock(mutex_);
    too_late = ended_;
    if (!too_late) worker_ = worker;
  }
  if (too_late) service_.registry_.Detach(worker);
  return absl::OkStatus();
}

}  // namespace memoryd
