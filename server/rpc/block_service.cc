#include "server/rpc/block_service.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/field_path.h"
#include "core/base/status_macros.h"
#include "core/blocks/fact_changes.h"
#include "core/blocks/fact_text.h"
#include "core/model/message.h"
#include "core/reads/block_view.h"
#include "core/writes/commands/facts.h"
#include "core/writes/found_messages.h"
#include "core/writes/write.h"
#include "server/rpc/block_reply.h"
#include "server/rpc/run_unary.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/write_call.h"
#include "server/wire/field_checks.h"
#include "server/wire/method.h"
#include "server/wire/page_token.h"
#include "server/wire/rpc_call.h"
#include "server/wire/stored_body.h"

namespace memoryd {
namespace {

// A longer one is the name of no block.
constexpr std::size_t kMaxBlockName = 64;

template <typename Request>
using Call = std::shared_ptr<ParsedCall<Request>>;

template <typename Request>
absl::Status CheckPlace(const Request& request) {
  MEMORYD_RETURN_IF_ERROR(CheckSessionId(request.session_id()));
  return CheckId("block", request.block(), kMaxBlockName);
}

// The command `write` becomes, of the block and by the caller.
template <typename Kind, typename Request>
absl::StatusOr<Kind*> BlockCommand(const Call<Request>& call, WriteRequest& write) {
  MEMORYD_RETURN_IF_ERROR(CheckPlace(call->request()));
  Kind& command = write.command.emplace<Kind>();
  command.block = call->request().block();
  command.writer = call->caller().principal;
  return &command;
}

// `text` as a fact keeps it.
absl::StatusOr<std::string> ReadFactText(std::string_view text) {
  std::optional<std::string> line = FactLine(text);
  if (!line.has_value()) {
    return InvalidField(
        "text", fmt::format("must have a letter or digit and at most {} bytes", kMaxFactBytes));
  }
  return *std::move(line);
}

// The number of the fact that a request names.
absl::StatusOr<std::int64_t> ReadFactId(std::int64_t fact_id) {
  if (fact_id < 1) return InvalidField("fact_id", "must be at least 1");
  return fact_id;
}

absl::StatusOr<FactEdit> FromProto(const v1::AddFactRequest& request) {
  FactEdit edit;
  MEMORYD_ASSIGN_OR_RETURN(edit.text, ReadFactText(request.text()));
  if (request.has_trust()) {
    // A NaN is neither.
    if (!(request.trust() >= 0 && request.trust() <= 1)) {
      return InvalidField("trust", "must be 0 to 1");
    }
    edit.trust = request.trust();
  }
  if (request.message_ids_size() > static_cast<int>(kMaxEvidence)) {
    return InvalidField("message_ids", fmt::format("at most {} messages", kMaxEvidence));
  }
  for (int i = 0; i < request.message_ids_size(); ++i) {
    const std::string& id = request.message_ids(i);
    MEMORYD_RETURN_IF_ERROR(CheckId(FieldPath("message_ids", i), id, kMaxIdBytes));
    edit.evidence.push_back(id);
  }
  return edit;
}

// What rests on a message that need not be believed need not either.
absl::Status NoteUntrusted(const FoundMessages& found, FactEdit& fact) {
  for (const MessagePtr& stored : found.messages) {
    v1::Message message;
    if (!ParseBody(stored->body, message)) {
      return absl::DataLossError("a stored body can't be read back");
    }
    fact.untrusted_evidence |= message.untrusted();
  }
  return absl::OkStatus();
}

}  // namespace

void BlockService::AddTo(RpcMethods& methods) {
  methods.Add(Method::kGetBlock, this, &BlockService::GetBlock);
  methods.Add(Method::kListBlockEntries, this, &BlockService::ListBlockEntries);
  methods.Add(Method::kUndoBlockChange, this, &BlockService::UndoBlockChange);
  methods.Add(Method::kAddFact, this, &BlockService::AddFact);
  methods.Add(Method::kUpdateFact, this, &BlockService::UpdateFact);
  methods.Add(Method::kDeleteFact, this, &BlockService::DeleteFact);
}

void BlockService::GetBlock(RpcCallPtr rpc) {
  RunUnary<v1::GetBlockRequest>(
      environment_, Method::kGetBlock, std::move(rpc),
      [this](const Call<v1::GetBlockRequest>& call) -> absl::Status {
        const v1::GetBlockRequest& request = call->request();
        MEMORYD_RETURN_IF_ERROR(CheckPlace(request));
        engine_.reads().GetBlock({call->tenant(), request.session_id()}, request.block(),
                                 EndOf(call), [call](absl::StatusOr<BlockView> view) {
                                   call->Finish(view.ok()
                                                    ? GetBlockReply(*view)
                                                    : absl::StatusOr<std::string>(view.status()));
                                 });
        return absl::OkStatus();
      });
}

void BlockService::ListBlockEntries(RpcCallPtr rpc) {
  RunUnary<v1::ListBlockEntriesRequest>(
      environment_, Method::kListBlockEntries, std::move(rpc),
      [this](const Call<v1::ListBlockEntriesRequest>& call) -> absl::Status {
        const v1::ListBlockEntriesRequest& request = call->request();
        MEMORYD_RETURN_IF_ERROR(CheckPlace(request));
        EntryPageRequest page;
        page.key = {call->tenant(), request.session_id()};
        page.block = request.block();
        MEMORYD_ASSIGN_OR_RETURN(page.max_entries, PageSize(request.page_size()));
        std::string scope =
            fmt::format("ListBlockEntries/{}/{}{}{}/{}", page.block.size(), page.block,
                        page.key.tenant.size(), page.key.tenant, page.key.session);
        if (!request.page_token().empty()) {
          MEMORYD_ASSIGN_OR_RETURN(const PagePosition position,
                                   DecodePageToken(scope, request.page_token()));
          page.generation = position.generation;
          page.from_position = position.position;
        }
        engine_.reads().ListBlockEntries(
            std::move(page), EndOf(call),
            [call, scope = std::move(scope)](absl::StatusOr<EntryPage> entries) {
              if (!entries.ok()) {
                call->Fail(entries.status());
                return;
              }
              std::string token;
              if (entries->next_position > 0) {
                token =
                    EncodePageToken(scope, {entries->generation, entries->next_position, false});
              }
              call->Succeed(ListBlockEntriesReply(*entries, token));
            });
        return absl::OkStatus();
      });
}

void BlockService::UndoBlockChange(RpcCallPtr rpc) {
  RunUnary<v1::UndoBlockChangeRequest>(
      environment_, Method::kUndoBlockChange, std::move(rpc),
      [this](const Call<v1::UndoBlockChangeRequest>& call) -> absl::Status {
        WriteRequest write;
        MEMORYD_ASSIGN_OR_RETURN(commands::UndoBlockChange* const undo,
                                 BlockCommand<commands::UndoBlockChange>(call, write));
        write.encode_reply = &UndoBlockChangeReply;
        undo->change = call->request().change();
        if (undo->change < 1) return InvalidField("change", "must be at least 1");
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write),
                    v1::UndoBlockChangeResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

void BlockService::AddFact(RpcCallPtr rpc) {
  RunUnary<v1::AddFactRequest>(
      environment_, Method::kAddFact, std::move(rpc),
      [this](const Call<v1::AddFactRequest>& call) -> absl::Status {
        WriteRequest write;
        MEMORYD_ASSIGN_OR_RETURN(commands::EditFact* const edit,
                                 BlockCommand<commands::EditFact>(call, write));
        write.encode_reply = &AddFactReply;
        MEMORYD_ASSIGN_OR_RETURN(edit->fact, FromProto(call->request()));
        edit->judge = &NoteUntrusted;
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write), v1::AddFactResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

void BlockService::UpdateFact(RpcCallPtr rpc) {
  RunUnary<v1::UpdateFactRequest>(
      environment_, Method::kUpdateFact, std::move(rpc),
      [this](const Call<v1::UpdateFactRequest>& call) -> absl::Status {
        WriteRequest write;
        MEMORYD_ASSIGN_OR_RETURN(commands::EditFact* const edit,
                                 BlockCommand<commands::EditFact>(call, write));
        write.encode_reply = &UpdateFactReply;
        edit->fact.kind = FactEdit::Kind::kCorrect;
        MEMORYD_ASSIGN_OR_RETURN(edit->fact.fact_id, ReadFactId(call->request().fact_id()));
        MEMORYD_ASSIGN_OR_RETURN(edit->fact.text, ReadFactText(call->request().text()));
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write), v1::UpdateFactResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

void BlockService::DeleteFact(RpcCallPtr rpc) {
  RunUnary<v1::DeleteFactRequest>(
      environment_, Method::kDeleteFact, std::move(rpc),
      [this](const Call<v1::DeleteFactRequest>& call) -> absl::Status {
        WriteRequest write;
        MEMORYD_ASSIGN_OR_RETURN(commands::EditFact* const edit,
                                 BlockCommand<commands::EditFact>(call, write));
        write.encode_reply = &DeleteFactReply;
        edit->fact.kind = FactEdit::Kind::kDelete;
        MEMORYD_ASSIGN_OR_RETURN(edit->fact.fact_id, ReadFactId(call->request().fact_id()));
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write), v1::DeleteFactResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

}  // namespace memoryd
