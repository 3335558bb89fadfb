// What has become of a block's entries since they were stored.
#ifndef MEMORYD_CORE_BLOCKS_ENTRY_LOG_H_
#define MEMORYD_CORE_BLOCKS_ENTRY_LOG_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "core/blocks/vector_entry.h"

namespace memoryd {

// Numbers [begin, end): of entries in their block, or positions of messages.
struct NumberRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  friend bool operator==(const NumberRange&, const NumberRange&) = default;
};

// Adds a range to others that ascend and touch none of each other.
void AddRange(std::vector<NumberRange>& ranges, NumberRange range);
// Whether a number is in one of such.
bool HasNumber(const std::vector<NumberRange>& ranges, std::int64_t number);
// Takes a range out of such.
void CutRange(std::vector<NumberRange>& ranges, NumberRange range);

// Part of the state of a `vector` block, which servers have in memory with the session: by it each
// of them knows what it must not say any more, and what is not stored any more.
struct EntryLog {
  // A message whose entries before the one of number `before` say what it was once.
  struct Change {
    std::int64_t position = 0;
    std::int64_t before = 0;

    friend bool operator==(const Change&, const Change&) = default;
  };

  // How many entries are stored; absent in states written before this was kept: all that there
  // were ever.
  std::optional<std::int64_t> count;
  // Messages that are no more, and messages that were changed. What holds one of them is hidden,
  // and will be taken out. More than are worth it become wider ranges: what that takes out too is
  // made anew.
  std::vector<NumberRange> gone;
  std::vector<Change> changed;
  // The latest ranges of entries that were taken out, and how many there were ever.
  std::vector<NumberRange> removed;
  std::int64_t removals = 0;
  // Entries stand in the order of their messages, but for those of `late`: of messages that were
  // fed once more, and entries written before this was kept. `fed_to` is where the latest message
  // ends.
  std::vector<NumberRange> late;
  std::int64_t fed_to = 0;
  // No entry's messages are older; 0: not known.
  std::int64_t oldest_us = 0;

  // Whether anything is to be taken out.
  bool HasGone() const { return !gone.empty() || !changed.empty(); }
  // The entries that were taken out since there were `before` removals, ascending; nullopt: that is
  // too long ago.
  std::optional<std::vector<NumberRange>> RemovedSince(std::int64_t before) const;
  // Whether the message is among those that are no more.
  bool IsGone(std::int64_t position) const;
  // Whether the entry holds what must not be said any more.
  bool Hides(std::int64_t number, const std::vector<EntrySource>& sources) const;

  // Of a block whose next entry gets this number: makes a log of what an earlier version has
  // stored.
  void Open(std::int64_t next_entry);
  // Messages are no more.
  void NoteGone(NumberRange messages);
  // A message was changed: entries from `next_entry` on may say what it is now.
  void NoteChanged(std::int64_t position, std::int64_t next_entry);
  // An entry of these messages, which counts as stored at `ingest_us`, is stored, under a number
  // that is higher than those before.
  void NoteStored(std::int64_t number, NumberRange messages, std::int64_t ingest_us);
  // Entries, so many of them, have been taken out. The log has been opened.
  void NoteRemoved(const std::vector<NumberRange>& numbers, std::int64_t entries);
  // What `looked` was to take out is taken out.
  void Forget(const EntryLog& looked);

  // Nothing is written of what is as in a new one.
  void WriteTo(nlohmann::json& object) const;
  // Throws as `json` does.
  static EntryLog ReadFrom(const nlohmann::json& object);

  friend bool operator==(const EntryLog&, const EntryLog&) = default;
};

// Whether a state says that something is to be taken out, without reading it.
bool MayHideEntries(std::string_view state);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_ENTRY_LOG_H_
