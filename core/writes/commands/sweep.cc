#include "core/writes/commands/sweep.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "core/blocks/block_traits.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/entry_log.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/policy/policy.h"
#include "core/sessions/oldest_messages.h"
#include "core/sessions/session_errors.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/writes/draft/session_draft.h"
#include "core/writes/draft/sizes.h"
#include "core/writes/draft/sweep_times.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

// Whether the session's own time is over, both by the row and as it was `listed`.
bool IsOver(const SessionRow& row, const Retention& retention, std::int64_t listed_us,
            std::int64_t now_us) {
  return retention.session_ttl_us > 0 && row.expire_us > 0 &&
         std::max(row.expire_us, listed_us) <= now_us;
}

// Whether something in the session may be due.
bool IsDue(const SessionRow& row, std::int64_t now_us) {
  return row.drop_us != 0 && row.drop_us <= now_us;
}

// Whether a session in which nothing but entries can be due is looked at when it should be.
bool HasRightTimes(const SessionRow& row, const Retention& retention, std::int64_t entries_us,
                   std::int64_t now_us) {
  if (row.drop_us != 0 && (entries_us == 0 || entries_us > now_us)) return false;
  return retention.session_ttl_us > 0 || row.expire_us == 0;
}

// What was read of archived messages holds as long as none of them was changed by itself, and no
// job was made for them.
bool Holds(const SweepRequest& sweep, const SessionRow& row, bool has_blocks) {
  if (row.floor != sweep.floor || row.pinned != sweep.pinned) return false;
  if (row.edit_revision > sweep.revision || row.watermark < sweep.leaving.floor) return false;
  if (has_blocks && row.revision != sweep.revision) return false;
  return row.opening == sweep.opening || (row.opening >= sweep.leaving.floor && sweep.opening == 0);
}

// The sweeper has taken out what it looked for. `all`: no entry was stored since it looked.
void NoteTakenOut(const EntryRemoval& removal, bool all, std::int64_t now_us, EntryLog& log) {
  log.not_before_us = removal.pause_us > 0 ? now_us + removal.pause_us : 0;
  log.Forget(removal.log);
  // Those that were stored since then were not looked at.
  if (removal.by_age) log.oldest_us = all ? removal.oldest_us : 0;
}

}  // namespace

SessionDraft::Decision SessionDraft::Apply(const commands::Sweep& command, Write& write) {
  const WriteRequest& request = write.request;
  const SweepRequest& sweep = command.due;
  Decision unchanged = Unchanged(request);
  if (!exists() || row_.generation != sweep.generation) return unchanged;
  const Retention& retention = config_->retention;
  if (IsOver(row_, retention, sweep.expire_us, now_us_)) {
    return Apply(commands::DeleteSession(), write);
  }
  WriteResult result;
  if (!retention.DropsMessages() && !row_.has_timed_items && !HasExpiringState(*config_)) {
    const bool right = HasRightTimes(row_, retention, EntriesDueUs(), now_us_);
    return right ? unchanged : Stored(request, std::move(result));
  }
  if (!IsDue(row_, now_us_) || !Holds(sweep, row_, !config_->blocks.empty())) return unchanged;
  DropMessages(sweep.leaving, sweep.archived_bytes);
  if (OpeningIsDue(sweep.opening_ingest_us) && row_.opening < sweep.keep_from) DropOpening();
  bool held = sweep.leaving.held;
  result.removed_archived = sweep.leaving.archived;
  if (ArchivedButOpening(row_) == 0) {
    // Where only its oldest messages are at hand, what comes behind is looked at the next time.
    if (!base_.whole && command.oldest.has_value() && row_.revision == command.oldest->revision) {
      messages_.SetOldest(command.oldest->messages);
    }
    const LeavingMessages active = WhatLeaves(sweep.keep_from);
    DropMessages(active, messages_.BytesOfArchived(row_, active));
    held |= active.held;
    result.removed_active = static_cast<std::int64_t>(active.active);
    row_.drop_us = NextActiveDrop();
    if (messages_.View().size() == 0 && row_.active_count > std::ssize(row_.pinned)) {
      row_.drop_us = messages_.oldest().empty() ? now_us_ + kLaterUs : now_us_;
    }
  } else {
    row_.drop_us = sweep.more ? now_us_ : retention.DropAt(sweep.next_ingest_us);
  }
  if (held) row_.drop_us = now_us_ + kLaterUs;
  RemoveExpired(sweep, result);
  ExpireStates();
  return Stored(request, std::move(result));
}

void SessionDraft::RemoveExpired(const SweepRequest& sweep, WriteResult& result) {
  if (!row_.has_timed_items) return;
  std::vector<MessagePtr> gone;
  std::int64_t next_us = sweep.next_expire_us;
  const auto look = [&](const MessagePtr& message) {
    const std::int64_t expire_us = message->ids->expire_us;
    if (expire_us == 0) return;
    if (message->IsExpired(now_us_) && gone.size() < kExpiredAtOnce) {
      gone.push_back(message);
    } else {
      next_us = next_us == 0 ? expire_us : std::min(next_us, expire_us);
    }
  };
  std::for_each(messages_.pinned().begin(), messages_.pinned().end(), look);
  for (const MessagePtr& message : sweep.expired_messages) {
    const std::int64_t position = message->position;
    if (IsStored(row_, position) && (!IsActive(row_, position) || !base_.whole))
      gone.push_back(message);
  }
  if (base_.whole) {
    std::for_each(messages_.base_begin(), base_.active.end(), look);
  }
  messages_.NoteRetired(std::ssize(gone));
  for (const ContentPtr& content : sweep.expired_contents) {
    const std::int64_t position = content->position;
    erased_contents_.push_back({row_.content_generation, {position, position + 1}});
    --row_.content_count;
    row_.content_bytes = std::max<std::int64_t>(0, row_.content_bytes - BodyBytes(*content));
    ++result.removed_contents;
  }
  if (!gone.empty()) {
    TakeOut(std::move(gone), result);
  } else if (result.removed_contents > 0) {
    row_.edit_revision = row_.revision + 1;
  }
  // What came behind since it was looked at.
  const bool moved = row_.watermark != sweep.watermark || row_.next_content != sweep.next_content;
  if (moved) next_us = next_us == 0 ? now_us_ : std::min(next_us, now_us_);
  row_.has_timed_items = next_us > 0;
  if (row_.has_timed_items) LookAt(std::max(next_us, now_us_ + std::max(sweep.pause_us, kSoonUs)));
}

SessionDraft::Decision SessionDraft::Apply(const commands::TakeOutEntries& command, Write& write) {
  const WriteRequest& request = write.request;
  Decision unchanged = Unchanged(request);
  const EntryRemoval& removal = command.removal;
  const BlockSettings* const settings = exists() ? FindBlockSettings(removal.block) : nullptr;
  if (settings == nullptr || !settings->traits->has_entries()) return unchanged;
  const BlockState* const found = blocks_.Find(removal.block);
  if (found == nullptr || found->entry_generation != removal.entry_generation) return unchanged;
  auto state = EmbeddingState::FromJson(found->state);
  if (!state.ok() || state->log.removals != removal.log.removals) return unchanged;
  state->log.Open(found->next_entry, random_.Next());
  state->log.NoteRemoved(removal.numbers, removal.count);
  if (!removal.more) {
    NoteTakenOut(removal, found->next_entry == removal.next_entry, now_us_, state->log);
  }
  for (const EntryRange& stored : BlockLedger::EntriesOf(*found)) {
    for (const NumberRange& range : removal.numbers) {
      blocks_.EraseEntries({stored.generation, {range.begin, range.end}});
    }
  }
  blocks_.Change(removal.block).state = state->ToJson();
  if (row_.generation == removal.message_generation &&
      settings->traits->feed() == BlockFeed::kArchived) {
    for (const PositionRange& range : removal.feed_again) {
      if (range.begin >= row_.floor) blocks_.AddJob(removal.block, row_.generation, range);
    }
  }
  // When it is to be looked at for another reason, that write has said so.
  const bool due =
      config_->retention.DropsMessages() || row_.has_timed_items || HasExpiringState(*config_);
  if (!due) row_.drop_us = 0;
  more_entries_ = removal.more;
  return Stored(request, WriteResult());
}

SessionDraft::Decision SessionDraft::Apply(const commands::ArchiveOldest& archive, Write& write) {
  const WriteRequest& request = write.request;
  const OldestActive& oldest = archive.oldest;
  if (!exists() || messages_.whole() || row_.generation != oldest.generation ||
      row_.revision != oldest.revision || messages_.active_bytes() <= max_active_bytes_) {
    return Unchanged(request);
  }
  messages_.SetOldest(oldest.messages);
  const bool more = row_.active_count > std::ssize(row_.pinned) + std::ssize(messages_.oldest());
  WriteResult result;
  const std::int64_t surplus = messages_.active_bytes() - max_active_bytes_;
  result.archived_count = Archive(ByteFlush(messages_.View(), surplus, more));
  // The newest message alone is too much. It may leave, since a Put follows.
  if (result.archived_count == 0)
    result.archived_count = Archive(ByteFlush(messages_.View(), surplus, true));
  if (result.archived_count == 0) return Refused(SessionTooLarge(messages_.active_bytes()));
  return Stored(request, std::move(result));
}

}  // namespace memoryd
