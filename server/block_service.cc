#include "server/block_service.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "server/block_reply.h"
#include "server/convert.h"
#include "server/page_token.h"
#include "server/write_call.h"

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

}  // namespace

grpc::ServerUnaryReactor* BlockService::GetBlock(Context* context, const Bytes* bytes,
                                                 Bytes* response) {
  return RunUnary<v1::GetBlockRequest>(
      environment_, Method::kGetBlock, context, bytes, response,
      [this](const Call<v1::GetBlockRequest>& call) -> absl::Status {
        const v1::GetBlockRequest& request = call->request();
        MEMORYD_RETURN_IF_ERROR(CheckPlace(request));
        engine_.GetBlock({call->tenant(), request.session_id()}, request.block(), call->deadline(),
                         [call](absl::StatusOr<BlockView> view) {
                           call->Finish(view.ok() ? GetBlockReply(*view)
                                                  : absl::StatusOr<std::string>(view.status()));
                         });
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* BlockService::ListBlockEntries(Context* context, const Bytes* bytes,
                                                         Bytes* response) {
  return RunUnary<v1::ListBlockEntriesRequest>(
      environment_, Method::kListBlockEntries, context, bytes, response,
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
        engine_.ListBlockEntries(
            std::move(page), call->deadline(),
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

grpc::ServerUnaryReactor* BlockService::UndoBlockChange(Context* context, const Bytes* bytes,
                                                        Bytes* response) {
  return RunUnary<v1::UndoBlockChangeRequest>(
      environment_, Method::kUndoBlockChange, context, bytes, response,
      [this](const Call<v1::UndoBlockChangeRequest>& call) -> absl::Status {
        MEMORYD_RETURN_IF_ERROR(CheckPlace(call->request()));
        WriteRequest write;
        write.kind = WriteKind::kUndoBlockChange;
        write.encode_reply = &UndoBlockChangeReply;
        write.block = call->request().block();
        write.change = call->request().change();
        if (write.change < 1) return InvalidField("change", "must be at least 1");
        MEMORYD_RETURN_IF_ERROR(FinishWriteRequest(call, write));
        SubmitWrite(engine_, call, std::move(write),
                    v1::UndoBlockChangeResponse::kReplayedFieldNumber);
        return absl::OkStatus();
      });
}

}  // namespace memoryd
