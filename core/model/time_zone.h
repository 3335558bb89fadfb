// Time zones of the IANA Time Zone Database, and times as people write them.
#ifndef MEMORYD_CORE_MODEL_TIME_ZONE_H_
#define MEMORYD_CORE_MODEL_TIME_ZONE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace memoryd {

inline constexpr std::string_view kDefaultTimeZone = "UTC";
inline constexpr std::size_t kMaxTimeZoneBytes = 64;

// Has zones read from files under `directory`, compiled as by zic. Without a call, or where there
// is no such directory, the system's serve. Call it before the second thread: it sets TZDIR.
void UseZoneFiles(const std::string& directory);

// The zone of a name such as `Europe/Lisbon`, in the spelling of the database. INVALID_ARGUMENT for
// a name that is longer than kMaxTimeZoneBytes, names no file, or could name one elsewhere. Any
// thread; a zone is read once.
absl::StatusOr<absl::TimeZone> FindTimeZone(std::string_view name);

// Such as "Wednesday, 2023-05-24 10:00". `time_us`: microseconds since the epoch.
std::string TimeText(std::int64_t time_us, absl::TimeZone zone);
// Such as "Wednesday, 2023-05-24".
std::string DayText(std::int64_t time_us, absl::TimeZone zone);
// Such as "2023-05-24".
std::string DateText(std::int64_t time_us, absl::TimeZone zone);
// Such as "24 May 2023", by which messages are found.
std::string DayWords(std::int64_t time_us, absl::TimeZone zone);

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_TIME_ZONE_H_
