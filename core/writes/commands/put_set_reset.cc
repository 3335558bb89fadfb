#include "core/writes/commands/put_set_reset.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/blocks/embedding_state.h"
#include "core/model/session_config.h"
#include "core/model/usage_count.h"
#include "core/sessions/session_errors.h"
#include "core/writes/draft/requested_config.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/write.h"

namespace memoryd {

SessionDraft::Decision SessionDraft::Apply(const commands::Put& put, Write& write) {
  const WriteRequest& request = write.request;
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  if (put.only_generation.has_value() && (!exists() || row_.generation != *put.only_generation)) {
    return Refused(Error(absl::StatusCode::kAborted, "SESSION_REPLACED",
                         "the session was replaced or deleted meanwhile"));
  }
  if (!messages_.whole()) return Refused(SessionTooLarge(messages_.active_bytes()));
  std::shared_ptr<const SessionConfig> config = config_;
  SessionSettings settings;
  if (exists()) {
    if (absl::Status status = CheckConfig(request, *config_); !status.ok()) return Refused(status);
  } else {
    auto made = MakeConfig(request, settings);
    if (!made.ok()) return Refused(made.status());
    config = *std::move(made);
  }
  // What is handed on may have taken its time.
  if (!put.only_generation.has_value()) {
    if (absl::Status status = CheckTimes(put.items, now_us_); !status.ok()) return Refused(status);
  }
  if (auto decision = CountTokens(write, *config); decision.has_value())
    return *std::move(decision);
  const auto draft = [&](SessionDraft& copy) { copy.Put(write, settings, *config); };
  if (absl::Status status = CheckActiveBytes(put.items, messages_.active_bytes(), draft);
      !status.ok()) {
    return Refused(status);
  }
  const std::size_t jobs = blocks_.jobs().size();
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
  if (absl::Status status = CheckTimes(set.items, now_us_); !status.ok()) return Refused(status);
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
      messages_.RemoveArchived(row_);
      blocks_.CancelJobs(config_->blocks);
      // Those of active messages are made anew.
      blocks_.Remove(std::string(kRetrievalBlock));
      break;
  }
  return Stored(request, std::move(result));
}

void SessionDraft::NoteJobs(Write& write, std::size_t first) {
  write.jobs.clear();
  for (std::size_t i = first; i < blocks_.jobs().size(); ++i) {
    write.jobs.push_back(blocks_.jobs()[i].key);
    write.jobs.back().session = write.request.key;
  }
  write.feed_before_reply = config_->feed == FeedTime::kBeforeReply;
  if (!write.jobs.empty() && write.WaitsForJobs()) write.usage = std::make_shared<UsageCount>();
}

}  // namespace memoryd
