#include "server/live_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/llm/model_settings.h"
#include "server/access/session_templates.h"
#include "server/access/tenant_limits.h"
#include "server/command_line.h"
#include "server/config.h"
#include "server/ops/call_log.h"

namespace memoryd {
namespace {

bool IsLive(std::string_view name) {
  return name == "log_level" || name == "log_requests" || name == kTenantsKey ||
         name == kTemplatesKey || name.starts_with("tenant_");
}

}  // namespace

LoggedCalls LoggedCallsOf(const Config& config) {
  if (config.log_requests == "all") return LoggedCalls::kAll;
  return config.log_requests == "none" ? LoggedCalls::kNone : LoggedCalls::kErrors;
}

void WarnOfMissingModels(const SessionTemplates& templates,
                         const std::vector<ModelSettings>& models) {
  for (const std::string& line : MissingModels(templates, models)) spdlog::warn("{}", line);
}

void LiveSettings::Reload(const absl::StatusOr<CommandLine>& line) {
  if (!line.ok()) {
    spdlog::error("settings read again, and nothing changed: {}",
                  std::string(line.status().message()));
    return;
  }
  // A list that is taken out of the file is in one of the two alone.
  std::map<std::string, std::string> all = line->settings;
  all.insert(settings_.begin(), settings_.end());
  const auto value = [](const std::map<std::string, std::string>& settings,
                        const std::string& name) {
    const auto found = settings.find(name);
    return found == settings.end() ? std::string() : found->second;
  };
  std::vector<std::string> changed, waiting;
  for (const auto& [name, unused] : all) {
    std::string now = value(line->settings, name);
    if (now == value(settings_, name)) continue;
    (IsLive(name) ? changed : waiting).push_back(name);
    if (IsLive(name)) settings_[name] = std::move(now);
  }
  log_.SetLevel(line->config.log_level);
  calls_.SetCalls(LoggedCallsOf(line->config));
  tenants_.Replace({line->config.tenants, line->config.templates});
  limiter_.SetLimits(line->config.tenants);
  WarnOfMissingModels(line->config.templates, models_);
  if (!waiting.empty()) {
    spdlog::warn("settings that differ and want a restart: {}", fmt::join(waiting, ", "));
  }
  // Last, so that whoever waits for this line has seen all.
  spdlog::info("settings read again, changed: {}",
               changed.empty() ? "none" : fmt::format("{}", fmt::join(changed, ", ")));
}

}  // namespace memoryd
