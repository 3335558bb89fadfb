// Query and UpdateContext between the wire and the engine.
#ifndef MEMORYD_SERVER_RPC_RECALL_CALL_H_
#define MEMORYD_SERVER_RPC_RECALL_CALL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/recall/recall.h"
#include "memoryd/v1/memory_service.pb.h"

namespace memoryd {

// `key` is left to the caller.
absl::StatusOr<QueryRequest> FromProto(const v1::QueryRequest& request);

// FAILED_PRECONDITION `REPLY_TOO_LARGE` above 64 MiB.
absl::StatusOr<std::string> QueryReply(const Found& found, const v1::QueryRequest& request);

// Checks the messages in place. `key` and `keep_alive` are left to the caller: the result points
// into `request`.
absl::StatusOr<UpdateContextRequest> FromProto(v1::UpdateContextRequest& request);

// The messages that stay are taken out of `request`. FAILED_PRECONDITION `REPLY_TOO_LARGE` above
// 64 MiB.
absl::StatusOr<std::string> UpdateContextReply(const UpdatedContext& updated,
                                               v1::UpdateContextRequest& request);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_RPC_RECALL_CALL_H_
