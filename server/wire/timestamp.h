// google.protobuf.Timestamp and the core's microseconds since the epoch.
#ifndef MEMORYD_SERVER_WIRE_TIMESTAMP_H_
#define MEMORYD_SERVER_WIRE_TIMESTAMP_H_

#include <google/protobuf/timestamp.pb.h>

#include <algorithm>
#include <cstdint>

namespace memoryd {

inline constexpr std::int64_t kMicrosPerSecond = 1'000'000;

// Less than a microsecond is dropped. Whatever is beyond the range of a Timestamp stays beyond it.
inline std::int64_t ToMicros(const google::protobuf::Timestamp& time) {
  constexpr std::int64_t kMostSeconds = std::int64_t{1} << 40;
  return std::clamp(time.seconds(), -kMostSeconds, kMostSeconds) * kMicrosPerSecond +
         time.nanos() / 1000;
}

// `micros` is not before the epoch.
inline void SetTime(google::protobuf::Timestamp* time, std::int64_t micros) {
  time->set_seconds(micros / kMicrosPerSecond);
  time->set_nanos(static_cast<std::int32_t>(micros % kMicrosPerSecond * 1000));
}

}  // namespace memoryd

#endif  // MEMORYD_SERVER_WIRE_TIMESTAMP_H_
