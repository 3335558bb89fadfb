// Configurations of sessions that the operator has given a name.
#ifndef MEMORYD_CORE_MODEL_SESSION_TEMPLATE_H_
#define MEMORYD_CORE_MODEL_SESSION_TEMPLATE_H_

#include <memory>
#include <string>

#include "core/model/session_config.h"

namespace memoryd {

// Checked as what a caller sends is. Immutable; sessions have copies.
struct SessionTemplate {
  std::string name;
  SessionSettings settings;  // Their `template_name` is `name`.
};

using SessionTemplatePtr = std::shared_ptr<const SessionTemplate>;

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_SESSION_TEMPLATE_H_
