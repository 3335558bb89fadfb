#include "core/writes/admit_in_time.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "core/base/error.h"

namespace memoryd {
namespace {

// What waits goes before a call, and what comes until then with it.
constexpr int kShareOfTime = 3;
// Where only a part of it does, what other tenants send until then goes after the call: two thirds.
constexpr int kShareBesideOthers = 2;

}  // namespace

absl::Status AdmitInTime(std::chrono::nanoseconds wait,
                         absl::FunctionRef<std::chrono::nanoseconds()> tenant_wait,
                         std::chrono::nanoseconds left) {
  // A call whose time is over hears that instead.
  if (left <= left.zero() || wait * kShareOfTime <= left) return absl::OkStatus();
  // Of what other tenants have waiting, only a part goes before it.
  const std::chrono::nanoseconds all = std::exchange(wait, tenant_wait());
  if (wait * kShareOfTime <= left * (wait < all ? kShareBesideOthers : 1)) return absl::OkStatus();
  const auto wait_ms = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  return Error(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
               fmt::format("the store needs {} ms for what waits, too much for this call to be "
                           "answered in its time; nothing was started, try again later",
                           wait_ms),
               {{std::string(kRetryAfterMs), fmt::format("{}", wait_ms)}});
}

}  // namespace memoryd
