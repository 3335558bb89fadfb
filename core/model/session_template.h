// Configurations of sessions that the operator has given a name.
#ifndef MEMORYD_CORE_MODEL_SESSION_TEMPLATE_H_
#define MEMORYD_CORE_MODEL_SESSION_TEMPLATE_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/model/session_config.h"

namespace memoryd {

// Checked as what a caller sends is. Immutable; sessions have copies.
struct SessionTemplate {
  std::string name;
  SessionSettings settings;  // Their `template_name` is `name`.
};

using SessionTemplatePtr = std::shared_ptr<const SessionTemplate>;

// What the operator gives a session that is made.
struct SessionDefaults {
  SessionTemplatePtr from;      // Null: no template.
  RetentionSettings retention;  // Where neither caller nor template has any.
};

// Of a tenant's session. `from` is the template of that name or, where the caller names none and
// `template_name` is empty, the tenant's own. INVALID_ARGUMENT: the tenant has none of that name.
// Any thread may call it.
using SessionDefaultsLookup = std::function<absl::StatusOr<SessionDefaults>(
    std::string_view tenant, std::string_view template_name)>;

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_SESSION_TEMPLATE_H_
