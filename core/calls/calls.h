// Calls that wait for the store: admitted, ended at their deadlines, and worked on by readers.
#ifndef MEMORYD_CORE_CALLS_CALLS_H_
#define MEMORYD_CORE_CALLS_CALLS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/exception.h"
#include "core/base/mutex.h"
#include "core/calls/admission.h"
#include "core/calls/call_end.h"
#include "core/calls/engine_stats.h"
#include "core/calls/executor.h"
#include "core/calls/pending_calls.h"

namespace memoryd {

class Calls;

// A call that left the calling thread. Whoever finishes it first decides the reply. Most only read;
// one that changes what is stored says so by BeginWrite().
class PendingRead : public PendingCall {
 public:
  PendingRead(Calls* calls, CallEnd end, Admission::Place place)
      : PendingCall(end.deadline),
        calls_(*calls),
        watch_(std::move(end.watch)),
        is_part_(end.is_part),
        place_(std::move(place)) {}

  // Ends the call with an error.
  virtual void Fail(const absl::Status& status) = 0;
  void Expire() override;

  // To be asked before anything is changed. True: from then on the call ends UNAVAILABLE
  // `OUTCOME_UNKNOWN` where it would have said that nothing was changed. False: it has been
  // answered, and nothing may be changed.
  [[nodiscard]] bool BeginWrite();

  bool finished() const { return finished_.load(); }
  // To be asked before work begins. Finishes the read if its caller is gone.
  bool HasEnded();
  // The end of another read that is a part of this one.
  CallEnd end_of_part() const;

 protected:
  // True once: the read may be answered, with a result of this status.
  bool Claim(const absl::Status& status);
  // The error as the caller is told it.
  absl::Status Told(const absl::Status& status) const;

 private:
  Calls& calls_;
  const std::shared_ptr<const CallWatch> watch_;
  const bool is_part_;
  const Admission::Place place_;
  std::atomic<bool> finished_{false};
  std::atomic<bool> writes_{false};
};

template <typename T>
class ReadCall final : public PendingRead {
 public:
  using Done = std::function<void(absl::StatusOr<T>)>;

  ReadCall(Calls* calls, CallEnd end, Admission::Place place, Done done)
      : PendingRead(calls, std::move(end), std::move(place)), done_(std::move(done)) {}

  void Finish(absl::StatusOr<T> result) {
    if (!Claim(result.status())) return;
    if (!result.ok()) result = Told(result.status());
    done_(std::move(result));
  }
  void Fail(const absl::Status& status) override {
    if (Claim(status)) done_(Told(status));
  }

 private:
  const Done done_;
};

// Any thread may call any method. It outlives its calls.
class Calls {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // See EngineOptions for the bounds. `readers` and `stats` outlive the calls' work.
  Calls(std::int64_t max_calls, std::int64_t max_bytes, Executor* readers, EngineStats* stats);

  // A place among those that wait. RESOURCE_EXHAUSTED `QUEUE_FULL`: nothing was started;
  // UNAVAILABLE `STORE_UNAVAILABLE` while nothing is served. `forced`: counts, and is never refused
  // for want of room.
  absl::StatusOr<Admission::Place> Admit(std::string_view tenant, std::int64_t bytes,
                                         bool forced = false);

  // A read that will call done, or nullptr when it was refused and done was called. `bytes`: of its
  // request.
  template <typename T>
  std::shared_ptr<ReadCall<T>> Begin(std::string_view tenant, CallEnd end,
                                     std::function<void(absl::StatusOr<T>)> done,
                                     std::int64_t bytes = 0) {
    absl::StatusOr<Admission::Place> place = Admit(tenant, bytes);
    if (!place.ok()) {
      done(place.status());
      return nullptr;
    }
    auto read =
        std::make_shared<ReadCall<T>>(this, std::move(end), *std::move(place), std::move(done));
    pending_.Add(read);
    return read;
  }

  // The same of a call that has its place already.
  template <typename T>
  std::shared_ptr<ReadCall<T>> BeginAdmitted(CallEnd end,
                                             std::function<void(absl::StatusOr<T>)> done) {
    auto read =
        std::make_shared<ReadCall<T>>(this, std::move(end), Admission::Place(), std::move(done));
    pending_.Add(read);
    return read;
  }

  // Has a reader run `task`, which ends `read`, unless that has ended by then; refuses the read
  // when too many wait.
  void Run(std::string_view tenant, const std::shared_ptr<PendingRead>& read, Executor::Task task);
  // Has a reader run what was admitted: never refuses.
  void RunAdmitted(std::string_view tenant, Executor::Task task) {
    readers_.Submit(tenant, std::move(task));
  }

  // Does the work on a call, which ends INTERNAL when it throws.
  template <typename Call, typename Work>
  void Guarded(const std::shared_ptr<Call>& call, const Work& work) {
    try {
      work();
    } catch (...) {
      Increment(stats_.exceptions);
      EndThrown(*call, CaughtException());
    }
  }

  // While it is false nothing is admitted.
  bool serving() const { return serving_.load(std::memory_order_relaxed); }
  void SetServing(bool serving) { serving_.store(serving); }

  // From now on WaitForStop() returns true.
  void Stop() MEMORYD_EXCLUDES(mutex_);
  bool stopping() MEMORYD_EXCLUDES(mutex_);
  // Waits until Stop(), at most until `time`; true when it was called.
  bool WaitForStop(Deadline time) MEMORYD_EXCLUDES(mutex_);
  // Stop(), and waits until no call is pending, at most until `deadline`; true when none is.
  bool Drain(Deadline deadline) MEMORYD_EXCLUDES(mutex_);

  PendingCalls& pending() { return pending_; }
  EngineStats& stats() { return stats_; }
  // Calls that wait for the store now, and the bytes of their requests.
  std::int64_t count() const { return admission_.calls(); }
  std::int64_t bytes() const { return admission_.bytes(); }

 private:
  static void EndThrown(PendingRead& read, const absl::Status& status) { read.Fail(status); }
  template <typename Call>
  static void EndThrown(Call& call, const absl::Status& status) {
    call.Finish(status);
  }
  absl::Status QueueFull(Counter& refused);

  Executor& readers_;
  EngineStats& stats_;
  std::atomic<bool> serving_{true};
  Mutex mutex_;
  CondVar changed_;  // Stopping, or no call pending.
  bool stopping_ MEMORYD_GUARDED_BY(mutex_) = false;
  Admission admission_;
  PendingCalls pending_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_CALLS_CALLS_H_
