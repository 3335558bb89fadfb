#include "server/rpc/session_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/lifecycle/session_fork.h"
#include "core/lifecycle/subject_erase.h"
#include "core/reads/session_reads.h"
#include "core/sessions/session_errors.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/writes/commands/sessions.h"
#include "core/writes/write.h"
#include "server/access/authenticator.h"
#include "server/rpc/import_stream.h"
#include "server/rpc/reply.h"
#include "server/rpc/run_unary.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/write_call.h"
#include "server/wire/field_checks.h"
#include "server/wire/method.h"
#include "server/wire/page_token.h"
#include "server/wire/rpc_call.h"

namespace memoryd {
namespace {

template <typename Request>
using Call = std::shared_ptr<ParsedCall<Request>>;

// OK when the caller may ask about all that is of `subject`; empty: of any.
absl::Status CheckSubject(const Caller& caller, std::string_view subject) {
  if (caller.subject.empty() || caller.subject == subject) return absl::OkStatus();
  return SubjectNotGranted("subject");
}

std::string EraseSubjectReply(const EraseReceipt& receipt, bool dry_run) {
  v1::EraseSubjectResponse reply;
  reply.set_session_count(receipt.removed.sessions);
  reply.set_message_count(receipt.removed.messages);
  reply.set_content_count(receipt.removed.contents);
  reply.set_block_count(receipt.removed.blocks);
  reply.set_entry_count(receipt.removed.entries);
  reply.set_job_count(receipt.removed.jobs);
  reply.set_reply_count(receipt.replies);
  reply.set_namespace_count(receipt.namespaces);
  reply.set_item_count(receipt.items);
  reply.set_purged(receipt.purged);
  reply.set_left_reason(receipt.left);
  reply.set_left_elsewhere(receipt.left_elsewhere);
  reply.set_dry_run(dry_run);
  return reply.SerializeAsString();
}

absl::StatusOr<bool> IsLatestFirst(const v1::ListSessionsRequest& request) {
  switch (request.order()) {
    case v1::SESSION_ORDER_UNSPECIFIED:
    case v1::SESSION_ORDER_ID:
      return false;
    case v1::SESSION_ORDER_LAST_CHANGE:
      if (!request.subject().empty()) return true;
      return InvalidField("order",
                          "SESSION_ORDER_LAST_CHANGE needs a subject; name one, or list "
                          "by SESSION_ORDER_ID");
    default:
      return InvalidField("order", "must be SESSION_ORDER_ID or SESSION_ORDER_LAST_CHANGE");
  }
}

// All that a token is bound to. Without what is empty, as servers wrote it before there was more.
std::string ListScope(const SessionListRequest& list) {
  std::string scope = fmt::format("ListSessions/{}", list.tenant);
  if (!list.subject.empty()) scope.append(1, '\0').append(list.subject);
  if (!list.id_prefix.empty()) scope.append("\0prefix\0", 8).append(list.id_prefix);
  if (list.latest_first) scope.append("\0latest", 7);
  return scope;
}

// A place by the last change has its time ahead of the id.
std::string EncodePlace(std::string_view scope, const std::pair<std::string, SessionInfo>& last,
                        bool latest_first) {
  if (!latest_first) return EncodeListToken(scope, last.first);
  return EncodeListToken(scope, fmt::format("{} {}", last.second.row.update_us, last.first));
}

absl::StatusOr<LatestPlace> DecodePlace(std::string_view scope, std::string_view token,
                                        bool latest_first) {
  LatestPlace place;
  MEMORYD_ASSIGN_OR_RETURN(place.session, DecodeListToken(scope, token));
  if (latest_first) {
    const std::size_t space = std::min(place.session.find(' '), place.session.size());
    if (!absl::SimpleAtoi(place.session.substr(0, space), &place.update_us)) {
      return InvalidField("page_token", "is not a token of this request");
    }
    place.session.erase(0, space + 1);
  }
  MEMORYD_RETURN_IF_ERROR(CheckId("page_token", place.session, kMaxSessionId));
  return place;
}

}  // namespace

void SessionService::AddTo(RpcMethods& methods) {
  methods.Add(Method::kCreateSession, this, &SessionService::CreateSession);
  methods.Add(Method::kGetSession, this, &SessionService::GetSession);
  methods.Add(Method::kListSessions, this, &SessionService::ListSessions);
  methods.Add(Method::kUpdateSession, this, &SessionService::UpdateSession);
  methods.Add(Method::kDeleteSession, this, &SessionService::DeleteSession);
  methods.Add(Method::kForkSession, this, &SessionService::ForkSession);
  methods.Add(Method::kImportSession, this, &SessionService::ImportSession);
  methods.Add(Method::kEraseSubject, this, &SessionService::EraseSubject);
}

void SessionService::CreateSession(RpcCallPtr rpc) {
  RunUnary<v1::CreateSessionRequest>(
      environment_, Method::kCreateSession, std::move(rpc),
      [this](const Call<v1::CreateSessionRequest>& call) -> absl::Status {
        WriteRequest write;
        auto& create = write.command.emplace<commands::CreateSession>();
        write.encode_reply = &CreateSessionReply;
        MEMORYD_RETURN_IF_ERROR(TakeConfig(call->request(), create.config));
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write),
                    v1::CreateSessionResponse::kReplayedFieldNumber, /*with_session_id=*/true);
        return absl::OkStatus();
      });
}

void SessionService::GetSession(RpcCallPtr rpc) {
  RunUnary<v1::GetSessionRequest>(
      environment_, Method::kGetSession, std::move(rpc),
      [this](const Call<v1::GetSessionRequest>& call) -> absl::Status {
        const std::string& session_id = call->request().session_id();
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(session_id));
        engine_.reads().GetSession(
            {call->tenant(), session_id}, EndOf(call), [call](absl::StatusOr<SessionInfo> info) {
              if (!info.ok()) {
                call->Fail(info.status());
              } else if (!info->exists()) {
                call->Fail(SessionNotFound());
              } else {
                call->Succeed(GetSessionReply(call->request().session_id(), *info));
              }
            });
        return absl::OkStatus();
      });
}

void SessionService::ListSessions(RpcCallPtr rpc) {
  RunUnary<v1::ListSessionsRequest>(
      environment_, Method::kListSessions, std::move(rpc),
      [this](const Call<v1::ListSessionsRequest>& call) -> absl::Status {
        MEMORYD_ASSIGN_OR_RETURN(const std::int64_t size, PageSize(call->request().page_size()));
        const v1::ListSessionsRequest& request = call->request();
        const std::string& subject = request.subject();
        MEMORYD_RETURN_IF_ERROR(CheckSubject(call->caller(), subject));
        if (!subject.empty()) {
          MEMORYD_RETURN_IF_ERROR(CheckId("subject", subject, kMaxSubjectBytes));
        }
        if (!request.id_prefix().empty()) {
          MEMORYD_RETURN_IF_ERROR(CheckId("id_prefix", request.id_prefix(), kMaxSessionId));
        }
        MEMORYD_ASSIGN_OR_RETURN(const bool latest_first, IsLatestFirst(request));
        SessionListRequest list{.tenant = call->tenant(),
                                .subject = subject,
                                .id_prefix = request.id_prefix(),
                                .latest_first = latest_first,
                                .max_sessions = size};
        std::string scope = ListScope(list);
        if (!request.page_token().empty()) {
          MEMORYD_ASSIGN_OR_RETURN(list.after,
                                   DecodePlace(scope, request.page_token(), latest_first));
        }
        engine_.reads().ListSessions(
            std::move(list), EndOf(call),
            [call, scope = std::move(scope), latest_first](absl::StatusOr<SessionList> listed) {
              if (!listed.ok()) {
                call->Fail(listed.status());
                return;
              }
              std::string token;
              if (listed->more) token = EncodePlace(scope, listed->sessions.back(), latest_first);
              call->Succeed(ListSessionsReply(listed->sessions, token));
            });
        return absl::OkStatus();
      });
}

void SessionService::UpdateSession(RpcCallPtr rpc) {
  RunUnary<v1::UpdateSessionRequest>(
      environment_, Method::kUpdateSession, std::move(rpc),
      [this](const Call<v1::UpdateSessionRequest>& call) -> absl::Status {
        WriteRequest write;
        auto& update = write.command.emplace<commands::UpdateSession>();
        write.encode_reply = &UpdateSessionReply;
        MEMORYD_RETURN_IF_ERROR(TakeConfig(call->request(), update.config));
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write),
                    v1::UpdateSessionResponse::kReplayedFieldNumber, /*with_session_id=*/true);
        return absl::OkStatus();
      });
}

void SessionService::DeleteSession(RpcCallPtr rpc) {
  RunUnary<v1::DeleteSessionRequest>(
      environment_, Method::kDeleteSession, std::move(rpc),
      [this](const Call<v1::DeleteSessionRequest>& call) -> absl::Status {
        WriteRequest write;
        write.command = commands::DeleteSession();
        write.encode_reply = &DeleteSessionReply;
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write),
                    v1::DeleteSessionResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

void SessionService::ForkSession(RpcCallPtr rpc) {
  RunUnary<v1::ForkSessionRequest>(
      environment_, Method::kForkSession, std::move(rpc),
      [this](const Call<v1::ForkSessionRequest>& call) -> absl::Status {
        const v1::ForkSessionRequest& request = call->request();
        ForkRequest fork;
        fork.source = {call->tenant(), request.session_id()};
        fork.target = {call->tenant(), request.new_session_id()};
        fork.deadline = call->deadline();
        fork.encode_reply = &ForkSessionReply;
        MEMORYD_RETURN_IF_ERROR(CheckId("new_session_id", request.new_session_id(), kMaxSessionId));
        MEMORYD_RETURN_IF_ERROR(CheckNewName("new_session_id", request.new_session_id()));
        switch (request.up_to_case()) {
          case v1::ForkSessionRequest::kUpToPosition:
            if (request.up_to_position() < 1) {
              return InvalidField("up_to_position", "must be at least 1");
            }
            fork.up_to_position = request.up_to_position();
            break;
          case v1::ForkSessionRequest::kUpToMessageId:
            MEMORYD_RETURN_IF_ERROR(
                CheckId("up_to_message_id", request.up_to_message_id(), kMaxIdBytes));
            fork.up_to_message_id = request.up_to_message_id();
            break;
          case v1::ForkSessionRequest::UP_TO_NOT_SET:
            break;
        }
        WriteRequest checked;
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, checked));
        fork.expected_revision = checked.expected_revision;
        fork.request_id = std::move(checked.request_id);
        fork.fingerprint = std::move(checked.fingerprint);
        fork.subject = std::move(checked.subject);
        engine_.lifecycle().ForkSession(std::move(fork), [call](absl::StatusOr<ForkReply> forked) {
          if (!forked.ok()) {
            call->Fail(forked.status());
            return;
          }
          std::string reply =
              WithSessionId(std::move(forked->reply), call->request().new_session_id());
          if (forked->replayed) {
            reply = Replayed(std::move(reply), v1::ForkSessionResponse::kReplayedFieldNumber);
          }
          call->Succeed(ReplyFor(*call, std::move(reply)));
        });
        return absl::OkStatus();
      });
}

void SessionService::ImportSession(RpcCallPtr rpc) {
  RunSessionImport(engine_, environment_, std::move(rpc));
}

void SessionService::EraseSubject(RpcCallPtr rpc) {
  RunUnary<v1::EraseSubjectRequest>(
      environment_, Method::kEraseSubject, std::move(rpc),
      [this](const Call<v1::EraseSubjectRequest>& call) -> absl::Status {
        const v1::EraseSubjectRequest& request = call->request();
        MEMORYD_RETURN_IF_ERROR(CheckId("subject", request.subject(), kMaxSubjectBytes));
        MEMORYD_RETURN_IF_ERROR(CheckSubject(call->caller(), request.subject()));
        if (!request.dry_run() && !call->caller().roles.any()) {
          return Error(
              absl::StatusCode::kPermissionDenied, "ROLE_NOT_GRANTED",
              "the credential may write messages of some roles alone, and an erasure takes "
              "those of all");
        }
        engine_.lifecycle().EraseSubject(
            {call->tenant(), request.subject(), request.dry_run(), call->deadline()},
            [call](absl::StatusOr<EraseReceipt> receipt) {
              if (!receipt.ok()) {
                call->Fail(receipt.status());
              } else {
                call->Succeed(EraseSubjectReply(*receipt, call->request().dry_run()));
              }
            });
        return absl::OkStatus();
      });
}

}  // namespace memoryd
