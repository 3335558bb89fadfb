// What all writes have in common on their way from the wire to the engine.
#ifndef MEMORYD_SERVER_RPC_WRITE_CALL_H_
#define MEMORYD_SERVER_RPC_WRITE_CALL_H_

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/fact_state.h"
#include "core/engine/engine.h"
#include "server/rpc/reply.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/write_only_reply.h"
#include "server/settings/limits.h"
#include "server/wire/convert.h"
#include "server/wire/convert_config.h"
#include "server/wire/field_checks.h"

namespace memoryd {

// Null for a caller that its rights alone limit.
inline std::shared_ptr<const CallerLimits> LimitsOf(const Caller& caller) {
  if (!caller.IsLimited()) return nullptr;
  auto limits = std::make_shared<CallerLimits>();
  if (!caller.roles.any()) {
    limits->may_write = [roles = caller.roles](std::string_view role) { return roles.Has(role); };
  }
  limits->max_trust = caller.untrusted           ? kUntrustedTrust
                      : caller.roles.Has("user") ? kUserTrust
                                                 : kOtherTrust;
  return limits;
}

// Of a request in its checked form.
template <typename Request>
void DiscardUnknownFields(Request& request) {
  request.DiscardUnknownFields();
}
// Without a walk by reflection, see docs/adr/0024: FromProto() has gone through messages and
// contents, and the time to wait is cleared.
template <>
inline void DiscardUnknownFields(v1::PutRequest& request) {
  if (!request.GetReflection()->GetUnknownFields(request).empty()) {
    request.GetReflection()->MutableUnknownFields(&request)->Clear();
  }
  if (request.has_config()) request.mutable_config()->DiscardUnknownFields();
}

// Fills in key, deadline, idempotency, precondition and limits. Call it last: the fingerprint
// covers the request in its checked form.
template <typename Request>
absl::Status FinishWriteRequest(const std::shared_ptr<ParsedCall<Request>>& call,
                                WriteRequest& write) {
  Request& request = call->mutable_request();
  MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
  write.key = {call->tenant(), request.session_id()};
  write.byte_size = request.ByteSizeLong();
  MEMORYD_RETURN_IF_ERROR(call->TakeMore(DecodedBytes(write.RowCount())));
  write.deadline = call->deadline();
  write.trace = call->trace();
  write.limits = LimitsOf(call->caller());
  write.subject = call->caller().subject;
  if constexpr (requires { request.expected_revision(); }) {
    if (request.has_expected_revision()) {
      if (request.expected_revision() < 0) {
        return InvalidField("expected_revision", "must be at least 0");
      }
      write.expected_revision = request.expected_revision();
    }
  }
  if (request.has_request_id()) {
    MEMORYD_RETURN_IF_ERROR(CheckId("request_id", request.request_id(), 128));
    write.request_id = request.request_id();
    request.clear_request_id();
    DiscardUnknownFields(request);
    // Of another subject's caller it is another request: he is not told the first one's reply.
    write.fingerprint = Fingerprint(
        write.subject.empty() ? std::string(TraitsOf(call->method()).name)
                              : fmt::format("{}/{}", TraitsOf(call->method()).name, write.subject),
        request);
  }
  return absl::OkStatus();
}

// Takes over what a request says of how a session is to remember.
template <typename Request>
absl::Status TakeConfig(const Request& request, RequestedConfig& config) {
  if (request.template_().empty()) {
    if (request.has_config()) {
      MEMORYD_ASSIGN_OR_RETURN(config.settings, FromProto(request.config()));
    }
    return absl::OkStatus();
  }
  MEMORYD_RETURN_IF_ERROR(CheckId("template", request.template_(), kMaxIdBytes));
  config.template_name = request.template_();
  if (request.has_config()) {
    MEMORYD_ASSIGN_OR_RETURN(config.settings, FromConfigBesideTemplate(request.config()));
  }
  return absl::OkStatus();
}

inline Provenance ProvenanceOf(const Caller& caller) {
  return {caller.principal, caller.untrusted};
}

// PERMISSION_DENIED `ROLE_NOT_GRANTED` that names the message whose role the caller may not write.
inline absl::Status CheckRoles(const Caller& caller, std::span<const IncomingMessage> messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (caller.roles.Has(messages[i].role)) continue;
    const std::string field = fmt::format("messages[{}].role", i);
    return Error(absl::StatusCode::kPermissionDenied, "ROLE_NOT_GRANTED",
                 field + ": the credential may not write messages of this role",
                 {{"field", field}});
  }
  return absl::OkStatus();
}

// `reply` as the caller may see it.
template <typename Request>
std::string ReplyFor(const ParsedCall<Request>& call, std::string reply) {
  if (call.caller().rights.Has(Right::kRead)) return reply;
  const v1::SessionConfig* sent = nullptr;
  if constexpr (requires { sent = &call.request().config(); }) {
    if (call.request().has_config()) sent = &call.request().config();
  }
  return WithoutStoredText(call.method(), std::move(reply), sent);
}

// Submits `write` and finishes `call` with what becomes of it. `replayed_field` is the number of
// the reply's `replayed` field.
template <typename Request>
void SubmitWrite(Engine& engine, std::shared_ptr<ParsedCall<Request>> call, WriteRequest write,
                 int replayed_field, bool with_session_id = false) {
  engine.Submit(std::move(write),
                [call, replayed_field, with_session_id](absl::StatusOr<WriteReply> done) {
                  if (!done.ok()) {
                    call->Fail(done.status());
                    return;
                  }
                  std::string reply = std::move(done->encoded);
                  if (with_session_id) {
                    reply = WithSessionId(std::move(reply), call->request().session_id());
                  }
                  if (done->replayed) reply = Replayed(std::move(reply), replayed_field);
                  call->Succeed(ReplyFor(*call, std::move(reply)));
                });
}

// 0 means the default; more than the limit means the limit.
inline absl::StatusOr<std::int64_t> PageSize(std::int32_t page_size) {
  if (page_size < 0) return InvalidField("page_size", "must be at least 0");
  return page_size == 0 ? kDefaultPageSize : std::min(page_size, kMaxPageSize);
}

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_WRITE_CALL_H_
