#include "core/blocks/block_ttl.h"

#include <nlohmann/json.hpp>
#include <string>

namespace memoryd {

std::int64_t BlockTtlUs(const BlockSettings& settings) {
  // Most blocks have none, and their options, prompts among them, need not be read for that.
  if (settings.options_json.find("\"ttl\"") == std::string::npos) return 0;
  const auto options = nlohmann::json::parse(settings.options_json, nullptr, false);
  if (!options.is_object()) return 0;
  const auto ttl = options.find("ttl");
  const bool is_set = ttl != options.end() && ttl->is_number_integer();
  return is_set ? ttl->get<std::int64_t>() * 1'000'000 : 0;
}

}  // namespace memoryd
