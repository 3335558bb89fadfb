#include "core/model/role.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "core/model/message.h"

namespace memoryd {
namespace {

constexpr std::array<std::string_view, 13> kHumanRoles = {
    "user",   "human",    "customer", "client",   "guest",    "visitor",      "caller",
    "person", "prompter", "end_user", "end-user", "end user", "human_message"};

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

bool IsSame(std::string_view a, std::string_view b) {
  return absl::EqualsIgnoreCase(View(a), View(b));
}

// Of protobuf's wire format: https://protobuf.dev/programming-guides/encoding.
constexpr std::uint64_t kRoleField = 2;
enum WireType : std::uint64_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

std::optional<std::uint64_t> TakeVarint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

}  // namespace

Role ParseRole(std::string_view role) {
  if (role == "user") return Role::kUser;
  if (role == "assistant") return Role::kAssistant;
  if (role == "system") return Role::kSystem;
  if (role == "developer") return Role::kDeveloper;
  if (role == "tool") return Role::kTool;
  const bool human = std::any_of(kHumanRoles.begin(), kHumanRoles.end(),
                                 [role](std::string_view known) { return IsSame(role, known); });
  return human ? Role::kUser : Role::kOther;
}

Role ParseRole(std::string_view role, std::span<const std::string> user_roles) {
  const Role known = ParseRole(role);
  if (known != Role::kOther) return known;
  const bool human = std::any_of(user_roles.begin(), user_roles.end(),
                                 [role](const std::string& user) { return IsSame(role, user); });
  return human ? Role::kUser : Role::kOther;
}

std::string_view RoleInBody(std::string_view body) {
  std::string_view role;
  while (!body.empty()) {
    const auto tag = TakeVarint(body);
    if (!tag.has_value()) return {};
    std::uint64_t size = 0;
    switch (*tag & 7) {
      case kVarint:
        if (!TakeVarint(body).has_value()) return {};
        break;
      case kFixed64:
        size = 8;
        break;
      case kFixed32:
        size = 4;
        break;
      case kLength: {
        const auto length = TakeVarint(body);
        if (!length.has_value()) return {};
        size = *length;
        break;
      }
      default:
        return {};
    }
    if (size > body.size()) return {};
    // Of several the last one counts.
    if (*tag == (kRoleField << 3 | kLength)) role = body.substr(0, size);
    body.remove_prefix(size);
  }
  return role;
}

MessagePtr WithRoleOfBody(MessagePtr message, std::span<const std::string> user_roles) {
  if (message->role != Role::kOther) return message;
  if (ParseRole(RoleInBody(message->body), user_roles) != Role::kUser) return message;
  MessageDraft draft(*message);
  draft.role = Role::kUser;
  return MessagePtr(draft);
}

}  // namespace memoryd
