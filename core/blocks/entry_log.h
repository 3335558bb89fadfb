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
  // Messages at positions [begin, end) that are no more, or were changed: entries that hold one of
  // them and have a number less than `before` are hidden, and will be taken out. What is fed later
  // holds none, or what they are now.
  struct Mark {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t before = 0;
    bool gone = false;  // All of them are no more: of nothing but them nothing is left to be fed.

    friend bool operator==(const Mark&, const Mark&) = default;
  };

  // How many entries are stored; absent in states written before this was kept: all that there
  // were ever.
  std::optional<std::int64_t> count;
  // Ascending, apart. More than are worth it become wider ones: what that takes out too is made
  // anew.
  std::vector<Mark> marks;
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
  // Marks are not looked for before.
  std::int64_t not_before_us = 0;
  // Chosen when it is begun: numbers of removals are compared within it.
  std::uint64_t id = 0;

  // Whether anything is to be taken out.
  bool HasMarks() const { return !marks.empty(); }
  // The entries that were taken out since there were `before` removals, ascending; nullopt: that is
  // too long ago.
  std::optional<std::vector<NumberRange>> RemovedSince(std::int64_t before) const;
  // Whether the message is known to be no more.
  bool IsGone(std::int64_t position) const;
  // Whether the entry holds what must not be said any more.
  bool Hides(std::int64_t number, const std::vector<EntrySource>& sources) const;

  // Of a block whose next entry gets this number: begins a log of what an earlier version has
  // stored, where there is none.
  void Open(std::int64_t next_entry, std::uint64_t new_id);
  // What is stored of the messages is to be said no more.
  void NoteMark(const Mark& mark);
  // An entry of these messages, which counts as stored at `ingest_us`, is stored, under a number
  // that is higher than those before; `late` where its messages had been fed before. The log has
  // been opened.
  void NoteStored(std::int64_t number, NumberRange messages, std::int64_t ingest_us, bool late);
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
