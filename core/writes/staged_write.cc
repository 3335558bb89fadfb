#include "core/writes/staged_write.h"

#include <string>
#include <utility>

#include "core/base/error.h"

namespace memoryd {
namespace {

// What giving up may take when the call's own time is over.
constexpr std::chrono::seconds kTimeToDrop(5);

}  // namespace

void SubmitStaged(WriteQueue& writes, const SessionKey& key, WriteKind kind,
                  std::shared_ptr<const StagedSession> staged, StagedRows rows,
                  std::chrono::steady_clock::time_point deadline,
                  std::function<void(absl::Status)> then) {
  WriteRequest write;
  write.kind = kind;
  write.key = key;
  write.deadline =
      kind == WriteKind::kDropStaged ? std::chrono::steady_clock::now() + kTimeToDrop : deadline;
  write.byte_size = rows.bytes;
  write.staged = std::move(staged);
  write.staged_rows = std::move(rows);
  write.encode_reply = [](const WriteResult& /*result*/) { return std::string(); };
  writes.Submit(std::move(write),
                [then = std::move(then)](absl::Status status, const std::string& /*reply*/,
                                         bool /*replayed*/) {
                  if (ErrorReason(status) == "OUTCOME_UNKNOWN") status = StoreUnavailable();
                  then(std::move(status));
                });
}

}  // namespace memoryd
