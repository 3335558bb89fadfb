#include "core/blocks/usage_state.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/model/job.h"

namespace memoryd {

using nlohmann::json;

std::string EncodeUsage(const Usage& usage) {
  const json object = {{"calls", usage.calls},
                       {"prompt_tokens", usage.prompt_tokens},
                       {"completion_tokens", usage.completion_tokens}};
  return object.dump();
}

Usage DecodeUsage(std::string_view state) {
  const json object = json::parse(state, nullptr, /*allow_exceptions=*/false);
  try {
    return {object.at("calls").get<std::int64_t>(), object.at("prompt_tokens").get<std::int64_t>(),
            object.at("completion_tokens").get<std::int64_t>()};
  } catch (const json::exception&) {
    return {};
  }
}

}  // namespace memoryd
