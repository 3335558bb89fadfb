// What a draft makes of a session's messages: which are there, and what they count.
#ifndef MEMORYD_CORE_WRITES_DRAFT_MESSAGE_LEDGER_H_
#define MEMORYD_CORE_WRITES_DRAFT_MESSAGE_LEDGER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "core/model/session_config.h"
#include "core/policy/policy.h"
#include "core/sessions/oldest_messages.h"
#include "core/sessions/session.h"
#include "core/storage/store.h"
#include "core/writes/draft/garbage_list.h"

namespace memoryd {

// Whether a message ahead of the first other one stays in short-term memory for good: of profile
// `default` those of system and developer.
bool IsPinnable(const SessionConfig& config, const Message& message);

// Keeps the columns of a session's row that are about messages, which it gets with each call, in
// step with the messages in memory. Which of them leave, and what blocks make of that, it does not
// know. `base` must stay unchanged until TakeChange(). Not thread-safe; a copy is independent.
class MessageLedger {
 public:
  explicit MessageLedger(const Session& base);

  // Of the active messages, by ActiveSize().
  std::int64_t active_bytes() const { return active_bytes_; }
  // Of their bodies alone.
  std::int64_t ActiveBodyBytes(const SessionRow& row) const;
  // Of archived ones, as many as leave: what the row counts of them, or their share of it.
  std::int64_t BytesOfArchived(const SessionRow& row, const LeavingMessages& leaving) const;
  // Messages that retention took out, those left aside that went with their session.
  std::int64_t retired() const { return retired_; }
  void NoteRetired(std::int64_t count) { retired_ += count; }
  // Whether the active messages are at hand.
  bool whole() const { return base_.whole || base_removed_; }
  // The active ones but for pinned().
  ActiveView View() const;
  // Those that the base has, without those that left.
  std::deque<MessagePtr>::const_iterator base_begin() const {
    return base_.active.begin() + static_cast<std::ptrdiff_t>(dropped_);
  }
  const std::vector<MessagePtr>& pinned() const { return pinned_; }
  // At SessionRow::opening; null: none, or not known.
  const MessagePtr& opening() const { return opening_; }
  // What stands for the base's where that is not whole: its oldest, as far as they are known.
  const std::deque<MessagePtr>& oldest() const {
    static const std::deque<MessagePtr> kNone;
    return oldest_ == nullptr ? kNone : *oldest_;
  }
  void SetOldest(const std::vector<MessagePtr>& oldest) {
    oldest_ = std::make_shared<const std::deque<MessagePtr>>(oldest.begin(), oldest.end());
  }
  // All new ones, in order.
  const std::vector<MessagePtr>& stored() const { return stored_; }
  // A piece of another session's, which counts nothing.
  void SetStored(std::vector<MessagePtr> messages) { stored_ = std::move(messages); }
  // Those that were taken out by themselves, ascending.
  const std::vector<MessagePtr>& deleted() const { return deleted_; }

  // Whether there is room among the pinned ones for the next message, this one.
  bool MayPin(const SessionRow& row, const Message& message, std::int64_t max_active_bytes) const;
  void Append(SessionRow& row, const MessagePtr& message, bool pin);
  // The oldest `leaving` of the view become archived.
  void Archive(SessionRow& row, const ActiveView& view, std::size_t leaving);
  // Takes the place of `stored`, which the session has.
  void Replace(SessionRow& row, const MessagePtr& message, const Message& stored, bool active);
  // Messages that are in the session, ascending, go by themselves: TakeOut() for each.
  void BeginTakingOut(std::vector<MessagePtr> messages) { deleted_ = std::move(messages); }
  void TakeOut(SessionRow& row, const Message& message, bool active);
  // Retention takes the oldest messages: counts what leaves. What opens the turn stays as it is.
  void Drop(SessionRow& row, const LeavingMessages& leaving, std::int64_t archived_bytes);
  // Their rows go: with the commit, or behind it where they are many.
  void Erase(const SessionRow& row, PositionRange range);
  void RemoveActive(SessionRow& row);
  // But for the opening one: a Get begins with it, and it goes with its turn.
  void RemoveArchived(SessionRow& row);
  // What comes next is of this generation.
  void RemoveAll(SessionRow& row, std::uint64_t generation);

  void SetOpening(SessionRow& row, MessagePtr opening);
  void ForgetOpening(SessionRow& row) { SetOpening(row, {}); }
  // Retention takes it.
  void DropOpening(SessionRow& row);

  // What to commit. Once.
  void TakeChange(SessionChange& change);
  // After TakeChange(): brings a session's messages, and the bytes they take, to what was
  // committed.
  void ApplyTo(Session& session);

 private:
  // By how much what is counted grows.
  struct Growth {
    std::int64_t active = 0;
    std::int64_t archived = 0;
    std::int64_t tokens = 0;        // Of active ones.
    std::int64_t bytes = 0;         // Of the bodies of all.
    std::int64_t active_bytes = 0;  // By ActiveSize().
  };
  // The one place where messages are counted. What archived ones take may be an estimate.
  void Count(SessionRow& row, const Growth& by) {
    row.active_count += by.active;
    row.archived_count += by.archived;
    row.active_tokens += by.tokens;
    row.message_bytes = std::max<std::int64_t>(0, row.message_bytes + by.bytes);
    active_bytes_ += by.active_bytes;
  }
  // Of one that is active.
  static Growth Added(const Message& message);
  static Growth Gone(const Message& message);
  void EraseNow(PositionRange range);
  // Of ApplyTo().
  void ApplyEdits(Session& session) const;

  const Session& base_;
  // base_.active counts for nothing, all its messages were removed.
  bool base_removed_ = false;
  // The oldest active messages that left, counted over the base's and then the appended ones.
  std::size_t dropped_ = 0;
  std::shared_ptr<const std::deque<MessagePtr>> oldest_;  // Null: none are known.
  std::int64_t active_bytes_;
  std::int64_t retired_ = 0;
  std::vector<MessagePtr> pinned_;
  MessagePtr opening_;
  std::vector<MessagePtr> appended_;  // Unpinned.
  std::vector<MessagePtr> stored_;
  std::vector<PositionRange> erase_;
  GarbageList garbage_;
  // Of one write that has the draft for itself.
  MessagePtr replaced_;
  std::vector<MessagePtr> deleted_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_DRAFT_MESSAGE_LEDGER_H_
