// A batch of items on its way: what the caller asked for, and what became of it.
#ifndef MEMORYD_CORE_WRITES_ITEMS_ITEM_CALL_H_
#define MEMORYD_CORE_WRITES_ITEMS_ITEM_CALL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/calls/call_end.h"
#include "core/calls/pending_calls.h"
#include "core/storage/item_store.h"

namespace memoryd {

// What a batch did.
struct ItemsWritten {
  std::vector<ItemWriteResult> writes;  // As the batch has them.
  std::int64_t update_us = 0;           // When.
  bool replayed = false;                // By the first request with this request_id.
  bool made_namespace = false;          // There was none before.
};

// What callers are told of a batch that was not written. `index` counts its writes from 0, and is
// the value `operation` of the error.
//
// ABORTED `VERSION_MISMATCH`, with the value `version`.
absl::Status VersionMismatch(std::size_t index, std::int64_t version);
// INVALID_ARGUMENT `VECTOR_SIZE`, with the value `vector_size`.
absl::Status VectorSizeMismatch(std::size_t index, std::int64_t vector_size);
// ABORTED `NAMESPACE_REPLACED`.
absl::Status NamespaceErased();
// What is kept under the batch's request_id. ALREADY_EXISTS `REQUEST_ID_REUSED` when it was another
// request; FAILED_PRECONDITION `REQUEST_FORGOTTEN` when it was forgotten.
absl::StatusOr<ItemsWritten> ReplyOf(const ItemRequestRecord& record, const ItemBatch& batch);

// A batch that was admitted. Whoever finishes it first decides the reply.
class ItemCall final : public PendingCall {
 public:
  // Called exactly once, from any thread.
  using Done = std::function<void(absl::StatusOr<ItemsWritten>)>;

  // `byte_size`: of the request.
  ItemCall(ItemBatch asked, std::size_t byte_size, CallEnd end, Done done);

  // Claims the call for a commit; false when it has ended. Ends it when its time is over, or its
  // caller gone: nothing is stored then.
  bool BeginCommit();
  // After a commit that provably did not store it.
  void BackToQueue();
  void Finish(absl::StatusOr<ItemsWritten> reply);
  bool finished() const { return state_.load() == State::kFinished; }
  // Ends a call that can't be answered in time: nothing was stored if it still waits.
  void Expire() override;

  // The committer's while it works on the call: it has no batch during a commit.
  ItemBatch batch;
  const std::size_t byte_size;

 private:
  enum class State { kQueued, kCommitting, kFinished };
  std::atomic<State> state_{State::kQueued};
  const std::shared_ptr<const CallWatch> watch_;
  const Done done_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_ITEMS_ITEM_CALL_H_
