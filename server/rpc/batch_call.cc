#include "server/rpc/batch_call.h"

#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/engine/engine.h"
#include "core/reads/item_reads.h"
#include "server/access/authenticator.h"
#include "server/rpc/item_reply.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/write_call.h"
#include "server/wire/convert.h"
#include "server/wire/convert_item.h"
#include "server/wire/method.h"

namespace memoryd {
namespace {

using Call = std::shared_ptr<ParsedCall<v1::BatchItemsRequest>>;

// Lives until the last of its batches has ended.
class Batches : public std::enable_shared_from_this<Batches> {
 public:
  Batches(Engine* engine, std::size_t item_bytes, Call call)
      : engine_(*engine), item_bytes_(item_bytes), call_(std::move(call)) {}

  void Start() {
    Check();
    std::vector<ItemGet> gets;
    for (Batch& batch : batches_) {
      batch.first_get = gets.size();
      gets.insert(gets.end(), batch.checked.gets.begin(), batch.checked.gets.end());
    }
    if (gets.empty()) {
      Write();
      return;
    }
    engine_.item_reads().Get(ItemCallerOf(*call_), std::move(gets), EndOf(call_),
                             [self = shared_from_this()](absl::StatusOr<ItemsRead> read) {
                               if (read.ok()) {
                                 self->read_ = *std::move(read);
                               } else {
                                 self->FailReads(read.status());
                               }
                               self->Write();
                             });
  }

 private:
  struct Batch {
    CheckedBatch checked;
    std::size_t first_get = 0;
    absl::Status status;  // Of its reads, or its shape.
    bool writes = false;
  };

  void Check() {
    v1::BatchItemsRequest& request = call_->mutable_request();
    for (v1::ItemBatch& batch : *request.mutable_batches()) {
      reply_.add_outcomes();
      batch.DiscardUnknownFields();
      auto checked =
          FromProto(batch, ItemCallerOf(*call_), ProvenanceOf(call_->caller()), item_bytes_);
      Batch& taken = batches_.emplace_back();
      if (checked.ok()) {
        taken.checked = *std::move(checked);
        taken.writes = !taken.checked.batch.writes.empty();
        writes_ |= taken.writes;
      } else {
        taken.status = checked.status();
      }
    }
  }

  void FailReads(const absl::Status& status) {
    for (Batch& batch : batches_) {
      if (batch.status.ok() && !batch.checked.gets.empty()) batch.status = status;
    }
  }

  // Begins every write; the call ends with the last of them.
  void Write() {
    // One more, so that no batch ends the call before all have begun.
    left_ = batches_.size() + 1;
    const auto gathering = engine_.namespaces().Gather(call_->tenant());
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      Batch& batch = batches_[i];
      if (!batch.status.ok()) {
        End(i, batch.status);
      } else if (!batch.writes) {
        End(i, ItemsWritten());
      } else {
        engine_.namespaces().Write(
            std::move(batch.checked.batch), batch.checked.settings, batch.checked.byte_size,
            EndOf(call_), [self = shared_from_this(), i](absl::StatusOr<ItemsWritten> written) {
              self->End(i, std::move(written));
            });
      }
    }
    Leave();
  }

  // Each batch has an outcome of its own, so batches may end on several threads at once.
  void End(std::size_t i, absl::StatusOr<ItemsWritten> written) {
    Batch& batch = batches_[i];
    v1::ItemBatchOutcome& outcome = *reply_.mutable_outcomes(static_cast<int>(i));
    if (written.ok()) {
      Fill(batch.checked, *written, read_.items, batch.first_get, outcome);
    } else {
      Fill(written.status(), batch.checked.is_get, *outcome.mutable_error());
    }
    Leave();
  }

  void Leave() {
    if (left_.fetch_sub(1) != 1) return;
    // What was written is written, whether there is room to say so or not.
    const std::size_t bytes = reply_.ByteSizeLong();
    if (writes_) {
      call_->CountReply(std::move(read_.memory), bytes);
    } else if (const absl::Status taken = call_->TakeReply(bytes); !taken.ok()) {
      call_->Fail(taken);
      return;
    }
    call_->Succeed(reply_.SerializeAsString());
  }

  Engine& engine_;
  const std::size_t item_bytes_;
  const Call call_;
  std::vector<Batch> batches_;
  ItemsRead read_;
  v1::BatchItemsResponse reply_;
  bool writes_ = false;
  std::atomic<std::size_t> left_{0};
};

}  // namespace

absl::Status CheckMayWriteItems(const Caller& caller) {
  if (caller.roles.any()) return absl::OkStatus();
  return Error(absl::StatusCode::kPermissionDenied, "ROLE_NOT_GRANTED",
               "the credential may write messages of some roles only, and items have no role");
}

absl::Status RunBatches(Engine& engine, std::size_t item_bytes, const CallEnvironment& environment,
                        const Call& call) {
  const v1::BatchItemsRequest& request = call->request();
  if (request.batches_size() > kMaxBatches) {
    return InvalidField(
        "batches", fmt::format("must be at most {}; got {}", kMaxBatches, request.batches_size()));
  }
  int operations = 0;
  bool reads = false;
  bool writes = false;
  for (const v1::ItemBatch& batch : request.batches()) {
    operations += batch.operations_size();
    reads |= Reads(batch);
    writes |= Writes(batch);
  }
  if (operations > kMaxOperations) {
    return InvalidField("batches", fmt::format("must have at most {} operations in all; got {}",
                                               kMaxOperations, operations));
  }
  // A refusal has a line, too.
  if (writes) call->Audit();
  // As the calls of their own.
  if (reads || !writes) {
    MEMORYD_RETURN_IF_ERROR(Authorize(environment, call->caller(), Method::kGetItem));
  }
  if (writes) {
    MEMORYD_RETURN_IF_ERROR(Authorize(environment, call->caller(), Method::kPutItem));
    MEMORYD_RETURN_IF_ERROR(CheckMayWriteItems(call->caller()));
  }
  MEMORYD_RETURN_IF_ERROR(call->TakeMore(DecodedBytes(static_cast<std::size_t>(operations))));
  std::make_shared<Batches>(&engine, item_bytes, call)->Start();
  return absl::OkStatus();
}

}  // namespace memoryd
