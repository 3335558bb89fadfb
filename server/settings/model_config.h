// The `models` of the configuration file.
#ifndef MEMORYD_SERVER_SETTINGS_MODEL_CONFIG_H_
#define MEMORYD_SERVER_SETTINGS_MODEL_CONFIG_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/llm/model_settings.h"

namespace YAML {
class Node;
}  // namespace YAML

namespace memoryd {

inline constexpr std::string_view kModelsKey = "models";

// INVALID_ARGUMENT with one line that begins with `path` and the number of the bad line, and names
// the key. Throws YAML::Exception for what is not YAML.
absl::StatusOr<std::vector<ModelSettings>> ParseModels(const YAML::Node& list,
                                                       const std::string& path);

// The table of a model's keys, in Markdown.
std::string ModelReference();

// Whether it has a header that is named like a secret, such as `X-Api-Key`.
bool MayHoldSecret(const ModelSettings& model);

// The list with what might be secret in it, the values of headers, masked.
YAML::Node MaskedModels(const YAML::Node& list);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_SETTINGS_MODEL_CONFIG_H_
