#include "server/rpc/unary_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/failpoint.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/calls/call_end.h"
#include "core/model/trace_context.h"
#include "memoryd/v1/memory.pb.h"
#include "memoryd/v1/memory_service.pb.h"
#include "server/access/authenticator.h"
#include "server/access/credential_table.h"
#include "server/ops/audit_log.h"
#include "server/ops/call_log.h"
#include "server/ops/span_exporter.h"
#include "server/settings/limits.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

absl::Status CheckMetadata(const CallMetadata& metadata, bool authenticates) {
  // Of a token that is too large the authenticator says so. Without one it is none of the server's,
  // but many clients send theirs wherever they connect to.
  constexpr std::size_t kMost = kTokenScheme.size() + kMaxTokenBytes;
  const std::size_t token =
      authenticates ? metadata.authorization_bytes : std::min(metadata.authorization_bytes, kMost);
  const std::size_t bytes = metadata.bytes - token;
  if (metadata.entries <= kMaxMetadataEntries && bytes <= kMaxMetadataBytes) {
    return absl::OkStatus();
  }
  return Error(
      absl::StatusCode::kResourceExhausted, "METADATA_TOO_LARGE",
      fmt::format("a call may bring {} entries of metadata and {} bytes; nothing was started",
                  kMaxMetadataEntries, kMaxMetadataBytes));
}

absl::Status Draining() {
  return Error(absl::StatusCode::kUnavailable, "DRAINING",
               "the server is going away; nothing was started, try another or try again");
}

}  // namespace

UnaryCall::UnaryCall(const CallEnvironment& environment, Method method, RpcCallPtr rpc)
    : environment_(environment),
      rpc_(std::move(rpc)),
      method_(method),
      admitted_(environment.calls->Enter()),
      deadline_(std::min(rpc_->deadline(), start_ + kMaxDeadline)) {
  if (!admitted_) environment_.stats->RefusedDraining();
}

UnaryCall::~UnaryCall() {
  if (!finished_.exchange(true)) End(absl::InternalError("the call was dropped unfinished"), {});
}

absl::Status UnaryCall::Admit() {
  if (!admitted_) return Draining();
  MEMORYD_RETURN_IF_ERROR(CheckDeadline(*rpc_, start_));
  MEMORYD_ASSIGN_OR_RETURN(caller_, CallerOf(environment_, *rpc_));
  trace_ = TraceOf(*rpc_);
  MEMORYD_RETURN_IF_ERROR(Authorize(environment_, caller_, method_));
  MEMORYD_RETURN_IF_ERROR(AdmitMemory(environment_, caller_, method_));
  MEMORYD_RETURN_IF_ERROR(rpc_->ChargeTo(tenant()));
  MEMORYD_ASSIGN_OR_RETURN(place_, environment_.tenants->Enter(tenant()));
  return absl::OkStatus();
}

absl::Status UnaryCall::AdmitPart(const UnaryCall& whole, bool takes_turn) {
  caller_ = whole.caller_;
  if (!admitted_) return Draining();
  if (IsCancelled()) return NobodyWaits();
  trace_ = TraceOf(*rpc_);
  return takes_turn ? environment_.tenants->TakeTurn(tenant()) : absl::OkStatus();
}

void UnaryCall::Succeed(std::string reply) {
  if (!caller_.subject.empty() && Confirm(reply)) return;
  // What was written is written, whether there is room to say so or not; what was read can be read
  // again.
  if (reply_hold_.bytes() == 0 && TraitsOf(method_).right == Right::kRead) {
    if (const absl::Status status = TakeReply(reply.size()); !status.ok()) {
      Fail(status);
      return;
    }
  }
  if (finished_.exchange(true)) return;
  End(absl::OkStatus(), std::move(reply));
}

void UnaryCall::Fail(const absl::Status& status) {
  if (finished_.exchange(true)) return;
  End(status, {});
}

void UnaryCall::Finish(absl::StatusOr<std::string> reply) {
  if (reply.ok()) {
    Succeed(*std::move(reply));
  } else {
    Fail(reply.status());
  }
}

absl::Status UnaryCall::TakeReply(std::size_t bytes) {
  MEMORYD_ASSIGN_OR_RETURN(reply_hold_,
                           rpc_->Take(MemoryUse::kReplies, static_cast<std::int64_t>(bytes)));
  return absl::OkStatus();
}

void UnaryCall::CountReply(MemoryBudget::Hold hold, std::size_t bytes) {
  reply_hold_ = std::move(hold);
  reply_hold_.Resize(static_cast<std::int64_t>(bytes));
}

void UnaryCall::End(const absl::Status& status, std::string reply) {
  const absl::Cleanup leave = [this] {
    if (admitted_) environment_.calls->Leave();
  };
  std::string request_id;
  absl::Status answer = status;
  try {
    request_id = Count(status, reply);
    ReachFailpoint("reply_ready");
  } catch (...) {
    // Whoever waits must not wait for ever.
    answer = CaughtException();
  }
  place_ = {};
  if (answer.ok()) {
    rpc_->SendLast(std::move(reply), std::move(reply_hold_));
  } else {
    rpc_->Finish(answer, request_id);
  }
  ReachFailpoint("reply_given");
}

std::string UnaryCall::Count(const absl::Status& status, std::string_view reply) {
  const auto took = std::chrono::steady_clock::now() - start_;
  environment_.stats->Ended(method_, status.code(), took);
  ExportSpan(environment_, method_, trace_, status, took);
  const bool logged = environment_.log->Wants(status.code());
  const bool audited = environment_.audit != nullptr && (is_audited_ || AuditLog::Wants(method_));
  if (!logged && !audited && status.ok()) return {};
  std::string request_id = RequestId(rpc_->metadata().request_id);
  const std::string_view trace_id = TraceId(rpc_->metadata().traceparent);
  if (logged) {
    environment_.log->Write(
        {method_, status, took, request_id, trace_id, tenant(), session_id(), trace_.get()});
  }
  if (audited) {
    environment_.audit->Write({method_, status, request_id, trace_id, tenant(), caller_.principal,
                               session_id(), name_space(), subject(), reply});
  }
  return request_id;
}

absl::StatusOr<Caller> CallerOf(const CallEnvironment& environment, const RpcCall& rpc) {
  const CallMetadata& metadata = rpc.metadata();
  if (absl::Status status = CheckMetadata(metadata, environment.authenticator != nullptr);
      !status.ok()) {
    environment.stats->RefusedMetadata();
    return status;
  }
  if (environment.authenticator == nullptr) return Caller{"default", {}, Rights::All(), {}};
  Proof proof;
  proof.authorizations = metadata.authorizations;
  proof.authorization = metadata.authorization;
  proof.certificate_names.assign(rpc.certificate_names().begin(), rpc.certificate_names().end());
  auto caller = environment.authenticator->Authenticate(proof);
  if (!caller.ok()) environment.stats->AuthFailed(ErrorReason(caller.status()));
  return caller;
}

absl::Status Authorize(const CallEnvironment& environment, const Caller& caller, Method method) {
  absl::Status status = CheckRight(caller, TraitsOf(method).right);
  if (status.ok()) status = CheckReach(caller, TraitsOf(method).reach);
  if (!status.ok()) environment.stats->AuthFailed(ErrorReason(status));
  return status;
}

absl::Status AdmitMemory(const CallEnvironment& environment, const Caller& caller, Method method) {
  if (environment.memory == nullptr || !TraitsOf(method).takes_memory) return absl::OkStatus();
  return environment.memory->Admit(caller.tenant);
}

absl::Status CheckDeadline(const RpcCall& rpc, RpcCall::TimePoint now) {
  if (rpc.deadline() > now) return absl::OkStatus();
  return absl::DeadlineExceededError("the call's deadline has passed; nothing was started");
}

TracePtr TraceOf(const RpcCall& rpc) {
  const CallMetadata& metadata = rpc.metadata();
  // Of two nobody knows which is meant.
  if (metadata.traceparents != 1) return nullptr;
  const auto caller = ParseTraceparent(metadata.traceparent);
  if (!caller.has_value()) return nullptr;
  return MakeTrace(*caller, metadata.tracestate);
}

absl::Status WithLargeFields(const absl::Status& status, const google::protobuf::Descriptor& type) {
  if (ErrorReason(status) != "REQUEST_TOO_LARGE") return status;
  std::vector<std::string> fields;
  for (int i = 0; i < type.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& field = *type.field(i);
    const google::protobuf::Descriptor* const of = field.message_type();
    if (field.type() == google::protobuf::FieldDescriptor::TYPE_BYTES ||
        (of != nullptr && (of == v1::Message::descriptor() || of == v1::Content::descriptor() ||
                           of == v1::Part::descriptor() || of == v1::Media::descriptor() ||
                           of == v1::PutRequest::descriptor()))) {
      fields.push_back(field.name());
    }
  }
  if (fields.empty()) return status;
  ErrorValues values = ErrorDetails(status);
  values.emplace_back("field", fields.front());
  return Error(status.code(), ErrorReason(status),
               fmt::format("{}: {}", fmt::join(fields, ", "), std::string(status.message())),
               std::move(values));
}

void ExportSpan(const CallEnvironment& environment, Method method, const TracePtr& trace,
                const absl::Status& status, std::chrono::steady_clock::duration took) {
  if (environment.spans == nullptr || !SpanExporter::Wants(trace)) return;
  environment.spans->Export({method, trace, status.code(), took});
}

}  // namespace memoryd
