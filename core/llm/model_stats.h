// What a model has been asked since the server began.
#ifndef MEMORYD_CORE_LLM_MODEL_STATS_H_
#define MEMORYD_CORE_LLM_MODEL_STATS_H_

#include <array>

#include "core/base/histogram.h"

namespace memoryd {

// Status codes are 0 to 16.
inline constexpr std::size_t kModelCodes = 17;

struct ModelStats {
  std::array<Counter, kModelCodes> calls{};  // Ended, by code.
  Counter attempts{0};                       // Requests that reached the model.
  Counter retries{0};
  Counter prompt_tokens{0};  // As the model counts them.
  Counter completion_tokens{0};
  DurationHistogram seconds;          // Of a call, with its waits and all its attempts.
  std::atomic<std::int64_t> open{0};  // Calls under way or waiting.
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LLM_MODEL_STATS_H_
