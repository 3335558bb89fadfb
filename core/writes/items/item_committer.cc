#include "core/writes/items/item_committer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/failpoint.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/calls/tenant_queue.h"
#include "core/calls/wake_scope.h"
#include "core/sessions/session_errors.h"
#include "core/storage/item_batch.h"
#include "core/writes/items/item_call.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxCalls = 256;
constexpr std::size_t kMaxBytes = std::size_t{8} << 20;
// What a call costs its tenant beside its bytes, so that many small ones count too.
constexpr std::int64_t kCallCost = 4096;
// What is written together makes everybody wait; longer than this it is not worth the round trip it
// saves, and nears the store's timeout.
constexpr std::chrono::milliseconds kMaxBatchTime(250);

// The keys that some calls write; the calls outlive it.
class Keys {
 public:
  bool HasAny(const ItemBatch& batch) const {
    return std::any_of(batch.writes.begin(), batch.writes.end(),
                       [&](const ItemWrite& write) { return keys_.contains(KeyOf(batch, write)); });
  }
  void Add(const ItemBatch& batch) {
    for (const ItemWrite& write : batch.writes) keys_.insert(KeyOf(batch, write));
  }

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;

  static Key KeyOf(const ItemBatch& batch, const ItemWrite& write) {
    return {batch.key.tenant, batch.key.path.stored(), write.key};
  }

  std::set<Key> keys_;
};

}  // namespace

ItemCommitter::ItemCommitter(Options options) : options_(std::move(options)) {}

void ItemCommitter::Enqueue(std::shared_ptr<ItemCall> call) {
  ReachFailpoint("write_queued");
  bool wakes = false;
  {
    MutexLock lock(mutex_);
    wakes = queue_.empty() && gathering_ == 0;
    const std::string_view tenant = call->batch.key.tenant;
    queue_.Push(tenant, std::move(call));
    calls_.fetch_add(1, std::memory_order_relaxed);
  }
  if (wakes) worker_.Wake();
}

ItemCommitter::Gathering::Gathering(ItemCommitter& committer) : committer_(committer) {
  MutexLock lock(committer_.mutex_);
  ++committer_.gathering_;
}

ItemCommitter::Gathering::~Gathering() {
  bool wakes = false;
  {
    MutexLock lock(committer_.mutex_);
    --committer_.gathering_;
    // Those of another thread, too: it may still gather when this one has ended.
    wakes = !committer_.queue_.empty();
  }
  if (wakes) committer_.worker_.Wake();
}

std::chrono::nanoseconds ItemCommitter::ExpectedWait(std::string_view tenant) {
  MutexLock lock(mutex_);
  const std::size_t own = queue_.SizeOf(tenant);
  const std::size_t tenants = queue_.WaitingTenants() + (own == 0 ? 1 : 0);
  const std::size_t all = calls_.load(std::memory_order_relaxed);
  const std::size_t under_way = all - std::min(all, queue_.size());
  return pace_.Expected(
      static_cast<std::int64_t>(under_way + std::min((own + 1) * tenants, queue_.size())));
}

void ItemCommitter::CommitQueued() {
  for (;;) {
    Calls taken;
    {
      MutexLock lock(mutex_);
      if (queue_.empty()) return;
      taken = Take();
    }
    Commit(taken);
    calls_.fetch_sub(taken.size(), std::memory_order_relaxed);
  }
}

ItemCommitter::Calls ItemCommitter::Take() {
  struct Left {
    TenantQueue<std::shared_ptr<ItemCall>>::Turn turn;
    std::shared_ptr<ItemCall> call;
  };
  Calls taken;
  std::vector<Left> left;
  Keys keys;  // Of those that are left as well: what comes behind one of them stays behind it.
  std::size_t bytes = 0;
  while (!queue_.empty() && taken.size() < kMaxCalls && left.size() < kMaxCalls &&
         bytes < kMaxBytes &&
         pace_.Expected(static_cast<std::int64_t>(taken.size())) < kMaxBatchTime) {
    auto [turn, call] = queue_.Take();
    const bool waits = keys.HasAny(call->batch);
    keys.Add(call->batch);
    if (waits) {
      left.push_back({turn, std::move(call)});
      continue;
    }
    bytes += call->byte_size;
    queue_.EndTurn(turn, static_cast<std::int64_t>(call->byte_size) + kCallCost);
    taken.push_back(std::move(call));
  }
  for (; !left.empty(); left.pop_back()) {
    queue_.PutBack(left.back().turn, std::move(left.back().call));
  }
  return taken;
}

void ItemCommitter::Commit(const Calls& taken) {
  Calls begun;
  bool sent = false;
  std::size_t concluded = 0;
  try {
    std::vector<ItemBatch> batches;
    for (const auto& call : taken) {
      if (!call->BeginCommit()) continue;
      begun.push_back(call);
      batches.push_back(std::move(call->batch));
    }
    if (batches.empty()) return;
    options_.stats->batch_writes.Observe(static_cast<std::int64_t>(batches.size()));
    ReachFailpoint("batch_drafted");
    const std::int64_t now_us = options_.clock->NowUs();
    const auto begin = std::chrono::steady_clock::now();
    sent = true;
    const std::vector<ItemBatchResult> results = options_.store->WriteItems(batches, now_us);
    pace_.Observe(static_cast<std::int64_t>(batches.size()),
                  std::chrono::steady_clock::now() - begin, /*full=*/false);
    ReachFailpoint("commit_answered");
    const WakeScope replies(AtEndOfBatch());
    for (; concluded < begun.size(); ++concluded) {
      begun[concluded]->batch = std::move(batches[concluded]);
      Conclude(begun[concluded], results[concluded], now_us);
    }
  } catch (...) {
    Increment(options_.stats->exceptions);
    const absl::Status status = CaughtException();
    for (; concluded < begun.size(); ++concluded) {
      begun[concluded]->Finish(sent ? OutcomeUnknown() : status);
    }
    // Those that were not reached, if any: their places would never come free.
    for (const auto& call : taken) call->Finish(status);
  }
}

WakeScope::AtEnd ItemCommitter::AtEndOfBatch() {
  MutexLock lock(mutex_);
  return queue_.empty() ? WakeScope::AtEnd::kVisit : WakeScope::AtEnd::kWakeUp;
}

void ItemCommitter::Conclude(const std::shared_ptr<ItemCall>& call, const ItemBatchResult& result,
                             std::int64_t now_us) {
  switch (result.outcome) {
    case ItemBatchOutcome::kWritten:
      call->Finish(ItemsWritten{
          .writes = result.writes, .update_us = now_us, .made_namespace = result.made_namespace});
      break;
    case ItemBatchOutcome::kVersionLost:
      call->Finish(VersionMismatch(result.lost, result.stored));
      break;
    case ItemBatchOutcome::kVectorSize:
      call->Finish(VectorSizeMismatch(result.lost, result.stored));
      break;
    case ItemBatchOutcome::kRequestIdTaken:
      call->BackToQueue();
      options_.recorded->LookUp(call);
      break;
    case ItemBatchOutcome::kOtherSubject:
      call->Finish(SubjectNotGranted("namespace"));
      break;
    case ItemBatchOutcome::kErased:
      call->Finish(NamespaceErased());
      break;
    case ItemBatchOutcome::kFailed:
      call->Finish(absl::IsUnavailable(result.status) ? StoreUnavailable() : result.status);
      break;
    case ItemBatchOutcome::kUnknown:
      call->Finish(OutcomeUnknown());
      break;
  }
}

}  // namespace memoryd
