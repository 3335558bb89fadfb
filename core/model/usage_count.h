// Counts what is asked of models on behalf of one call or one attempt of a job.
#ifndef MEMORYD_CORE_MODEL_USAGE_COUNT_H_
#define MEMORYD_CORE_MODEL_USAGE_COUNT_H_

#include <memory>
#include <utility>

#include "core/base/mutex.h"
#include "core/model/job.h"

namespace memoryd {

// Any thread. An answer that comes when the call has ended is counted by nobody any more.
class UsageCount {
 public:
  UsageCount() = default;
  // What is added here is added to `whole` as well, unless that is null.
  explicit UsageCount(std::shared_ptr<UsageCount> whole) : whole_(std::move(whole)) {}

  void Add(const Usage& usage) MEMORYD_EXCLUDES(mutex_) {
    if (whole_ != nullptr) whole_->Add(usage);
    MutexLock lock(mutex_);
    total_ += usage;
  }
  Usage Total() const MEMORYD_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return total_;
  }

 private:
  const std::shared_ptr<UsageCount> whole_;
  mutable Mutex mutex_;
  Usage total_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_USAGE_COUNT_H_
