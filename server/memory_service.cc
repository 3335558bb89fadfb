#include "server/memory_service.h"

#include <fmt/format.h>

#include "server/page_token.h"
#include "server/write_call.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxInput = std::size_t{1} << 20;

template <typename Request>
using Call = std::shared_ptr<ParsedCall<Request>>;

absl::StatusOr<StatusFilter> Filter(v1::MessageStatus status) {
  switch (status) {
    case v1::MESSAGE_STATUS_UNSPECIFIED:
      return StatusFilter::kAll;
    case v1::MESSAGE_STATUS_ACTIVE:
      return StatusFilter::kActive;
    case v1::MESSAGE_STATUS_ARCHIVED:
      return StatusFilter::kArchived;
    default:
      return InvalidField("status", "is not a known value");
  }
}

}  // namespace

grpc::ServerUnaryReactor* MemoryService::Put(Context* context, const Bytes* bytes,
                                             Bytes* response) {
  return RunUnary<v1::PutRequest>(
      calls_, context, bytes, response, [this](const Call<v1::PutRequest>& call) -> absl::Status {
        v1::PutRequest& request = call->mutable_request();
        WriteRequest write;
        write.kind = WriteKind::kPut;
        write.encode_reply = &PutReply;
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
        MEMORYD_RETURN_IF_ERROR(CheckNoContents(request.contents_size()));
        MEMORYD_ASSIGN_OR_RETURN(write.messages, FromProto(*request.mutable_messages()));
        if (request.has_config()) {
          MEMORYD_ASSIGN_OR_RETURN(write.settings, FromProto(request.config()));
        }
        if (request.has_wait() && (request.wait().seconds() < 0 || request.wait().nanos() < 0)) {
          return InvalidField("wait", "must not be negative");
        }
        request.clear_wait();
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest("Put", call, write));
        SubmitWrite(engine_, call, std::move(write), v1::PutResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* MemoryService::Get(Context* context, const Bytes* bytes,
                                             Bytes* response) {
  return RunUnary<v1::GetRequest>(
      calls_, context, bytes, response, [this](const Call<v1::GetRequest>& call) -> absl::Status {
        const v1::GetRequest& request = call->request();
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
        MEMORYD_RETURN_IF_ERROR(CheckText("input", request.input(), kMaxInput));
        engine_.Get({kDefaultTenant, request.session_id()}, call->deadline(),
                    [call](absl::StatusOr<memoryd::Context> result) {
                      if (!result.ok()) {
                        call->Fail(result.status());
                        return;
                      }
                      absl::StatusOr<std::string> reply = GetReply(*result);
                      if (reply.ok()) {
                        call->Succeed(*std::move(reply));
                      } else {
                        call->Fail(reply.status());
                      }
                    });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* MemoryService::GetAll(Context* context, const Bytes* bytes,
                                                Bytes* response) {
  return RunUnary<v1::GetAllRequest>(
      calls_, context, bytes, response,
      [this](const Call<v1::GetAllRequest>& call) -> absl::Status {
        const v1::GetAllRequest& request = call->request();
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
        PageRequest page;
        page.key = {kDefaultTenant, request.session_id()};
        MEMORYD_ASSIGN_OR_RETURN(page.max_messages, PageSize(request.page_size()));
        MEMORYD_ASSIGN_OR_RETURN(page.filter, Filter(request.status()));
        std::string scope = fmt::format("GetAll/{}/{}/{}", static_cast<int>(page.filter),
                                        page.key.tenant, page.key.session);
        if (!request.page_token().empty()) {
          MEMORYD_ASSIGN_OR_RETURN(const PagePosition position,
                                   DecodePageToken(scope, request.page_token()));
          page.generation = position.generation;
          page.from_position = position.position;
        }
        engine_.ReadPage(
            std::move(page), call->deadline(),
            [call, scope = std::move(scope)](absl::StatusOr<Page> result) {
              if (!result.ok()) {
                call->Fail(result.status());
                return;
              }
              std::string token;
              if (result->next_position > 0) {
                token = EncodePageToken(scope, {result->generation, result->next_position});
              }
              call->Succeed(GetAllReply(*result, token));
            });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* MemoryService::Set(Context* context, const Bytes* bytes,
                                             Bytes* response) {
  return RunUnary<v1::SetRequest>(
      calls_, context, bytes, response, [this](const Call<v1::SetRequest>& call) -> absl::Status {
        v1::SetRequest& request = call->mutable_request();
        WriteRequest write;
        write.kind = WriteKind::kSet;
        write.encode_reply = &SetReply;
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
        MEMORYD_RETURN_IF_ERROR(CheckNoContents(request.contents_size()));
        MEMORYD_ASSIGN_OR_RETURN(write.messages, FromProto(*request.mutable_messages()));
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest("Set", call, write));
        SubmitWrite(engine_, call, std::move(write), v1::SetResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* MemoryService::Reset(Context* context, const Bytes* bytes,
                                               Bytes* response) {
  return RunUnary<v1::ResetRequest>(
      calls_, context, bytes, response, [this](const Call<v1::ResetRequest>& call) -> absl::Status {
        WriteRequest write;
        write.kind = WriteKind::kReset;
        write.encode_reply = &ResetReply;
        if (!v1::ResetScope_IsValid(call->request().scope())) {
          return InvalidField("scope", "is not a known value");
        }
        write.scope = FromProto(call->request().scope());
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest("Reset", call, write));
        SubmitWrite(engine_, call, std::move(write), v1::ResetResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

}  // namespace memoryd
