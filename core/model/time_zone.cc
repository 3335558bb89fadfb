#include "core/model/time_zone.h"

#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace memoryd {
namespace {

// Only names that stay within the directory: Abseil opens any path.
bool IsName(std::string_view name) {
  if (name.empty() || name.size() > kMaxTimeZoneBytes || name.front() == '/') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '+' || c == '/';
  });
}

// Abseil keeps every name that it was ever asked for, so it is asked for none without a file.
bool HasFile(std::string_view name) {
  const char* const directory = std::getenv("TZDIR");
  std::error_code error;
  return std::filesystem::is_regular_file(
      std::filesystem::path(directory == nullptr ? "/usr/share/zoneinfo" : directory) / name,
      error);
}

std::string Format(const char* format, std::int64_t time_us, absl::TimeZone zone) {
  return absl::FormatTime(format, absl::FromUnixMicros(time_us), zone);
}

}  // namespace

void UseZoneFiles(const std::string& directory) {
  std::error_code error;
  if (std::filesystem::is_directory(directory, error)) {
    setenv("TZDIR", directory.c_str(), /*overwrite=*/1);
  }
}

absl::StatusOr<absl::TimeZone> FindTimeZone(std::string_view name) {
  if (name == kDefaultTimeZone) return absl::UTCTimeZone();
  absl::TimeZone zone;
  if (!IsName(name) || !HasFile(name) ||
      !absl::LoadTimeZone(absl::string_view(name.data(), name.size()), &zone)) {
    return absl::InvalidArgumentError(
        "must be a name of the IANA Time Zone Database that the server knows, such as "
        "Europe/Lisbon");
  }
  return zone;
}

std::string TimeText(std::int64_t time_us, absl::TimeZone zone) {
  return Format("%A, %Y-%m-%d %H:%M", time_us, zone);
}

std::string DayText(std::int64_t time_us, absl::TimeZone zone) {
  return Format("%A, %Y-%m-%d", time_us, zone);
}

std::string DateText(std::int64_t time_us, absl::TimeZone zone) {
  return Format("%E4Y-%m-%d", time_us, zone);
}

std::string DayWords(std::int64_t time_us, absl::TimeZone zone) {
  return Format("%-d %B %Y", time_us, zone);
}

}  // namespace memoryd
