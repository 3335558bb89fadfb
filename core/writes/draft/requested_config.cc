#include "core/writes/draft/requested_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/block_traits.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/model/session_template.h"
#include "core/sessions/session_errors.h"
#include "core/writes/command.h"
#include "core/writes/incoming.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

absl::Status NotGranted(const std::string& field, std::string_view why) {
  return Error(
      absl::StatusCode::kPermissionDenied, "CONFIG_NOT_GRANTED",
      fmt::format("{}: the credential is untrusted or limited to some roles, so {}", field, why),
      {{"field", field}});
}

// `config` is null for a session that is not there.
bool HasBlock(const SessionConfig* config, const BlockSettings& block) {
  return config != nullptr &&
         std::find(config->blocks.begin(), config->blocks.end(), block) != config->blocks.end();
}

// Of a session that gets this template.
SessionSettings SettingsFrom(const SessionTemplate& from, const SessionKey& key) {
  SessionSettings settings = from.settings;
  if (settings.blocks.has_value()) {
    const Profile profile = settings.profile.value_or(Profile::kDefault);
    std::erase_if(*settings.blocks, [&key, profile](const BlockSettings& block) {
      return TraitsOf(block, profile)->other_session() == key.session;
    });
  }
  return settings;
}

absl::Status TimeIsOver(std::string_view field) {
  return InvalidField(field, "must be later than now");
}

}  // namespace

void LimitNewBlocks(const WriteRequest& request, const SessionConfig* old,
                    SessionSettings& settings) {
  if (request.limits == nullptr || !settings.blocks.has_value()) return;
  for (BlockSettings& block : *settings.blocks) {
    if (HasBlock(old, block)) continue;
    LimitFirstFacts(block, settings.profile.value_or(Profile::kDefault), request.limits->max_trust);
  }
}

absl::Status CheckGranted(const CallerLimits& limits, const SessionConfig* old,
                          const SessionConfig& now, bool from_template) {
  for (std::size_t i = 0; i < now.blocks.size() && !from_template; ++i) {
    if (!HasBlock(old, now.blocks[i]) &&
        HasTexts(now.blocks[i], now.counting.profile, limits.max_trust)) {
      return NotGranted(fmt::format("config.blocks[{}]", i),
                        "it may not add or change a block with texts of its own");
    }
  }
  if (old == nullptr) return absl::OkStatus();
  // What a block knows goes with it, or with options that let it know less.
  for (const BlockSettings& block : old->blocks) {
    if (!HasBlock(&now, block) || now.counting.profile != old->counting.profile) {
      return NotGranted("config.blocks", fmt::format("block `{}` must stay as it is", block.name));
    }
  }
  if (limits.may_write && now.retention != old->retention) {
    return NotGranted("config.retention", "it must stay as it is");
  }
  return absl::OkStatus();
}

absl::Status CheckSubject(const WriteRequest& request, const SessionConfig* old,
                          const SessionConfig& now, bool from_template) {
  if (request.subject.empty()) return absl::OkStatus();
  if (now.subject != request.subject) return SubjectNotGranted("config.subject");
  // Whose the other session will be when it is shown, nobody knows yet.
  for (std::size_t i = 0; i < now.blocks.size() && !from_template; ++i) {
    const BlockSettings& block = now.blocks[i];
    if (TraitsOf(block, now.counting.profile)->other_session().has_value() &&
        !HasBlock(old, block)) {
      return SubjectNotGranted(fmt::format("config.blocks[{}]", i));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOtherSessions(const SessionKey& key, std::span<const BlockSettings> blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].traits->other_session() != key.session) continue;
    return InvalidField(fmt::format("config.blocks[{}].options_json", i),
                        "option `session_id` must be another session");
  }
  return absl::OkStatus();
}

absl::StatusOr<SessionDefaults> DefaultsFor(const WriteRequest& request) {
  const RequestedConfig& asked = ConfigOf(request.command);
  SessionDefaults defaults;
  if (request.defaults_of != nullptr) {
    MEMORYD_ASSIGN_OR_RETURN(defaults,
                             (*request.defaults_of)(request.key.tenant, asked.template_name));
  } else if (!asked.template_name.empty()) {
    return InvalidField("template", "the server has no templates");
  }
  if (asked.template_name.empty() && asked.settings.has_value()) defaults.from = nullptr;
  return defaults;
}

SessionSettings SettingsOfNew(const WriteRequest& request, const SessionDefaults& defaults) {
  const SessionSettings asked = ConfigOf(request.command).settings.value_or(SessionSettings());
  SessionSettings settings = asked;
  if (defaults.from == nullptr) {
    LimitNewBlocks(request, nullptr, settings);
  } else {
    settings = SettingsFrom(*defaults.from, request.key).With(settings);
  }
  settings.retention = settings.retention.Or(defaults.retention);
  if (!request.subject.empty() && !asked.subject.has_value()) settings.subject = request.subject;
  return settings;
}

absl::StatusOr<SessionSettings> SettingsOfUpdate(const WriteRequest& request,
                                                 const SessionSettings& old) {
  const RequestedConfig& asked = ConfigOf(request.command);
  const SessionSettings changes = asked.settings.value_or(SessionSettings());
  if (asked.template_name.empty()) return old.With(changes);
  MEMORYD_ASSIGN_OR_RETURN(const SessionDefaults defaults, DefaultsFor(request));
  SessionSettings settings = SettingsFrom(*defaults.from, request.key);
  if (old.subject.has_value()) settings.subject = old.subject;
  if (old.time_zone.has_value()) settings.time_zone = old.time_zone;
  settings = settings.With(changes);
  settings.retention = settings.retention.Or(old.retention);
  return settings;
}

absl::Status CheckRoles(const SessionConfig& config, const std::vector<IncomingMessage>& messages) {
  constexpr std::array<std::string_view, 8> kRoles = {
      "system", "developer", "user", "assistant", "function", "tool", "chatbot", "model"};
  if (config.counting.profile != Profile::kLlamaIndex) return absl::OkStatus();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (std::find(kRoles.begin(), kRoles.end(), messages[i].role) == kRoles.end()) {
      return InvalidField(fmt::format("messages[{}].role", i),
                          "profile llama-index allows system, developer, user, assistant, "
                          "function, tool, chatbot and model");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const SessionConfig>> MakeConfig(const WriteRequest& request,
                                                                SessionSettings& settings) {
  MEMORYD_ASSIGN_OR_RETURN(const SessionDefaults defaults, DefaultsFor(request));
  settings = SettingsOfNew(request, defaults);
  MEMORYD_ASSIGN_OR_RETURN(SessionConfig config, SessionConfig::Resolve(settings));
  MEMORYD_RETURN_IF_ERROR(CheckNewName("session_id", request.key.session));
  MEMORYD_RETURN_IF_ERROR(CheckNewName("config.subject", config.subject));
  if (request.limits != nullptr) {
    MEMORYD_RETURN_IF_ERROR(
        CheckGranted(*request.limits, nullptr, config, defaults.from != nullptr));
  }
  if (!request.subject.empty()) {
    MEMORYD_RETURN_IF_ERROR(CheckSubject(request, nullptr, config, defaults.from != nullptr));
  }
  return std::make_shared<const SessionConfig>(std::move(config));
}

absl::Status CheckConfig(const WriteRequest& request, const SessionConfig& config) {
  const auto mismatch = [](std::string_view message) {
    return Error(absl::StatusCode::kFailedPrecondition, "CONFIG_MISMATCH", message);
  };
  const RequestedConfig& asked = ConfigOf(request.command);
  if (asked.empty()) return absl::OkStatus();
  SessionSettings settings = asked.settings.value_or(SessionSettings());
  if (!asked.template_name.empty()) {
    if (asked.template_name != config.template_name) {
      return mismatch(
          "template: the session exists and does not have this template; leave template out, name "
          "the one that GetSession shows, or give the session this one with UpdateSession");
    }
    if (settings.subject.value_or(config.subject) == config.subject &&
        settings.time_zone.value_or(config.time_zone) == config.time_zone) {
      return absl::OkStatus();
    }
  } else {
    LimitNewBlocks(request, &config, settings);
    // What a session took from its tenant, its agents need not know.
    settings.retention = settings.retention.Or(config.retention.AsSettings());
    settings.template_name = config.template_name;
    MEMORYD_ASSIGN_OR_RETURN(const SessionConfig resolved, SessionConfig::Resolve(settings));
    if (resolved == config) return absl::OkStatus();
  }
  return mismatch(
      "config: the session exists with another configuration; leave config out, or change it with "
      "UpdateSession");
}

absl::Status CheckTimes(const IncomingItems& items, std::int64_t now_us) {
  for (std::size_t i = 0; i < items.messages.size(); ++i) {
    if (items.messages[i].message.IsExpired(now_us)) {
      return TimeIsOver(fmt::format("messages[{}].expire_time", i));
    }
  }
  for (std::size_t i = 0; i < items.contents.size(); ++i) {
    if (items.contents[i].content.IsExpired(now_us)) {
      return TimeIsOver(fmt::format("contents[{}].expire_time", i));
    }
  }
  return absl::OkStatus();
}

}  // namespace memoryd
