// google.protobuf.Duration and the core's microseconds.
#ifndef MEMORYD_SERVER_WIRE_DURATION_H_
#define MEMORYD_SERVER_WIRE_DURATION_H_

#include <google/protobuf/duration.pb.h>

#include <algorithm>
#include <cstdint>

#include "server/wire/timestamp.h"

namespace memoryd {

// Whatever is beyond all ranges stays beyond them, and what is no duration is.
inline std::int64_t ToMicros(const google::protobuf::Duration& duration) {
  constexpr std::int32_t kMostNanos = 999'999'999;
  const bool agree = duration.nanos() == 0 || duration.seconds() == 0 ||
                     (duration.nanos() > 0) == (duration.seconds() > 0);
  if (!agree || duration.nanos() < -kMostNanos || duration.nanos() > kMostNanos) return -1;
  constexpr std::int64_t kMostSeconds = std::int64_t{1} << 40;
  const std::int64_t seconds = std::clamp(duration.seconds(), -kMostSeconds, kMostSeconds);
  const std::int64_t micros = seconds * kMicrosPerSecond + duration.nanos() / 1000;
  // What is shorter than a microsecond is not 0, which would be never.
  return micros == 0 && duration.nanos() != 0 ? 1 : micros;
}

inline void SetDuration(google::protobuf::Duration& duration, std::int64_t micros) {
  duration.set_seconds(micros / kMicrosPerSecond);
  duration.set_nanos(static_cast<std::int32_t>(micros % kMicrosPerSecond * 1000));
}

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_DURATION_H_
