#include "core/writes/command.h"

#include <cstddef>
#include <type_traits>
#include <variant>

#include "absl/status/status.h"
#include "core/writes/command_traits.h"
#include "core/writes/commands/sessions.h"
#include "core/writes/found_messages.h"
#include "core/writes/incoming.h"

namespace memoryd {

const CommandTraits& TraitsOf(const WriteCommand& command) {
  return std::visit(
      [](const auto& one) -> const CommandTraits& {
        return std::remove_cvref_t<decltype(one)>::kTraits;
      },
      command);
}

bool IsForced(const WriteCommand& command) {
  const auto* const deletion = std::get_if<commands::DeleteSession>(&command);
  return TraitsOf(command).is_forced || (deletion != nullptr && !deletion->subject.empty());
}

const IncomingItems& ItemsOf(const WriteCommand& command) {
  static const auto* const kNone = new IncomingItems();
  return std::visit(
      [](const auto& one) -> const IncomingItems& {
        if constexpr (requires { one.items; }) {
          return one.items;
        } else {
          return *kNone;
        }
      },
      command);
}

std::size_t RowsOf(const WriteCommand& command) {
  return std::visit(
      [](const auto& one) -> std::size_t {
        if constexpr (requires { one.items; }) {
          return one.items.count();
        } else if constexpr (requires { one.rows.entries; }) {
          return one.rows.messages.size() + one.rows.contents.size() + one.rows.entries.size();
        } else if constexpr (requires { one.outcome.entries; }) {
          return one.outcome.entries.size();
        } else if constexpr (requires { one.removal.count; }) {
          return static_cast<std::size_t>(one.removal.count);
        } else {
          return 0;
        }
      },
      command);
}

const RequestedConfig& ConfigOf(const WriteCommand& command) {
  static const auto* const kNone = new RequestedConfig();
  return std::visit(
      [](const auto& one) -> const RequestedConfig& {
        if constexpr (requires { one.config; }) {
          return one.config;
        } else {
          return *kNone;
        }
      },
      command);
}

absl::Status Complete(WriteCommand& command, const FoundMessages& found) {
  return std::visit(
      [&found](auto& one) {
        if constexpr (requires { one.edit; }) {
          if (one.edit) return one.edit(found, one.items);
        } else if constexpr (requires { one.judge; }) {
          if (one.judge) return one.judge(found, one.fact);
        }
        return absl::OkStatus();
      },
      command);
}

}  // namespace memoryd
