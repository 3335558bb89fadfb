#include "core/writes/draft/session_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/fact_ttl.h"
#include "core/blocks/usage_state.h"
#include "core/model/role.h"
#include "core/sessions/session_info.h"
#include "core/sessions/shared_config.h"
#include "core/writes/message_lookup.h"

namespace memoryd {
namespace {

using Kind = SessionDraft::Decision::Kind;

SessionDraft::Decision Refused(absl::Status status) {
  return {Kind::kRefused, std::move(status), {}};
}

absl::Status TimeIsOver(std::string_view field) {
  return InvalidField(field, "must be later than now");
}

std::int64_t Tokens(std::span<const MessagePtr> messages) {
  std::int64_t tokens = 0;
  for (const MessagePtr& message : messages) tokens += message->token_count;
  return tokens;
}

// Of a message or a draft of one.
std::int64_t Bytes(const auto& message) { return static_cast<std::int64_t>(message.body.size()); }

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

// Of blocks that the session does not have yet, what a limited caller says in `settings`.
void LimitNewBlocks(const WriteRequest& request, const SessionConfig* old,
                    SessionSettings& settings) {
  if (request.limits == nullptr || !settings.blocks.has_value()) return;
  for (BlockSettings& block : *settings.blocks) {
    if (HasBlock(old, block)) continue;
    LimitFirstFacts(block, settings.profile.value_or(Profile::kDefault), request.limits->max_trust);
  }
}

// OK when a caller with `limits` may have a session configured as `now` that is configured as
// `old`, null for a new one. What is `from_template` is the operator's word.
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

FactJob CallerOf(const WriteRequest& request, const std::string& writer, std::int64_t now_us) {
  return {"", now_us, writer, request.limits == nullptr ? 1 : request.limits->max_trust};
}

std::int64_t Size(std::string_view text) { return static_cast<std::int64_t>(text.size()); }

// Of a session that gets this template.
SessionSettings SettingsFrom(const SessionTemplate& from, const SessionKey& key) {
  SessionSettings settings = from.settings;
  if (settings.blocks.has_value()) {
    std::erase_if(*settings.blocks, [&key](const BlockSettings& block) {
      return block.OtherSession() == key.session;
    });
  }
  return settings;
}

const std::deque<MessagePtr>& NoMessages() {
  static const auto* const kNone = new std::deque<MessagePtr>();
  return *kNone;
}

}  // namespace

bool IsPinnable(const SessionConfig& config, const Message& message) {
  return config.counting.profile == Profile::kDefault &&
         (message.role == Role::kSystem || message.role == Role::kDeveloper);
}

absl::Status CheckOtherSessions(const SessionKey& key, std::span<const BlockSettings> blocks) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].OtherSession() != key.session) continue;
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
  SessionSettings settings = ConfigOf(request.command).settings.value_or(SessionSettings());
  if (defaults.from == nullptr) {
    LimitNewBlocks(request, nullptr, settings);
  } else {
    settings = SettingsFrom(*defaults.from, request.key).With(settings);
  }
  settings.retention = settings.retention.Or(defaults.retention);
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

SessionDraft::SessionDraft(const Session& base, const TokenRules& rules, std::int64_t now_us,
                           const Random& random, std::int64_t max_active_bytes)
    : base_(base),
      base_revision_(base.row.revision),
      base_usage_(UsageOf(base.row)),
      base_expire_us_(base.row.expire_us),
      base_drop_us_(base.row.drop_us),
      rules_(rules),
      now_us_(std::max(now_us, base.row.update_us + (base.row.deleted ? 1 : 0))),
      random_(random),
      max_active_bytes_(max_active_bytes),
      row_(base.row),
      timed_(HasTimedItems(base.row)),
      config_(base.config),
      active_bytes_(base.active_bytes),
      pinned_(base.pinned),
      opening_(base.opening) {
  // Another server has taken it out.
  if (base.whole && opening_ == nullptr) row_.opening = 0;
}

TenantUsage SessionDraft::UsageOf(const SessionRow& row) {
  if (row.revision == 0 || row.deleted) return {};
  return StoredUsage(row);
}

std::int64_t SessionDraft::ConfigGrowth(const WriteRequest& request) const {
  if (std::holds_alternative<commands::UpdateSession>(request.command)) {
    if (!exists()) return 0;
    const auto old = SessionSettings::FromJson(row_.config);
    if (!old.ok()) return 0;
    const auto settings = SettingsOfUpdate(request, *old);
    return settings.ok() ? Size(settings->ToJson()) - Size(row_.config) : 0;
  }
  if (exists()) return 0;
  const auto defaults = DefaultsFor(request);
  return defaults.ok() ? Size(SettingsOfNew(request, *defaults).ToJson()) : 0;
}

TenantUsage SessionDraft::ItemGrowth(const WriteRequest& request) const {
  TenantUsage growth;
  growth.bytes = ConfigGrowth(request);
  if (!exists()) growth.sessions = 1;
  const IncomingItems& items = ItemsOf(request.command);
  growth.messages = static_cast<std::int64_t>(items.count());
  for (const IncomingMessage& incoming : items.messages) growth.bytes += Bytes(incoming.message);
  for (const IncomingContent& incoming : items.contents) growth.bytes += Bytes(incoming.content);
  return growth;
}

TenantUsage SessionDraft::Growth(const Write& write) const {
  const WriteRequest& request = write.request;
  const auto of_edit = [&request](const auto& now) -> TenantUsage {
    return {0, 0, Bytes(now) - Bytes(*request.found->messages.front())};
  };
  return std::visit(
      [&]<typename Kind>([[maybe_unused]] const Kind& command) -> TenantUsage {
        if constexpr (std::is_same_v<Kind, commands::Put> ||
                      std::is_same_v<Kind, commands::CreateSession>) {
          return ItemGrowth(request);
        } else if constexpr (std::is_same_v<Kind, commands::Set>) {
          TenantUsage growth = ItemGrowth(request);
          const TenantUsage replaced = UsageOf(row_);
          growth.messages -= replaced.messages;
          // The configuration stays.
          if (exists()) growth.bytes -= replaced.bytes - Size(row_.config);
          return growth;
        } else if constexpr (std::is_same_v<Kind, commands::UpdateSession>) {
          return {0, 0, ConfigGrowth(request)};
        } else if constexpr (std::is_same_v<Kind, commands::UpdateMessage>) {
          if (!request.found->status.ok()) return {};
          return of_edit(command.items.messages.front().message);
        } else if constexpr (std::is_same_v<Kind, commands::UpdateContent>) {
          if (!request.found->status.ok()) return {};
          return of_edit(command.items.contents.front().content);
        } else if constexpr (std::is_same_v<Kind, commands::BeginStaged> ||
                             std::is_same_v<Kind, commands::AddStaged> ||
                             std::is_same_v<Kind, commands::PublishStaged>) {
          // A piece too: what there is no room for is refused before all of it is staged.
          return exists() ? TenantUsage() : command.staged->usage;
        } else {
          return {};
        }
      },
      request.command);
}

TenantUsage SessionDraft::Change() const {
  const TenantUsage usage = UsageOf(row_);
  return {usage.sessions - base_usage_.sessions, usage.messages - base_usage_.messages,
          usage.bytes - base_usage_.bytes};
}

SessionDraft::Decision SessionDraft::Add(Write& write) {
  const WriteRequest& request = write.request;
  if (!request.request_id.empty()) {
    const auto known = [&request](const RequestRecord& record) {
      return record.request_id == request.request_id;
    };
    if (std::any_of(requests_.begin(), requests_.end(), known)) {
      // Its reply is not durable yet: look again after this commit.
      return Refused(absl::AbortedError("the same request is under way"));
    }
    const auto found =
        std::find_if(base_.recent_requests.begin(), base_.recent_requests.end(), known);
    if (found != base_.recent_requests.end()) {
      auto reply = ReplyOf(*found, request.fingerprint);
      if (!reply.ok()) return {Kind::kReplay, reply.status(), {}};
      return {Kind::kReplay, {}, *std::move(reply)};
    }
  }
  // Rows of a piece are none of the session that other writes of the batch would go on from.
  if (dirty_ && (staged_ || TraitsOf(request.command).is_staged)) {
    return Refused(absl::AbortedError("a session in pieces is written by commits of its own"));
  }
  staged_ = TraitsOf(request.command).is_staged;
  return std::visit([&](const auto& command) { return Apply(command, write); }, request.command);
}

absl::Status SessionDraft::CheckRevision(const WriteRequest& request) const {
  const std::int64_t current = exists() ? row_.revision : 0;
  if (!request.expected_revision.has_value() || *request.expected_revision == current) {
    return absl::OkStatus();
  }
  return RevisionMismatch(current);
}

absl::StatusOr<std::shared_ptr<const SessionConfig>> SessionDraft::MakeConfig(
    const WriteRequest& request, SessionSettings& settings) {
  MEMORYD_ASSIGN_OR_RETURN(const SessionDefaults defaults, DefaultsFor(request));
  settings = SettingsOfNew(request, defaults);
  MEMORYD_ASSIGN_OR_RETURN(SessionConfig config, SessionConfig::Resolve(settings));
  MEMORYD_RETURN_IF_ERROR(CheckNewName("session_id", request.key.session));
  MEMORYD_RETURN_IF_ERROR(CheckNewName("config.subject", config.subject));
  if (request.limits != nullptr) {
    MEMORYD_RETURN_IF_ERROR(
        CheckGranted(*request.limits, nullptr, config, defaults.from != nullptr));
  }
  return std::make_shared<const SessionConfig>(std::move(config));
}

absl::Status SessionDraft::CheckConfig(const WriteRequest& request) const {
  const auto mismatch = [](std::string_view message) {
    return Error(absl::StatusCode::kFailedPrecondition, "CONFIG_MISMATCH", message);
  };
  const RequestedConfig& asked = ConfigOf(request.command);
  if (asked.empty()) return absl::OkStatus();
  SessionSettings settings = asked.settings.value_or(SessionSettings());
  if (!asked.template_name.empty()) {
    if (asked.template_name != config_->template_name) {
      return mismatch(
          "template: the session exists and does not have this template; leave template out, name "
          "the one that GetSession shows, or give the session this one with UpdateSession");
    }
    if (settings.subject.value_or(config_->subject) == config_->subject &&
        settings.time_zone.value_or(config_->time_zone) == config_->time_zone) {
      return absl::OkStatus();
    }
  } else {
    LimitNewBlocks(request, config_.get(), settings);
    // What a session took from its tenant, its agents need not know.
    settings.retention = settings.retention.Or(config_->retention.AsSettings());
    settings.template_name = config_->template_name;
    MEMORYD_ASSIGN_OR_RETURN(const SessionConfig resolved, SessionConfig::Resolve(settings));
    if (resolved == *config_) return absl::OkStatus();
  }
  return mismatch(
      "config: the session exists with another configuration; leave config out, or change it with "
      "UpdateSession");
}

std::optional<SessionDraft::Decision> SessionDraft::CountTokens(Write& write,
                                                                const SessionConfig& config) const {
  const IncomingItems& items = ItemsOf(write.request.command);
  if (absl::Status status = CheckRoles(config, items.messages); !status.ok()) {
    return Refused(std::move(status));
  }
  if (write.counted_with == config.counting) return std::nullopt;
  CountProgress progress;
  const absl::StatusOr<bool> all =
      rules_.CountWithin(config.counting, items, TokenRules::kCheapCost, progress);
  if (!all.ok()) return Refused(all.status());
  if (!*all) {
    write.count_with = config.counting;
    return Decision{Decision::Kind::kCount, absl::OkStatus(), {}};
  }
  write.token_counts = std::move(progress.counts);
  write.counted_with = config.counting;
  return std::nullopt;
}

absl::Status SessionDraft::CheckTimes(const IncomingItems& items) const {
  for (std::size_t i = 0; i < items.messages.size(); ++i) {
    if (items.messages[i].message.IsExpired(now_us_)) {
      return TimeIsOver(fmt::format("messages[{}].expire_time", i));
    }
  }
  for (std::size_t i = 0; i < items.contents.size(); ++i) {
    if (items.contents[i].content.IsExpired(now_us_)) {
      return TimeIsOver(fmt::format("contents[{}].expire_time", i));
    }
  }
  return absl::OkStatus();
}

SessionDraft::Decision SessionDraft::Apply(const commands::Put& put, Write& write) {
  const WriteRequest& request = write.request;
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  if (put.only_generation.has_value() && (!exists() || row_.generation != *put.only_generation)) {
    return Refused(Error(absl::StatusCode::kAborted, "SESSION_REPLACED",
                         "the session was replaced or deleted meanwhile"));
  }
  if (!whole()) return Refused(SessionTooLarge(active_bytes_));
  std::shared_ptr<const SessionConfig> config = config_;
  SessionSettings settings;
  if (exists()) {
    if (absl::Status status = CheckConfig(request); !status.ok()) return Refused(status);
  } else {
    auto made = MakeConfig(request, settings);
    if (!made.ok()) return Refused(made.status());
    config = *std::move(made);
  }
  // What is handed on may have taken its time.
  if (!put.only_generation.has_value()) {
    if (absl::Status status = CheckTimes(put.items); !status.ok()) return Refused(status);
  }
  if (auto decision = CountTokens(write, *config); decision.has_value())
    return *std::move(decision);
  const auto draft = [&](SessionDraft& copy) { copy.Put(write, settings, *config); };
  if (absl::Status status = CheckActiveBytes(put.items, active_bytes_, draft); !status.ok()) {
    return Refused(status);
  }
  const std::size_t jobs = jobs_.size();
  WriteResult result = Put(write, settings, *config);
  NoteJobs(write, jobs);
  return Stored(request, std::move(result));
}

WriteResult SessionDraft::Put(const Write& write, const SessionSettings& settings,
                              const SessionConfig& config) {
  if (!exists()) Create(settings, config);
  WriteResult result;
  result.messages = Append(write);
  result.contents = AppendContents(write);
  AddPutJobs(result.messages);
  result.archived_count = Flush();
  DropOldest();
  return result;
}

absl::Status SessionDraft::CheckActiveBytes(
    const IncomingItems& items, std::int64_t bytes,
    const std::function<void(SessionDraft& copy)>& draft) const {
  for (const IncomingMessage& incoming : items.messages)
    bytes += Bytes(incoming.message) + kActiveMessageBytes;
  if (bytes <= max_active_bytes_) return absl::OkStatus();
  for (std::size_t i = 0; i < items.messages.size(); ++i) {
    const std::int64_t size = Bytes(items.messages[i].message);
    if (size + kActiveMessageBytes <= max_active_bytes_) continue;
    return InvalidField(fmt::format("messages[{}]", i),
                        fmt::format("must be at most {} bytes, by the setting active_mib; got {}",
                                    max_active_bytes_ - kActiveMessageBytes, size));
  }
  // What leaves with it may be enough.
  SessionDraft copy(*this);
  draft(copy);
  if (copy.active_bytes_ <= max_active_bytes_) return absl::OkStatus();
  return ActiveBytesExceeded("messages", copy.active_bytes_, max_active_bytes_);
}

bool SessionDraft::MayPin(std::int64_t size) const {
  // The other half is for what comes and goes.
  for (const MessagePtr& message : pinned_) size += ActiveSize(*message);
  return size <= max_active_bytes_ / 2;
}

void SessionDraft::NoteJobs(Write& write, std::size_t first) {
  write.jobs.clear();
  for (std::size_t i = first; i < jobs_.size(); ++i) {
    write.jobs.push_back(jobs_[i].key);
    write.jobs.back().session = write.request.key;
  }
  write.feed_before_reply = config_->feed == FeedTime::kBeforeReply;
  if (!write.jobs.empty() && write.WaitsForJobs()) write.usage = std::make_shared<UsageCount>();
}

SessionDraft::Decision SessionDraft::Apply(const commands::Set& set, Write& write) {
  const WriteRequest& request = write.request;
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  if (absl::Status status = CheckGoing(request); !status.ok()) return Refused(status);
  std::shared_ptr<const SessionConfig> config = config_;
  SessionSettings settings;
  if (!exists()) {
    auto made = MakeConfig(request, settings);
    if (!made.ok()) return Refused(made.status());
    config = *std::move(made);
  }
  if (absl::Status status = CheckTimes(set.items); !status.ok()) return Refused(status);
  if (auto decision = CountTokens(write, *config); decision.has_value())
    return *std::move(decision);
  const auto draft = [&](SessionDraft& copy) { copy.Set(write, settings, *config); };
  if (absl::Status status = CheckActiveBytes(set.items, 0, draft); !status.ok()) {
    return Refused(status);
  }
  WriteResult result = Set(write, settings, *config);
  // What was there before went with what it was to feed.
  NoteJobs(write, 0);
  return Stored(request, std::move(result));
}

WriteResult SessionDraft::Set(const Write& write, const SessionSettings& settings,
                              const SessionConfig& config) {
  WriteResult result;
  if (exists()) {
    result.removed_active = row_.active_count;
    result.removed_archived = row_.archived_count;
    result.removed_contents = row_.content_count;
    RemoveAllMessages();
    RemoveContents();
    // In LlamaIndex blocks keep what they know, whatever becomes of the messages.
    if (config.counting.profile != Profile::kLlamaIndex) RemoveBlocksButUsage();
  } else {
    Create(settings, config);
  }
  result.messages = Append(write);
  result.contents = AppendContents(write);
  // LlamaIndex looks at the limit at the next put only.
  if (config.counting.profile != Profile::kLlamaIndex) result.archived_count = Flush();
  DropOldest();
  return result;
}

SessionDraft::Decision SessionDraft::Apply(const commands::ArchiveOldest& archive, Write& write) {
  const WriteRequest& request = write.request;
  const OldestActive& oldest = archive.oldest;
  if (!exists() || whole() || row_.generation != oldest.generation ||
      row_.revision != oldest.revision || active_bytes_ <= max_active_bytes_) {
    return {Kind::kUnchanged, absl::OkStatus(), request.encode_reply(WriteResult())};
  }
  oldest_.assign(oldest.messages.begin(), oldest.messages.end());
  const bool more = row_.active_count > std::ssize(row_.pinned) + std::ssize(oldest_);
  WriteResult result;
  const std::int64_t surplus = active_bytes_ - max_active_bytes_;
  result.archived_count = Archive(ByteFlush(View(), surplus, more));
  // The newest message alone is too much. It may leave, since a Put follows.
  if (result.archived_count == 0) result.archived_count = Archive(ByteFlush(View(), surplus, true));
  if (result.archived_count == 0) return Refused(SessionTooLarge(active_bytes_));
  return Stored(request, std::move(result));
}

SessionDraft::Decision SessionDraft::Apply(const commands::Reset& reset, Write& write) {
  const WriteRequest& request = write.request;
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  if (absl::Status status = CheckGoing(request); !status.ok()) return Refused(status);
  if (!exists()) return NothingToRemove(request);
  ResetScope scope = reset.scope;
  if (scope == ResetScope::kProfile && config_->counting.profile == Profile::kLlamaIndex) {
    scope = ResetScope::kMessages;
  }
  WriteResult result;
  if (scope != ResetScope::kArchived) result.removed_active = row_.active_count;
  if (scope != ResetScope::kActive) result.removed_archived = row_.archived_count;
  if (scope == ResetScope::kProfile || scope == ResetScope::kEverything) {
    result.removed_contents = row_.content_count;
  }
  switch (scope) {
    case ResetScope::kMessages:
      RemoveAllMessages();
      break;
    case ResetScope::kProfile:
    case ResetScope::kEverything:
      RemoveAllMessages();
      RemoveContents();
      RemoveBlocksButUsage();
      break;
    case ResetScope::kActive:
      RemoveActiveMessages();
      break;
    case ResetScope::kArchived:
      if (row_.archived_count > 0) {
        // A Get begins with the opening message: it goes with its turn.
        for (const PositionRange& range :
             Without({FirstUnpinned(row_), row_.watermark}, row_.opening)) {
          garbage_.push_back({row_.generation, range.begin, range.end});
        }
        row_.floor = row_.watermark;
      }
      row_.archived_count = row_.opening > 0 ? 1 : 0;
      row_.message_bytes =
          std::min(row_.message_bytes, ActiveBytes() + (opening_ ? Bytes(*opening_) : 0));
      CancelJobs();
      // Those of active messages are made anew.
      RemoveBlock(std::string(kRetrievalBlock));
      break;
  }
  return Stored(request, std::move(result));
}

SessionDraft::Decision SessionDraft::Apply(const commands::CreateSession& create, Write& write) {
  const WriteRequest& request = write.request;
  if (exists()) {
    return Refused(SessionExists("session_id"));
  }
  SessionSettings settings;
  const auto config = MakeConfig(request, settings);
  if (!config.ok()) return Refused(config.status());
  Create(settings, **config);
  return Stored(request, WriteResult());
}

SessionDraft::Decision SessionDraft::Apply(const commands::UpdateSession& update, Write& write) {
  const WriteRequest& request = write.request;
  if (!exists()) return Refused(SessionNotFound());
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  const auto old_settings = SessionSettings::FromJson(row_.config);
  if (!old_settings.ok()) return Refused(old_settings.status());
  auto settings = SettingsOfUpdate(request, *old_settings);
  if (!settings.ok()) return Refused(settings.status());
  const bool from_template = !update.config.template_name.empty();
  if (!from_template) LimitNewBlocks(request, config_.get(), *settings);
  auto config = SessionConfig::Resolve(*settings);
  if (!config.ok()) return Refused(config.status());
  if (config->counting != config_->counting &&
      row_.active_count + row_.archived_count + row_.content_count > 0) {
    return Refused(Error(
        absl::StatusCode::kFailedPrecondition, "CONFIG_FIXED",
        fmt::format("{}: profile, tokenizer and token estimates are fixed once the session has a "
                    "message or content; Reset it first, or use a new one",
                    from_template ? "template" : "config")));
  }
  if (config->subject != config_->subject) {
    if (absl::Status status = CheckNewName("config.subject", config->subject); !status.ok()) {
      return Refused(status);
    }
  }
  if (request.limits != nullptr) {
    if (absl::Status status = CheckGranted(*request.limits, config_.get(), *config, from_template);
        !status.ok()) {
      return Refused(status);
    }
  }
  for (const BlockSettings& old : config_->blocks) {
    // What one kind knows means nothing to another, nor to the same kind under other rules.
    const auto same = [&old](const BlockSettings& block) {
      return block.name == old.name && block.kind == old.kind;
    };
    if (config->counting.profile != config_->counting.profile ||
        std::none_of(config->blocks.begin(), config->blocks.end(), same)) {
      RemoveBlock(old.name);
    }
  }
  // What is in memory has the roles by the old names.
  must_load_ = must_load_ || config->user_roles != config_->user_roles;
  ChangeEmbedder(*config);
  for (const BlockSettings& block : config->blocks) ChangeEntryEmbedder(block);
  SetConfig(*settings, *std::move(config));
  return Stored(request, WriteResult());
}

SessionDraft::Decision SessionDraft::Apply(const commands::DeleteSession& deletion, Write& write) {
  const WriteRequest& request = write.request;
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  if (absl::Status status = CheckGoing(request); !status.ok()) return Refused(status);
  if (!exists() || (!deletion.subject.empty() && deletion.subject != config_->subject)) {
    return NothingToRemove(request);
  }
  WriteResult result;
  result.removed = CountsOf(base_);
  result.removed_active = row_.active_count;
  result.removed_archived = row_.archived_count;
  result.removed_contents = row_.content_count;
  RemoveAllMessages();
  RemoveContents();
  RemoveBlocks();
  row_.deleted = true;
  SetConfig(SessionSettings(), SessionConfig());
  return Stored(request, std::move(result));
}

SessionDraft::Decision SessionDraft::Apply(const commands::ForgetSession& forget, Write& write) {
  const WriteRequest& request = write.request;
  if (!row_.deleted || row_.subject != forget.subject) return NothingToRemove(request);
  RemoveStaged();
  ForgetReplies();
  row_.subject.clear();
  write_config_ = true;
  return Stored(request, WriteResult());
}

void SessionDraft::ForgetReplies() {
  if (row_.subject.empty()) return;
  // Later ones have a later time, see `now_us_`.
  garbage_.push_back({Garbage::kForgotten, 0, row_.update_us + 1});
  forget_requests_ = true;
}

void SessionDraft::Create(const SessionSettings& settings, SessionConfig config) {
  // A tombstone's revision and positions go on.
  RemoveStaged();
  if (row_.subject != config.subject) ForgetReplies();
  row_.deleted = false;
  row_.create_us = now_us_;
  SetConfig(settings, std::move(config));
}

void SessionDraft::SetConfig(const SessionSettings& settings, SessionConfig config) {
  row_.config = settings.ToJson();
  config_ = SharedConfig(row_.config, std::move(config));
  write_config_ = true;
}

std::vector<MessagePtr> SessionDraft::Append(const Write& write) {
  const std::vector<IncomingMessage>& incoming = ItemsOf(write.request.command).messages;
  std::vector<MessagePtr> messages;
  messages.reserve(incoming.size());
  for (std::size_t i = 0; i < incoming.size(); ++i) {
    MessagePtr message(incoming[i].message,
                       {row_.next_position++, write.token_counts.messages[i], now_us_});
    if (!config_->user_roles.empty()) {
      message = WithRoleOfBody(std::move(message), config_->user_roles);
    }
    // Nothing may lie between the pinned ones, not even what waits to be purged.
    const bool follows = pinned_.empty() || pinned_.back()->position + 1 == message->position;
    const bool pin = follows && row_.active_count == static_cast<std::int64_t>(pinned_.size()) &&
                     row_.archived_count == 0 && pinned_.size() < kMaxPinned &&
                     IsPinnable(*config_, *message) && MayPin(ActiveSize(*message));
    if (pin) {
      pinned_.push_back(message);
      row_.pinned.push_back(message->position);
      row_.watermark = row_.next_position;
    } else {
      appended_.push_back(message);
    }
    ++row_.active_count;
    row_.active_tokens += message->token_count;
    row_.message_bytes += Bytes(*message);
    active_bytes_ += ActiveSize(*message);
    NoteTime(*message);
    stored_.push_back(message);
    messages.push_back(std::move(message));
  }
  return messages;
}

std::vector<ContentPtr> SessionDraft::AppendContents(const Write& write) {
  const std::vector<IncomingContent>& contents = ItemsOf(write.request.command).contents;
  if (contents.empty()) return {};
  // 0 says that there is no content.
  while (row_.content_generation == 0) row_.content_generation = random_();
  std::vector<ContentPtr> appended;
  appended.reserve(contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    ContentPtr content(contents[i].content,
                       {row_.next_content++, write.token_counts.contents[i], now_us_});
    ++row_.content_count;
    row_.content_bytes += Bytes(*content);
    NoteTime(*content);
    appended.push_back(std::move(content));
  }
  stored_contents_.insert(stored_contents_.end(), appended.begin(), appended.end());
  return appended;
}

ActiveView SessionDraft::View() const {
  const std::deque<MessagePtr>& known = base_.whole ? base_.active : oldest_;
  const std::deque<MessagePtr>& base = base_removed_ ? NoMessages() : known;
  const std::size_t from_base = std::min(dropped_, base.size());
  return ActiveView(base, from_base,
                    std::span<const MessagePtr>(appended_).subspan(dropped_ - from_base));
}

std::int64_t SessionDraft::Flush() {
  if (config_->policy == PolicyKind::kBuffer) return 0;
  const FlushLimits limits{config_->token_limit, config_->chat_history_token_ratio,
                           config_->token_flush_size};
  const std::int64_t tokens = row_.active_tokens - Tokens(pinned_);
  const ActiveView view = View();
  if (config_->counting.profile == Profile::kLlamaIndex) {
    return Archive(LlamaIndexFlush(view, tokens, limits));
  }
  const Message* const opening = OpeningOf(view, opening_.get());
  std::int64_t count = Archive(DefaultFlush(
      view, opening, tokens + (opening == nullptr ? 0 : opening->token_count), limits));
  if (active_bytes_ > max_active_bytes_) {
    count += Archive(ByteFlush(View(), active_bytes_ - max_active_bytes_, /*more=*/false));
  }
  return count;
}

std::int64_t SessionDraft::Archive(const std::vector<std::size_t>& rounds) {
  const ActiveView view = View();
  std::size_t leaving = 0;
  for (const std::size_t round : rounds) leaving += round;
  if (leaving == 0) return 0;
  AddJobs(view, rounds);
  if (config_->counting.profile != Profile::kLlamaIndex) {
    SetOpening(OpeningAfter(view, leaving, opening_));
  }
  for (std::size_t i = 0; i < leaving; ++i) {
    row_.active_tokens -= view.at(i).token_count;
    active_bytes_ -= ActiveSize(view.at(i));
  }
  row_.watermark = view.at(leaving - 1).position + 1;
  dropped_ += leaving;
  const auto count = static_cast<std::int64_t>(leaving);
  row_.active_count -= count;
  row_.archived_count += count;
  return count;
}

std::int64_t SessionDraft::ActiveBytes() const {
  return active_bytes_ - row_.active_count * kActiveMessageBytes;
}

void SessionDraft::RemoveActiveMessages() {
  EraseActiveEmbeddings();
  // It stays archived, unless retention had spared it alone.
  if (row_.opening < row_.floor) DropOpening();
  SetOpening(nullptr);
  row_.message_bytes =
      row_.archived_count == 0 ? 0 : std::max<std::int64_t>(0, row_.message_bytes - ActiveBytes());
  if (row_.archived_count == 0) {
    // Whatever is stored goes, in steps: with policy `buffer` that may be very much.
    if (row_.active_count > 0) {
      // The pinned ones lie below the floor where a Reset has taken what was archived.
      const std::int64_t begin =
          row_.pinned.empty() ? row_.floor : std::min(row_.floor, row_.pinned.front());
      garbage_.push_back({row_.generation, begin, row_.next_position});
    }
    row_.floor = row_.next_position;
  } else {
    // Archived messages stay below. Where there are any, the policy bounds what is active, so those
    // rows go in this commit.
    erase_ = {{row_.watermark, row_.next_position}};
    if (!row_.pinned.empty()) {
      row_.floor = FirstUnpinned(row_);
      garbage_.push_back({row_.generation, row_.pinned.front(), row_.floor});
    }
  }
  row_.watermark = row_.next_position;
  row_.pinned.clear();
  row_.active_count = row_.active_tokens = active_bytes_ = 0;
  base_removed_ = true;
  pinned_.clear();
}

void SessionDraft::RemoveAllMessages() {
  if (row_.active_count + row_.archived_count > 0 || row_.message_bytes > 0) {
    garbage_.push_back({row_.generation, 0, row_.next_position});
  }
  row_.generation = random_();
  row_.floor = row_.watermark = row_.next_position;
  row_.pinned.clear();
  row_.opening = 0;
  opening_ = nullptr;
  row_.active_count = row_.archived_count = row_.active_tokens = row_.message_bytes = 0;
  active_bytes_ = 0;
  base_removed_ = true;
  pinned_.clear();
  CancelJobs();
  RemoveBlock(std::string(kRetrievalBlock));
}

void SessionDraft::RemoveContents() {
  if (row_.content_generation == 0) return;
  garbage_.push_back({row_.content_generation, 0, row_.next_content});
  row_.content_generation = 0;
  row_.content_count = row_.content_bytes = 0;
}

void SessionDraft::AddJobs(const ActiveView& view, const std::vector<std::size_t>& rounds) {
  std::size_t first = 0;
  for (const std::size_t round : rounds) {
    const PositionRange range{view.at(first).position, view.at(first + round - 1).position + 1};
    first += round;
    for (const BlockSettings& block : config_->blocks) {
      if (block.TakesMessages()) AddJob(block.name, row_.generation, range);
    }
  }
}

void SessionDraft::AddPutJobs(const std::vector<MessagePtr>& messages) {
  if (messages.empty()) return;
  const PositionRange range{messages.front()->position, messages.back()->position + 1};
  for (const BlockSettings& block : config_->blocks) {
    if (block.TakesPuts()) AddJob(block.name, row_.generation, range);
  }
}

void SessionDraft::MakeBlockGeneration() {
  // 0 says that no block has taken anything in.
  while (row_.block_generation == 0) row_.block_generation = random_();
}

void SessionDraft::AddJob(const std::string& block, std::uint64_t message_generation,
                          PositionRange range) {
  MakeBlockGeneration();
  BlockState& state = ChangeBlock(block);
  Job& job = jobs_.emplace_back();
  job.key.generation = row_.block_generation;
  job.key.block = block;
  job.key.number = state.next++;
  job.message_generation = message_generation;
  job.begin = range.begin;
  job.end = range.end;
  job.create_us = job.update_us = now_us_;
}

void SessionDraft::LeaseJobs(std::uint64_t lease, std::int64_t lease_us) {
  for (Job& job : jobs_) {
    job.lease = lease;
    job.lease_until_us = lease_us;
    job.attempts = 1;
  }
}

const BlockSettings* SessionDraft::FindBlockSettings(const std::string& name) const {
  const auto settings =
      std::find_if(config_->blocks.begin(), config_->blocks.end(),
                   [&name](const BlockSettings& block) { return block.name == name; });
  return settings == config_->blocks.end() ? nullptr : &*settings;
}

const BlockState* SessionDraft::FindBlock(const std::string& name) const {
  const auto changed = changed_blocks_.find(name);
  if (changed != changed_blocks_.end()) return &changed->second;
  if (base_blocks_removed_) return nullptr;
  const auto base = base_.blocks.find(name);
  return base == base_.blocks.end() ? nullptr : base->second.get();
}

BlockState& SessionDraft::ChangeBlock(const std::string& name) {
  const BlockState* const current = FindBlock(name);
  BlockState state = current == nullptr ? BlockState() : *current;
  state.name = name;
  state.update_us = now_us_;
  return changed_blocks_.insert_or_assign(name, std::move(state)).first->second;
}

void SessionDraft::CancelJobs() {
  if (row_.block_generation == 0) return;
  cancel_jobs_ = true;
  jobs_.clear();
  std::vector<std::string> waiting;
  const auto note = [this, &waiting](const std::string& name) {
    const BlockState* const state = FindBlock(name);
    if (state != nullptr && state->done + 1 < state->next) waiting.push_back(name);
  };
  for (const BlockSettings& block : config_->blocks) note(block.name);
  note(std::string(kRetrievalBlock));
  for (const std::string& name : waiting) {
    BlockState& state = ChangeBlock(name);
    state.done = state.next - 1;
  }
}

void SessionDraft::RemoveBlock(const std::string& name) {
  if (FindBlock(name) == nullptr) return;
  BlockState& state = ChangeBlock(name);
  for (const EntryRange& stored : EntriesOf(state)) {
    AddGarbage(stored.generation, stored.positions);
  }
  state.entry_generation = 0;
  state.next_entry = 1;
  state.state.clear();
  CancelJobsOf(state);
}

void SessionDraft::CancelJobsOf(BlockState& state) {
  while (state.done + 1 < state.next) {
    JobKey job;
    job.generation = row_.block_generation;
    job.block = state.name;
    job.number = ++state.done;
    ended_jobs_.push_back({std::move(job), JobState::kCancelled, {}, {}});
  }
}

void SessionDraft::RemoveBlocks() {
  if (row_.block_generation == 0) return;
  for (const BlockSettings& block : config_->blocks) {
    const BlockState* const state = FindBlock(block.name);
    if (state == nullptr) continue;
    for (const EntryRange& stored : EntriesOf(*state)) {
      AddGarbage(stored.generation, stored.positions);
    }
  }
  garbage_.push_back({row_.block_generation, 0, 1});
  row_.block_generation = 0;
  base_blocks_removed_ = true;
  changed_blocks_.clear();
  jobs_.clear();
  cancel_jobs_ = false;
}

void SessionDraft::RemoveBlocksButUsage() {
  const BlockState* const state = FindBlock(std::string(kUsageBlock));
  const Usage usage = state == nullptr ? Usage() : DecodeUsage(state->state);
  RemoveBlocks();
  AddUsage(usage);
}

void SessionDraft::AddUsage(const Usage& usage) {
  if (!exists() || usage == Usage()) return;
  while (row_.block_generation == 0) row_.block_generation = random_();
  BlockState& state = ChangeBlock(std::string(kUsageBlock));
  Usage total = DecodeUsage(state.state);
  state.state = EncodeUsage(total += usage);
}

// What has been taken is part of every commit; this is one for its sake.
SessionDraft::Decision SessionDraft::Apply(const commands::StoreUsage& /*command*/, Write& write) {
  const WriteRequest& request = write.request;
  if (exists()) return Stored(request, WriteResult());
  return {Kind::kUnchanged, absl::OkStatus(), request.encode_reply(WriteResult())};
}

// A job that is not the next one of its block has ended before, by another server or by a Set or
// Reset: what it found out must not be stored again, or come back. One that began with another
// state than the block has now would take back what changed that; one whose messages were changed
// or deleted since it read them has learnt what nobody says.
SessionDraft::Decision SessionDraft::Apply(const commands::EndJob& end, Write& write) {
  const WriteRequest& request = write.request;
  const JobOutcome& outcome = end.outcome;
  const BlockState* const current = exists() && row_.block_generation == outcome.job.generation
                                        ? FindBlock(outcome.job.block)
                                        : nullptr;
  if (current == nullptr || current->done + 1 != outcome.job.number ||
      outcome.job.number >= current->next) {
    return {Kind::kUnchanged, absl::OkStatus(), request.encode_reply(WriteResult())};
  }
  const bool anew = EmbedsEntries(outcome, *current);
  const auto removed = anew ? RemovedSince(outcome, *current) : std::vector<NumberRange>();
  // What was changed or deleted meanwhile is hidden, and taken out, wherever it stands.
  const bool edited = !anew && row_.edit_revision > outcome.read_revision;
  const bool outdated = edited || !removed.has_value() || !IsFedState(outcome, *current);
  if (outcome.state == JobState::kDone && outdated) {
    return Refused(Error(absl::StatusCode::kAborted, "BLOCK_CHANGED",
                         "the block has changed since the job was fed to it"));
  }
  BlockState& state = ChangeBlock(outcome.job.block);
  state.done = outcome.job.number;
  if (outcome.state == JobState::kDone) {
    const bool embeds = outcome.job.block == kRetrievalBlock;
    std::string after = StateAfter(outcome, state);
    const std::string before = std::exchange(state.state, std::move(after));
    if (embeds) NoteAnswer(before, state);
    if (!outcome.entries.empty()) {
      while (state.entry_generation == 0) state.entry_generation = random_();
    }
    const std::uint64_t generation = (embeds || anew) && !outcome.entries.empty()
                                         ? EntriesOf(state).back().generation
                                         : state.entry_generation;
    for (std::size_t i = 0; i < outcome.entries.size(); ++i) {
      // Retention has taken the message meanwhile.
      if (embeds && !IsStored(row_, outcome.entry_positions[i])) continue;
      if (anew && HasNumber(*removed, outcome.entry_positions[i])) continue;
      MessageDraft row;
      row.position =
          outcome.entry_positions.empty() ? state.next_entry++ : outcome.entry_positions[i];
      row.ingest_us = now_us_;
      row.body = outcome.entries[i];
      if (!outcome.entry_messages.empty()) {
        const EntryMessages& of = outcome.entry_messages[i];
        if (of.ingest_us > 0) row.ingest_us = of.ingest_us;
        if (of.expire_us > 0) row.ids.value().expire_us = of.expire_us;
      }
      entries_.push_back({generation, MessagePtr(row)});
    }
  } else if (anew) {
    DropNextEntries(state);
  }
  for (const BlockSettings& block : config_->blocks) {
    if (block.name != outcome.job.block) continue;
    const auto facts =
        memoryd::RetireOldFacts(block, config_->counting.profile, state.state, now_us_);
    if (facts.ok()) LookAt(facts->next_us);
  }
  ended_jobs_.push_back({outcome.job, outcome.state, outcome.error, outcome.usage});
  WriteResult result;
  result.job_number = outcome.job.number;
  return Stored(request, std::move(result));
}

// Later jobs went on meanwhile, so the messages are fed once more behind them.
SessionDraft::Decision SessionDraft::Apply(const commands::RetryJob& retry, Write& write) {
  const WriteRequest& request = write.request;
  const Job& failed = retry.failed;
  const auto is_block = [&failed](const BlockSettings& block) {
    return block.name == failed.key.block && (block.TakesMessages() || block.TakesPuts());
  };
  bool is_there = std::any_of(config_->blocks.begin(), config_->blocks.end(), is_block);
  if (failed.key.block == kRetrievalBlock) {
    // Since it was emptied, jobs of its own come to those messages.
    const BlockState* const state = FindBlock(failed.key.block);
    const std::vector<EntryRange> made =
        state == nullptr ? std::vector<EntryRange>() : EntriesOf(*state);
    is_there =
        config_->EmbedsMessages() && !made.empty() && failed.end <= made.back().positions.end;
  }
  if (!exists() || row_.block_generation != failed.key.generation || !is_there ||
      row_.generation != failed.message_generation || failed.begin < row_.floor) {
    return Refused(Error(absl::StatusCode::kFailedPrecondition, "JOB_OBSOLETE",
                         "job_id: what the job was to feed is gone, or its block is"));
  }
  AddJob(failed.key.block, failed.message_generation, {failed.begin, failed.end});
  WriteResult result;
  result.job_number = jobs_.back().key.number;
  return Stored(request, std::move(result));
}

SessionDraft::Decision SessionDraft::Apply(const commands::UndoBlockChange& undo, Write& write) {
  const WriteRequest& request = write.request;
  if (!exists()) return Refused(SessionNotFound());
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  const BlockSettings* const settings = FindBlockSettings(undo.block);
  if (settings == nullptr) return Refused(BlockNotFound());
  const BlockState* const current = FindBlock(undo.block);
  auto undone = UndoBlockChange(*settings, config_->counting.profile,
                                current == nullptr ? "" : std::string_view(current->state),
                                undo.change, CallerOf(request, undo.writer, now_us_));
  if (!undone.ok()) return Refused(undone.status());
  ChangeBlock(undo.block).state = std::move(undone->state);
  WriteResult result;
  result.facts = std::move(undone->facts);
  return Stored(request, std::move(result));
}

SessionDraft::Decision SessionDraft::Apply(const commands::EditFact& edit, Write& write) {
  const WriteRequest& request = write.request;
  if (!exists()) return Refused(SessionNotFound());
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  const BlockSettings* const settings = FindBlockSettings(edit.block);
  if (settings == nullptr) return Refused(BlockNotFound());
  FactEdit fact = edit.fact;
  if (request.found.has_value()) {
    if (absl::Status status = CheckFound(request); !status.ok()) return Refused(status);
    fact.evidence.clear();
    for (const MessagePtr& message : request.found->messages) {
      fact.evidence.push_back(MessageId(*message, row_.generation));
    }
  }
  const BlockState* const current = FindBlock(edit.block);
  auto edited = EditBlockFact(*settings, config_->counting.profile,
                              current == nullptr ? "" : std::string_view(current->state), fact,
                              CallerOf(request, edit.writer, now_us_));
  if (!edited.ok()) return Refused(edited.status());
  MakeBlockGeneration();
  ChangeBlock(edit.block).state = std::move(edited->state);
  WriteResult result;
  result.edited_fact = std::move(edited->edited);
  return Stored(request, std::move(result));
}

void SessionDraft::RemoveStaged() {
  RemoveAllMessages();
  RemoveContents();
  RemoveBlocks();
}

absl::Status SessionDraft::CheckStaged(const StagedSession& staged) const {
  const std::string_view field = staged.id_field;
  if (exists()) return SessionExists(field);
  if (row_.deleted && row_.generation == staged.row.generation) return absl::OkStatus();
  return Error(absl::StatusCode::kAborted, "SESSION_REPLACED",
               std::string(field) + ": another call makes a session of this id");
}

// The tombstone names what will be stored, so that whoever finds it can have that purged, and shows
// nothing of it: there is nothing between its floor and its next position, and no content.
SessionDraft::Decision SessionDraft::Apply(const commands::BeginStaged& begin, Write& write) {
  const WriteRequest& request = write.request;
  if (exists()) return Refused(SessionExists(begin.staged->id_field));
  const SessionRow& staged = begin.staged->row;
  if (row_.revision == 0) row_.create_us = now_us_;
  RemoveStaged();
  if (row_.subject != begin.staged->config->subject) ForgetReplies();
  row_.subject = begin.staged->config->subject;
  row_.deleted = true;
  row_.generation = staged.generation;
  row_.next_position = std::max(row_.next_position, staged.next_position);
  row_.floor = row_.watermark = row_.next_position;
  row_.message_bytes = std::max<std::int64_t>(1, staged.message_bytes);
  row_.content_generation = staged.content_generation;
  row_.next_content = std::max(row_.next_content, staged.next_content);
  row_.block_generation = staged.block_generation;
  for (const BlockState& block : begin.staged->blocks) {
    if (block.entry_generation == 0) continue;
    BlockState& state = ChangeBlock(block.name);
    state.entry_generation = block.entry_generation;
    state.next_entry = block.next_entry;
  }
  SetConfig(SessionSettings(), SessionConfig());
  return Stored(request, WriteResult());
}

SessionDraft::Decision SessionDraft::Apply(const commands::AddStaged& add, Write& write) {
  const WriteRequest& request = write.request;
  if (absl::Status status = CheckStaged(*add.staged); !status.ok()) return Refused(status);
  stored_ = add.rows.messages;
  stored_contents_ = add.rows.contents;
  entries_ = add.rows.entries;
  // How far they reach may not have been known when it was begun.
  if (!stored_.empty()) {
    row_.next_position = std::max(row_.next_position, stored_.back()->position + 1);
    row_.floor = row_.watermark = row_.next_position;
  }
  if (!stored_contents_.empty()) {
    row_.next_content = std::max(row_.next_content, stored_contents_.back()->position + 1);
  }
  return Stored(request, WriteResult());
}

SessionDraft::Decision SessionDraft::Apply(const commands::PublishStaged& publish, Write& write) {
  const WriteRequest& request = write.request;
  if (absl::Status status = CheckStaged(*publish.staged); !status.ok()) return Refused(status);
  const StagedSession& staged = *publish.staged;
  const std::int64_t revision = row_.revision;
  row_ = staged.row;
  row_.revision = revision;
  timed_ = HasTimedItems(row_);
  if (row_.create_us == 0) row_.create_us = now_us_;
  row_.deleted = false;
  SetConfig(staged.settings, *staged.config);
  base_blocks_removed_ = true;
  for (const BlockState& block : staged.blocks) changed_blocks_[block.name] = block;
  for (const StagedSession::OpenJob& job : staged.jobs) {
    AddJob(job.block, row_.generation, job.range);
  }
  must_load_ = true;
  WriteResult result;
  result.with_blocks = staged.with_blocks;
  return Stored(request, std::move(result));
}

SessionDraft::Decision SessionDraft::Apply(const commands::DropStaged& drop, Write& write) {
  const WriteRequest& request = write.request;
  if (absl::Status status = CheckStaged(*drop.staged); !status.ok()) return Refused(status);
  RemoveStaged();
  return Stored(request, WriteResult());
}

absl::Status SessionDraft::CheckFound(const WriteRequest& request) const {
  const FoundMessages& found = *request.found;
  if (!found.status.ok()) return found.status;
  // One that has left short-term memory since then may have been reset with it.
  const auto is_stored = [this, &found](const MessagePtr& message) {
    const std::int64_t position = message->position;
    return IsStored(row_, position) &&
           (position >= found.watermark) == (position >= row_.watermark);
  };
  // What is in memory tells by itself whether it has changed.
  const auto is_known = [this](const MessagePtr& message) {
    const auto at = std::lower_bound(
        base_.active.begin(), base_.active.end(), message,
        [](const MessagePtr& a, const MessagePtr& b) { return a->position < b->position; });
    return at != base_.active.end() && (*at)->position == message->position &&
           (*at)->token_count == message->token_count && (*at)->body == message->body;
  };
  const bool unedited = row_.edit_revision <= found.revision ||
                        std::all_of(found.messages.begin(), found.messages.end(), is_known);
  const bool same = unedited && row_.generation == found.generation &&
                    std::all_of(found.messages.begin(), found.messages.end(), is_stored);
  return same ? absl::OkStatus() : MessageChanged();
}

absl::Status SessionDraft::CheckFoundContent(const WriteRequest& request) const {
  const FoundMessages& found = *request.found;
  if (!found.status.ok()) return found.status;
  const bool same =
      row_.content_generation == found.generation && row_.edit_revision <= found.revision;
  return same ? absl::OkStatus() : ContentChanged();
}

absl::Status SessionDraft::CheckGoing(const WriteRequest& request) const {
  if (!request.found.has_value()) return absl::OkStatus();
  const FoundMessages& found = *request.found;
  const bool same = exists() ? row_.generation == found.generation &&
                                   row_.next_position == found.next_position &&
                                   row_.watermark == found.watermark
                             : found.generation == 0;
  return same ? found.status : MessageChanged();
}

SessionDraft::Decision SessionDraft::Apply(const commands::UpdateMessage& update, Write& write) {
  const WriteRequest& request = write.request;
  if (!exists()) return Refused(SessionNotFound());
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  if (absl::Status status = CheckFound(request); !status.ok()) return Refused(status);
  const Message& stored = *request.found->messages.front();
  const IncomingMessage& incoming = update.items.messages.front();
  if (stored.IsExpired(now_us_)) return Refused(MessageNotFound());
  if (incoming.message.IsExpired(now_us_)) return Refused(TimeIsOver("expire_time"));
  if (!std::ranges::is_permutation(stored.ids->calls, incoming.message.ids->calls) ||
      !std::ranges::is_permutation(stored.ids->results, incoming.message.ids->results)) {
    return Refused(Error(absl::StatusCode::kFailedPrecondition, "TOOL_PAIR",
                         "parts: must have the call ids of tools that the message has, since calls "
                         "and results belong together"));
  }
  if (config_->counting.tokenizer == "caller" && !incoming.token_count.has_value()) {
    return Refused(
        InvalidField("token_count", "is required, since the session's tokenizer is `caller`"));
  }
  if (auto decision = CountTokens(write, *config_); decision.has_value())
    return *std::move(decision);
  MessageDraft changed(stored);
  changed.body = incoming.message.body;
  MessageIds ids = *incoming.message.ids;
  ids.message_id = stored.ids->message_id;
  changed.ids = std::move(ids);
  changed.token_count = write.token_counts.messages.front();
  MessagePtr message(changed);
  const bool active = IsActive(row_, stored.position);
  const std::int64_t active_bytes = active_bytes_ + (active ? Bytes(*message) - Bytes(stored) : 0);
  if (active_bytes > std::max(max_active_bytes_, active_bytes_)) {
    return Refused(ActiveBytesExceeded("parts", active_bytes, max_active_bytes_));
  }
  active_bytes_ = active_bytes;
  row_.message_bytes =
      std::max<std::int64_t>(0, row_.message_bytes + Bytes(*message) - Bytes(stored));
  if (active) {
    row_.active_tokens += message->token_count - stored.token_count;
  }
  for (MessagePtr& pinned : pinned_) {
    if (pinned->position == stored.position) pinned = message;
  }
  if (row_.opening == stored.position) opening_ = message;
  NoteTime(*message);
  replaced_ = message;
  row_.edit_revision = row_.revision + 1;
  HideChangedEntries(stored.position);
  if (EraseEmbedding(stored.position) && config_->EmbedsMessages()) {
    AddJob(std::string(kRetrievalBlock), row_.generation, {stored.position, stored.position + 1});
  }
  WriteResult result;
  result.messages = {std::move(message)};
  return Stored(request, std::move(result));
}

SessionDraft::Decision SessionDraft::Apply(const commands::DeleteMessage& /*command*/,
                                           Write& write) {
  const WriteRequest& request = write.request;
  if (!exists()) return Refused(SessionNotFound());
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  if (absl::Status status = CheckFound(request); !status.ok()) return Refused(status);
  WriteResult result;
  TakeOut(request.found->messages, result);
  result.messages = deleted_;
  return Stored(request, std::move(result));
}

void SessionDraft::TakeOut(std::vector<MessagePtr> messages, WriteResult& result) {
  deleted_ = std::move(messages);
  std::vector<NumberRange> archived;
  for (const MessagePtr& message : deleted_) {
    const std::int64_t position = message->position;
    if (IsArchived(position)) AddRange(archived, {position, position + 1});
    if (!erase_.empty() && erase_.back().end == position) {
      ++erase_.back().end;
    } else {
      erase_.push_back({position, position + 1});
    }
    row_.message_bytes = std::max<std::int64_t>(0, row_.message_bytes - Bytes(*message));
    if (IsActive(row_, position)) {
      --row_.active_count;
      row_.active_tokens -= message->token_count;
      active_bytes_ -= ActiveSize(*message);
      ++result.removed_active;
    } else {
      --row_.archived_count;
      ++result.removed_archived;
    }
    EraseEmbedding(position);
    if (row_.opening == position) {
      row_.opening = 0;
      opening_ = nullptr;
    }
    std::erase(row_.pinned, position);
    std::erase_if(pinned_,
                  [position](const MessagePtr& pinned) { return pinned->position == position; });
  }
  HideEntries(archived);
  result.retired_facts = RetireFacts(deleted_);
  row_.edit_revision = row_.revision + 1;
}

SessionDraft::Decision SessionDraft::Apply(const commands::UpdateContent& update, Write& write) {
  const WriteRequest& request = write.request;
  if (!exists()) return Refused(SessionNotFound());
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  if (absl::Status status = CheckFoundContent(request); !status.ok()) return Refused(status);
  const Content& stored = *request.found->messages.front();
  if (stored.IsExpired(now_us_)) return Refused(ContentNotFound());
  if (auto decision = CountTokens(write, *config_); decision.has_value())
    return *std::move(decision);
  ContentDraft changed(stored);
  changed.body = update.items.contents.front().content.body;
  changed.token_count = write.token_counts.contents.front();
  ContentPtr content(changed);
  row_.content_bytes =
      std::max<std::int64_t>(0, row_.content_bytes + Bytes(*content) - Bytes(stored));
  row_.edit_revision = row_.revision + 1;
  replaced_content_ = content;
  WriteResult result;
  result.contents = {std::move(content)};
  return Stored(request, std::move(result));
}

SessionDraft::Decision SessionDraft::Apply(const commands::DeleteContent& /*command*/,
                                           Write& write) {
  const WriteRequest& request = write.request;
  if (!exists()) return Refused(SessionNotFound());
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  if (absl::Status status = CheckFoundContent(request); !status.ok()) return Refused(status);
  const ContentPtr& content = request.found->messages.front();
  erased_entries_.push_back({row_.content_generation, {content->position, content->position + 1}});
  --row_.content_count;
  row_.content_bytes = std::max<std::int64_t>(0, row_.content_bytes - Bytes(*content));
  row_.edit_revision = row_.revision + 1;
  WriteResult result;
  result.contents = {content};
  return Stored(request, std::move(result));
}

std::int64_t SessionDraft::RetireFacts(const std::vector<MessagePtr>& messages) {
  std::vector<std::string> ids;
  ids.reserve(messages.size());
  for (const MessagePtr& message : messages) ids.push_back(MessageId(*message, row_.generation));
  std::int64_t count = 0;
  for (const BlockSettings& block : config_->blocks) {
    const BlockState* const state = FindBlock(block.name);
    if (state == nullptr) continue;
    auto retired =
        memoryd::RetireFacts(block, config_->counting.profile, state->state, ids, now_us_);
    // A state that can't be read has no facts to show; that is no reason to keep the message.
    if (!retired.ok() || !retired->has_value()) continue;
    ChangeBlock(block.name).state = std::move((*retired)->state);
    count += static_cast<std::int64_t>((*retired)->facts);
  }
  return count;
}

SessionDraft::Decision SessionDraft::NothingToRemove(const WriteRequest& request) {
  std::string reply = request.encode_reply(WriteResult());
  if (request.request_id.empty()) return {Kind::kUnchanged, absl::OkStatus(), std::move(reply)};
  // A retry must not remove what others put meanwhile, so the record is kept, beside a tombstone.
  dirty_ = true;
  if (row_.revision == 0) {
    row_.generation = random_();
    row_.create_us = now_us_;
    row_.deleted = true;
    SetConfig(SessionSettings(), SessionConfig());
  }
  ++row_.revision;
  row_.update_us = now_us_;
  requests_.push_back({request.request_id, request.fingerprint, reply, now_us_});
  return {Kind::kStore, absl::OkStatus(), std::move(reply)};
}

SessionDraft::Decision SessionDraft::Stored(const WriteRequest& request, WriteResult result) {
  dirty_ = true;
  ++row_.revision;
  row_.update_us = now_us_;
  SetDueTimes(TraitsOf(request.command));
  EmbedMessages();
  EmbedEntries();
  result.revision = row_.revision;
  result.generation = row_.generation;
  result.content_generation = row_.content_generation;
  result.row = row_;
  result.config = config_;
  std::string reply = request.encode_reply(result);
  if (!request.request_id.empty()) {
    requests_.push_back({request.request_id, request.fingerprint, reply, now_us_});
  }
  return {Kind::kStore, absl::OkStatus(), std::move(reply)};
}

SessionChange SessionDraft::TakeChange(const SessionKey& key) {
  row_.commit_tag = random_();
  if (write_config_ && !row_.deleted) row_.subject = config_->subject;
  SessionChange change;
  change.key = key;
  change.expected_revision = base_revision_;
  change.row = row_;
  change.write_config = write_config_;
  change.write_expire_us = row_.expire_us != base_expire_us_;
  change.write_drop_us = row_.drop_us != base_drop_us_;
  change.messages = std::move(stored_);
  change.contents = std::move(stored_contents_);
  change.entries = std::move(entries_);
  for (const auto& [name, state] : changed_blocks_) change.blocks.push_back(state);
  for (Job& job : jobs_) job.key.session = key;
  change.jobs = jobs_;
  for (JobEnd& end : ended_jobs_) end.key.session = key;
  change.ended_jobs = std::move(ended_jobs_);
  if (cancel_jobs_) change.cancel_jobs_of = row_.block_generation;
  change.erase = erase_;
  change.erased_entries = std::move(erased_entries_);
  if (replaced_ != nullptr) change.replaced = {replaced_};
  if (replaced_content_ != nullptr) change.replaced_contents = {replaced_content_};
  change.garbage = garbage_;
  change.requests = requests_;
  return change;
}

void SessionDraft::ApplyTo(Session& session) {
  if (&session != &base_ || session.row.revision >= row_.revision) return;
  if (forget_requests_) {
    for (const RequestRecord& record : session.recent_requests) {
      session.content_bytes -= ByteSize(record);
    }
    session.recent_requests.clear();
  }
  if (base_removed_) {
    session.active.clear();
    session.content_bytes = 0;
    for (const RequestRecord& record : session.recent_requests) {
      session.content_bytes += ByteSize(record);
    }
    for (const auto& [name, state] : session.blocks) session.content_bytes += ByteSize(*state);
  }
  const std::size_t from_base = std::min(dropped_, session.active.size());
  for (std::size_t i = 0; i < from_base; ++i) {
    session.content_bytes -= session.active.front()->ByteSize();
    session.active.pop_front();
  }
  for (std::size_t i = dropped_ - from_base; i < appended_.size(); ++i) {
    session.content_bytes += appended_[i]->ByteSize();
    session.active.push_back(std::move(appended_[i]));
  }
  if (replaced_ != nullptr || !deleted_.empty()) {
    const auto place = [&session](const MessagePtr& message) {
      const auto found = std::lower_bound(
          session.active.begin(), session.active.end(), message,
          [](const MessagePtr& a, const MessagePtr& b) { return a->position < b->position; });
      const bool here = found != session.active.end() && (*found)->position == message->position;
      return here ? found : session.active.end();
    };
    if (replaced_ != nullptr) {
      if (const auto found = place(replaced_); found != session.active.end()) {
        session.content_bytes += replaced_->ByteSize() - (*found)->ByteSize();
        *found = replaced_;
      }
    }
    for (const MessagePtr& message : deleted_) {
      const auto found = place(message);
      if (found == session.active.end()) continue;
      session.content_bytes -= (*found)->ByteSize();
      session.active.erase(found);
    }
    for (const MessagePtr& pinned : session.pinned) session.content_bytes -= pinned->ByteSize();
    session.pinned.clear();
  }
  for (std::size_t i = base_removed_ ? 0 : session.pinned.size(); i < pinned_.size(); ++i) {
    session.content_bytes += pinned_[i]->ByteSize();
  }
  if (session.opening && !base_removed_) session.content_bytes -= session.opening->ByteSize();
  if (opening_) session.content_bytes += opening_->ByteSize();
  session.opening = std::move(opening_);
  session.pinned = std::move(pinned_);
  session.active_bytes = active_bytes_;
  session.whole = session.whole || base_removed_;
  for (RequestRecord& record : requests_) {
    session.content_bytes += ByteSize(record);
    session.recent_requests.push_back(std::move(record));
    if (session.recent_requests.size() > kMaxRecentRequests) {
      session.content_bytes -= ByteSize(session.recent_requests.front());
      session.recent_requests.pop_front();
    }
  }
  if (base_blocks_removed_) {
    for (const auto& [name, state] : session.blocks) session.content_bytes -= ByteSize(*state);
    session.blocks.clear();
  }
  for (auto& [name, state] : changed_blocks_) {
    std::shared_ptr<const BlockState>& cached = session.blocks[name];
    if (cached != nullptr) session.content_bytes -= ByteSize(*cached);
    session.content_bytes += ByteSize(state);
    cached = std::make_shared<const BlockState>(std::move(state));
  }
  // A touch may have raised it meanwhile.
  if (row_.expire_us == base_expire_us_) row_.expire_us = session.row.expire_us;
  session.row = std::move(row_);
  session.config = std::move(config_);
}

}  // namespace memoryd
