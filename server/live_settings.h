// The settings that can change while a server runs.
#ifndef MEMORYD_SERVER_LIVE_SETTINGS_H_
#define MEMORYD_SERVER_LIVE_SETTINGS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/settings_in_force.h"
#include "server/access/tenant_limiter.h"
#include "server/command_line.h"
#include "server/ops/call_log.h"
#include "server/ops/log.h"

namespace memoryd {

LoggedCalls LoggedCallsOf(const Config& config);

// Logs models that templates name and that the server, which has `models`, does not have.
void WarnOfMissingModels(const SessionTemplates& templates,
                         const std::vector<ModelSettings>& models);

// Puts settings that were read again into force. One thread at a time; what is pointed to outlives
// this.
class LiveSettings {
 public:
  // `line` is in force.
  LiveSettings(const CommandLine& line, Log* log, CallLog* calls, TenantLimiter* limiter,
               SettingsInForce* tenants)
      : settings_(line.settings),
        models_(line.config.models),
        log_(*log),
        calls_(*calls),
        limiter_(*limiter),
        tenants_(*tenants) {}

  // `log_level`, `log_requests`, templates and all of tenants come into force; others that differ
  // are named in the log, and wait for a restart. An error is logged and changes nothing.
  void Reload(const absl::StatusOr<CommandLine>& line);

 private:
  std::map<std::string, std::string> settings_;
  const std::vector<ModelSettings> models_;
  Log& log_;
  CallLog& calls_;
  TenantLimiter& limiter_;
  SettingsInForce& tenants_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_LIVE_SETTINGS_H_
