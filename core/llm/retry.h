// When to try a model again.
#ifndef MEMORYD_CORE_LLM_RETRY_H_
#define MEMORYD_CORE_LLM_RETRY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace memoryd {

// How long to wait before the try after the `tries`th; `tries` is 1 or more. Any thread.
using Backoff = std::function<std::chrono::milliseconds(int tries)>;

// Doubles from 250 ms to 16 s; each wait is drawn from the upper half of that, so that callers that
// failed together don't come back together.
Backoff JitteredBackoff(std::uint64_t seed);

// The value of a Retry-After header, seconds or a date of HTTP, as a time from `now`, which is
// never negative. None for anything else.
std::optional<std::chrono::seconds> ParseRetryAfter(std::string_view value,
                                                    std::chrono::system_clock::time_point now);

}  // namespace memoryd

#endif  // MEMORYD_CORE_LLM_RETRY_H_
