#include "core/writes/draft/message_ledger.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/policy/active_view.h"
#include "core/policy/policy.h"
#include "core/sessions/oldest_messages.h"
#include "core/sessions/session.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/writes/draft/sizes.h"

namespace memoryd {
namespace {

// So many rows go with the commit; more are purged behind, so that no commit takes long.
constexpr std::int64_t kErasedAtOnce = 256;

const std::deque<MessagePtr>& NoMessages() {
  static const auto* const kNone = new std::deque<MessagePtr>();
  return *kNone;
}

}  // namespace

bool IsPinnable(const SessionConfig& config, const Message& message) {
  return config.counting.profile == Profile::kDefault &&
         (message.role == Role::kSystem || message.role == Role::kDeveloper);
}

MessageLedger::MessageLedger(const Session& base)
    : base_(base), active_bytes_(base.active_bytes), pinned_(base.pinned), opening_(base.opening) {}

std::int64_t MessageLedger::ActiveBodyBytes(const SessionRow& row) const {
  return active_bytes_ - row.active_count * kActiveMessageBytes;
}

std::int64_t MessageLedger::BytesOfArchived(const SessionRow& row,
                                            const LeavingMessages& leaving) const {
  if (leaving.archived == 0) return 0;
  std::int64_t bytes = row.message_bytes - ActiveBodyBytes(row);
  if (leaving.keeps_opening && opening_) bytes -= BodyBytes(*opening_);
  bytes = std::max<std::int64_t>(0, bytes);
  const std::int64_t count = row.archived_count - (leaving.keeps_opening ? 1 : 0);
  if (leaving.archived >= count) return bytes;
  // Their share: nobody has read them. The share of all that are left is exact, so that errors
  // don't add up.
  return static_cast<std::int64_t>(static_cast<double>(bytes) *
                                   static_cast<double>(leaving.archived) /
                                   static_cast<double>(count));
}

ActiveView MessageLedger::View() const {
  const std::deque<MessagePtr>& known = base_.whole ? base_.active : oldest();
  const std::deque<MessagePtr>& base = base_removed_ ? NoMessages() : known;
  const std::size_t from_base = std::min(dropped_, base.size());
  return ActiveView(base, from_base,
                    std::span<const MessagePtr>(appended_).subspan(dropped_ - from_base));
}

MessageLedger::Growth MessageLedger::Added(const Message& message) {
  return {1, 0, message.token_count, BodyBytes(message), ActiveSize(message)};
}

MessageLedger::Growth MessageLedger::Gone(const Message& message) {
  return {-1, 0, -message.token_count, -BodyBytes(message), -ActiveSize(message)};
}

bool MessageLedger::MayPin(const SessionRow& row, const Message& message,
                           std::int64_t max_active_bytes) const {
  // Nothing may lie between the pinned ones, not even what waits to be purged.
  const bool follows = pinned_.empty() || pinned_.back()->position + 1 == message.position;
  if (!follows || row.active_count != static_cast<std::int64_t>(pinned_.size()) ||
      row.archived_count > 0 || pinned_.size() >= kMaxPinned) {
    return false;
  }
  // The other half is for what comes and goes.
  std::int64_t size = ActiveSize(message);
  for (const MessagePtr& pinned : pinned_) size += ActiveSize(*pinned);
  return size <= max_active_bytes / 2;
}

void MessageLedger::Append(SessionRow& row, const MessagePtr& message, bool pin) {
  if (pin) {
    pinned_.push_back(message);
    row.pinned.push_back(message->position);
    row.watermark = row.next_position;
  } else {
    appended_.push_back(message);
  }
  Count(row, Added(*message));
  stored_.push_back(message);
}

void MessageLedger::Archive(SessionRow& row, const ActiveView& view, std::size_t leaving) {
  const auto count = static_cast<std::int64_t>(leaving);
  Growth by{-count, count};
  for (std::size_t i = 0; i < leaving; ++i) {
    by.tokens -= view.at(i).token_count;
    by.active_bytes -= ActiveSize(view.at(i));
  }
  Count(row, by);
  row.watermark = view.at(leaving - 1).position + 1;
  dropped_ += leaving;
}

void MessageLedger::Replace(SessionRow& row, const MessagePtr& message, const Message& stored,
                            bool active) {
  const std::int64_t bytes = BodyBytes(*message) - BodyBytes(stored);
  Growth by;
  by.bytes = bytes;
  if (active) {
    by.tokens = message->token_count - stored.token_count;
    by.active_bytes = bytes;
  }
  Count(row, by);
  for (MessagePtr& pinned : pinned_) {
    if (pinned->position == stored.position) pinned = message;
  }
  if (row.opening == stored.position) opening_ = message;
  replaced_ = message;
}

void MessageLedger::TakeOut(SessionRow& row, const Message& message, bool active) {
  const std::int64_t position = message.position;
  EraseNow({position, position + 1});
  Count(row, active ? Gone(message) : Growth{0, -1, 0, -BodyBytes(message), 0});
  if (row.opening == position) ForgetOpening(row);
  std::erase(row.pinned, position);
  std::erase_if(pinned_,
                [position](const MessagePtr& pinned) { return pinned->position == position; });
}

void MessageLedger::Drop(SessionRow& row, const LeavingMessages& leaving,
                         std::int64_t archived_bytes) {
  Count(row, {0, -leaving.archived, 0, -archived_bytes, 0});
  const ActiveView view = View();
  if (leaving.opening.has_value()) {
    Count(row, {0, 1, 0, BodyBytes(view.at(*leaving.opening)), 0});
    --retired_;
  }
  for (std::size_t i = 0; i < leaving.active; ++i) Count(row, Gone(view.at(i)));
  dropped_ += leaving.active;
  retired_ += leaving.archived + static_cast<std::int64_t>(leaving.active);
}

void MessageLedger::EraseNow(PositionRange range) {
  if (!erase_.empty() && erase_.back().end == range.begin) {
    erase_.back().end = range.end;
  } else {
    erase_.push_back(range);
  }
}

void MessageLedger::Erase(const SessionRow& row, PositionRange range) {
  // What this draft has made is not stored at all.
  std::erase_if(stored_, [&](const MessagePtr& message) {
    return message->position >= range.begin && message->position < range.end;
  });
  if (row.generation != base_.row.generation) return;
  const std::int64_t end = std::min(range.end, base_.row.next_position);
  if (end - range.begin > kErasedAtOnce) {
    garbage_.Add(row.generation, {range.begin, end});
  } else if (range.begin < end) {
    EraseNow({range.begin, end});
  }
}

void MessageLedger::RemoveActive(SessionRow& row) {
  const bool all = row.archived_count == 0;
  const Growth by{-row.active_count, 0, -row.active_tokens,
                  all ? -row.message_bytes : -ActiveBodyBytes(row), -active_bytes_};
  if (all) {
    // Whatever is stored goes, in steps: with policy `buffer` that may be very much.
    if (row.active_count > 0) {
      // The pinned ones lie below the floor where a Reset has taken what was archived.
      const std::int64_t begin =
          row.pinned.empty() ? row.floor : std::min(row.floor, row.pinned.front());
      garbage_.Add(row.generation, {begin, row.next_position});
    }
    row.floor = row.next_position;
  } else {
    // Archived messages stay below. Where there are any, the policy bounds what is active, so those
    // rows go in this commit.
    erase_ = {{row.watermark, row.next_position}};
    if (!row.pinned.empty()) {
      row.floor = FirstUnpinned(row);
      garbage_.Add(row.generation, {row.pinned.front(), row.floor});
    }
  }
  row.watermark = row.next_position;
  row.pinned.clear();
  Count(row, by);
  base_removed_ = true;
  pinned_.clear();
}

void MessageLedger::RemoveArchived(SessionRow& row) {
  if (row.archived_count > 0) {
    for (const PositionRange& range : Without({FirstUnpinned(row), row.watermark}, row.opening)) {
      garbage_.Add(row.generation, range);
    }
    row.floor = row.watermark;
  }
  const std::int64_t left = ActiveBodyBytes(row) + (opening_ ? BodyBytes(*opening_) : 0);
  Count(row, {0, (row.opening > 0 ? 1 : 0) - row.archived_count, 0,
              std::min<std::int64_t>(0, left - row.message_bytes), 0});
}

void MessageLedger::RemoveAll(SessionRow& row, std::uint64_t generation) {
  if (row.active_count + row.archived_count > 0 || row.message_bytes > 0) {
    garbage_.Add(row.generation, {0, row.next_position});
  }
  row.generation = generation;
  row.floor = row.watermark = row.next_position;
  row.pinned.clear();
  ForgetOpening(row);
  Count(row, {-row.active_count, -row.archived_count, -row.active_tokens, -row.message_bytes,
              -active_bytes_});
  base_removed_ = true;
  pinned_.clear();
}

void MessageLedger::SetOpening(SessionRow& row, MessagePtr opening) {
  row.opening = opening ? opening->position : 0;
  opening_ = std::move(opening);
}

void MessageLedger::DropOpening(SessionRow& row) {
  Count(row, {0, -1, 0, opening_ ? -BodyBytes(*opening_) : 0, 0});
  ++retired_;
  ForgetOpening(row);
}

void MessageLedger::TakeChange(SessionChange& change) {
  change.messages = std::move(stored_);
  change.erase = erase_;
  if (replaced_ != nullptr) change.replaced = {replaced_};
  garbage_.MoveTo(change.garbage);
}

void MessageLedger::ApplyEdits(Session& session) const {
  if (replaced_ == nullptr && deleted_.empty()) return;
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

void MessageLedger::ApplyTo(Session& session) {
  if (base_removed_) {
    session.active.clear();
    session.content_bytes = session.recent_requests.bytes();
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
  ApplyEdits(session);
  for (std::size_t i = base_removed_ ? 0 : session.pinned.size(); i < pinned_.size(); ++i) {
    session.content_bytes += pinned_[i]->ByteSize();
  }
  if (session.opening && !base_removed_) session.content_bytes -= session.opening->ByteSize();
  if (opening_) session.content_bytes += opening_->ByteSize();
  session.opening = std::move(opening_);
  session.pinned = std::move(pinned_);
  session.active_bytes = active_bytes_;
  session.whole = session.whole || base_removed_;
}

}  // namespace memoryd
