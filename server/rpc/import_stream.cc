#include "server/rpc/import_stream.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/session_service.pb.h"
#include "server/rpc/parse_request.h"
#include "server/rpc/reply.h"
#include "server/rpc/write_only_reply.h"
#include "server/settings/limits.h"
#include "server/wire/convert.h"
#include "server/wire/convert_config.h"
#include "server/wire/field_checks.h"
#include "server/wire/timestamp.h"

namespace memoryd {
namespace {

absl::Status Draining() {
  return Error(absl::StatusCode::kUnavailable, "DRAINING",
               "the server is going away; nothing was made, try another or try again");
}

// Either a request is being read or one is being stored, and whichever ends goes on, or finishes.
class ImportStream final : public RpcHandler, public std::enable_shared_from_this<ImportStream> {
 public:
  ImportStream(Engine& engine, const CallEnvironment& environment, RpcCallPtr rpc)
      : engine_(engine),
        environment_(environment),
        rpc_(std::move(rpc)),
        admitted_(environment.calls->Enter()) {
    if (!admitted_) environment_.stats->RefusedDraining();
  }

  // The caller has gone before the stream was at its end.
  ~ImportStream() override {
    End(absl::CancelledError("the call was cancelled"), {});
    if (admitted_) environment_.calls->Leave();
  }

  void Begin() {
    absl::Status status;
    try {
      status = Admit();
    } catch (...) {
      status = CaughtException();
    }
    if (status.ok()) rpc_->SetHandler(shared_from_this());
    GoOn(std::move(status));
  }

  void OnMessage(std::string_view bytes) override {
    absl::Status status;
    try {
      status = Take(bytes);
    } catch (...) {
      status = CaughtException();
    }
    if (!status.ok()) End(status, {});
  }

  void OnReadEnd(const absl::Status& status) override {
    End(status.ok() ? Error(absl::StatusCode::kInvalidArgument, "IMPORT_CUT_SHORT",
                            "the stream ended before its `end`; nothing was made")
                    : status,
        {});
  }

 private:
  struct ParsedRequest {
    MemoryBudget::Hold hold;
    v1::ImportSessionRequest request;
  };

  absl::Status Admit() {
    if (!admitted_) return Draining();
    MEMORYD_RETURN_IF_ERROR(CheckDeadline(*rpc_, start_));
    MEMORYD_ASSIGN_OR_RETURN(caller_, CallerOf(environment_, *rpc_));
    trace_ = TraceOf(*rpc_);
    MEMORYD_RETURN_IF_ERROR(Authorize(environment_, caller_, Method::kImportSession));
    MEMORYD_RETURN_IF_ERROR(Authorize(environment_, caller_, Method::kPut));
    if (caller_.IsLimited()) {
      return Error(absl::StatusCode::kPermissionDenied, "IMPORT_NOT_GRANTED",
                   "the credential is untrusted, or may write messages of some roles alone");
    }
    MEMORYD_RETURN_IF_ERROR(AdmitMemory(environment_, caller_, Method::kImportSession));
    MEMORYD_RETURN_IF_ERROR(rpc_->ChargeTo(caller_.tenant));
    MEMORYD_ASSIGN_OR_RETURN(place_, environment_.tenants->Enter(caller_.tenant));
    return absl::OkStatus();
  }

  void GoOn(absl::Status status) {
    if (status.ok() && environment_.calls->draining()) status = Draining();
    if (status.ok() && rpc_->IsCancelled()) status = absl::CancelledError("the call was cancelled");
    if (!status.ok()) {
      End(status, {});
      return;
    }
    rpc_->Read();
  }

  // Of one request; what it begins goes on with the next one.
  absl::Status Take(std::string_view bytes) {
    MEMORYD_RETURN_IF_ERROR(AdmitMemory(environment_, caller_, Method::kImportSession));
    const auto parsed = std::make_shared<ParsedRequest>();
    v1::ImportSessionRequest* const request = &parsed->request;
    MEMORYD_ASSIGN_OR_RETURN(parsed->hold, ParseRequest(*rpc_, bytes, *request));
    const bool begins = request->step_case() == v1::ImportSessionRequest::kBegin;
    if (begins != (import_ == nullptr)) {
      return InvalidField("begin", "must be set in the first request of a stream, and there alone");
    }
    const auto go_on = [self = shared_from_this()](absl::Status status) {
      self->GoOn(std::move(status));
    };
    switch (request->step_case()) {
      case v1::ImportSessionRequest::kBegin:
        MEMORYD_RETURN_IF_ERROR(Prepare(request->begin()));
        import_->Begin([self = shared_from_this(), go_on](absl::Status status) {
          // Else there is nothing of it to be dropped.
          self->begun_ = status.ok();
          go_on(std::move(status));
        });
        break;
      case v1::ImportSessionRequest::kItems: {
        MEMORYD_ASSIGN_OR_RETURN(ImportedItems items, FromProto(*request->mutable_items()));
        MEMORYD_RETURN_IF_ERROR(
            parsed->hold.Grow(DecodedBytes(items.messages.size() + items.contents.size())));
        items.keep_alive = parsed;
        import_->Add(std::move(items), go_on);
        break;
      }
      case v1::ImportSessionRequest::kEnd:
        import_->Publish(request->end().message_count(), request->end().content_count(),
                         [self = shared_from_this()](const absl::StatusOr<std::string>& reply) {
                           if (reply.ok()) {
                             self->End(absl::OkStatus(), self->ReplyFor(*reply));
                           } else {
                             self->End(reply.status(), {});
                           }
                         });
        break;
      case v1::ImportSessionRequest::STEP_NOT_SET:
        return InvalidField("step", "one of begin, items and end must be set");
    }
    return absl::OkStatus();
  }

  absl::Status Prepare(const v1::ImportBegin& begin) {
    MEMORYD_RETURN_IF_ERROR(CheckId("begin.session_id", begin.session_id(), kMaxSessionId));
    session_id_ = begin.session_id();
    ImportRequest request;
    request.key = {caller_.tenant, session_id_};
    request.encode_reply = &ImportSessionReply;
    if (begin.has_config()) {
      MEMORYD_ASSIGN_OR_RETURN(request.settings, FromProto(begin.config()));
      brings_config_ = true;
    }
    if (!begin.template_().empty()) {
      MEMORYD_RETURN_IF_ERROR(CheckId("begin.template", begin.template_(), kMaxIdBytes));
      request.template_name = begin.template_();
    }
    if (begin.has_create_time()) {
      MEMORYD_RETURN_IF_ERROR(CheckServerTime("begin.create_time", begin.create_time()));
      request.create_us = ToMicros(begin.create_time());
    }
    MEMORYD_ASSIGN_OR_RETURN(import_, engine_.lifecycle().ImportSession(std::move(request)));
    return absl::OkStatus();
  }

  // As the caller may see it.
  std::string ReplyFor(std::string reply) const {
    reply = WithSessionId(std::move(reply), session_id_);
    if (caller_.rights.Has(Right::kRead) || brings_config_) return reply;
    return WithoutStoredText(Method::kImportSession, std::move(reply));
  }

  void End(const absl::Status& status, std::string reply) {
    if (ended_.exchange(true)) return;
    if (!status.ok() && begun_) import_->Drop();
    const auto took = std::chrono::steady_clock::now() - start_;
    environment_.stats->Ended(Method::kImportSession, status.code(), took);
    ExportSpan(environment_, Method::kImportSession, trace_, status, took);
    const bool logged = environment_.log->Wants(status.code());
    const bool audited = environment_.audit != nullptr;
    std::string request_id;
    if (logged || audited || !status.ok()) {
      request_id = RequestId(rpc_->metadata().request_id);
      const std::string_view trace_id = TraceId(rpc_->metadata().traceparent);
      if (logged) {
        environment_.log->Write({Method::kImportSession, status, took, request_id, trace_id,
                                 caller_.tenant, session_id_, trace_.get()});
      }
      if (audited) {
        environment_.audit->Write({Method::kImportSession,
                                   status,
                                   request_id,
                                   trace_id,
                                   caller_.tenant,
                                   caller_.principal,
                                   session_id_,
                                   {},
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

  Engine& engine_;
  const CallEnvironment environment_;
  const RpcCallPtr rpc_;
  const bool admitted_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Caller caller_;
  TracePtr trace_;  // Null until the caller is known.
  TenantLimiter::Place place_;
  std::string session_id_;
  bool brings_config_ = false;
  std::shared_ptr<SessionImport> import_;  // Null before the first request.
  bool begun_ = false;
  std::atomic<bool> ended_{false};
};

}  // namespace

void RunImportStream(Engine& engine, const CallEnvironment& environment, RpcCallPtr rpc) {
  std::make_shared<ImportStream>(engine, environment, std::move(rpc))->Begin();
}

}  // namespace memoryd
