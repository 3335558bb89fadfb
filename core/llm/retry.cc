#include "core/llm/retry.h"

#include <time.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>

#include "core/base/mutex.h"

namespace memoryd {
namespace {

constexpr std::chrono::milliseconds kFirstWait(250);
constexpr int kMaxDoublings = 6;
// More than anybody waits for; keeps sums of times in range.
constexpr std::chrono::hours kLongestRetryAfter(24);

struct Draws {
  explicit Draws(std::uint64_t seed) : engine(seed) {}
  Mutex mutex;
  std::mt19937_64 engine MEMORYD_GUARDED_BY(mutex);
};

// Of the three forms of RFC 9110 the one that may be sent, such as
// `Sun, 06 Nov 1994 08:49:37 GMT`. Does not ask the locale, as strptime would.
std::optional<std::chrono::system_clock::time_point> ParseHttpDate(std::string_view text) {
  constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  constexpr std::string_view kForm = "Sun, 00 Nov 0000 00:00:00 GMT";
  if (text.size() != kForm.size()) return std::nullopt;
  for (std::size_t i = 3; i < kForm.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    const bool in_month = i >= 8 && i < 11;
    if (!in_month && (kForm[i] == '0' ? !is_digit : text[i] != kForm[i])) return std::nullopt;
  }
  const auto month = std::find(std::begin(kMonths), std::end(kMonths), text.substr(8, 3));
  if (month == std::end(kMonths)) return std::nullopt;
  const auto number = [text](std::size_t begin, std::size_t count) {
    int value = 0;
    std::from_chars(text.data() + begin, text.data() + begin + count, value);
    return value;
  };
  tm parts{};
  parts.tm_mday = number(5, 2);
  parts.tm_mon = static_cast<int>(month - std::begin(kMonths));
  parts.tm_year = number(12, 4) - 1900;
  parts.tm_hour = number(17, 2);
  parts.tm_min = number(20, 2);
  parts.tm_sec = number(23, 2);
  return std::chrono::system_clock::from_time_t(timegm(&parts));
}

}  // namespace

Backoff JitteredBackoff(std::uint64_t seed) {
  const auto draws = std::make_shared<Draws>(seed);
  return [draws](int tries) {
    const auto longest = kFirstWait * (1 << std::clamp(tries - 1, 0, kMaxDoublings));
    std::uniform_int_distribution<std::int64_t> wait(longest.count() / 2, longest.count());
    MutexLock lock(draws->mutex);
    return std::chrono::milliseconds(wait(draws->engine));
  };
}

std::optional<std::chrono::seconds> ParseRetryAfter(std::string_view value,
                                                    std::chrono::system_clock::time_point now) {
  using std::chrono::seconds;
  constexpr auto kLongest = std::chrono::duration_cast<seconds>(kLongestRetryAfter);
  if (!value.empty() && value.find_first_not_of("0123456789") == std::string_view::npos) {
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
    return error == std::errc() ? std::min(seconds(count), kLongest) : kLongest;
  }
  const auto date = ParseHttpDate(value);
  if (!date.has_value()) return std::nullopt;
  // Rounded up: not before the time named.
  return std::clamp(std::chrono::ceil<seconds>(*date - now), seconds(0), kLongest);
}

}  // namespace memoryd
