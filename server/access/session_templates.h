// The `templates` of the configuration file: configurations of sessions that callers name.
#ifndef MEMORYD_SERVER_ACCESS_SESSION_TEMPLATES_H_
#define MEMORYD_SERVER_ACCESS_SESSION_TEMPLATES_H_

#include <yaml-cpp/yaml.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/llm/model_settings.h"
#include "core/model/session_template.h"
#include "memoryd/v1/memory.pb.h"
#include "server/access/tenant_limits.h"

namespace memoryd {

// A map of names and of what memoryd.v1.SessionConfig has, by the names of its fields.
inline constexpr std::string_view kTemplatesKey = "templates";

// A template as the file has it.
struct TemplateSource {
  std::string name;
  v1::SessionConfig config;
  YAML::Node node;
  std::string path;  // Of the file.
};

using SessionTemplates = std::map<std::string, SessionTemplatePtr, std::less<>>;

// Reads what is a configuration by its form. INVALID_ARGUMENT with one line that begins with `path`
// and the number of the bad line, and names template and field. Throws YAML::Exception for what is
// not YAML.
absl::StatusOr<std::vector<TemplateSource>> ParseTemplates(const YAML::Node& map,
                                                           const std::string& path);

// Checks each as CreateSession does. Errors as above. Time zones are known by then, see
// UseZoneFiles().
absl::StatusOr<SessionTemplates> MakeTemplates(const std::vector<TemplateSource>& sources);

// INVALID_ARGUMENT that names the tenant whose default template, or another that it may use, is
// none of `sources`, or who may not use its default.
absl::Status CheckTenantTemplates(const std::vector<TemplateSource>& sources,
                                  const TenantLimitTable& tenants);

// A line for each model that a template names and that is none of `models`, the server's own: its
// blocks have none until the settings have one of that name.
std::vector<std::string> MissingModels(const SessionTemplates& templates,
                                       const std::vector<ModelSettings>& models);

// What an error says of the names that there are.
std::string ThereAre(const std::vector<std::string>& names);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_ACCESS_SESSION_TEMPLATES_H_
