// What the server has answered since it began.
#ifndef MEMORYD_SERVER_OPS_CALL_STATS_H_
#define MEMORYD_SERVER_OPS_CALL_STATS_H_

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "core/base/histogram.h"
#include "server/wire/method.h"

namespace memoryd {

// Why callers were not let in: the reasons that Authenticator gives.
inline constexpr std::array<std::string_view, 3> kAuthFailures = {
    "UNAUTHENTICATED", "RIGHT_MISSING", "CREDENTIALS_DISAGREE"};

// The canonical codes, OK to UNAUTHENTICATED.
inline constexpr std::size_t kStatusCodes = 17;

// Any thread may call any method; none of them waits.
class CallStats {
 public:
  void Ended(Method method, absl::StatusCode code, std::chrono::steady_clock::duration took) {
    PerMethod& counts = methods_[static_cast<std::size_t>(method)];
    counts.seconds.Observe(took);
    const auto index = static_cast<std::size_t>(code);
    Increment(counts.codes[index < kStatusCodes ? index : kUnknown]);
  }
  // A call that came while the server drained.
  void RefusedDraining() { Increment(refused_draining_); }
  // A call that brought more metadata than it may.
  void RefusedMetadata() { Increment(refused_metadata_); }
  // A call whose request has fields that this server does not know.
  void UnknownFields(Method method) {
    Increment(methods_[static_cast<std::size_t>(method)].unknown_fields);
  }
  // `reason` is one of kAuthFailures; what is not is not counted.
  void AuthFailed(std::string_view reason) {
    const auto* const found = std::find(kAuthFailures.begin(), kAuthFailures.end(), reason);
    if (found != kAuthFailures.end()) {
      Increment(auth_failures_[static_cast<std::size_t>(found - kAuthFailures.begin())]);
    }
  }

  std::uint64_t ended(Method method, std::size_t code) const {
    return methods_[static_cast<std::size_t>(method)].codes[code];
  }
  HistogramSnapshot seconds(Method method) const {
    return methods_[static_cast<std::size_t>(method)].seconds.Snapshot();
  }
  std::uint64_t unknown_fields(Method method) const {
    return methods_[static_cast<std::size_t>(method)].unknown_fields;
  }
  std::uint64_t refused_draining() const { return refused_draining_; }
  std::uint64_t refused_metadata() const { return refused_metadata_; }
  // In the order of kAuthFailures.
  std::uint64_t auth_failures(std::size_t reason) const { return auth_failures_[reason]; }

 private:
  static constexpr auto kUnknown = static_cast<std::size_t>(absl::StatusCode::kUnknown);

  struct PerMethod {
    DurationHistogram seconds;
    std::array<Counter, kStatusCodes> codes{};
    Counter unknown_fields{0};
  };
  std::array<PerMethod, kMethods.size()> methods_;
  Counter refused_draining_{0};
  Counter refused_metadata_{0};
  std::array<Counter, kAuthFailures.size()> auth_failures_{};
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_OPS_CALL_STATS_H_
