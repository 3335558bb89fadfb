// What a draft says of a write.
#ifndef MEMORYD_CORE_WRITES_DRAFT_WRITE_DECISION_H_
#define MEMORYD_CORE_WRITES_DRAFT_WRITE_DECISION_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/writes/write.h"

namespace memoryd {

struct WriteDecision {
  enum class Kind {
    kStore,      // `reply` is due once the change is committed.
    kUnchanged,  // Nothing to store; `reply` is due if the base was fresh.
    kRefused,    // `status` is due if the base was fresh and no record of the request exists.
    kReplay,     // `reply` or, for a reused request_id, `status` is due at once.
    kCount,      // It must be counted under write.count_with, which takes long, and added again.
  };
  Kind kind = Kind::kRefused;
  absl::Status status;
  std::string reply = {};   // On the wire, for who asks for it.
  WriteResult result = {};  // Of kStore and kUnchanged.

  // What the write's caller is told.
  absl::StatusOr<WriteReply> Answer() && {
    if (!status.ok()) return std::move(status);
    return WriteReply{std::move(result), std::move(reply), kind == Kind::kReplay};
  }
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_DRAFT_WRITE_DECISION_H_
