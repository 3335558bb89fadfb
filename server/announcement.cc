#include "server/announcement.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error_cause.h"

namespace memoryd {
namespace {

using Json = nlohmann::ordered_json;

// A path may be any bytes: what is no UTF-8 becomes U+FFFD.
std::string Line(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string TargetOf(const Listening& listening) {
  constexpr std::string_view kUnix = "unix:";
  const std::string& first = listening.listen.front();
  if (!first.starts_with(kUnix)) return first;
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(first.substr(kUnix.size()), error);
  return error ? first : std::string(kUnix) + path.string();
}

std::string ListeningLines(const Listening& listening) {
  std::string lines;
  if (!listening.metrics.empty()) lines += fmt::format("metrics on {}\n", listening.metrics);
  for (const std::string& address : listening.http) lines += fmt::format("http on {}\n", address);
  for (const std::string& address : listening.listen) {
    lines += fmt::format("listening on {}\n", address);
  }
  for (const std::string& address : listening.health) {
    lines += fmt::format("health on {}\n", address);
  }
  return lines;
}

std::string ListeningJson(const Listening& listening) {
  Json json = {{"target", TargetOf(listening)}, {"listen", listening.listen}};
  if (!listening.metrics.empty()) json["metrics"] = listening.metrics;
  if (!listening.health.empty()) json["health"] = listening.health;
  if (!listening.http.empty()) json["http"] = listening.http;
  return Line(json);
}

std::string CheckedJson(const absl::Status& checked, const std::vector<std::string>& warnings) {
  Json json = {{"valid", checked.ok()}};
  if (checked.ok()) {
    json["warnings"] = warnings;
  } else {
    json["error"] = TextForLog(checked);
  }
  return Line(json);
}

std::string MigratedJson(std::string_view kind, std::int64_t schema_version) {
  return Line({{"kind", kind}, {"schema_version", schema_version}});
}

}  // namespace memoryd
