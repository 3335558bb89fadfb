#include "server/rpc/memory_service.h"

#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/model/message.h"
#include "core/reads/context.h"
#include "core/reads/page.h"
#include "core/reads/session_reads.h"
#include "core/recall/recall.h"
#include "core/recall/session_search.h"
#include "core/writes/commands/contents.h"
#include "core/writes/commands/messages.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/found_messages.h"
#include "core/writes/incoming.h"
#include "core/writes/write.h"
#include "server/rpc/page_stream.h"
#include "server/rpc/put_call.h"
#include "server/rpc/recall_call.h"
#include "server/rpc/reply.h"
#include "server/rpc/run_unary.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/write_call.h"
#include "server/wire/convert.h"
#include "server/wire/field_checks.h"
#include "server/wire/filter.h"
#include "server/wire/method.h"
#include "server/wire/rpc_call.h"
#include "server/wire/stored_body.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxInput = std::size_t{1} << 20;

template <typename Request>
using Call = std::shared_ptr<ParsedCall<Request>>;

// Fills in the message as the request changes the stored one.
absl::Status EditMessage(const Call<v1::UpdateMessageRequest>& call, const FoundMessages& found,
                         IncomingItems& items) {
  const v1::UpdateMessageRequest& request = call->request();
  const Message& stored = *found.messages.front();
  const auto message = std::make_shared<v1::Message>();
  if (!ParseBody(stored.body, *message)) {
    return absl::DataLossError("a stored body can't be read back");
  }
  const bool new_content = request.has_text() || request.parts_size() > 0;
  if (new_content) {
    message->clear_text();
    *message->mutable_parts() = request.parts();
    if (request.has_text()) message->set_text(request.text());
  }
  if (request.has_metadata_json()) message->set_metadata_json(request.metadata_json());
  if (request.has_name()) message->set_name(request.name());
  if (request.has_expire_time()) {
    const google::protobuf::Timestamp& time = request.expire_time();
    if (time.seconds() == 0 && time.nanos() == 0) {
      message->clear_expire_time();
    } else {
      *message->mutable_expire_time() = time;
    }
  }
  if (request.has_token_count()) {
    message->set_token_count(request.token_count());
  } else if (!new_content) {
    message->set_token_count(stored.token_count);
  }
  Provenance from = ProvenanceOf(call->caller());
  const std::string source_session_id = message->source_session_id();
  const std::string source_message_id = message->source_message_id();
  from.source_session_id = source_session_id;
  from.source_message_id = source_message_id;
  MEMORYD_ASSIGN_OR_RETURN(IncomingMessage incoming, FromProto(*message, from));
  items.messages = {std::move(incoming)};
  items.keep_alive = message;
  return absl::OkStatus();
}

// The same of a content.
absl::Status EditContent(const Call<v1::UpdateContentRequest>& call, const FoundMessages& found,
                         IncomingItems& items) {
  const v1::UpdateContentRequest& request = call->request();
  const auto content = std::make_shared<v1::Content>();
  if (!ParseBody(found.messages.front()->body, *content)) {
    return absl::DataLossError("a stored body can't be read back");
  }
  if (request.has_mime_type()) content->set_mime_type(request.mime_type());
  switch (request.value_case()) {
    case v1::UpdateContentRequest::kText:
      content->set_text(request.text());
      break;
    case v1::UpdateContentRequest::kBytesValue:
      content->set_bytes_value(request.bytes_value());
      break;
    case v1::UpdateContentRequest::kJson:
      content->set_json(request.json());
      break;
    case v1::UpdateContentRequest::kImage:
      *content->mutable_image() = request.image();
      break;
    case v1::UpdateContentRequest::VALUE_NOT_SET:
      break;
  }
  if (request.has_metadata_json()) content->set_metadata_json(request.metadata_json());
  MEMORYD_ASSIGN_OR_RETURN(IncomingContent incoming,
                           FromProto(*content, ProvenanceOf(call->caller())));
  items.contents = {std::move(incoming)};
  items.keep_alive = content;
  return absl::OkStatus();
}

std::string UpdateMessageReply(const WriteResult& result) {
  v1::UpdateMessageResponse reply;
  reply.set_revision(result.revision);
  reply.set_position(result.messages.front()->position);
  reply.set_token_count(result.messages.front()->token_count);
  return reply.SerializeAsString();
}

std::string DeleteMessageReply(const WriteResult& result) {
  v1::DeleteMessageResponse reply;
  reply.set_revision(result.revision);
  for (const MessagePtr& message : result.messages) {
    reply.add_message_ids(MessageId(*message, result.generation));
  }
  reply.set_active_count(result.removed_active);
  reply.set_archived_count(result.removed_archived);
  reply.set_retired_fact_count(result.retired_facts);
  return reply.SerializeAsString();
}

std::string UpdateContentReply(const WriteResult& result) {
  v1::UpdateContentResponse reply;
  reply.set_revision(result.revision);
  reply.set_position(result.contents.front()->position);
  return reply.SerializeAsString();
}

std::string DeleteContentReply(const WriteResult& result) {
  v1::DeleteContentResponse reply;
  reply.set_revision(result.revision);
  reply.set_position(result.contents.front()->position);
  return reply.SerializeAsString();
}

}  // namespace

void MemoryService::AddTo(RpcMethods& methods) {
  methods.Add(Method::kPut, this, &MemoryService::Put);
  methods.Add(Method::kPutBatch, this, &MemoryService::PutBatch);
  methods.Add(Method::kGet, this, &MemoryService::Get);
  methods.Add(Method::kGetAll, this, &MemoryService::GetAll);
  methods.Add(Method::kSet, this, &MemoryService::Set);
  methods.Add(Method::kReset, this, &MemoryService::Reset);
  methods.Add(Method::kQuery, this, &MemoryService::Query);
  methods.Add(Method::kUpdateContext, this, &MemoryService::UpdateContext);
  methods.Add(Method::kStreamAll, this, &MemoryService::StreamAll);
  methods.Add(Method::kUpdateMessage, this, &MemoryService::UpdateMessage);
  methods.Add(Method::kDeleteMessage, this, &MemoryService::DeleteMessage);
  methods.Add(Method::kGetContent, this, &MemoryService::GetContent);
  methods.Add(Method::kUpdateContent, this, &MemoryService::UpdateContent);
  methods.Add(Method::kDeleteContent, this, &MemoryService::DeleteContent);
}

void MemoryService::Put(RpcCallPtr rpc) {
  RunUnary<v1::PutRequest>(
      environment_, Method::kPut, std::move(rpc),
      [this](const Call<v1::PutRequest>& call) { return RunPut(engine_, call); });
}

void MemoryService::PutBatch(RpcCallPtr rpc) {
  RunUnary<v1::PutBatchRequest>(environment_, Method::kPutBatch, std::move(rpc),
                                [this](const Call<v1::PutBatchRequest>& call) {
                                  return RunPutBatch(engine_, environment_, call);
                                });
}

void MemoryService::Get(RpcCallPtr rpc) {
  RunUnary<v1::GetRequest>(
      environment_, Method::kGet, std::move(rpc),
      [this](const Call<v1::GetRequest>& call) -> absl::Status {
        const v1::GetRequest& request = call->request();
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
        MEMORYD_RETURN_IF_ERROR(CheckText("input", request.input(), kMaxInput));
        ContextQuestion question;
        if (request.has_input()) question.input = request.input();
        question.explain = request.explain();
        engine_.Get(
            {call->tenant(), request.session_id()}, std::move(question), EndOf(call),
            [call](absl::StatusOr<memoryd::Context> result) {
              call->Finish(result.ok() ? GetReply(*result,
                                                  [&call](std::size_t bytes) {
                                                    return call->TakeReply(bytes);
                                                  })
                                       : result.status());
            },
            call->trace());
        return absl::OkStatus();
      });
}

void MemoryService::GetAll(RpcCallPtr rpc) {
  RunUnary<v1::GetAllRequest>(
      environment_, Method::kGetAll, std::move(rpc),
      [this](const Call<v1::GetAllRequest>& call) -> absl::Status {
        v1::GetAllRequest& request = call->mutable_request();
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
        PageRequest page;
        page.key = {call->tenant(), request.session_id()};
        MEMORYD_ASSIGN_OR_RETURN(page.max_messages, PageSize(request.page_size()));
        MEMORYD_RETURN_IF_ERROR(SetFilter(request.status(), *request.mutable_filter(), page));
        MEMORYD_RETURN_IF_ERROR(SetOrder(request.order(), page));
        // No content has a status.
        page.include_contents = request.include_contents() &&
                                request.filter().status() == v1::MESSAGE_STATUS_UNSPECIFIED;
        page.include_total = request.include_total();
        std::string scope = PageScope("GetAll", page, request.filter());
        MEMORYD_RETURN_IF_ERROR(SetPlace(scope, request.page_token(), page));
        engine_.reads().ReadPage(std::move(page), EndOf(call),
                                 [call, scope = std::move(scope)](absl::StatusOr<Page> result) {
                                   if (!result.ok()) {
                                     call->Fail(result.status());
                                     return;
                                   }
                                   const std::string token = NextToken(scope, *result);
                                   // Counted as the reply from here on, which fits wherever the
                                   // page did.
                                   result->memory.Release();
                                   const absl::Status taken =
                                       call->TakeReply(GetAllReplySize(*result, token));
                                   if (taken.ok()) {
                                     call->Succeed(GetAllReply(*result, token));
                                   } else {
                                     call->Fail(taken);
                                   }
                                 });
        return absl::OkStatus();
      });
}

void MemoryService::StreamAll(RpcCallPtr rpc) {
  RunPageStream(engine_, environment_, std::move(rpc));
}

void MemoryService::Set(RpcCallPtr rpc) {
  RunUnary<v1::SetRequest>(
      environment_, Method::kSet, std::move(rpc),
      [this](const Call<v1::SetRequest>& call) -> absl::Status {
        v1::SetRequest& request = call->mutable_request();
        WriteRequest write;
        auto& set = write.command.emplace<commands::Set>();
        set.items.keep_alive = call;
        write.encode_reply = &SetReply;
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
        const Provenance from = ProvenanceOf(call->caller());
        MEMORYD_ASSIGN_OR_RETURN(set.items.messages, FromProto(*request.mutable_messages(), from));
        MEMORYD_RETURN_IF_ERROR(CheckRoles(call->caller(), set.items.messages));
        MEMORYD_ASSIGN_OR_RETURN(set.items.contents, FromProto(*request.mutable_contents(), from));
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write), v1::SetResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

void MemoryService::Reset(RpcCallPtr rpc) {
  RunUnary<v1::ResetRequest>(environment_, Method::kReset, std::move(rpc),
                             [this](const Call<v1::ResetRequest>& call) -> absl::Status {
                               WriteRequest write;
                               write.encode_reply = &ResetReply;
                               if (!v1::ResetScope_IsValid(call->request().scope())) {
                                 return InvalidField("scope", "is not a known value");
                               }
                               write.command = commands::Reset{FromProto(call->request().scope())};
                               MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
                               SubmitWrite(engine_, call, std::move(write),
                                           v1::ResetResponse::kReplayedFieldNumber);
                               return absl::OkStatus();
                             });
}

void MemoryService::UpdateMessage(RpcCallPtr rpc) {
  RunUnary<v1::UpdateMessageRequest>(
      environment_, Method::kUpdateMessage, std::move(rpc),
      [this](const Call<v1::UpdateMessageRequest>& call) -> absl::Status {
        WriteRequest write;
        auto& update = write.command.emplace<commands::UpdateMessage>();
        write.encode_reply = &UpdateMessageReply;
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(call->request().session_id()));
        MEMORYD_RETURN_IF_ERROR(CheckId("message_id", call->request().message_id(), kMaxIdBytes));
        update.message_id = call->request().message_id();
        update.edit = [call](const FoundMessages& found, IncomingItems& items) {
          return EditMessage(call, found, items);
        };
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write),
                    v1::UpdateMessageResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

void MemoryService::DeleteMessage(RpcCallPtr rpc) {
  RunUnary<v1::DeleteMessageRequest>(
      environment_, Method::kDeleteMessage, std::move(rpc),
      [this](const Call<v1::DeleteMessageRequest>& call) -> absl::Status {
        WriteRequest write;
        auto& deletion = write.command.emplace<commands::DeleteMessage>();
        write.encode_reply = &DeleteMessageReply;
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(call->request().session_id()));
        MEMORYD_RETURN_IF_ERROR(CheckId("message_id", call->request().message_id(), kMaxIdBytes));
        deletion.message_id = call->request().message_id();
        deletion.with_tool_messages = call->request().with_tool_messages();
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write),
                    v1::DeleteMessageResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

void MemoryService::GetContent(RpcCallPtr rpc) {
  RunUnary<v1::GetContentRequest>(
      environment_, Method::kGetContent, std::move(rpc),
      [this](const Call<v1::GetContentRequest>& call) -> absl::Status {
        const v1::GetContentRequest& request = call->request();
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
        MEMORYD_RETURN_IF_ERROR(CheckId("content_id", request.content_id(), kMaxIdBytes));
        engine_.reads().GetContent({call->tenant(), request.session_id()}, request.content_id(),
                                   EndOf(call), [call](absl::StatusOr<ContentView> view) {
                                     call->Finish(view.ok()
                                                      ? GetContentReply(*view)
                                                      : absl::StatusOr<std::string>(view.status()));
                                   });
        return absl::OkStatus();
      });
}

void MemoryService::UpdateContent(RpcCallPtr rpc) {
  RunUnary<v1::UpdateContentRequest>(
      environment_, Method::kUpdateContent, std::move(rpc),
      [this](const Call<v1::UpdateContentRequest>& call) -> absl::Status {
        WriteRequest write;
        auto& update = write.command.emplace<commands::UpdateContent>();
        write.encode_reply = &UpdateContentReply;
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(call->request().session_id()));
        MEMORYD_RETURN_IF_ERROR(CheckId("content_id", call->request().content_id(), kMaxIdBytes));
        update.content_id = call->request().content_id();
        update.edit = [call](const FoundMessages& found, IncomingItems& items) {
          return EditContent(call, found, items);
        };
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write),
                    v1::UpdateContentResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

void MemoryService::DeleteContent(RpcCallPtr rpc) {
  RunUnary<v1::DeleteContentRequest>(
      environment_, Method::kDeleteContent, std::move(rpc),
      [this](const Call<v1::DeleteContentRequest>& call) -> absl::Status {
        WriteRequest write;
        auto& deletion = write.command.emplace<commands::DeleteContent>();
        write.encode_reply = &DeleteContentReply;
        MEMORYD_RETURN_IF_ERROR(CheckSessionId(call->request().session_id()));
        MEMORYD_RETURN_IF_ERROR(CheckId("content_id", call->request().content_id(), kMaxIdBytes));
        deletion.content_id = call->request().content_id();
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write),
                    v1::DeleteContentResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

void MemoryService::Query(RpcCallPtr rpc) {
  RunUnary<v1::QueryRequest>(
      environment_, Method::kQuery, std::move(rpc),
      [this](const Call<v1::QueryRequest>& call) -> absl::Status {
        MEMORYD_ASSIGN_OR_RETURN(QueryRequest request, FromProto(call->request()));
        request.key = {call->tenant(), call->request().session_id()};
        request.trace = call->trace();
        engine_.Query(std::move(request), EndOf(call), [call](absl::StatusOr<Found> found) {
          call->Finish(found.ok() ? QueryReply(*found, call->request()) : found.status());
        });
        return absl::OkStatus();
      });
}

void MemoryService::UpdateContext(RpcCallPtr rpc) {
  RunUnary<v1::UpdateContextRequest>(
      environment_, Method::kUpdateContext, std::move(rpc),
      [this](const Call<v1::UpdateContextRequest>& call) -> absl::Status {
        MEMORYD_ASSIGN_OR_RETURN(UpdateContextRequest request, FromProto(call->mutable_request()));
        request.key = {call->tenant(), call->request().session_id()};
        request.keep_alive = call;
        engine_.UpdateContext(
            std::move(request), EndOf(call), [call](absl::StatusOr<UpdatedContext> updated) {
              call->Finish(updated.ok() ? UpdateContextReply(*updated, call->mutable_request())
                                        : updated.status());
            });
        return absl::OkStatus();
      });
}

}  // namespace memoryd
