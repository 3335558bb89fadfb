// What becomes of messages and contents.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/blocks/embedding_state.h"
#include "core/model/message.h"
#include "core/model/role.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/policy/active_view.h"
#include "core/policy/policy.h"
#include "core/sessions/session_errors.h"
#include "core/writes/command.h"
#include "core/writes/draft/message_ledger.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/draft/sizes.h"
#include "core/writes/incoming.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

std::int64_t Tokens(std::span<const MessagePtr> messages) {
  std::int64_t tokens = 0;
  for (const MessagePtr& message : messages) tokens += message->token_count;
  return tokens;
}

}  // namespace

absl::Status SessionDraft::CheckActiveBytes(
    const IncomingItems& items, std::int64_t bytes,
    const std::function<void(SessionDraft& copy)>& draft) const {
  for (const IncomingMessage& incoming : items.messages)
    bytes += BodyBytes(incoming.message) + kActiveMessageBytes;
  if (bytes <= max_active_bytes_) return absl::OkStatus();
  for (std::size_t i = 0; i < items.messages.size(); ++i) {
    const std::int64_t size = BodyBytes(items.messages[i].message);
    if (size + kActiveMessageBytes <= max_active_bytes_) continue;
    return InvalidField(fmt::format("messages[{}]", i),
                        fmt::format("must be at most {} bytes, by the setting active_mib; got {}",
                                    max_active_bytes_ - kActiveMessageBytes, size));
  }
  // What leaves with it may be enough.
  SessionDraft copy(*this);
  draft(copy);
  if (copy.messages_.active_bytes() <= max_active_bytes_) return absl::OkStatus();
  return ActiveBytesExceeded("messages", copy.messages_.active_bytes(), max_active_bytes_);
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
    const bool pin =
        IsPinnable(*config_, *message) && messages_.MayPin(row_, *message, max_active_bytes_);
    messages_.Append(row_, message, pin);
    NoteTime(*message);
    messages.push_back(std::move(message));
  }
  return messages;
}

std::vector<ContentPtr> SessionDraft::AppendContents(const Write& write) {
  const std::vector<IncomingContent>& contents = ItemsOf(write.request.command).contents;
  if (contents.empty()) return {};
  // 0 says that there is no content.
  while (row_.content_generation == 0) row_.content_generation = random_.Next();
  std::vector<ContentPtr> appended;
  appended.reserve(contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    ContentPtr content(contents[i].content,
                       {row_.next_content++, write.token_counts.contents[i], now_us_});
    ++row_.content_count;
    row_.content_bytes += BodyBytes(*content);
    NoteTime(*content);
    appended.push_back(std::move(content));
  }
  stored_contents_.insert(stored_contents_.end(), appended.begin(), appended.end());
  return appended;
}

std::int64_t SessionDraft::Flush() {
  if (config_->policy == PolicyKind::kBuffer) return 0;
  const FlushLimits limits{config_->token_limit, config_->chat_history_token_ratio,
                           config_->token_flush_size};
  const std::int64_t tokens = row_.active_tokens - Tokens(messages_.pinned());
  const ActiveView view = messages_.View();
  if (config_->counting.profile == Profile::kLlamaIndex) {
    return Archive(LlamaIndexFlush(view, tokens, limits));
  }
  const Message* const opening = OpeningOf(view, messages_.opening().get());
  std::int64_t count = Archive(DefaultFlush(
      view, opening, tokens + (opening == nullptr ? 0 : opening->token_count), limits));
  if (messages_.active_bytes() > max_active_bytes_) {
    count += Archive(
        ByteFlush(messages_.View(), messages_.active_bytes() - max_active_bytes_, /*more=*/false));
  }
  return count;
}

std::int64_t SessionDraft::Archive(const std::vector<std::size_t>& rounds) {
  const ActiveView view = messages_.View();
  std::size_t leaving = 0;
  for (const std::size_t round : rounds) leaving += round;
  if (leaving == 0) return 0;
  AddJobs(view, rounds);
  if (config_->counting.profile != Profile::kLlamaIndex) {
    SetOpening(OpeningAfter(view, leaving, messages_.opening()));
  }
  messages_.Archive(row_, view, leaving);
  return static_cast<std::int64_t>(leaving);
}

void SessionDraft::RemoveActiveMessages() {
  EraseActiveEmbeddings();
  // It stays archived, unless retention had spared it alone.
  if (row_.opening < row_.floor) DropOpening();
  SetOpening(nullptr);
  messages_.RemoveActive(row_);
}

void SessionDraft::RemoveAllMessages() {
  messages_.RemoveAll(row_, random_.Next());
  blocks_.CancelJobs(config_->blocks);
  blocks_.Remove(std::string(kRetrievalBlock));
}

void SessionDraft::RemoveContents() {
  if (row_.content_generation == 0) return;
  garbage_.Add(row_.content_generation, {0, row_.next_content});
  row_.content_generation = 0;
  row_.content_count = row_.content_bytes = 0;
}

}  // namespace memoryd
