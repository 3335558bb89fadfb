#include "core/blocks/fact_state.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/job.h"

namespace memoryd {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
// Room for the names and numbers of what is counted by its texts.
constexpr std::size_t kMaxText = kMaxBlockState - 4096;

struct EndName {
  FactEnd end;
  std::string_view name;
  // What servers call it that know no more than the first five, and may run beside this one.
  std::string_view older;
};

constexpr std::array<EndName, 7> kEnds = {{
    {FactEnd::kReplaced, "replaced", "replaced"},
    {FactEnd::kCondensed, "condensed", "condensed"},
    {FactEnd::kEvicted, "evicted", "evicted"},
    {FactEnd::kUndone, "undone", "undone"},
    {FactEnd::kRetired, "retired", "retired"},
    {FactEnd::kCorrected, "corrected", "replaced"},
    {FactEnd::kDeleted, "deleted", "retired"},
}};

const EndName* FindEnd(std::string_view name) {
  const auto* const end = std::find_if(kEnds.begin(), kEnds.end(),
                                       [name](const EndName& known) { return known.name == name; });
  return end == kEnds.end() ? nullptr : end;
}

Json FactToJson(const Fact& fact) {
  Json json = {{"id", fact.id},
               {"text", fact.text},
               {"evidence", fact.evidence},
               {"first_us", fact.first_us},
               {"last_us", fact.last_us},
               {"seen", fact.seen},
               {"trust", fact.trust}};
  if (!fact.writer.empty()) json["writer"] = fact.writer;
  if (fact.change != 0) json["added_by"] = fact.change;
  return json;
}

Json PastToJson(const PastFact& past) {
  Json json = FactToJson(past.fact);
  for (const EndName& known : kEnds) {
    if (known.end != past.end) continue;
    json["end"] = known.older;
    if (known.older != known.name) json["end_by_hand"] = known.name;
  }
  if (!past.writer.empty()) json["ended_by"] = past.writer;
  json["change"] = past.change;
  json["time_us"] = past.time_us;
  json["job"] = past.job_id;
  json["by"] = past.by;
  json["brought"] = past.brought;
  return json;
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool ReadInteger(const Json& object, const char* name, std::int64_t& value) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) return false;
  value = found->get<std::int64_t>();
  return true;
}

bool ReadText(const Json& object, const char* name, std::string& value) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return false;
  value = found->get<std::string>();
  return true;
}

bool ReadIntegers(const Json& object, const char* name, std::vector<std::int64_t>& values) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return false;
  for (const Json& value : *found) {
    if (!value.is_number_integer()) return false;
    values.push_back(value.get<std::int64_t>());
  }
  return true;
}

bool ReadFact(const Json& json, Fact& fact) {
  if (!json.is_object() || !ReadInteger(json, "id", fact.id) ||
      !ReadText(json, "text", fact.text) || !ReadInteger(json, "first_us", fact.first_us) ||
      !ReadInteger(json, "last_us", fact.last_us) || !ReadInteger(json, "seen", fact.seen)) {
    return false;
  }
  const auto trust = json.find("trust");
  const auto evidence = json.find("evidence");
  if (trust == json.end() || !trust->is_number() || evidence == json.end() ||
      !evidence->is_array()) {
    return false;
  }
  fact.trust = trust->get<double>();
  for (const Json& id : *evidence) {
    if (!id.is_string()) return false;
    fact.evidence.push_back(id.get<std::string>());
  }
  ReadText(json, "writer", fact.writer);
  ReadInteger(json, "added_by", fact.change);
  return true;
}

bool ReadPast(const Json& json, PastFact& past) {
  std::string end_name;
  if (!ReadFact(json, past.fact) || !ReadText(json, "end", end_name) ||
      !ReadInteger(json, "change", past.change) || !ReadInteger(json, "time_us", past.time_us) ||
      !ReadText(json, "job", past.job_id)) {
    return false;
  }
  const EndName* end = FindEnd(end_name);
  if (end == nullptr) return false;
  if (ReadText(json, "end_by_hand", end_name)) {
    const EndName* const by_hand = FindEnd(end_name);
    if (by_hand != nullptr) end = by_hand;
  }
  past.end = end->end;
  ReadText(json, "ended_by", past.writer);
  return ReadIntegers(json, "by", past.by) && ReadIntegers(json, "brought", past.brought);
}

bool ReadState(const Json& json, FactState& state) {
  std::int64_t version = 0;
  if (!json.is_object() || !ReadInteger(json, "version", version) || version != kVersion ||
      !ReadInteger(json, "next_id", state.next_id) ||
      !ReadInteger(json, "next_change", state.next_change)) {
    return false;
  }
  const auto facts = json.find("facts");
  const auto history = json.find("history");
  if (facts == json.end() || !facts->is_array() || history == json.end() || !history->is_array()) {
    return false;
  }
  for (const Json& item : *facts) {
    if (!ReadFact(item, state.facts.emplace_back())) return false;
  }
  for (const Json& item : *history) {
    if (!ReadPast(item, state.history.emplace_back())) return false;
  }
  return true;
}

}  // namespace

std::string FactState::ToJson() const {
  Json facts_json = Json::array();
  std::vector<std::pair<double, std::size_t>> sizes;  // By trust, to be left out in this order.
  std::size_t size = 0;
  for (const Fact& fact : facts) {
    facts_json.push_back(FactToJson(fact));
    const std::size_t bytes = Dump(facts_json.back()).size() + 1;
    size += bytes;
    sizes.emplace_back(fact.trust, facts_json.size() - 1);
  }
  if (size > kMaxText) {
    std::stable_sort(sizes.begin(), sizes.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::set<std::size_t> left_out;
    for (auto it = sizes.begin(); it != sizes.end() && size > kMaxText; ++it) {
      size -= Dump(facts_json[it->second]).size() + 1;
      left_out.insert(it->second);
    }
    Json rest = Json::array();
    for (std::size_t i = 0; i < facts_json.size(); ++i) {
      if (left_out.count(i) == 0) rest.push_back(std::move(facts_json[i]));
    }
    facts_json = std::move(rest);
  }
  std::size_t first = history.size();
  std::vector<Json> past;
  while (first > 0) {
    Json json = PastToJson(history[first - 1]);
    const std::size_t bytes = Dump(json).size() + 1;
    if (size + bytes > kMaxText) break;
    size += bytes;
    past.push_back(std::move(json));
    --first;
  }
  std::reverse(past.begin(), past.end());
  Json history_json = Json::array();
  for (Json& json : past) history_json.push_back(std::move(json));
  return Dump({{"version", kVersion},
               {"next_id", next_id},
               {"next_change", next_change},
               {"facts", std::move(facts_json)},
               {"history", std::move(history_json)}});
}

absl::StatusOr<FactState> FactState::FromJson(std::string_view text) {
  FactState state;
  if (text.empty()) return state;
  if (!ReadState(Json::parse(text, nullptr, false), state)) {
    return absl::DataLossError("the stored facts of a block can't be read back");
  }
  return state;
}

}  // namespace memoryd
