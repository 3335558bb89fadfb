// What the roles of messages mean.
#ifndef MEMORYD_CORE_MODEL_ROLE_H_
#define MEMORYD_CORE_MODEL_ROLE_H_

#include <span>
#include <string>
#include <string_view>

#include "core/model/message.h"

namespace memoryd {

// What a role as it was sent is to policies. kUser is the human side, in any case of letters, under
// the names that frameworks and data sets give it, which docs/POLICY.md lists. The others are known
// by their exact names alone.
Role ParseRole(std::string_view role);

// The same, where a session counts further names to the human side (SessionConfig::user_roles, in
// any case of letters).
Role ParseRole(std::string_view role, std::span<const std::string> user_roles);

// The role in a serialized memoryd.v1.Message, a view into `body`; empty where there is none or the
// body can't be read.
std::string_view RoleInBody(std::string_view body);

// The message, as kUser where its role says so by these rules and it was stored as kOther: by a
// server, or under a configuration, that did not know the role.
MessagePtr WithRoleOfBody(MessagePtr message, std::span<const std::string> user_roles);

}  // namespace memoryd

#endif  // MEMORYD_CORE_MODEL_ROLE_H_
