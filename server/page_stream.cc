#include "server/page_stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/status_macros.h"
#include "server/convert.h"
#include "server/filter.h"
#include "server/grpc_status.h"
#include "server/limits.h"
#include "server/reply.h"

namespace memoryd {
namespace {

absl::Status Draining() {
  return Error(absl::StatusCode::kUnavailable, "DRAINING",
               "the server is going away; go on with page_token at another, or try again");
}

// Either a page is being read or one is being written, and whichever ends goes on, or finishes.
class PageStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                         public std::enable_shared_from_this<PageStream> {
 public:
  PageStream(Engine& engine, const CallEnvironment& environment,
             grpc::CallbackServerContext* context)
      : engine_(engine),
        environment_(environment),
        context_(*context),
        admitted_(environment.calls->Enter()) {
    if (!admitted_) environment_.stats->RefusedDraining();
  }

  ~PageStream() override {
    if (admitted_) environment_.calls->Leave();
  }

  void Begin(const grpc::ByteBuffer& bytes) {
    self_ = shared_from_this();
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

  void OnWriteDone(bool ok) override {
    writing_.exchange(false, std::memory_order_acquire);
    if (!ok) {
      End(absl::CancelledError("the call was cancelled"));
    } else if (last_) {
      End(absl::OkStatus());
    } else if (environment_.calls->draining()) {
      End(Draining());
    } else {
      ReadNext();
    }
  }

  // What is under way ends by itself, and says so.
  void OnCancel() override {}

  void OnDone() override { self_.reset(); }

 private:
  absl::Status Prepare(const grpc::ByteBuffer& bytes) {
    if (!admitted_) return Draining();
    MEMORYD_ASSIGN_OR_RETURN(caller_, CallerOf(environment_, context_));
    trace_ = TraceOf(context_);
    MEMORYD_RETURN_IF_ERROR(Authorize(environment_, caller_, Method::kStreamAll));
    MEMORYD_ASSIGN_OR_RETURN(place_, environment_.tenants->Enter(caller_.tenant));
    v1::StreamAllRequest request;
    MEMORYD_RETURN_IF_ERROR(UnaryCall::Parse(bytes, request));
    page_.key = {caller_.tenant, request.session_id()};
    MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
    MEMORYD_RETURN_IF_ERROR(
        SetFilter(v1::MESSAGE_STATUS_UNSPECIFIED, *request.mutable_filter(), page_));
    if (request.page_size() < 0) return InvalidField("page_size", "must be at least 0");
    page_.max_messages =
        request.page_size() == 0 ? kMaxPageSize : std::min(request.page_size(), kMaxPageSize);
    page_.include_contents =
        request.include_contents() && request.filter().status() == v1::MESSAGE_STATUS_UNSPECIFIED;
    scope_ = PageScope("StreamAll", page_, request.filter());
    return SetPlace(scope_, request.page_token(), page_);
  }

  void ReadNext() {
    engine_.ReadPage(
        page_, std::chrono::steady_clock::now() + kMaxDeadline,
        [self = shared_from_this()](absl::StatusOr<Page> page) { self->Send(std::move(page)); });
  }

  void Send(absl::StatusOr<Page> page) {
    if (page.ok() && context_.IsCancelled()) page = absl::CancelledError("the call was cancelled");
    if (!page.ok()) {
      End(page.status());
      return;
    }
    if (!page_.generation.has_value() || page_.until_position == 0) {
      page_.generation = page->row.generation;
      page_.until_position = page->row.next_position;
      page_.until_content = page->row.next_content;
    }
    page_.from_position = page->next_position;
    page_.from_content = page->next_content;
    last_ = page->next_position == 0 && page->next_content == 0;
    try {
      // The two replies have the same fields.
      const grpc::Slice slice(GetAllReply(*page, NextToken(scope_, *page)));
      out_ = grpc::ByteBuffer(&slice, 1);
    } catch (...) {
      End(CaughtException());
      return;
    }
    writing_.store(true, std::memory_order_release);
    StartWrite(&out_);
  }

  void End(const absl::Status& status) {
    const auto took = std::chrono::steady_clock::now() - start_;
    environment_.stats->Ended(Method::kStreamAll, status.code(), took);
    ExportSpan(environment_, Method::kStreamAll, trace_, status, took);
    const bool logged = environment_.log->Wants(status.code());
    if (logged || !status.ok()) {
      const std::string request_id = RequestId(CallMetadata(context_, "x-request-id"));
      if (!status.ok()) context_.AddTrailingMetadata("x-request-id", request_id);
      if (logged) {
        environment_.log->Write({Method::kStreamAll, status, took, request_id,
                                 TraceId(CallMetadata(context_, "traceparent")), caller_.tenant,
                                 page_.key.session, trace_.get()});
      }
    }
    place_ = {};
    Finish(ToGrpcStatus(status));
  }

  Engine& engine_;
  const CallEnvironment environment_;
  // Lives until OnDone().
  grpc::CallbackServerContext& context_;
  const bool admitted_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  Caller caller_;
  TracePtr trace_;  // Null until the caller is known.
  TenantLimiter::Place place_;
  PageRequest page_;  // The next one.
  std::string scope_;
  grpc::ByteBuffer out_;
  bool last_ = false;
  // That a write ends after it began is gRPC's doing, and not to be seen by ThreadSanitizer in
  // there.
  std::atomic<bool> writing_ = false;
  std::shared_ptr<PageStream> self_;  // Until gRPC is done with it.
};

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* RunPageStream(Engine& engine,
                                                          const CallEnvironment& environment,
                                                          grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request) {
  const auto stream = std::make_shared<PageStream>(engine, environment, context);
  stream->Begin(*request);
  return stream.get();
}

}  // namespace memoryd
