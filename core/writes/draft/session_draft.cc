#include "core/writes/draft/session_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/random_source.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/session.h"
#include "core/sessions/session_errors.h"
#include "core/sessions/session_info.h"
#include "core/sessions/shared_config.h"
#include "core/storage/store.h"
#include "core/writes/command.h"
#include "core/writes/commands/contents.h"
#include "core/writes/commands/messages.h"
#include "core/writes/commands/put_set_reset.h"
#include "core/writes/commands/sessions.h"
#include "core/writes/commands/staged.h"
#include "core/writes/draft/requested_config.h"
#include "core/writes/draft/sizes.h"
#include "core/writes/incoming.h"
#include "core/writes/token_rules.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

using Kind = SessionDraft::Decision::Kind;

std::string EncodedReply(const WriteRequest& request, const WriteResult& result) {
  return request.encode_reply == nullptr ? std::string() : request.encode_reply(result);
}

}  // namespace

SessionDraft::SessionDraft(const Session& base, const TokenRules& rules, std::int64_t now_us,
                           RandomSource& random, std::int64_t max_active_bytes)
    : base_(base),
      base_revision_(base.row.revision),
      base_usage_(UsageOf(base.row)),
      base_expire_us_(base.row.expire_us),
      base_drop_us_(base.row.drop_us),
      base_has_timed_items_(base.row.has_timed_items),
      rules_(rules),
      now_us_(std::max(now_us, base.row.update_us + (base.row.deleted ? 1 : 0))),
      random_(random),
      max_active_bytes_(max_active_bytes),
      row_(base.row),
      config_(base.config),
      messages_(base),
      blocks_(base, now_us_, random) {
  // Another server has taken it out.
  if (base.whole && base.opening == nullptr) row_.opening = 0;
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
    return settings.ok() ? TextBytes(settings->ToJson()) - TextBytes(row_.config) : 0;
  }
  if (exists()) return 0;
  const auto defaults = DefaultsFor(request);
  return defaults.ok() ? TextBytes(SettingsOfNew(request, *defaults).ToJson()) : 0;
}

TenantUsage SessionDraft::ItemGrowth(const WriteRequest& request) const {
  TenantUsage growth;
  growth.bytes = ConfigGrowth(request);
  if (!exists()) growth.sessions = 1;
  const IncomingItems& items = ItemsOf(request.command);
  growth.messages = static_cast<std::int64_t>(items.count());
  for (const IncomingMessage& incoming : items.messages)
    growth.bytes += BodyBytes(incoming.message);
  for (const IncomingContent& incoming : items.contents)
    growth.bytes += BodyBytes(incoming.content);
  return growth;
}

TenantUsage SessionDraft::Growth(const Write& write) const {
  const WriteRequest& request = write.request;
  const auto of_edit = [&request](const auto& now) -> TenantUsage {
    return {0, 0, BodyBytes(now) - BodyBytes(*request.found->messages.front())};
  };
  return std::visit(
      [&]<typename One>([[maybe_unused]] const One& command) -> TenantUsage {
        if constexpr (std::is_same_v<One, commands::Put> ||
                      std::is_same_v<One, commands::CreateSession>) {
          return ItemGrowth(request);
        } else if constexpr (std::is_same_v<One, commands::Set>) {
          TenantUsage growth = ItemGrowth(request);
          const TenantUsage replaced = UsageOf(row_);
          growth.messages -= replaced.messages;
          // The configuration stays.
          if (exists()) growth.bytes -= replaced.bytes - TextBytes(row_.config);
          return growth;
        } else if constexpr (std::is_same_v<One, commands::UpdateSession>) {
          return {0, 0, ConfigGrowth(request)};
        } else if constexpr (std::is_same_v<One, commands::UpdateMessage>) {
          if (!request.found->status.ok()) return {};
          return of_edit(command.items.messages.front().message);
        } else if constexpr (std::is_same_v<One, commands::UpdateContent>) {
          if (!request.found->status.ok()) return {};
          return of_edit(command.items.contents.front().content);
        } else if constexpr (std::is_same_v<One, commands::BeginStaged> ||
                             std::is_same_v<One, commands::AddStaged> ||
                             std::is_same_v<One, commands::PublishStaged>) {
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
  // Here every write passes, and what it is decided on is what it is committed on.
  if (!request.subject.empty() && exists() && config_->subject != request.subject) {
    return Refused(SubjectNotGranted("session_id"));
  }
  if (!request.request_id.empty()) {
    if (std::any_of(requests_.begin(), requests_.end(), [&request](const RequestRecord& record) {
          return record.request_id == request.request_id;
        })) {
      // Its reply is not durable yet: look again after this commit.
      return Refused(absl::AbortedError("the same request is under way"));
    }
    if (const RequestRecord* const found = base_.recent_requests.Find(request.request_id)) {
      auto reply = ReplyOf(*found, request.fingerprint);
      if (!reply.ok()) return {Kind::kReplay, reply.status()};
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
    return Decision{Decision::Kind::kCount, absl::OkStatus()};
  }
  write.token_counts = std::move(progress.counts);
  write.counted_with = config.counting;
  return std::nullopt;
}

void SessionDraft::ForgetReplies() {
  if (row_.subject.empty()) return;
  // Later ones have a later time, see `now_us_`.
  forget_requests_before_us_ = row_.update_us + 1;
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

void SessionDraft::RemoveStaged() {
  RemoveAllMessages();
  RemoveContents();
  blocks_.RemoveAll(config_->blocks);
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

SessionDraft::Decision SessionDraft::Unchanged(const WriteRequest& request) {
  return {Kind::kUnchanged, absl::OkStatus(), EncodedReply(request, WriteResult())};
}

SessionDraft::Decision SessionDraft::NothingToRemove(const WriteRequest& request) {
  if (request.request_id.empty()) return Unchanged(request);
  std::string reply = EncodedReply(request, WriteResult());
  // A retry must not remove what others put meanwhile, so the record is kept, beside a tombstone.
  dirty_ = true;
  if (row_.revision == 0) {
    row_.generation = random_.Next();
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
  row_.block_generation = blocks_.generation();
  result.revision = row_.revision;
  result.generation = row_.generation;
  result.content_generation = row_.content_generation;
  result.row = row_;
  result.config = config_;
  std::string reply = EncodedReply(request, result);
  if (!request.request_id.empty()) {
    requests_.push_back({request.request_id, request.fingerprint, reply, now_us_});
  }
  return {Kind::kStore, absl::OkStatus(), std::move(reply), std::move(result)};
}

SessionChange SessionDraft::TakeChange(const SessionKey& key) {
  row_.commit_tag = random_.Next();
  row_.block_generation = blocks_.generation();
  if (write_config_ && !row_.deleted) row_.subject = config_->subject;
  SessionChange change;
  change.key = key;
  change.expected_revision = base_revision_;
  change.row = row_;
  change.write_config = write_config_;
  change.write_expire_us = row_.expire_us != base_expire_us_;
  change.write_drop_us =
      row_.drop_us != base_drop_us_ || row_.has_timed_items != base_has_timed_items_;
  change.appends_only = base_revision_ > 0 && base_.row.revision == base_revision_ &&
                        !write_config_ && IsAppend(base_.row, row_);
  change.contents = std::move(stored_contents_);
  change.erased_entries = std::move(erased_contents_);
  if (replaced_content_ != nullptr) change.replaced_contents = {replaced_content_};
  messages_.TakeChange(change);
  garbage_.MoveTo(change.garbage);
  blocks_.TakeChange(key, change);
  change.forget_requests_before_us = forget_requests_before_us_;
  change.requests = requests_;
  return change;
}

void SessionDraft::ApplyTo(Session& session) {
  if (&session != &base_ || session.row.revision >= row_.revision) return;
  if (forget_requests_before_us_ > 0) {
    session.content_bytes -= session.recent_requests.bytes();
    session.recent_requests.Clear();
  }
  messages_.ApplyTo(session);
  session.content_bytes -= session.recent_requests.bytes();
  for (RequestRecord& record : requests_) session.recent_requests.Add(std::move(record));
  session.content_bytes += session.recent_requests.bytes();
  blocks_.ApplyTo(session);
  // A touch may have raised it meanwhile.
  if (row_.expire_us == base_expire_us_) row_.expire_us = session.row.expire_us;
  session.row = std::move(row_);
  session.config = std::move(config_);
}

}  // namespace memoryd
