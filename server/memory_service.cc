#include "server/memory_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "server/page_token.h"
#include "server/recall_call.h"
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
      environment_, Method::kPut, context, bytes, response,
      [this](const Call<v1::PutRequest>& call) -> absl::Status {
        v1::PutRequest& request = call->mutable_request();
        WriteRequest write;
        write.kind = WriteKind::kPut;
        write.encode_reply = &PutReply;
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
        MEMORYD_ASSIGN_OR_RETURN(write.messages, FromProto(*request.mutable_messages()));
        MEMORYD_RETURN_IF_ERROR(CheckRoles(call->caller(), write.messages));
        MEMORYD_ASSIGN_OR_RETURN(write.contents, FromProto(*request.mutable_contents()));
        if (request.has_config()) {
          MEMORYD_ASSIGN_OR_RETURN(write.settings, FromProto(request.config()));
        }
        if (request.has_wait()) {
          if (request.wait().seconds() < 0 || request.wait().nanos() < 0) {
            return InvalidField("wait", "must not be negative");
          }
          const std::chrono::nanoseconds wait =
              std::min<std::chrono::nanoseconds>(
                  kMaxDeadline, std::chrono::seconds(std::min<std::int64_t>(
                                    request.wait().seconds(), kMaxDeadline.count()))) +
              std::chrono::nanoseconds(request.wait().nanos());
          write.wait_until = std::chrono::steady_clock::now() + wait;
        }
        request.clear_wait();
        write.with_open_jobs = &WithOpenJobs;
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write), v1::PutResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* MemoryService::Get(Context* context, const Bytes* bytes,
                                             Bytes* response) {
  return RunUnary<v1::GetRequest>(
      environment_, Method::kGet, context, bytes, response,
      [this](const Call<v1::GetRequest>& call) -> absl::Status {
        const v1::GetRequest& request = call->request();
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
        MEMORYD_RETURN_IF_ERROR(CheckText("input", request.input(), kMaxInput));
        std::optional<std::string> input;
        if (request.has_input()) input = request.input();
        engine_.Get({call->tenant(), request.session_id()}, std::move(input), call->deadline(),
                    [call](absl::StatusOr<memoryd::Context> result) {
                      call->Finish(result.ok() ? GetReply(*result) : result.status());
                    });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* MemoryService::GetAll(Context* context, const Bytes* bytes,
                                                Bytes* response) {
  return RunUnary<v1::GetAllRequest>(
      environment_, Method::kGetAll, context, bytes, response,
      [this](const Call<v1::GetAllRequest>& call) -> absl::Status {
        const v1::GetAllRequest& request = call->request();
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
        PageRequest page;
        page.key = {call->tenant(), request.session_id()};
        MEMORYD_ASSIGN_OR_RETURN(page.max_messages, PageSize(request.page_size()));
        MEMORYD_ASSIGN_OR_RETURN(page.filter, Filter(request.status()));
        page.include_contents = request.include_contents();
        std::string scope = fmt::format("GetAll/{}/{}/{}/{}{}", static_cast<int>(page.filter),
                                        page.include_contents, page.key.tenant.size(),
                                        page.key.tenant, page.key.session);
        if (!request.page_token().empty()) {
          MEMORYD_ASSIGN_OR_RETURN(const PagePosition position,
                                   DecodePageToken(scope, request.page_token()));
          page.generation = position.generation;
          (position.in_contents ? page.from_content : page.from_position) = position.position;
        }
        engine_.ReadPage(std::move(page), call->deadline(),
                         [call, scope = std::move(scope)](absl::StatusOr<Page> result) {
                           if (!result.ok()) {
                             call->Fail(result.status());
                             return;
                           }
                           std::string token;
                           if (result->next_position > 0) {
                             token = EncodePageToken(
                                 scope, {result->row.generation, result->next_position, false});
                           } else if (result->next_content > 0) {
                             token = EncodePageToken(
                                 scope, {result->row.generation, result->next_content, true});
                           }
                           call->Succeed(GetAllReply(*result, token));
                         });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* MemoryService::Set(Context* context, const Bytes* bytes,
                                             Bytes* response) {
  return RunUnary<v1::SetRequest>(
      environment_, Method::kSet, context, bytes, response,
      [this](const Call<v1::SetRequest>& call) -> absl::Status {
        v1::SetRequest& request = call->mutable_request();
        WriteRequest write;
        write.kind = WriteKind::kSet;
        write.encode_reply = &SetReply;
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
        MEMORYD_ASSIGN_OR_RETURN(write.messages, FromProto(*request.mutable_messages()));
        MEMORYD_RETURN_IF_ERROR(CheckRoles(call->caller(), write.messages));
        MEMORYD_ASSIGN_OR_RETURN(write.contents, FromProto(*request.mutable_contents()));
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write), v1::SetResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* MemoryService::Reset(Context* context, const Bytes* bytes,
                                               Bytes* response) {
  return RunUnary<v1::ResetRequest>(environment_, Method::kReset, context, bytes, response,
                                    [this](const Call<v1::ResetRequest>& call) -> absl::Status {
                                      WriteRequest write;
                                      write.kind = WriteKind::kReset;
                                      write.encode_reply = &ResetReply;
                                      if (!v1::ResetScope_IsValid(call->request().scope())) {
                                        return InvalidField("scope", "is not a known value");
                                      }
                                      write.scope = FromProto(call->request().scope());
                                      MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
                                      SubmitWrite(engine_, call, std::move(write),
                                                  v1::ResetResponse::kReplayedFieldNumber);
                                      return absl::OkStatus();
                                    });
}

grpc::ServerUnaryReactor* MemoryService::Query(Context* context, const Bytes* bytes,
                                               Bytes* response) {
  return RunUnary<v1::QueryRequest>(
      environment_, Method::kQuery, context, bytes, response,
      [this](const Call<v1::QueryRequest>& call) -> absl::Status {
        MEMORYD_ASSIGN_OR_RETURN(QueryRequest request, FromProto(call->request()));
        request.key = {call->tenant(), call->request().session_id()};
        engine_.Query(std::move(request), call->deadline(), [call](absl::StatusOr<Found> found) {
          call->Finish(found.ok() ? QueryReply(*found, call->request()) : found.status());
        });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* MemoryService::UpdateContext(Context* context, const Bytes* bytes,
                                                       Bytes* response) {
  return RunUnary<v1::UpdateContextRequest>(
      environment_, Method::kUpdateContext, context, bytes, response,
      [this](const Call<v1::UpdateContextRequest>& call) -> absl::Status {
        MEMORYD_ASSIGN_OR_RETURN(UpdateContextRequest request, FromProto(call->mutable_request()));
        request.key = {call->tenant(), call->request().session_id()};
        request.keep_alive = call;
        engine_.UpdateContext(
            std::move(request), call->deadline(), [call](absl::StatusOr<UpdatedContext> updated) {
              call->Finish(updated.ok() ? UpdateContextReply(*updated, call->mutable_request())
                                        : updated.status());
            });
        return absl::OkStatus();
      });
}

}  // namespace memoryd
