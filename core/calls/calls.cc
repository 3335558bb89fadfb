#include "core/calls/calls.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/calls/call_end.h"
#include "core/calls/executor.h"

namespace memoryd {

absl::Status NobodyWaits() { return absl::CancelledError("nobody waits for the call any more"); }

void PendingRead::Expire() { Fail(StoreUnavailable()); }

bool PendingRead::BeginWrite() {
  // In this order, since Claim() and Told() come in the other.
  writes_.store(true);
  return !finished();
}

absl::Status PendingRead::Told(const absl::Status& status) const {
  absl::Status told = Reported(status);
  if (!writes_.load() || ErrorReason(told) != "STORE_UNAVAILABLE") return told;
  return Error(absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN",
               "the store did not confirm the change in time: all or a part of it may be stored; "
               "repeat it with the same request_id, or look what is stored where there is none");
}

bool PendingRead::HasEnded() {
  if (finished()) return true;
  if (watch_ == nullptr || !watch_->IsCancelled()) return false;
  Fail(absl::CancelledError("the call was cancelled"));
  return true;
}

CallEnd PendingRead::end_of_part() const {
  CallEnd end(deadline(), watch_);
  end.is_part = true;
  return end;
}

bool PendingRead::Claim(const absl::Status& status) {
  if (finished_.exchange(true)) return false;
  calls_.pending().Remove(this);
  if (absl::IsCancelled(status) && !is_part_) Increment(calls_.stats().cancelled_reads);
  return true;
}

Calls::Calls(std::int64_t max_calls, std::int64_t max_bytes, Executor* readers, EngineStats* stats)
    : readers_(*readers), stats_(*stats), admission_(max_calls, max_bytes, [this] {
        MutexLock lock(mutex_);
        if (stopping_) changed_.NotifyAll();
      }) {}

absl::Status Calls::QueueFull(Counter& refused) {
  Increment(refused);
  return Error(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
               "too many calls wait for the store; nothing was started, try again later");
}

absl::StatusOr<Admission::Place> Calls::Admit(std::string_view tenant, std::int64_t bytes,
                                              bool forced) {
  if (!serving()) return StoreUnavailable();
  Admission::Place place;
  switch (admission_.Enter(tenant, bytes, forced, place)) {
    case Admission::Outcome::kAdmitted:
      break;
    case Admission::Outcome::kTooManyCalls:
      return QueueFull(stats_.refused_calls);
    case Admission::Outcome::kTooManyBytes:
      return QueueFull(stats_.refused_bytes);
  }
  return place;
}

void Calls::Run(std::string_view tenant, const std::shared_ptr<PendingRead>& read,
                Executor::Task task) {
  const auto guarded = [this, read, task = std::move(task)] {
    if (!read->HasEnded()) Guarded(read, task);
  };
  if (!readers_.TrySubmit(tenant, guarded)) read->Fail(QueueFull(stats_.refused_calls));
}

void Calls::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
}

bool Calls::stopping() {
  MutexLock lock(mutex_);
  return stopping_;
}

bool Calls::WaitForStop(Deadline time) {
  MutexLock lock(mutex_);
  while (!stopping_ && std::chrono::steady_clock::now() < time) changed_.WaitUntil(mutex_, time);
  return stopping_;
}

bool Calls::Drain(Deadline deadline) {
  MutexLock lock(mutex_);
  stopping_ = true;
  while (admission_.calls() > 0) {
    if (deadline == Deadline::max()) {
      changed_.Wait(mutex_);
    } else if (!changed_.WaitUntil(mutex_, deadline)) {
      return admission_.calls() == 0;
    }
  }
  return true;
}

}  // namespace memoryd
