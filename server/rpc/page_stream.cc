#include "server/rpc/page_stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/calls/call_end.h"
#include "core/engine/engine.h"
#include "core/reads/page.h"
#include "core/sessions/session_errors.h"
#include "server/ops/call_log.h"
#include "server/rpc/parse_request.h"
#include "server/rpc/reply.h"
#include "server/rpc/subject_gate.h"
#include "server/rpc/unary_call.h"
#include "server/settings/limits.h"
#include "server/wire/field_checks.h"
#include "server/wire/filter.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

absl::Status Draining() {
  return Error(absl::StatusCode::kUnavailable, "DRAINING",
               "the server is going away; go on with page_token at another, or try again");
}

// Either a page is being read or one is being sent, and whichever ends goes on, or finishes.
class PageStream final : public RpcHandler,
                         public CallWatch,
                         public std::enable_shared_from_this<PageStream> {
 public:
  PageStream(Engine& engine, const CallEnvironment& environment, RpcCallPtr rpc)
      : engine_(engine),
        environment_(environment),
        rpc_(std::move(rpc)),
        admitted_(environment.calls->Enter()) {
    if (!admitted_) environment_.stats->RefusedDraining();
  }

  // The caller has gone before the stream was at its end.
  ~PageStream() override {
    End(absl::CancelledError("the call was cancelled"));
    if (admitted_) environment_.calls->Leave();
  }

  void Begin() {
    absl::Status status;
    try {
      status = Admit();
    } catch (...) {
      status = CaughtException();
    }
    if (!status.ok()) {
      End(status);
      return;
    }
    rpc_->SetHandler(shared_from_this());
    rpc_->Read();
  }

  void OnMessage(std::string_view bytes) override {
    absl::Status status;
    try {
      status = Prepare(bytes);
    } catch (...) {
      status = CaughtException();
    }
    if (status.ok()) {
      ReadNext();
    } else {
      End(status);
    }
  }

  void OnReadEnd(const absl::Status& status) override {
    End(status.ok() ? Error(absl::StatusCode::kInvalidArgument, "MALFORMED_REQUEST",
                            "the call ended without a request")
                    : status);
  }

  bool IsCancelled() const override { return rpc_->IsCancelled(); }

  void OnSent() override {
    if (last_) {
      End(absl::OkStatus());
    } else if (environment_.calls->draining()) {
      End(Draining());
    } else {
      ReadNext();
    }
  }

 private:
  absl::Status Admit() {
    if (!admitted_) return Draining();
    MEMORYD_RETURN_IF_ERROR(CheckDeadline(*rpc_, start_));
    MEMORYD_ASSIGN_OR_RETURN(caller_, CallerOf(environment_, *rpc_));
    trace_ = TraceOf(*rpc_);
    MEMORYD_RETURN_IF_ERROR(Authorize(environment_, caller_, Method::kStreamAll));
    MEMORYD_RETURN_IF_ERROR(rpc_->ChargeTo(caller_.tenant));
    MEMORYD_ASSIGN_OR_RETURN(place_, environment_.tenants->Enter(caller_.tenant));
    return absl::OkStatus();
  }

  absl::Status Prepare(std::string_view bytes) {
    v1::StreamAllRequest request;
    MEMORYD_ASSIGN_OR_RETURN(const MemoryBudget::Hold hold, ParseRequest(*rpc_, bytes, request));
    page_.key = {caller_.tenant, request.session_id()};
    MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
    asked_session_ = request.session_id();
    MEMORYD_RETURN_IF_ERROR(
        SetFilter(v1::MESSAGE_STATUS_UNSPECIFIED, *request.mutable_filter(), page_));
    MEMORYD_RETURN_IF_ERROR(SetOrder(request.order(), page_));
    if (request.page_size() < 0) return InvalidField("page_size", "must be at least 0");
    page_.max_messages =
        request.page_size() == 0 ? kMaxPageSize : std::min(request.page_size(), kMaxPageSize);
    page_.include_contents =
        request.include_contents() && request.filter().status() == v1::MESSAGE_STATUS_UNSPECIFIED;
    scope_ = PageScope("StreamAll", page_, request.filter());
    return SetPlace(scope_, request.page_token(), page_);
  }

  void ReadNext() {
    if (caller_.subject.empty()) {
      ReadPage();
      return;
    }
    LookAtOwner([](PageStream& self, const SessionOwner& owner) {
      self.owner_ = owner;
      if (owner.IsOfOther(self.caller_.subject)) self.page_.key.session = kNobodysSession;
      self.ReadPage();
      return absl::OkStatus();
    });
  }

  // Of a caller of one subject, before a page is read and after; see docs/adr/0064.
  void LookAtOwner(std::function<absl::Status(PageStream&, const SessionOwner&)> then) {
    if (!environment_.owner_of) {
      End(SubjectNotGranted("session_id"));
      return;
    }
    environment_.owner_of(
        {caller_.tenant, asked_session_},
        {std::chrono::steady_clock::now() + kMaxDeadline, shared_from_this()},
        [self = shared_from_this(), then = std::move(then)](absl::StatusOr<SessionOwner> owner) {
          absl::Status status = owner.status();
          try {
            if (status.ok()) status = then(*self, *owner);
          } catch (...) {
            status = CaughtException();
          }
          if (!status.ok()) self->End(status);
        });
  }

  void ReadPage() {
    engine_.reads().ReadPage(
        page_, {std::chrono::steady_clock::now() + kMaxDeadline, shared_from_this()},
        [self = shared_from_this()](absl::StatusOr<Page> page) { self->Confirm(std::move(page)); });
  }

  void Confirm(absl::StatusOr<Page> page) {
    // What is read of nobody's session is of nobody, whatever becomes of the other.
    if (caller_.subject.empty() || !page.ok() || page_.key.session == kNobodysSession) {
      Send(std::move(page));
      return;
    }
    LookAtOwner([read = std::make_shared<Page>(*std::move(page))](PageStream& self,
                                                                  const SessionOwner& owner) {
      if (!WasOf(self.caller_.subject, self.owner_, owner)) return SubjectChanged();
      self.Send(std::move(*read));
      return absl::OkStatus();
    });
  }

  void Send(absl::StatusOr<Page> page) {
    if (page.ok() && rpc_->IsCancelled()) page = absl::CancelledError("the call was cancelled");
    if (!page.ok()) {
      End(page.status());
      return;
    }
    if (!page_.generation.has_value() || page_.until_position == 0) {
      page_.generation = page->row.generation;
      page_.until_position = page->row.next_position;
      // That of an earlier stream, where the token has one.
      if (page_.until_content == 0) page_.until_content = page->row.next_content;
    }
    page_.from_position = page->next_position;
    page_.from_content = page->next_content;
    last_ = page->next_position == 0 && page->next_content == 0;
    absl::Status status;
    try {
      status = SendPage(*page);
    } catch (...) {
      status = CaughtException();
    }
    if (!status.ok()) End(status);
  }

  absl::Status SendPage(Page& page) {
    const std::string token = NextToken(scope_, page);
    // Counted as the reply from here on, which fits wherever the page did.
    page.memory.Release();
    // The two replies have the same fields.
    MEMORYD_ASSIGN_OR_RETURN(
        MemoryBudget::Hold hold,
        rpc_->Take(MemoryUse::kReplies, static_cast<std::int64_t>(GetAllReplySize(page, token))));
    rpc_->Send(GetAllReply(page, token), std::move(hold));
    return absl::OkStatus();
  }

  void End(const absl::Status& status) {
    if (ended_.exchange(true)) return;
    const auto took = std::chrono::steady_clock::now() - start_;
    environment_.stats->Ended(Method::kStreamAll, status.code(), took);
    ExportSpan(environment_, Method::kStreamAll, trace_, status, took);
    const bool logged = environment_.log->Wants(status.code());
    std::string request_id;
    if (logged || !status.ok()) {
      request_id = RequestId(rpc_->metadata().request_id);
      if (logged) {
        environment_.log->Write({Method::kStreamAll, status, took, request_id,
                                 TraceId(rpc_->metadata().traceparent), caller_.tenant,
                                 asked_session_, trace_.get()});
      }
    }
    place_ = {};
    rpc_->Finish(status, request_id);
  }

  Engine& engine_;
  const CallEnvironment environment_;
  const RpcCallPtr rpc_;
  const bool admitted_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Caller caller_;
  TracePtr trace_;  // Null until the caller is known.
  TenantLimiter::Place place_;
  PageRequest page_;  // The next one.
  std::string asked_session_;
  SessionOwner owner_;  // Before the page was read; of a caller of one subject.
  std::string scope_;
  bool last_ = false;
  std::atomic<bool> ended_{false};
};

}  // namespace

void RunPageStream(Engine& engine, const CallEnvironment& environment, RpcCallPtr rpc) {
  std::make_shared<PageStream>(engine, environment, std::move(rpc))->Begin();
}

}  // namespace memoryd
