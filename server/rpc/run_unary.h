// A unary call from its headers to its handler.
#ifndef MEMORYD_SERVER_RPC_RUN_UNARY_H_
#define MEMORYD_SERVER_RPC_RUN_UNARY_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/failpoint.h"
#include "core/sessions/session_errors.h"
#include "server/rpc/subject_gate.h"
#include "server/rpc/unary_call.h"
#include "server/wire/field_checks.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"

namespace memoryd {

// A call from when its request has come.
template <typename Request, typename Handler>
class HandledCall : public ParsedCall<Request>,
                    public std::enable_shared_from_this<HandledCall<Request, Handler>> {
 public:
  HandledCall(const CallEnvironment& environment, Method method, RpcCallPtr rpc, Handler handler)
      : ParsedCall<Request>(environment, method, std::move(rpc)), handler_(std::move(handler)) {}
  // Of a request that `rpc` keeps.
  HandledCall(const CallEnvironment& environment, Method method, RpcCallPtr rpc, Handler handler,
              Request& request)
      : ParsedCall<Request>(environment, method, std::move(rpc), request),
        handler_(std::move(handler)) {}

  // Hands the call to its handler: at once, or when it is known whose session it is about. The
  // status is that of a handler.
  absl::Status Handle() {
    const std::shared_ptr<HandledCall> self = this->shared_from_this();
    try {
      return this->caller().subject.empty() ? handler_(AsParsed(self)) : HandleOfSubject(self);
    } catch (...) {
      return CaughtException();
    }
  }

  // As the caller has named it.
  std::string_view session_id() const override {
    return asked_session_.empty() ? ParsedCall<Request>::session_id() : asked_session_;
  }

 protected:
  bool Confirm(std::string& reply) override {
    if constexpr (requires(Request request) { request.set_session_id(""); }) {
      if (!owner_.has_value()) return false;
      const SessionOwner before = *std::exchange(owner_, std::nullopt);
      const std::shared_ptr<HandledCall> self = this->shared_from_this();
      LookAtOwner([self, before,
                   reply = std::move(reply)](const absl::StatusOr<SessionOwner>& after) mutable {
        if (!after.ok()) {
          self->Fail(after.status());
        } else if (WasOf(self->caller().subject, before, *after)) {
          self->Succeed(std::move(reply));
        } else {
          self->Fail(SubjectChanged());
        }
      });
      return true;
    }
    return false;
  }

 private:
  static std::shared_ptr<ParsedCall<Request>> AsParsed(const std::shared_ptr<HandledCall>& call) {
    return call;
  }

  void LookAtOwner(std::function<void(absl::StatusOr<SessionOwner>)> done) {
    this->environment().owner_of({this->tenant(), asked_session_}, EndOf(this->shared_from_this()),
                                 std::move(done));
  }

  // The handler of a caller of one subject. What reads a session of another reads one that nobody
  // has. Writes are refused here before they look at anything, and decided in SessionDraft::Add().
  absl::Status HandleOfSubject(const std::shared_ptr<HandledCall>& self) {
    const MethodTraits& method = TraitsOf(this->method());
    if (method.reach == Reach::kServer || method.reach == Reach::kSubject ||
        method.reach == Reach::kNamespace || method.reach == Reach::kParts) {
      return handler_(AsParsed(self));
    }
    if constexpr (requires(Request request) { request.set_session_id(""); }) {
      // Else the handler says what is wrong with it.
      if (!CheckSessionId(this->request().session_id()).ok()) return handler_(AsParsed(self));
      if (method.reach == Reach::kSession && this->environment().owner_of) {
        asked_session_ = this->request().session_id();
        LookAtOwner([self](const absl::StatusOr<SessionOwner>& owner) { self->Go(owner); });
        return absl::OkStatus();
      }
    }
    return SubjectNotGranted("subject");
  }

  void Go(const absl::StatusOr<SessionOwner>& owner) {
    absl::Status status = owner.status();
    try {
      if (status.ok()) {
        const bool reads = TraitsOf(this->method()).right == Right::kRead;
        const bool of_other = owner->IsOfOther(this->caller().subject);
        if constexpr (requires(Request request) { request.set_session_id(""); }) {
          if (reads && of_other) {
            this->mutable_request().set_session_id(std::string(kNobodysSession));
          }
        }
        // What is read of nobody's session is of nobody, whatever becomes of the other.
        if (reads && !of_other) owner_ = *owner;
        status = !reads && of_other ? SubjectNotGranted("session_id")
                                    : handler_(AsParsed(this->shared_from_this()));
      }
    } catch (...) {
      status = CaughtException();
    }
    if (!status.ok()) this->Fail(status);
  }

  Handler handler_;
  // Of a caller of one subject: the session that it has named, and whose that was before it is
  // read.
  std::string asked_session_;
  std::optional<SessionOwner> owner_;
};

// A call until its request has come.
template <typename Request, typename Handler>
class AwaitedCall final : public HandledCall<Request, Handler>, public RpcHandler {
 public:
  using HandledCall<Request, Handler>::HandledCall;

  void OnMessage(std::string_view bytes) override {
    // A large message is read on another thread, and the call may be cancelled meanwhile.
    if (taken_.exchange(true)) return;
    // From now on only what works on the call refers to it.
    const std::shared_ptr<HandledCall<Request, Handler>> self = this->shared_from_this();
    this->rpc().SetHandler(nullptr);
    absl::Status status;
    try {
      status = this->Parse(bytes);
      if (status.ok()) {
        ReachFailpoint("request_parsed");
        status = this->Handle();
      }
    } catch (...) {
      status = CaughtException();
    }
    if (!status.ok()) this->Fail(status);
  }

  void OnReadEnd(const absl::Status& status) override {
    if (taken_.exchange(true)) return;
    const std::shared_ptr<HandledCall<Request, Handler>> self = this->shared_from_this();
    this->rpc().SetHandler(nullptr);
    this->Fail(status.ok() ? Error(absl::StatusCode::kInvalidArgument, "MALFORMED_REQUEST",
                                   "the call ended without a request")
                           : WithLargeFields(status, *Request::descriptor()));
  }

  // Nobody waits for the answer, but the place among the calls is free again.
  void OnCancel() override {
    if (!taken_.exchange(true)) this->Fail(absl::CancelledError("the call was cancelled"));
  }

 private:
  // Who sets it decides what becomes of the call.
  std::atomic<bool> taken_{false};
};

// Admits the call, then waits for its request, parses it and hands the call to
// `handler(std::shared_ptr<ParsedCall<Request>>) -> absl::Status`. A handler that returns an error,
// or throws, has finished the call with it; one that returns OK finishes it itself, now or later.
// Handlers must not block.
template <typename Request, typename Handler>
void RunUnary(const CallEnvironment& environment, Method method, RpcCallPtr rpc, Handler handler) {
  auto call =
      std::make_shared<AwaitedCall<Request, Handler>>(environment, method, rpc, std::move(handler));
  absl::Status status;
  try {
    status = call->Admit();
  } catch (...) {
    status = CaughtException();
  }
  if (!status.ok()) {
    call->Fail(status);
    return;
  }
  rpc->SetHandler(std::move(call));
  rpc->Read();
}

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_RUN_UNARY_H_
