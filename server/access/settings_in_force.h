// What the settings say of tenants while the server runs.
#ifndef MEMORYD_SERVER_ACCESS_SETTINGS_IN_FORCE_H_
#define MEMORYD_SERVER_ACCESS_SETTINGS_IN_FORCE_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/model/session_template.h"
#include "server/access/session_templates.h"
#include "server/access/tenant_limits.h"

namespace memoryd {

// As one file of settings has it.
struct TenantSettings {
  TenantLimitTable tenants;
  SessionTemplates templates;

  // See SessionDefaultsLookup.
  absl::StatusOr<SessionDefaults> DefaultsFor(std::string_view tenant,
                                              std::string_view template_name) const;
  // Names of those that the tenant may use, in bytewise order.
  std::vector<std::string> TemplateNames(std::string_view tenant) const;
};

// Replaced as a whole while others read it: who needs several things that belong together takes
// them from one Now(). Any thread.
class SettingsInForce {
 public:
  explicit SettingsInForce(TenantSettings settings) { Replace(std::move(settings)); }

  // Stays as it is for as long as the caller has it.
  std::shared_ptr<const TenantSettings> Now() const {
    const MutexLock lock(mutex_);
    return settings_;
  }
  void Replace(TenantSettings settings) {
    auto next = std::make_shared<const TenantSettings>(std::move(settings));
    const MutexLock lock(mutex_);
    settings_.swap(next);
  }

 private:
  mutable Mutex mutex_;  // Held for no longer than a pointer is copied.
  std::shared_ptr<const TenantSettings> settings_ MEMORYD_GUARDED_BY(mutex_);
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_ACCESS_SETTINGS_IN_FORCE_H_
