#include "core/calls/wake_scope.h"

#include <algorithm>
#include <memory>

namespace memoryd {

WakeScope::~WakeScope() {
  // Within the scope, so that what a visit adds is visited here and not on top of it.
  while (depth_ == 1 && !sleepers_.empty()) {
    const std::shared_ptr<Sleeper> sleeper = sleepers_.back();
    sleepers_.pop_back();
    if (at_end_ == AtEnd::kVisit) {
      sleeper->Visit();
    } else {
      sleeper->WakeUp();
    }
  }
  --depth_;
}

void WakeScope::Add(const std::shared_ptr<Sleeper>& sleeper) {
  if (std::find(sleepers_.begin(), sleepers_.end(), sleeper) == sleepers_.end()) {
    sleepers_.push_back(sleeper);
  }
}

}  // namespace memoryd
