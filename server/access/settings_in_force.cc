#include "server/access/settings_in_force.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/model/session_template.h"
#include "server/access/session_templates.h"

namespace memoryd {

absl::StatusOr<SessionDefaults> TenantSettings::DefaultsFor(std::string_view tenant,
                                                            std::string_view template_name) const {
  SessionDefaults defaults;
  defaults.retention = tenants.Of(tenant).retention();
  const std::string_view wanted =
      template_name.empty() ? tenants.DefaultTemplateOf(tenant) : template_name;
  if (wanted.empty()) return defaults;
  const auto found = templates.find(wanted);
  if (found != templates.end() && tenants.MayUseTemplate(tenant, wanted)) {
    defaults.from = found->second;
    return defaults;
  }
  return InvalidField(
      "template", fmt::format("there is no such template; {}", ThereAre(TemplateNames(tenant))));
}

std::vector<std::string> TenantSettings::TemplateNames(std::string_view tenant) const {
  std::vector<std::string> names;
  for (const auto& [name, unused] : templates) {
    if (tenants.MayUseTemplate(tenant, name)) names.push_back(name);
  }
  return names;
}

}  // namespace memoryd
