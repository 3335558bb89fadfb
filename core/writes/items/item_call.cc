#include "core/writes/items/item_call.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/calls/call_end.h"
#include "core/calls/pending_calls.h"
#include "core/sessions/session_errors.h"
#include "core/storage/item_batch.h"

namespace memoryd {

absl::Status VersionMismatch(std::size_t index, std::int64_t version) {
  return Error(absl::StatusCode::kAborted, "VERSION_MISMATCH",
               "expected_version is not the item's version: read it again and decide again",
               {{"operation", std::to_string(index)}, {"version", std::to_string(version)}});
}

absl::Status VectorSizeMismatch(std::size_t index, std::int64_t vector_size) {
  return Error(
      absl::StatusCode::kInvalidArgument, "VECTOR_SIZE",
      "vector: must have " + std::to_string(vector_size) + " numbers, as all of its namespace",
      {{"operation", std::to_string(index)}, {"vector_size", std::to_string(vector_size)}});
}

absl::Status NamespaceErased() {
  return Error(absl::StatusCode::kAborted, "NAMESPACE_REPLACED",
               "namespace: its subject was erased while the call waited; nothing was stored");
}

absl::StatusOr<ItemsWritten> ReplyOf(const ItemRequestRecord& record, const ItemBatch& batch) {
  if (record.fingerprint.empty()) {
    return Error(absl::StatusCode::kFailedPrecondition, "REQUEST_FORGOTTEN",
                 "request_id: was used before, and what it stored has been erased; nothing was "
                 "stored. Use a new one to store it again",
                 {{"field", "request_id"}});
  }
  if (record.fingerprint != batch.fingerprint) {
    return Error(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED",
                 "request_id: was used with another request; use a new one for every new request",
                 {{"field", "request_id"}});
  }
  ItemsWritten written{record.writes, record.create_us, /*replayed=*/true};
  // Deletions at the end that found nothing.
  written.writes.resize(batch.writes.size());
  return written;
}

ItemCall::ItemCall(ItemBatch asked, std::size_t bytes, CallEnd end, Done done)
    : PendingCall(end.deadline),
      batch(std::move(asked)),
      byte_size(bytes),
      watch_(std::move(end.watch)),
      done_(std::move(done)) {}

bool ItemCall::BeginCommit() {
  if (deadline() <= std::chrono::steady_clock::now()) {
    Finish(absl::DeadlineExceededError(
        "the deadline passed before the write joined a batch; nothing was stored"));
    return false;
  }
  if (watch_ != nullptr && watch_->IsCancelled()) {
    Finish(absl::CancelledError("the caller is gone; nothing was stored"));
    return false;
  }
  State expected = State::kQueued;
  return state_.compare_exchange_strong(expected, State::kCommitting);
}

void ItemCall::BackToQueue() {
  State expected = State::kCommitting;
  state_.compare_exchange_strong(expected, State::kQueued);
}

void ItemCall::Finish(absl::StatusOr<ItemsWritten> reply) {
  if (state_.exchange(State::kFinished) != State::kFinished) done_(std::move(reply));
}

void ItemCall::Expire() {
  const State state = state_.exchange(State::kFinished);
  if (state == State::kFinished) return;
  done_(state == State::kCommitting ? OutcomeUnknown() : StoreUnavailable());
}

}  // namespace memoryd
