#include "server/session_service.h"

#include <fmt/format.h>

#include "server/page_token.h"
#include "server/write_call.h"

namespace memoryd {
namespace {

template <typename Request>
using Call = std::shared_ptr<ParsedCall<Request>>;

}  // namespace

grpc::ServerUnaryReactor* SessionService::CreateSession(Context* context, const Bytes* bytes,
                                                        Bytes* response) {
  return RunUnary<v1::CreateSessionRequest>(
      environment_, Method::kCreateSession, context, bytes, response,
      [this](const Call<v1::CreateSessionRequest>& call) -> absl::Status {
        WriteRequest write;
        write.kind = WriteKind::kCreateSession;
        write.encode_reply = &CreateSessionReply;
        MEMORYD_ASSIGN_OR_RETURN(write.settings, FromProto(call->request().config()));
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write),
                    v1::CreateSessionResponse::kReplayedFieldNumber, /*with_session_id=*/true);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* SessionService::GetSession(Context* context, const Bytes* bytes,
                                                     Bytes* response) {
  return RunUnary<v1::GetSessionRequest>(
      environment_, Method::kGetSession, context, bytes, response,
      [this](const Call<v1::GetSessionRequest>& call) -> absl::Status {
        const std::string& session_id = call->request().session_id();
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(session_id));
        engine_.GetSession({call->tenant(), session_id}, call->deadline(),
                           [call](absl::StatusOr<SessionInfo> info) {
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

grpc::ServerUnaryReactor* SessionService::ListSessions(Context* context, const Bytes* bytes,
                                                       Bytes* response) {
  return RunUnary<v1::ListSessionsRequest>(
      environment_, Method::kListSessions, context, bytes, response,
      [this](const Call<v1::ListSessionsRequest>& call) -> absl::Status {
        MEMORYD_ASSIGN_OR_RETURN(const std::int64_t size, PageSize(call->request().page_size()));
        std::string scope = fmt::format("ListSessions/{}", call->tenant());
        std::string after;
        if (!call->request().page_token().empty()) {
          MEMORYD_ASSIGN_OR_RETURN(after, DecodeListToken(scope, call->request().page_token()));
          MEMORYD_RETURN_IF_ERROR(CheckId("page_token", after, kMaxSessionId));
        }
        // One more than the page tells whether there is a next one.
        engine_.ListSessions(
            call->tenant(), std::move(after), size + 1, call->deadline(),
            [call, scope = std::move(scope),
             size](absl::StatusOr<std::vector<std::pair<std::string, SessionInfo>>> sessions) {
              if (!sessions.ok()) {
                call->Fail(sessions.status());
                return;
              }
              std::string token;
              if (static_cast<std::int64_t>(sessions->size()) > size) {
                sessions->pop_back();
                token = EncodeListToken(scope, sessions->back().first);
              }
              call->Succeed(ListSessionsReply(*sessions, token));
            });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* SessionService::UpdateSession(Context* context, const Bytes* bytes,
                                                        Bytes* response) {
  return RunUnary<v1::UpdateSessionRequest>(
      environment_, Method::kUpdateSession, context, bytes, response,
      [this](const Call<v1::UpdateSessionRequest>& call) -> absl::Status {
        WriteRequest write;
        write.kind = WriteKind::kUpdateSession;
        write.encode_reply = &UpdateSessionReply;
        MEMORYD_ASSIGN_OR_RETURN(write.settings, FromProto(call->request().config()));
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write),
                    v1::UpdateSessionResponse::kReplayedFieldNumber, /*with_session_id=*/true);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* SessionService::DeleteSession(Context* context, const Bytes* bytes,
                                                        Bytes* response) {
  return RunUnary<v1::DeleteSessionRequest>(
      environment_, Method::kDeleteSession, context, bytes, response,
      [this](const Call<v1::DeleteSessionRequest>& call) -> absl::Status {
        WriteRequest write;
        write.kind = WriteKind::kDeleteSession;
        write.encode_reply = &DeleteSessionReply;
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write),
                    v1::DeleteSessionResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

}  // namespace memoryd
