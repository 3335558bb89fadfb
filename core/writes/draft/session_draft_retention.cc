// What a session's retention takes out of it, and when the sweeper is to look at it next.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/blocks/block_traits.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/entry_log.h"
#include "core/model/job.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/oldest_messages.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/writes/command_traits.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/draft/sweep_times.h"

namespace memoryd {
namespace {

// So many rows go with the commit; more are purged behind, so that no commit takes long.
constexpr std::int64_t kErasedAtOnce = 256;

}  // namespace

LeavingMessages SessionDraft::WhatLeaves(std::int64_t keep_from) const {
  const bool spare_opening = config_->counting.profile != Profile::kLlamaIndex;
  return OldestToLeave(config_->retention, row_, messages_.pinned(), messages_.opening().get(),
                       messages_.View(), spare_opening, now_us_, keep_from);
}

void SessionDraft::SetOpening(MessagePtr opening) {
  const std::int64_t position = opening ? opening->position : 0;
  // That it opened a turn is why it was still there.
  if (position != row_.opening && row_.opening < row_.floor) DropOpening();
  messages_.SetOpening(row_, std::move(opening));
}

void SessionDraft::DropOpening() {
  if (row_.opening == 0) return;
  const PositionRange range{row_.opening, row_.opening + 1};
  messages_.DropOpening(row_);
  HideEntries({{range.begin, range.end}});
  EraseRows(range);
}

bool SessionDraft::OpeningIsDue(std::int64_t ingest_us) const {
  if (row_.opening == 0) return false;
  if (messages_.opening()) ingest_us = messages_.opening()->ingest_us;
  const std::int64_t ttl_us = config_->retention.message_ttl_us;
  // One at or above the floor goes as any archived message does.
  return row_.opening < FirstUnpinned(row_) &&
         ((ttl_us > 0 && ingest_us > 0 && ingest_us + ttl_us <= now_us_) ||
          !TurnGoesOn(messages_.View()));
}

void SessionDraft::DropMessages(const LeavingMessages& leaving, std::int64_t archived_bytes) {
  if (leaving.floor == 0) return;
  const std::int64_t begin = FirstUnpinned(row_);
  MessagePtr opening = messages_.opening();
  std::int64_t kept = leaving.keeps_opening ? row_.opening : 0;
  if (leaving.opening.has_value()) {
    opening = messages_.View().pointer(*leaving.opening);
    kept = opening->position;
  }
  messages_.Drop(row_, leaving, archived_bytes);
  SetOpening(std::move(opening));
  row_.floor = leaving.floor;
  row_.watermark = std::max(row_.watermark, leaving.floor);
  std::vector<NumberRange> gone;
  for (const PositionRange& range : Without({begin, leaving.floor}, kept)) {
    gone.push_back({range.begin, range.end});
    EraseRows(range);
  }
  HideEntries(gone);
  // It went with the other archived ones.
  if (kept != row_.opening && row_.opening >= begin && row_.opening < leaving.floor) {
    messages_.ForgetOpening(row_);
  }
}

void SessionDraft::EraseRows(PositionRange range) {
  messages_.Erase(row_, range);
  const BlockState* const embeddings = blocks_.Find(std::string(kRetrievalBlock));
  if (embeddings == nullptr) return;
  for (const EntryRange& stored : BlockLedger::EntriesOf(*embeddings)) {
    const PositionRange embedded{range.begin, std::min(range.end, stored.positions.end)};
    if (embedded.end - embedded.begin > kErasedAtOnce) {
      blocks_.AddGarbage(stored.generation, embedded);
    } else if (embedded.begin < embedded.end) {
      blocks_.EraseEntries({stored.generation, embedded});
    }
  }
}

void SessionDraft::DropOldest() {
  const Retention& retention = config_->retention;
  if (!retention.DropsMessages()) return;
  const std::int64_t keep_from = blocks_.FirstToFeed(config_->blocks, row_.generation);
  if (OpeningIsDue(0) && row_.opening < keep_from) DropOpening();
  const LeavingMessages leaving = WhatLeaves(keep_from);
  DropMessages(leaving, messages_.BytesOfArchived(row_, leaving));
  const bool none_archived = ArchivedButOpening(row_) == 0;
  if (leaving.held || OpeningIsDue(0)) {
    LookAt(now_us_ + kSoonUs);
  } else if (none_archived && (row_.has_timed_items || HasExpiringState(*config_))) {
    LookAt(NextActiveDrop());
  } else if (none_archived && (row_.drop_us == 0 || row_.drop_us <= now_us_)) {
    row_.drop_us = NextActiveDrop();
  } else if (row_.drop_us == 0 && retention.message_ttl_us > 0) {
    row_.drop_us = now_us_;
  }
}

void SessionDraft::LookAt(std::int64_t at_us) {
  if (at_us > 0) row_.drop_us = row_.drop_us == 0 ? at_us : std::min(row_.drop_us, at_us);
}

void SessionDraft::NoteTime(const Message& item) {
  if (item.ids->expire_us == 0) return;
  row_.has_timed_items = true;
  LookAt(item.ids->expire_us);
}

std::int64_t SessionDraft::NextActiveDrop() const {
  const Retention& retention = config_->retention;
  const ActiveView view = messages_.View();
  if ((view.size() == 0 && !messages_.opening()) || retention.message_ttl_us == 0) return 0;
  const std::int64_t due =
      retention.DropAt(messages_.opening() ? messages_.opening()->ingest_us : view.at(0).ingest_us);
  // A call that is kept for its result is looked at seldom.
  return due > now_us_ ? due : retention.DropAt(now_us_ - retention.message_ttl_us) + kSoonUs;
}

void SessionDraft::SetDueTimes(const CommandTraits& traits) {
  const Retention& retention = config_->retention;
  if (!exists()) {
    row_.expire_us = row_.drop_us = 0;
    row_.has_timed_items = false;
    return;
  }
  switch (traits.renews) {
    case CommandTraits::Renews::kNothing:
      if (retention.session_ttl_us == 0) row_.expire_us = 0;
      break;
    case CommandTraits::Renews::kExpiryAndAges:
      // How old the messages are is for the sweeper to find out.
      row_.drop_us = UsageOf(row_).messages > 0 ? now_us_ : 0;
      [[fallthrough]];
    case CommandTraits::Renews::kExpiry:
      row_.expire_us = retention.ExpiryAt(now_us_);
      break;
  }
  if (row_.drop_us > 0 && !retention.DropsMessages() && !row_.has_timed_items &&
      !HasExpiringState(*config_)) {
    row_.drop_us = 0;
  }
  if (const std::int64_t due_us = EntriesDueUs(); due_us > 0) {
    const std::int64_t at_us = more_entries_ ? now_us_ : std::max(due_us, now_us_ + kSoonUs);
    // What is due already stays so, however often the session is written.
    LookAt(traits.is_sweep || base_drop_us_ == 0 ? at_us : std::min(base_drop_us_, at_us));
  }
  // Even, and never sooner than it is due.
  row_.drop_us += row_.drop_us & 1;
  if (row_.drop_us == 0) row_.has_timed_items = false;
}

void SessionDraft::ExpireStates() {
  for (const BlockSettings& block : config_->blocks) {
    const BlockState* const state = blocks_.Find(block.name);
    if (state == nullptr) continue;
    auto after = block.traits->OnTime(state->state, now_us_);
    // A state that can't be read has nothing to show.
    if (!after.ok()) continue;
    if (after->state.has_value()) blocks_.Change(block.name).state = *std::move(after->state);
    if (after->next_us > 0) LookAt(std::max(after->next_us, now_us_ + kSoonUs));
  }
}

}  // namespace memoryd
