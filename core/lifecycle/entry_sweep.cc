#include "core/lifecycle/entry_sweep.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/entry_log.h"
#include "core/blocks/vector_entry.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/store.h"

namespace memoryd {
namespace {

constexpr std::int64_t kReadRows = 64;
constexpr std::int64_t kReadBytes = std::int64_t{4} << 20;
// How seldom a block is looked through: for each row that is read.
constexpr std::int64_t kPauseUsPerRow = 1000;

// An entry without what it says.
struct Seen {
  std::int64_t number = 0;
  // Its messages.
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t ingest_us = 0;
  bool hidden = false;
  bool all_gone = false;
};

class Finder {
 public:
  Finder(Store& store, const SessionKey& key, const SessionRow& row, const BlockState& block,
         EntryLog log, std::int64_t ttl_us, std::int64_t now_us,
         const std::function<bool()>& stopping)
      : store_(store),
        key_(key),
        row_(row),
        block_(block),
        now_us_(now_us),
        over_us_(ttl_us == 0 ? 0 : now_us - ttl_us),
        stopping_(stopping) {
    removal_.by_age = ttl_us > 0;
    removal_.next_entry = block.next_entry;
    removal_.block = block.name;
    removal_.message_generation = row.generation;
    removal_.entry_generation = block.entry_generation;
    removal_.log = std::move(log);
  }

  absl::StatusOr<EntryRemoval> Find() {
    const EntryLog& log = removal_.log;
    const bool due = log.not_before_us <= now_us_;
    if (due) {
      for (const EntryLog::Mark& mark : log.marks) {
        MEMORYD_RETURN_IF_ERROR(LookInOrder({mark.begin, mark.end}));
      }
      for (const NumberRange& run : log.late) {
        if (log.HasMarks()) MEMORYD_RETURN_IF_ERROR(LookThrough(run, /*late=*/true));
      }
      removal_.pause_us = late_rows_ * kPauseUsPerRow;
    } else {
      removal_.log.marks.clear();
      removal_.pause_us = log.not_before_us - now_us_;
    }
    MEMORYD_RETURN_IF_ERROR(LookForOld({1, block_.next_entry}, /*late=*/false));
    for (const NumberRange& run : log.late) {
      MEMORYD_RETURN_IF_ERROR(LookForOld(run, /*late=*/true));
    }
    return std::move(removal_);
  }

 private:
  bool IsEnough() const { return removal_.count >= kEntriesAtOnce; }

  // The entries from a number on, at most so many.
  absl::StatusOr<std::vector<Seen>> Read(NumberRange numbers, std::int64_t max_rows) {
    if (stopping_()) return absl::CancelledError("the server stops");
    MEMORYD_ASSIGN_OR_RETURN(const std::vector<MessagePtr> rows,
                             store_.ReadRange(key_, block_.entry_generation,
                                              {numbers.begin, numbers.end}, max_rows, kReadBytes));
    std::vector<Seen> read;
    read.reserve(rows.size());
    for (const MessagePtr& row : rows) {
      Seen& seen = read.emplace_back();
      seen.number = row->position;
      seen.ingest_us = row->ingest_us;
      const auto entry = DecodeVectorEntry(row->body);
      // What can't be read is not shown either.
      if (!entry.ok() || entry->sources.empty()) continue;
      seen.begin = entry->sources.front().position;
      seen.end = entry->sources.back().position + 1;
      seen.hidden = removal_.log.Hides(seen.number, entry->sources);
      seen.all_gone = std::all_of(
          entry->sources.begin(), entry->sources.end(),
          [this](const EntrySource& source) { return removal_.log.IsGone(source.position); });
    }
    return read;
  }

  bool IsLate(std::int64_t number) const { return HasNumber(removal_.log.late, number); }

  // Behind the late entries that the number is one of, else the number.
  std::int64_t BehindLate(std::int64_t number) const {
    for (const NumberRange& late : removal_.log.late) {
      if (late.begin <= number && number < late.end) return late.end;
    }
    return number;
  }

  // The first entry of a run that stands in the order of messages; nullopt: none does.
  absl::StatusOr<std::optional<Seen>> FirstInOrder(NumberRange run) {
    while ((run.begin = BehindLate(run.begin)) < run.end) {
      MEMORYD_ASSIGN_OR_RETURN(const std::vector<Seen> read, Read(run, 1));
      if (read.empty()) break;
      if (!IsLate(read.front().number)) {
        return std::optional<Seen>(read.front());
      }
      run.begin = read.front().number;
    }
    return std::optional<Seen>();
  }

  // The first entry in order that has a message at `position` or behind; nullopt: none has.
  absl::StatusOr<std::optional<Seen>> FirstFrom(std::int64_t position) {
    NumberRange run{1, block_.next_entry};
    std::optional<Seen> first;
    while (run.begin < run.end) {
      const std::int64_t middle = run.begin + (run.end - run.begin) / 2;
      MEMORYD_ASSIGN_OR_RETURN(const std::optional<Seen> seen, FirstInOrder({middle, run.end}));
      if (!seen.has_value()) {
        run.end = middle;
      } else if (seen->end > position) {
        first = seen;
        run.end = middle;
      } else {
        run.begin = seen->number + 1;
      }
    }
    return first;
  }

  absl::Status LookInOrder(NumberRange wanted) {
    if (IsEnough()) {
      removal_.more = true;
      return absl::OkStatus();
    }
    MEMORYD_ASSIGN_OR_RETURN(std::optional<Seen> first, FirstFrom(wanted.begin));
    // Pieces of the message that it begins with may stand in entries before.
    while (first.has_value() && first->begin < wanted.begin && first->begin < wanted.end) {
      wanted.begin = first->begin;
      MEMORYD_ASSIGN_OR_RETURN(first, FirstFrom(wanted.begin));
    }
    if (!first.has_value() || first->begin >= wanted.end) return absl::OkStatus();
    return LookThrough({first->number, block_.next_entry}, /*late=*/false, wanted.end);
  }

  // Looks at all late entries of a run, or at all others, up to those that begin with a message at
  // `until` or behind.
  absl::Status LookThrough(NumberRange run, bool late,
                           std::optional<std::int64_t> until = std::nullopt) {
    std::vector<Seen> chain;  // Each begins with the message that the one before ends with.
    while (run.begin < run.end) {
      MEMORYD_ASSIGN_OR_RETURN(const std::vector<Seen> read, Read(run, kReadRows));
      if (read.empty()) break;
      run.begin = read.back().number + 1;
      if (late) late_rows_ += std::ssize(read);
      for (const Seen& seen : read) {
        if (!late && IsLate(seen.number)) continue;
        const bool goes_on = !chain.empty() && seen.begin + 1 == chain.back().end;
        if (!goes_on) {
          TakeOut(chain);
          chain.clear();
          if (until.has_value() && seen.begin >= *until) return absl::OkStatus();
          if (IsEnough()) {
            removal_.more = true;
            return absl::OkStatus();
          }
        }
        chain.push_back(seen);
      }
    }
    TakeOut(chain);
    return absl::OkStatus();
  }

  // Takes out what is too old from the beginning of a run on: the rest is as old as what it stands
  // behind, or will go with it.
  absl::Status LookForOld(NumberRange run, bool late) {
    while (over_us_ > 0 && run.begin < run.end) {
      MEMORYD_ASSIGN_OR_RETURN(const std::vector<Seen> read, Read(run, kReadRows));
      if (read.empty()) break;
      run.begin = read.back().number + 1;
      for (const Seen& seen : read) {
        if (IsTaken(seen.number)) continue;
        if (!late && IsLate(seen.number)) continue;
        if (seen.ingest_us > over_us_) {
          std::int64_t& oldest_us = removal_.oldest_us;
          oldest_us = oldest_us == 0 ? seen.ingest_us : std::min(oldest_us, seen.ingest_us);
          return absl::OkStatus();
        }
        if (IsEnough()) {
          removal_.more = true;
          return absl::OkStatus();
        }
        Add(seen.number);
      }
    }
    return absl::OkStatus();
  }

  void TakeOut(std::vector<Seen>& chain) {
    // With its first message, where retention takes the oldest.
    const auto stays = std::remove_if(chain.begin(), chain.end(), [this](const Seen& seen) {
      if (!seen.hidden || seen.begin >= row_.floor) return false;
      Add(seen.number);
      return true;
    });
    chain.erase(stays, chain.end());
    const bool hidden =
        std::any_of(chain.begin(), chain.end(), [](const Seen& seen) { return seen.hidden; });
    if (!hidden) return;
    bool is_new = false;
    for (const Seen& seen : chain) is_new = Add(seen.number) || is_new;
    const bool all_gone =
        std::all_of(chain.begin(), chain.end(), [](const Seen& seen) { return seen.all_gone; });
    if (is_new && !all_gone) {
      removal_.feed_again.push_back({chain.front().begin, chain.back().end});
    }
  }

  bool IsTaken(std::int64_t number) const { return HasNumber(removal_.numbers, number); }

  // False for one that has been found before.
  bool Add(std::int64_t number) {
    if (IsTaken(number)) return false;
    AddRange(removal_.numbers, {number, number + 1});
    ++removal_.count;
    return true;
  }

  Store& store_;
  const SessionKey& key_;
  const SessionRow& row_;
  const BlockState& block_;
  const std::int64_t now_us_;
  const std::int64_t over_us_;  // What came then or before is too old; 0: nothing is.
  const std::function<bool()>& stopping_;
  EntryRemoval removal_;
  std::int64_t late_rows_ = 0;  // That were read.
};

}  // namespace

absl::StatusOr<std::optional<EntryRemoval>> FindHiddenEntries(
    Store& store, const SessionKey& key, const SessionRow& row, const BlockState& block,
    std::int64_t ttl_us, std::int64_t now_us, const std::function<bool()>& stopping) {
  MEMORYD_ASSIGN_OR_RETURN(const std::int64_t due_us, EntriesDueUs(block, ttl_us, now_us));
  if (due_us == 0 || due_us > now_us) return std::nullopt;
  MEMORYD_ASSIGN_OR_RETURN(EmbeddingState state, EmbeddingState::FromJson(block.state));
  // Its id is chosen when it is stored.
  state.log.Open(block.next_entry, 0);
  Finder finder(store, key, row, block, std::move(state.log), ttl_us, now_us, stopping);
  MEMORYD_ASSIGN_OR_RETURN(EntryRemoval removal, finder.Find());
  return std::optional<EntryRemoval>(std::move(removal));
}

}  // namespace memoryd
