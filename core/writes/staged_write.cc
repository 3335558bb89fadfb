#include "core/writes/staged_write.h"

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/model/session.h"
#include "core/writes/command.h"
#include "core/writes/commands/staged.h"
#include "core/writes/write.h"
#include "core/writes/write_queue.h"

namespace memoryd {
namespace {

// What giving up may take when the call's own time is over.
constexpr std::chrono::seconds kTimeToDrop(5);

}  // namespace

void SubmitStaged(WriteQueue& writes, const SessionKey& key, WriteCommand step,
                  std::chrono::steady_clock::time_point deadline,
                  std::function<void(absl::Status)> then, std::string subject) {
  WriteRequest write;
  write.key = key;
  write.subject = std::move(subject);
  const bool drops = std::holds_alternative<commands::DropStaged>(step);
  write.deadline = drops ? std::chrono::steady_clock::now() + kTimeToDrop : deadline;
  if (const auto* const add = std::get_if<commands::AddStaged>(&step)) {
    write.byte_size = add->rows.bytes;
  }
  write.command = std::move(step);
  writes.Submit(std::move(write),
                [then = std::move(then)](const absl::StatusOr<WriteReply>& reply) {
                  absl::Status status = reply.status();
                  if (ErrorReason(status) == "OUTCOME_UNKNOWN") status = StoreUnavailable();
                  then(std::move(status));
                });
}

}  // namespace memoryd
