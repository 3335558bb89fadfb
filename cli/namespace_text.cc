#include "cli/namespace_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/repeated_field.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace memoryd::cli {
namespace {

using Json = nlohmann::json;

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseNamespace(const std::string& text) {
  std::vector<std::string> names;
  if (text.starts_with('[')) {
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_array() ||
        !std::all_of(json.begin(), json.end(), [](const Json& name) { return name.is_string(); })) {
      return absl::InvalidArgumentError(
          "NAMESPACE: what begins with [ must be an array of texts in JSON, as [\"a/b\",\"c\"]");
    }
    for (const Json& name : json) names.push_back(name.get<std::string>());
    return names;
  }
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::string NamespaceText(const google::protobuf::RepeatedPtrField<std::string>& names) {
  const bool is_plain = !names.empty() && !names.Get(0).starts_with('[') &&
                        std::none_of(names.begin(), names.end(), [](const std::string& name) {
                          return name.find('/') != std::string::npos;
                        });
  if (is_plain) return fmt::format("{}", fmt::join(names, "/"));
  return Json(std::vector<std::string>(names.begin(), names.end()))
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace memoryd::cli
