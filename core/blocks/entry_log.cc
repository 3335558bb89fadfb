#include "core/blocks/entry_log.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace memoryd {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxRanges = 256;
constexpr std::size_t kMaxChanged = 256;
// A server that has not looked for longer reads all entries once more.
constexpr std::ptrdiff_t kMaxRemoved = 64;

// Of many ranges those that are nearest to each other become one.
void Narrow(std::vector<NumberRange>& ranges) {
  while (ranges.size() > kMaxRanges) {
    std::size_t nearest = 1;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      const std::int64_t between = ranges[i].begin - ranges[i - 1].end;
      if (between >= least) continue;
      least = between;
      nearest = i;
    }
    ranges[nearest - 1].end = ranges[nearest].end;
    ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(nearest));
  }
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

bool EntryLog::IsGone(std::int64_t position) const { return HasNumber(gone, position); }

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
  if (!HasGone()) return false;
  return std::any_of(sources.begin(), sources.end(), [&](const EntrySource& source) {
    return IsGone(source.position) ||
           std::any_of(changed.begin(), changed.end(), [&](const Change& change) {
             return change.position == source.position && number < change.before;
           });
  });
}

void EntryLog::Open(std::int64_t next_entry) {
  if (count.has_value()) return;
  count = next_entry - 1;
  AddRange(late, {1, next_entry});
}

void EntryLog::NoteGone(NumberRange messages) {
  AddRange(gone, messages);
  Narrow(gone);
}

void EntryLog::NoteChanged(std::int64_t position, std::int64_t next_entry) {
  std::erase_if(changed, [position](const Change& known) { return known.position == position; });
  changed.push_back({position, next_entry});
  if (changed.size() <= kMaxChanged) return;
  NoteGone({changed.front().position, changed.front().position + 1});
  changed.erase(changed.begin());
}

void EntryLog::NoteStored(std::int64_t number, NumberRange messages, std::int64_t ingest_us) {
  Open(number);
  oldest_us = *count == 0 ? ingest_us : std::min(oldest_us, ingest_us);
  ++*count;
  if (messages.begin + 1 < fed_to) {
    AddRange(late, {number, number + 1});
    Narrow(late);
  }
  fed_to = std::max(fed_to, messages.end);
}

void EntryLog::NoteRemoved(const std::vector<NumberRange>& numbers, std::int64_t entries) {
  count = std::max<std::int64_t>(0, count.value_or(0) - entries);
  removals += std::ssize(numbers);
  for (const NumberRange& range : numbers) CutRange(late, range);
  removed.insert(removed.end(), numbers.begin(), numbers.end());
  if (std::ssize(removed) > kMaxRemoved) {
    removed.erase(removed.begin(), removed.end() - kMaxRemoved);
  }
}

void EntryLog::Forget(const EntryLog& looked) {
  for (const NumberRange& range : looked.gone) CutRange(gone, range);
  std::erase_if(changed, [&looked](const Change& change) {
    return std::find(looked.changed.begin(), looked.changed.end(), change) != looked.changed.end();
  });
}

void EntryLog::WriteTo(json& object) const {
  if (count.has_value()) object["count"] = *count;
  if (!gone.empty()) object["gone"] = ToArray(gone);
  if (!changed.empty()) {
    json& array = object["changed"] = json::array();
    for (const Change& change : changed)
      array.push_back(json::array({change.position, change.before}));
  }
  if (!removed.empty()) object["removed"] = ToArray(removed);
  if (removals != 0) object["removals"] = removals;
  if (!late.empty()) object["late"] = ToArray(late);
  if (fed_to != 0) object["fed_to"] = fed_to;
  if (oldest_us != 0) object["oldest_us"] = oldest_us;
}

EntryLog EntryLog::ReadFrom(const json& object) {
  EntryLog log;
  if (const auto count = object.find("count"); count != object.end()) {
    log.count = count->get<std::int64_t>();
  }
  ReadRanges(object, "gone", log.gone);
  ReadRanges(object, "removed", log.removed);
  ReadRanges(object, "late", log.late);
  if (const auto changed = object.find("changed"); changed != object.end()) {
    for (const json& change : *changed) {
      log.changed.push_back({change.at(0).get<std::int64_t>(), change.at(1).get<std::int64_t>()});
    }
  }
  log.removals = object.value("removals", std::int64_t{0});
  log.fed_to = object.value("fed_to", std::int64_t{0});
  log.oldest_us = object.value("oldest_us", std::int64_t{0});
  return log;
}

bool MayHideEntries(std::string_view state) {
  return state.find("\"gone\"") != std::string_view::npos ||
         state.find("\"changed\"") != std::string_view::npos;
}

}  // namespace memoryd
