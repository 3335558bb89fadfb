#include "core/writes/commands/sessions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/blocks/block_traits.h"
#include "core/model/session_config.h"
#include "core/sessions/session.h"
#include "core/sessions/session_errors.h"
#include "core/writes/draft/requested_config.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/write.h"

namespace memoryd {

SessionDraft::Decision SessionDraft::Apply(const commands::CreateSession& /*command*/,
                                           Write& write) {
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
  ReadTraits(config->blocks, config->counting.profile);
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
  if (absl::Status status = CheckSubject(request, config_.get(), *config, from_template);
      !status.ok()) {
    return Refused(status);
  }
  for (const BlockSettings& old : config_->blocks) {
    // What one kind knows means nothing to another, nor to the same kind under other rules.
    const auto same = [&old](const BlockSettings& block) {
      return block.name == old.name && block.kind == old.kind;
    };
    if (config->counting.profile != config_->counting.profile ||
        std::none_of(config->blocks.begin(), config->blocks.end(), same)) {
      blocks_.Remove(old.name);
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
  blocks_.RemoveAll(config_->blocks);
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

}  // namespace memoryd
