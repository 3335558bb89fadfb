#include "core/blocks/entry_log.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/blocks/vector_entry.h"

namespace memoryd {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxRanges = 256;
// A server that has not looked for longer reads all entries once more.
constexpr std::ptrdiff_t kMaxRemoved = 64;

// The second of the two that are nearest to each other.
template <typename Range>
std::size_t Nearest(const std::vector<Range>& ranges) {
  std::size_t nearest = 1;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    const std::int64_t between = ranges[i].begin - ranges[i - 1].end;
    if (between >= least) continue;
    least = between;
    nearest = i;
  }
  return nearest;
}

// Of many ranges those that are nearest to each other become one.
void Narrow(std::vector<NumberRange>& ranges) {
  while (ranges.size() > kMaxRanges) {
    const std::size_t nearest = Nearest(ranges);
    ranges[nearest - 1].end = ranges[nearest].end;
    ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(nearest));
  }
}

// A mark that hides what both hide.
void Widen(EntryLog::Mark& mark, const EntryLog::Mark& other) {
  mark.begin = std::min(mark.begin, other.begin);
  mark.end = std::max(mark.end, other.end);
  mark.before = std::max(mark.before, other.before);
  mark.gone = mark.gone && other.gone;
}

const EntryLog::Mark* FindMark(const std::vector<EntryLog::Mark>& marks, std::int64_t position) {
  const auto mark = std::lower_bound(
      marks.begin(), marks.end(), position,
      [](const EntryLog::Mark& known, std::int64_t wanted) { return known.end <= wanted; });
  return mark != marks.end() && mark->begin <= position ? &*mark : nullptr;
}

json ToArray(const std::vector<NumberRange>& ranges) {
  json array = json::array();
  for (const NumberRange& range : ranges) array.push_back(json::array({range.begin, range.end}));
  return array;
}

void ReadRanges(const json& object, const char* name, std::vector<NumberRange>& ranges) {
  const auto found = object.find(name);
  if (found == object.end()) return;
  for (const json& range : *found) {
    ranges.push_back({range.at(0).get<std::int64_t>(), range.at(1).get<std::int64_t>()});
  }
}

}  // namespace

void AddRange(std::vector<NumberRange>& ranges, NumberRange range) {
  if (range.begin >= range.end) return;
  const auto first = std::lower_bound(
      ranges.begin(), ranges.end(), range.begin,
      [](const NumberRange& known, std::int64_t begin) { return known.end < begin; });
  auto last = first;
  for (; last != ranges.end() && last->begin <= range.end; ++last) {
    range.begin = std::min(range.begin, last->begin);
    range.end = std::max(range.end, last->end);
  }
  ranges.insert(ranges.erase(first, last), range);
}

void CutRange(std::vector<NumberRange>& ranges, NumberRange range) {
  if (range.begin >= range.end) return;
  std::vector<NumberRange> left;
  left.reserve(ranges.size() + 1);
  for (const NumberRange& known : ranges) {
    const NumberRange before{known.begin, std::min(known.end, range.begin)};
    const NumberRange behind{std::max(known.begin, range.end), known.end};
    if (before.begin < before.end) left.push_back(before);
    if (behind.begin < behind.end) left.push_back(behind);
  }
  ranges = std::move(left);
}

bool HasNumber(const std::vector<NumberRange>& ranges, std::int64_t number) {
  const auto range = std::lower_bound(
      ranges.begin(), ranges.end(), number,
      [](const NumberRange& known, std::int64_t wanted) { return known.end <= wanted; });
  return range != ranges.end() && range->begin <= number;
}

bool EntryLog::IsGone(std::int64_t position) const {
  const Mark* const mark = FindMark(marks, position);
  return mark != nullptr && mark->gone;
}

std::optional<std::vector<NumberRange>> EntryLog::RemovedSince(std::int64_t before) const {
  const std::int64_t missed = removals - before;
  if (missed > std::ssize(removed)) return std::nullopt;
  std::vector<NumberRange> ranges;
  for (auto range = removed.end() - missed; range != removed.end(); ++range) {
    AddRange(ranges, *range);
  }
  return ranges;
}

bool EntryLog::Hides(std::int64_t number, const std::vector<EntrySource>& sources) const {
  if (!HasMarks()) return false;
  return std::any_of(sources.begin(), sources.end(), [&](const EntrySource& source) {
    const Mark* const mark = FindMark(marks, source.position);
    return mark != nullptr && number < mark->before;
  });
}

void EntryLog::Open(std::int64_t next_entry, std::uint64_t new_id) {
  if (count.has_value()) return;
  id = new_id;
  count = next_entry - 1;
  AddRange(late, {1, next_entry});
}

void EntryLog::NoteMark(const Mark& mark) {
  if (mark.begin >= mark.end) return;
  Mark added = mark;
  const auto first =
      std::lower_bound(marks.begin(), marks.end(), mark.begin,
                       [](const Mark& known, std::int64_t begin) { return known.end < begin; });
  auto last = first;
  for (; last != marks.end() && last->begin <= mark.end; ++last) Widen(added, *last);
  marks.insert(marks.erase(first, last), added);
  if (marks.size() <= kMaxRanges) return;
  const std::size_t nearest = Nearest(marks);
  Widen(marks[nearest - 1], marks[nearest]);
  // Between them are others.
  marks[nearest - 1].gone = false;
  marks.erase(marks.begin() + static_cast<std::ptrdiff_t>(nearest));
}

void EntryLog::NoteStored(std::int64_t number, NumberRange messages, std::int64_t ingest_us,
                          bool is_late) {
  oldest_us = *count == 0 ? ingest_us : std::min(oldest_us, ingest_us);
  ++*count;
  if (is_late) {
    AddRange(late, {number, number + 1});
    Narrow(late);
  }
  fed_to = std::max(fed_to, messages.end);
}

void EntryLog::NoteRemoved(const std::vector<NumberRange>& numbers, std::int64_t entries) {
  count = std::max<std::int64_t>(0, count.value_or(0) - entries);
  removals += std::ssize(numbers);
  for (const NumberRange& range : numbers) CutRange(late, range);
  Narrow(late);
  removed.insert(removed.end(), numbers.begin(), numbers.end());
  if (std::ssize(removed) > kMaxRemoved) {
    removed.erase(removed.begin(), removed.end() - kMaxRemoved);
  }
}

void EntryLog::Forget(const EntryLog& looked) {
  for (const Mark& seen : looked.marks) {
    std::vector<Mark> left;
    left.reserve(marks.size() + 1);
    for (const Mark& mark : marks) {
      // Of entries that were stored since, which nobody has looked for.
      if (mark.before > seen.before) {
        left.push_back(mark);
        continue;
      }
      Mark before = mark;
      Mark behind = mark;
      before.end = std::min(mark.end, seen.begin);
      behind.begin = std::max(mark.begin, seen.end);
      if (before.begin < before.end) left.push_back(before);
      if (behind.begin < behind.end) left.push_back(behind);
    }
    marks = std::move(left);
  }
}

void EntryLog::WriteTo(json& object) const {
  if (count.has_value()) object["count"] = *count;
  if (id != 0) object["log"] = id;
  if (!marks.empty()) {
    json& array = object["marks"] = json::array();
    for (const Mark& mark : marks) {
      array.push_back(json::array({mark.begin, mark.end, mark.before, mark.gone}));
    }
  }
  if (!removed.empty()) object["removed"] = ToArray(removed);
  if (removals != 0) object["removals"] = removals;
  if (!late.empty()) object["late"] = ToArray(late);
  if (fed_to != 0) object["fed_to"] = fed_to;
  if (oldest_us != 0) object["oldest_us"] = oldest_us;
  if (not_before_us != 0) object["not_before_us"] = not_before_us;
}

EntryLog EntryLog::ReadFrom(const json& object) {
  EntryLog log;
  if (const auto count = object.find("count"); count != object.end()) {
    log.count = count->get<std::int64_t>();
  }
  ReadRanges(object, "removed", log.removed);
  ReadRanges(object, "late", log.late);
  if (const auto marks = object.find("marks"); marks != object.end()) {
    for (const json& mark : *marks) {
      log.marks.push_back({mark.at(0).get<std::int64_t>(), mark.at(1).get<std::int64_t>(),
                           mark.at(2).get<std::int64_t>(), mark.at(3).get<bool>()});
    }
  }
  log.id = object.value("log", std::uint64_t{0});
  log.removals = object.value("removals", std::int64_t{0});
  log.fed_to = object.value("fed_to", std::int64_t{0});
  log.oldest_us = object.value("oldest_us", std::int64_t{0});
  log.not_before_us = object.value("not_before_us", std::int64_t{0});
  return log;
}

bool MayHideEntries(std::string_view state) {
  return state.find("\"marks\":[") != std::string_view::npos;
}

}  // namespace memoryd
