// Whether a write that waits its turn can be answered in its time.
#ifndef MEMORYD_CORE_WRITES_ADMIT_IN_TIME_H_
#define MEMORYD_CORE_WRITES_ADMIT_IN_TIME_H_

#include <chrono>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace memoryd {

// RESOURCE_EXHAUSTED `QUEUE_FULL` for a call that has `left` and could not be answered in it behind
// what waits already. `wait` is how long all of that takes; `tenant_wait` is asked how long the
// part takes that goes before the call's tenant, where all is too much. Zero: nothing is known.
absl::Status AdmitInTime(std::chrono::nanoseconds wait,
                         absl::FunctionRef<std::chrono::nanoseconds()> tenant_wait,
                         std::chrono::nanoseconds left);

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_ADMIT_IN_TIME_H_
