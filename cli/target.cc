#include "cli/target.h"

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace memoryd::cli {
namespace {

std::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Empty for what is no URI of memoryd's.
std::string TargetOfUri(std::string_view uri) {
  constexpr std::string_view kScheme = "memoryd://";
  if (!uri.starts_with(kScheme)) return {};
  uri.remove_prefix(kScheme.size());
  uri = uri.substr(0, uri.find('?'));
  if (uri.starts_with('/')) return "unix:" + std::string(uri);
  return std::string(uri.substr(0, uri.find('/')));
}

}  // namespace

std::optional<OldTarget> FindOldTarget() {
  if (!Variable("MEMORYD_TARGET").empty()) return std::nullopt;
  if (const auto address = Variable("MEMORYD_ADDRESS"); !address.empty()) {
    return OldTarget{"MEMORYD_ADDRESS", std::string(address)};
  }
  std::string target = TargetOfUri(Variable("MEMORYD_URI"));
  if (target.empty()) return std::nullopt;
  return OldTarget{"MEMORYD_URI", std::move(target)};
}

}  // namespace memoryd::cli
