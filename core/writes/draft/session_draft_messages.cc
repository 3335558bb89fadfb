// What becomes of messages and contents.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/blocks/embedding_state.h"
#include "core/model/role.h"
#include "core/policy/policy.h"
#include "core/sessions/session_errors.h"
#include "core/sessions/session_info.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/draft/sizes.h"

namespace memoryd {
namespace {

std::int64_t Tokens(std::span<const MessagePtr> messages) {
  std::int64_t tokens = 0;
  for (const MessagePtr& message : messages) tokens += message->token_count;
  return tokens;
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
  if (copy.active_bytes_ <= max_active_bytes_) return absl::OkStatus();
  return ActiveBytesExceeded("messages", copy.active_bytes_, max_active_bytes_);
}

bool SessionDraft::MayPin(std::int64_t size) const {
  // The other half is for what comes and goes.
  for (const MessagePtr& message : pinned_) size += ActiveSize(*message);
  return size <= max_active_bytes_ / 2;
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
    row_.message_bytes += BodyBytes(*message);
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
    row_.content_bytes += BodyBytes(*content);
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
      garbage_.Add(row_.generation, {begin, row_.next_position});
    }
    row_.floor = row_.next_position;
  } else {
    // Archived messages stay below. Where there are any, the policy bounds what is active, so those
    // rows go in this commit.
    erase_ = {{row_.watermark, row_.next_position}};
    if (!row_.pinned.empty()) {
      row_.floor = FirstUnpinned(row_);
      garbage_.Add(row_.generation, {row_.pinned.front(), row_.floor});
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
    garbage_.Add(row_.generation, {0, row_.next_position});
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
