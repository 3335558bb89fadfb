#include "core/writes/commands/messages.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/entry_log.h"
#include "core/model/message.h"
#include "core/sessions/session_errors.h"
#include "core/sessions/session_info.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/draft/sizes.h"
#include "core/writes/incoming.h"
#include "core/writes/write.h"

namespace memoryd {

SessionDraft::Decision SessionDraft::Apply(const commands::UpdateMessage& update, Write& write) {
  const WriteRequest& request = write.request;
  if (!exists()) return Refused(SessionNotFound());
  if (absl::Status status = CheckRevision(request); !status.ok()) return Refused(status);
  if (absl::Status status = CheckFound(request); !status.ok()) return Refused(status);
  const Message& stored = *request.found->messages.front();
  const IncomingMessage& incoming = update.items.messages.front();
  if (stored.IsExpired(now_us_)) return Refused(MessageNotFound());
  if (incoming.message.IsExpired(now_us_))
    return Refused(InvalidField("expire_time", "must be later than now"));
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
  const std::int64_t active_bytes =
      messages_.active_bytes() + (active ? BodyBytes(*message) - BodyBytes(stored) : 0);
  if (active_bytes > std::max(max_active_bytes_, messages_.active_bytes())) {
    return Refused(ActiveBytesExceeded("parts", active_bytes, max_active_bytes_));
  }
  messages_.Replace(row_, message, stored, active);
  NoteTime(*message);
  row_.edit_revision = row_.revision + 1;
  HideChangedEntries(stored.position);
  if (blocks_.EraseEmbedding(stored.position) && config_->EmbedsMessages()) {
    blocks_.AddJob(std::string(kRetrievalBlock), row_.generation,
                   {stored.position, stored.position + 1});
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
  result.messages = messages_.deleted();
  return Stored(request, std::move(result));
}

void SessionDraft::TakeOut(std::vector<MessagePtr> messages, WriteResult& result) {
  messages_.BeginTakingOut(std::move(messages));
  std::vector<NumberRange> archived;
  for (const MessagePtr& message : messages_.deleted()) {
    const std::int64_t position = message->position;
    const bool active = IsActive(row_, position);
    if (!active) AddRange(archived, {position, position + 1});
    ++(active ? result.removed_active : result.removed_archived);
    messages_.TakeOut(row_, *message, active);
    blocks_.EraseEmbedding(position);
  }
  std::vector<std::string> ids;
  ids.reserve(messages_.deleted().size());
  for (const MessagePtr& message : messages_.deleted())
    ids.push_back(MessageId(*message, row_.generation));
  result.retired_facts = TellBlocks({archived, ids, /*changed=*/false, now_us_, random_});
  row_.edit_revision = row_.revision + 1;
}

}  // namespace memoryd
