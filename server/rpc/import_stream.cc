#include "server/rpc/import_stream.h"

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/status_macros.h"
#include "server/ops/call_log.h"
#include "server/rpc/unary_call.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

absl::Status Draining() {
  return Error(absl::StatusCode::kUnavailable, "DRAINING",
               "the server is going away; nothing was made, try another or try again");
}

}  // namespace

ImportStream::ImportStream(const CallEnvironment& environment, Method method, Method write,
                           RpcCallPtr rpc)
    : environment_(environment),
      method_(method),
      write_(write),
      rpc_(std::move(rpc)),
      admitted_(environment.calls->Enter()) {
  if (!admitted_) environment_.stats->RefusedDraining();
}

ImportStream::~ImportStream() {
  if (admitted_) environment_.calls->Leave();
}

void ImportStream::Begin() {
  absl::Status status;
  try {
    status = Admit();
  } catch (...) {
    status = CaughtException();
  }
  if (status.ok()) rpc_->SetHandler(shared_from_this());
  GoOn(std::move(status));
}

void ImportStream::OnMessage(std::string_view bytes) {
  absl::Status status;
  try {
    status = AdmitMemory(environment_, caller_, method_);
    if (status.ok()) status = Take(bytes);
  } catch (...) {
    status = CaughtException();
  }
  if (!status.ok()) End(status, {});
}

void ImportStream::OnReadEnd(const absl::Status& status) {
  End(status.ok() ? Error(absl::StatusCode::kInvalidArgument, "IMPORT_CUT_SHORT",
                          "the stream ended before its `end`; nothing was made")
                  : status,
      {});
}

absl::Status ImportStream::Admit() {
  if (!admitted_) return Draining();
  MEMORYD_RETURN_IF_ERROR(CheckDeadline(*rpc_, start_));
  MEMORYD_ASSIGN_OR_RETURN(caller_, CallerOf(environment_, *rpc_));
  trace_ = TraceOf(*rpc_);
  MEMORYD_RETURN_IF_ERROR(Authorize(environment_, caller_, method_));
  MEMORYD_RETURN_IF_ERROR(Authorize(environment_, caller_, write_));
  if (caller_.IsLimited()) {
    return Error(absl::StatusCode::kPermissionDenied, "IMPORT_NOT_GRANTED",
                 "the credential is untrusted, or may write messages of some roles alone");
  }
  MEMORYD_RETURN_IF_ERROR(AdmitMemory(environment_, caller_, method_));
  MEMORYD_RETURN_IF_ERROR(rpc_->ChargeTo(caller_.tenant));
  MEMORYD_ASSIGN_OR_RETURN(place_, environment_.tenants->Enter(caller_.tenant));
  return absl::OkStatus();
}

void ImportStream::GoOn(absl::Status status) {
  if (status.ok() && environment_.calls->draining()) status = Draining();
  if (status.ok() && rpc_->IsCancelled()) status = absl::CancelledError("the call was cancelled");
  if (!status.ok()) {
    End(status, {});
    return;
  }
  rpc_->Read();
}

void ImportStream::End(const absl::Status& status, std::string reply) {
  if (ended_.exchange(true)) return;
  if (!status.ok()) Drop();
  const auto took = std::chrono::steady_clock::now() - start_;
  environment_.stats->Ended(method_, status.code(), took);
  ExportSpan(environment_, method_, trace_, status, took);
  const bool logged = environment_.log->Wants(status.code());
  const bool audited = environment_.audit != nullptr;
  std::string request_id;
  if (logged || audited || !status.ok()) {
    request_id = RequestId(rpc_->metadata().request_id);
    const std::string_view trace_id = TraceId(rpc_->metadata().traceparent);
    if (logged) {
      environment_.log->Write({method_, status, took, request_id, trace_id, caller_.tenant,
                               session_id(), trace_.get()});
    }
    if (audited) {
      environment_.audit->Write({method_,
                                 status,
                                 request_id,
                                 trace_id,
                                 caller_.tenant,
                                 caller_.principal,
                                 session_id(),
                                 name_space(),
                                 {},
                                 reply});
    }
  }
  place_ = {};
  if (status.ok()) {
    rpc_->SendLast(std::move(reply), {});
  } else {
    rpc_->Finish(status, request_id);
  }
}

}  // namespace memoryd
