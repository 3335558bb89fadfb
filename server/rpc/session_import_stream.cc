#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/engine/engine.h"
#include "core/lifecycle/session_import.h"
#include "memoryd/v1/session_service.pb.h"
#include "server/rpc/import_stream.h"
#include "server/rpc/parse_request.h"
#include "server/rpc/reply.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/write_only_reply.h"
#include "server/wire/convert.h"
#include "server/wire/convert_config.h"
#include "server/wire/field_checks.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"
#include "server/wire/timestamp.h"

namespace memoryd {
namespace {

class SessionImportStream final : public ImportStream {
 public:
  SessionImportStream(Engine& engine, const CallEnvironment& environment, RpcCallPtr rpc)
      : ImportStream(environment, Method::kImportSession, Method::kPut, std::move(rpc)),
        engine_(engine) {}
  ~SessionImportStream() override { EndCancelled(); }

 private:
  struct ParsedRequest {
    MemoryBudget::Hold hold;
    v1::ImportSessionRequest request;
  };

  std::shared_ptr<SessionImportStream> Self() {
    return std::static_pointer_cast<SessionImportStream>(shared_from_this());
  }

  absl::Status Take(std::string_view bytes) override {
    const auto parsed = std::make_shared<ParsedRequest>();
    v1::ImportSessionRequest* const request = &parsed->request;
    MEMORYD_ASSIGN_OR_RETURN(parsed->hold, ParseRequest(rpc(), bytes, *request));
    const bool begins = request->step_case() == v1::ImportSessionRequest::kBegin;
    if (begins != (import_ == nullptr)) {
      return InvalidField("begin", "must be set in the first request of a stream, and there alone");
    }
    const auto go_on = [self = Self()](absl::Status status) { self->GoOn(std::move(status)); };
    switch (request->step_case()) {
      case v1::ImportSessionRequest::kBegin:
        MEMORYD_RETURN_IF_ERROR(Prepare(request->begin()));
        import_->Begin([self = Self(), go_on](absl::Status status) {
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
                         [self = Self()](const absl::StatusOr<std::string>& reply) {
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

  void Drop() override {
    if (begun_) import_->Drop();
  }
  std::string_view session_id() const override { return session_id_; }

  absl::Status Prepare(const v1::ImportBegin& begin) {
    MEMORYD_RETURN_IF_ERROR(CheckId("begin.session_id", begin.session_id(), kMaxSessionId));
    session_id_ = begin.session_id();
    ImportRequest request;
    request.key = {caller().tenant, session_id_};
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
    if (caller().rights.Has(Right::kRead) || brings_config_) return reply;
    return WithoutStoredText(Method::kImportSession, std::move(reply));
  }

  Engine& engine_;
  std::string session_id_;
  bool brings_config_ = false;
  std::shared_ptr<SessionImport> import_;  // Null before the first request.
  bool begun_ = false;
};

}  // namespace

void RunSessionImport(Engine& engine, const CallEnvironment& environment, RpcCallPtr rpc) {
  std::make_shared<SessionImportStream>(engine, environment, std::move(rpc))->Begin();
}

}  // namespace memoryd
