// The limits of tenants, as the settings say them.
#ifndef MEMORYD_SERVER_ACCESS_TENANT_LIMITS_H_
#define MEMORYD_SERVER_ACCESS_TENANT_LIMITS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/session_config.h"
#include "core/writes/quotas.h"

namespace YAML {
class Node;
}  // namespace YAML

namespace memoryd {

// What may be asked of models in a day, by UTC. 0: any number.
struct ModelBudget {
  std::int64_t tokens = 0;  // Sent and received.
  std::int64_t calls = 0;

  friend bool operator==(const ModelBudget&, const ModelBudget&) = default;
};

inline constexpr int kUsualWatches = 100;

// Of one tenant. 0: any number.
struct TenantLimits {
  // On one server and average; a second's worth may come at once.
  int calls_per_second = 0;
  // Begun on one server and not answered.
  int calls_in_flight = 0;
  // Sessions watched at a time, on one server.
  int watches = kUsualWatches;
  // Stored, whichever servers did it. Messages are contents too, and the bytes are of their bodies.
  std::int64_t sessions = 0;
  std::int64_t messages = 0;
  std::int64_t mib = 0;
  // For sessions that are made and say nothing of it, see memoryd.v1.Retention. 0: nothing goes.
  std::int64_t session_ttl_s = 0;
  bool refresh_on_read = false;
  std::int64_t keep_messages = 0;
  std::int64_t keep_bytes = 0;
  std::int64_t message_ttl_s = 0;
  // Of models, on one server and in a day by UTC.
  std::int64_t model_tokens_per_day = 0;
  std::int64_t model_calls_per_day = 0;
  // Of sessions that are made with neither template nor configuration; empty: none.
  std::string default_template = {};

  // Whether a call need not be looked at.
  bool no_call_limits() const { return calls_per_second == 0 && calls_in_flight == 0; }
  Quota quota() const { return {sessions, messages, mib << 20}; }
  ModelBudget model_budget() const { return {model_tokens_per_day, model_calls_per_day}; }
  // Without what is 0.
  RetentionSettings retention() const;
};

// Limits for every tenant, and what is otherwise for some.
struct TenantLimitTable {
  struct Exception {
    std::optional<int> calls_per_second;
    std::optional<int> calls_in_flight;
    std::optional<int> watches;
    std::optional<std::int64_t> sessions;
    std::optional<std::int64_t> messages;
    std::optional<std::int64_t> mib;
    std::optional<std::int64_t> session_ttl_s;
    std::optional<bool> refresh_on_read;
    std::optional<std::int64_t> keep_messages;
    std::optional<std::int64_t> keep_bytes;
    std::optional<std::int64_t> message_ttl_s;
    std::optional<std::int64_t> model_tokens_per_day;
    std::optional<std::int64_t> model_calls_per_day;
    std::optional<std::string> default_template = {};
    // Those that the tenant may use; absent: all.
    std::optional<std::vector<std::string>> templates = {};
  };

  TenantLimits usual;
  std::map<std::string, Exception, std::less<>> exceptions;

  TenantLimits Of(std::string_view tenant) const;
  // While the table stays as it is; empty: none.
  std::string_view DefaultTemplateOf(std::string_view tenant) const;
  bool MayUseTemplate(std::string_view tenant, std::string_view name) const;
  // Whether no tenant has limits of calls.
  bool no_call_limits() const { return usual.no_call_limits() && exceptions.empty(); }
};

inline constexpr int kMaxTenantLimit = 1'000'000'000;
inline constexpr std::int64_t kMaxTenantQuota = 1'000'000'000'000;

// The list of the configuration file: maps with `name` and the limits that are not the usual ones.
inline constexpr std::string_view kTenantsKey = "tenants";

// INVALID_ARGUMENT with one line that begins with `path` and the number of the bad line, and names
// the key. Throws YAML::Exception for what is not YAML.
absl::StatusOr<std::map<std::string, TenantLimitTable::Exception, std::less<>>> ParseTenants(
    const YAML::Node& list, const std::string& path);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_ACCESS_TENANT_LIMITS_H_
