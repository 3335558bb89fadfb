#include "core/lifecycle/session_expiry.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/histogram.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/blocks/block_traits.h"
#include "core/blocks/embedding_state.h"
#include "core/lifecycle/entry_sweep.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/sessions/oldest_messages.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/writes/commands/sweep.h"
#include "core/writes/message_lookup.h"
#include "core/writes/write.h"

namespace memoryd {
namespace {

constexpr std::int64_t kListed = 500;
// Where those that are due the longest can't be handled, so many are looked at behind them.
constexpr std::int64_t kMaxListed = 64'000;
constexpr int kInFlight = 64;
constexpr std::chrono::seconds kWriteTime(30);
// Of one look at archived messages; the least where some bytes are too much.
constexpr std::int64_t kReadRows = 1000;
constexpr std::int64_t kReadBytes = std::int64_t{4} << 20;
constexpr std::int64_t kLeastReadBytes = std::int64_t{64} << 10;
constexpr std::int64_t kReadJobs = 1000;
// How seldom a session is looked through for items whose own time is over: for each row that is
// read.
constexpr std::int64_t kPauseUsPerRow = 1000;

// Reads a session for items whose own time is over, up to so many at once.
class ExpiredFinder {
 public:
  // All of them outlive it.
  ExpiredFinder(Store& store, const SessionKey& key, const std::function<bool()>& stopping,
                std::int64_t now_us, SweepRequest& sweep)
      : store_(store), key_(key), stopping_(stopping), now_us_(now_us), sweep_(sweep) {}

  // Adds those of a range to `expired`.
  absl::Status Find(std::uint64_t generation, PositionRange range,
                    std::vector<MessagePtr>& expired) {
    while (range.begin < range.end) {
      if (stopping_()) return absl::CancelledError("the server stops");
      if (found_ >= kExpiredAtOnce || bytes_ >= kReadBytes) {
        sweep_.next_expire_us = now_us_;
        break;
      }
      MEMORYD_ASSIGN_OR_RETURN(const std::vector<MessagePtr> rows,
                               store_.ReadRange(key_, generation, range, kReadRows, kReadBytes));
      if (rows.empty()) break;
      sweep_.pause_us += std::ssize(rows) * kPauseUsPerRow;
      range.begin = rows.back()->position + 1;
      for (const MessagePtr& item : rows) LookAt(item, expired);
    }
    return absl::OkStatus();
  }

 private:
  void LookAt(const MessagePtr& item, std::vector<MessagePtr>& expired) {
    const std::int64_t expire_us = item->ids->expire_us;
    if (expire_us == 0) return;
    if (item->IsExpired(now_us_) && found_ < kExpiredAtOnce) {
      ++found_;
      bytes_ += static_cast<std::int64_t>(item->body.size());
      expired.push_back(item);
    } else if (sweep_.next_expire_us == 0 || expire_us < sweep_.next_expire_us) {
      sweep_.next_expire_us = expire_us;
    }
  }

  Store& store_;
  const SessionKey& key_;
  const std::function<bool()>& stopping_;
  const std::int64_t now_us_;
  SweepRequest& sweep_;
  std::size_t found_ = 0;
  std::int64_t bytes_ = 0;
};

// By how much `stored` is above what may be kept; a limit of 0 is none.
std::int64_t Surplus(std::int64_t stored, std::int64_t limit) {
  return limit == 0 ? 0 : std::max<std::int64_t>(0, stored - limit);
}

// Decides which of the oldest archived messages go. `rows` are the first of them in order.
void DecideArchived(const std::vector<MessagePtr>& rows, const SessionRow& row,
                    const Retention& retention, std::int64_t surplus, std::int64_t surplus_bytes,
                    std::int64_t now_us, SweepRequest& sweep) {
  for (const MessagePtr& message : rows) {
    const bool old =
        retention.message_ttl_us > 0 && message->ingest_us + retention.message_ttl_us <= now_us;
    // Whether its turn goes on the session knows.
    if (!old && message->position == row.opening) {
      sweep.leaving.keeps_opening = true;
      sweep.leaving.floor = message->position + 1;
      continue;
    }
    if (!old && sweep.leaving.archived >= surplus && sweep.archived_bytes >= surplus_bytes) {
      sweep.next_ingest_us = message->ingest_us;
      return;
    }
    if (message->position >= sweep.keep_from) {
      sweep.leaving.held = true;
      return;
    }
    ++sweep.leaving.archived;
    sweep.archived_bytes += static_cast<std::int64_t>(message->body.size());
    sweep.leaving.floor = message->position + 1;
  }
  // All that were read go: the next look begins behind them.
  const std::int64_t kept = sweep.leaving.keeps_opening ? 1 : 0;
  sweep.more = sweep.leaving.archived + kept < row.archived_count;
  if (!sweep.more) sweep.leaving.floor = row.watermark;
  // Fewer rows than the session counts: there is nothing to be found.
  if (rows.empty()) sweep.leaving.held = true;
}

// For how long the one has waited that has been due the longest.
std::int64_t LongestDue(const std::vector<DueSession>& listed, std::int64_t now_us) {
  std::int64_t due_for_us = 0;
  for (const DueSession& due : listed) {
    for (const std::int64_t at_us : {due.row.expire_us, due.row.drop_us}) {
      if (at_us > 0) due_for_us = std::max(due_for_us, now_us - at_us);
    }
  }
  return due_for_us;
}

}  // namespace

// Writes that are under way.
struct SessionExpiry::Round {
  Mutex mutex;
  CondVar changed;
  int in_flight MEMORYD_GUARDED_BY(mutex) = 0;
  std::int64_t done MEMORYD_GUARDED_BY(mutex) = 0;
  std::set<SessionKey> changed_sessions MEMORYD_GUARDED_BY(mutex);
  std::vector<SessionKey> undone MEMORYD_GUARDED_BY(mutex);

  void WaitUntilBelow(int count) MEMORYD_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    while (in_flight >= count) changed.Wait(mutex);
  }
};

absl::StatusOr<std::int64_t> SessionExpiry::FirstToFeed(const DueSession& due,
                                                        const SessionConfig& config) const {
  if (due.row.block_generation == 0 || config.blocks.empty()) return kNothingToFeed;
  JobFilter filter;
  filter.generation = due.row.block_generation;
  filter.state = JobState::kOpen;
  filter.max_jobs = kReadJobs;
  MEMORYD_ASSIGN_OR_RETURN(const std::vector<Job> jobs, options_.store->ListJobs(due.key, filter));
  if (std::ssize(jobs) == kReadJobs) return 0;
  std::int64_t first = kNothingToFeed;
  for (const Job& job : jobs) {
    if (job.key.block == kRetrievalBlock || job.message_generation != due.row.generation) continue;
    first = std::min(first, job.begin);
  }
  return first;
}

absl::Status SessionExpiry::FindExpired(const DueSession& due, std::int64_t now_us,
                                        SweepRequest& sweep) const {
  const SessionRow& row = due.row;
  ExpiredFinder finder(*options_.store, due.key, options_.stopping, now_us, sweep);
  const bool active = MayBeTooLarge(row);
  if (active && !row.pinned.empty()) {
    MEMORYD_RETURN_IF_ERROR(finder.Find(row.generation, {row.pinned.front(), row.pinned.back() + 1},
                                        sweep.expired_messages));
  }
  if (row.opening > 0 && row.opening < FirstUnpinned(row)) {
    MEMORYD_RETURN_IF_ERROR(
        finder.Find(row.generation, {row.opening, row.opening + 1}, sweep.expired_messages));
  }
  if (active || row.archived_count > 0) {
    const std::int64_t end = active ? row.next_position : row.watermark;
    MEMORYD_RETURN_IF_ERROR(
        finder.Find(row.generation, {FirstUnpinned(row), end}, sweep.expired_messages));
  }
  if (row.content_count == 0) return absl::OkStatus();
  return finder.Find(row.content_generation, StoredContents(row), sweep.expired_contents);
}

bool SessionExpiry::MayBeTooLarge(const SessionRow& row) const {
  return MostActiveBytes(row) > options_.max_active_bytes;
}

absl::StatusOr<SessionSettings> SessionExpiry::SettingsOf(const DueSession& due) const {
  if (!due.row.config.empty()) return SessionSettings::FromJson(due.row.config);
  MEMORYD_ASSIGN_OR_RETURN(const std::optional<LoadedSession> loaded,
                           options_.store->LoadSession(due.key, /*max_active_bytes=*/0));
  if (!loaded.has_value()) return SessionSettings();
  return SessionSettings::FromJson(loaded->row.config);
}

absl::StatusOr<SweepRequest> SessionExpiry::Look(const DueSession& due,
                                                 const SessionSettings& settings,
                                                 std::int64_t now_us) const {
  const SessionRow& row = due.row;
  SweepRequest sweep;
  sweep.generation = row.generation;
  sweep.revision = row.revision;
  sweep.floor = row.floor;
  sweep.pinned = row.pinned;
  sweep.opening = row.opening;
  sweep.expire_us = row.expire_us;
  if (row.drop_us == 0 || row.drop_us > now_us) return sweep;
  sweep.watermark = row.watermark;
  sweep.next_content = row.next_content;
  MEMORYD_ASSIGN_OR_RETURN(const SessionConfig config, SessionConfig::Resolve(settings));
  if (row.has_timed_items) MEMORYD_RETURN_IF_ERROR(FindExpired(due, now_us, sweep));
  const Retention& retention = config.retention;
  if (!retention.DropsMessages()) return sweep;
  MEMORYD_ASSIGN_OR_RETURN(sweep.keep_from, FirstToFeed(due, config));
  if (row.opening > 0 && row.opening < FirstUnpinned(row) && retention.message_ttl_us > 0) {
    MEMORYD_ASSIGN_OR_RETURN(
        const std::vector<MessagePtr> opening,
        options_.store->ReadRange(due.key, row.generation, {row.opening, row.opening + 1}, 1,
                                  kReadBytes));
    if (!opening.empty()) sweep.opening_ingest_us = opening.front()->ingest_us;
  }
  if (ArchivedButOpening(row) > 0) {
    MEMORYD_RETURN_IF_ERROR(FindLeaving(due, retention, now_us, sweep));
  }
  return sweep;
}

absl::Status SessionExpiry::FindLeaving(const DueSession& due, const Retention& retention,
                                        std::int64_t now_us, SweepRequest& sweep) const {
  const SessionRow& row = due.row;
  const std::int64_t surplus =
      Surplus(row.active_count + row.archived_count, retention.keep_messages);
  const std::int64_t surplus_bytes = Surplus(row.message_bytes, retention.keep_bytes);
  const bool only_bytes = retention.message_ttl_us == 0 && surplus == 0;
  const std::int64_t read_bytes =
      only_bytes ? std::min(kReadBytes, kLeastReadBytes + surplus_bytes) : kReadBytes;
  MEMORYD_ASSIGN_OR_RETURN(
      const std::vector<MessagePtr> rows,
      options_.store->ReadRange(due.key, row.generation, {FirstUnpinned(row), row.watermark},
                                kReadRows, read_bytes));
  DecideArchived(rows, row, retention, surplus, surplus_bytes, now_us, sweep);
  return absl::OkStatus();
}

absl::Status SessionExpiry::SweepEntries(const DueSession& due, const SessionSettings& listed,
                                         const std::shared_ptr<Round>& round) {
  std::vector<BlockSettings> blocks = listed.blocks.value_or(std::vector<BlockSettings>());
  ReadTraits(blocks, listed.profile.value_or(Profile::kDefault));
  std::erase_if(blocks, [](const BlockSettings& block) { return !block.traits->has_entries(); });
  if (blocks.empty()) return absl::OkStatus();
  MEMORYD_ASSIGN_OR_RETURN(const std::optional<LoadedSession> session,
                           options_.store->LoadSession(due.key, /*max_active_bytes=*/0));
  if (!session.has_value()) return absl::OkStatus();
  for (const BlockState& block : session->blocks) {
    const auto settings =
        std::find_if(blocks.begin(), blocks.end(),
                     [&block](const BlockSettings& known) { return known.name == block.name; });
    if (settings == blocks.end()) continue;
    MEMORYD_ASSIGN_OR_RETURN(
        std::optional<EntryRemoval> removal,
        FindHiddenEntries(*options_.store, due.key, session->row, block, settings->traits->ttl_us(),
                          options_.clock->NowUs(), options_.stopping));
    if (!removal.has_value()) continue;
    WriteRequest write;
    write.command = commands::TakeOutEntries{*std::move(removal)};
    Submit(due, std::move(write), round);
  }
  return absl::OkStatus();
}

void SessionExpiry::Submit(const DueSession& due, WriteRequest write,
                           const std::shared_ptr<Round>& round) {
  round->WaitUntilBelow(kInFlight);
  write.key = due.key;
  write.deadline = std::chrono::steady_clock::now() + kWriteTime;
  {
    Round& shared = *round;
    MutexLock lock(shared.mutex);
    ++shared.in_flight;
  }
  options_.writes->Submit(std::move(write),
                          [this, round, key = due.key](const absl::StatusOr<WriteReply>& reply) {
                            if (reply.ok() && reply->result.removed.sessions > 0) {
                              Increment(options_.stats->expired_sessions);
                            }
                            Round& shared = *round;
                            MutexLock lock(shared.mutex);
                            --shared.in_flight;
                            if (reply.ok() && reply->result.revision > 0) {
                              ++shared.done;
                              shared.changed_sessions.insert(key);
                            } else {
                              shared.undone.push_back(key);
                            }
                            shared.changed.NotifyAll();
                          });
}

absl::Status SessionExpiry::SweepSession(const DueSession& due, std::int64_t now_us,
                                         const std::shared_ptr<Round>& round) {
  const bool is_due = due.row.drop_us > 0 && due.row.drop_us <= now_us;
  SessionSettings settings;
  // The configuration is not read of a session that only expires.
  if (is_due) {
    MEMORYD_ASSIGN_OR_RETURN(settings, SettingsOf(due));
  }
  MEMORYD_ASSIGN_OR_RETURN(SweepRequest sweep, Look(due, settings, now_us));
  commands::Sweep command{std::move(sweep), {}};
  const bool reaches_active = command.due.leaving.archived >= ArchivedButOpening(due.row);
  const bool reads_oldest = is_due && reaches_active && MayBeTooLarge(due.row);
  if (reads_oldest) {
    auto oldest = ReadOldest(*options_.store, due.key, due.row,
                             settings.user_roles.value_or(std::vector<std::string>()));
    if (oldest.ok()) command.oldest = *std::move(oldest);
  }
  WriteRequest write;
  write.command = std::move(command);
  Submit(due, std::move(write), round);
  // So that the oldest messages of one session are in memory at a time.
  if (reads_oldest) round->WaitUntilBelow(1);
  // What can't be read now is due the next time too.
  if (is_due) SweepEntries(due, settings, round).IgnoreError();
  return absl::OkStatus();
}

std::int64_t SessionExpiry::SweepListed(const std::vector<DueSession>& listed, std::int64_t now_us,
                                        std::set<SessionKey>& stuck) {
  const auto round = std::make_shared<Round>();
  std::set<SessionKey> seen;
  for (const DueSession& due : listed) {
    if (options_.stopping()) break;
    if (stuck.contains(due.key) || !seen.insert(due.key).second ||
        options_.touches->IsTouched(due.key, due.row.generation))
      continue;
    if (!SweepSession(due, now_us, round).ok()) stuck.insert(due.key);
  }
  round->WaitUntilBelow(1);
  Round& shared = *round;
  MutexLock lock(shared.mutex);
  for (const SessionKey& key : shared.undone) {
    if (!shared.changed_sessions.contains(key)) stuck.insert(key);
  }
  return shared.done;
}

void SessionExpiry::Sweep() {
  std::set<SessionKey> stuck;  // That this sweep could do nothing about.
  for (std::int64_t limit = kListed;;) {
    // What was read meanwhile is due no more, and so in nobody's way.
    options_.touches->Flush();
    const std::int64_t now_us = options_.clock->NowUs();
    const auto listed = options_.store->ListDueSessions(now_us, limit);
    // An error shows in health checks; the next sweep tries again.
    if (!listed.ok()) return;
    options_.stats->due_sessions.store(std::ssize(*listed), std::memory_order_relaxed);
    options_.stats->due_for_us.store(LongestDue(*listed, now_us), std::memory_order_relaxed);
    const std::int64_t done = SweepListed(*listed, now_us, stuck);
    if (options_.stopping()) return;
    if (done > 0) {
      limit = kListed + std::ssize(stuck);
    } else if (std::ssize(*listed) >= limit && limit < kMaxListed) {
      limit *= 2;
    } else {
      return;
    }
    limit = std::min(limit, kMaxListed);
  }
}

}  // namespace memoryd
