#include "core/blocks/fact_text.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/blocks/answer_text.h"
#include "core/blocks/block_text.h"

namespace memoryd {
namespace {

using nlohmann::json;

constexpr std::string_view kOpen = "<fact>";
constexpr std::string_view kClose = "</fact>";

void AddFact(FactAnswer& answer, AnsweredFact fact) {
  std::optional<std::string> line = FactLine(fact.text);
  if (answer.facts.size() >= kMaxAnsweredFacts || !line.has_value()) return;
  fact.text = *std::move(line);
  answer.facts.push_back(std::move(fact));
}

bool ReadTags(std::string_view text, FactAnswer& answer) {
  return ForEachElement(text, "fact",
                        [&answer](std::string_view attributes, std::string_view inside) {
                          AnsweredFact fact;
                          fact.text = UnescapeEntities(inside);
                          fact.evidence = NumbersIn(AttributeValue(attributes, "evidence"));
                          fact.replaces = NumbersIn(AttributeValue(attributes, "replaces"));
                          fact.from = NumbersIn(AttributeValue(attributes, "from"));
                          AddFact(answer, std::move(fact));
                        });
}

bool ReadJsonList(const json& list, FactAnswer& answer) {
  static constexpr std::array kTexts = {"fact", "text", "content", "memory", "value"};
  for (const json& item : list) {
    AnsweredFact fact;
    if (item.is_string()) {
      fact.text = item.get<std::string>();
    } else if (item.is_object()) {
      for (const char* const name : kTexts) {
        const auto found = item.find(name);
        if (found == item.end() || !found->is_string()) continue;
        fact.text = found->get<std::string>();
        break;
      }
      fact.evidence = NumbersIn(item, "evidence");
      fact.replaces = NumbersIn(item, "replaces");
      fact.from = NumbersIn(item, "from");
    } else {
      answer.facts.clear();
      return false;
    }
    AddFact(answer, std::move(fact));
  }
  return true;
}

bool ReadJson(const json& value, FactAnswer& answer) {
  if (value.is_array()) return ReadJsonList(value, answer);
  for (const char* const name : {"facts", "new_facts", "memories", "memory", "items"}) {
    const auto found = value.find(name);
    if (found != value.end() && found->is_array()) return ReadJsonList(*found, answer);
  }
  return false;
}

bool ReadList(std::string_view text, FactAnswer& answer) {
  bool any = false;
  ForEachLine(text, [&](std::string_view line) {
    const std::string_view item = ListItem(line);
    if (item.empty()) return;
    any = true;
    AnsweredFact fact;
    fact.text = item;
    AddFact(answer, std::move(fact));
  });
  return any;
}

}  // namespace

std::vector<std::string> LlamaFacts(std::string_view answer) {
  std::vector<std::string> facts;
  for (std::size_t at = answer.find(kOpen); at != std::string_view::npos;
       at = answer.find(kOpen, at)) {
    const std::size_t begin = at + kOpen.size();
    const std::size_t end = answer.find(kClose, begin);
    if (end == std::string_view::npos) break;
    const std::string_view fact = PythonStrip(answer.substr(begin, end - begin));
    if (!fact.empty()) facts.emplace_back(fact);
    at = end + kClose.size();
  }
  return facts;
}

std::string LlamaFactLines(const std::vector<std::string>& facts) {
  std::string lines;
  for (const std::string& fact : facts) {
    if (!lines.empty()) lines += '\n';
    lines.append(kOpen).append(fact).append(kClose);
  }
  return lines;
}

FactAnswer ReadFactAnswer(std::string_view text) {
  FactAnswer answer;
  text = PythonStrip(text);
  if (ReadTags(text, answer)) {
    answer.understood = true;
    return answer;
  }
  const std::string_view inside = WithoutFences(text);
  answer.understood =
      ForJsonIn(inside, [&answer](const json& value) { return ReadJson(value, answer); }) ||
      ReadList(inside, answer) || Lowercase(text).find("<facts") != std::string::npos ||
      SaysNothing(text);
  return answer;
}

std::optional<std::string> FactLine(std::string_view text) {
  std::string line = CleanLine(text);
  if (line.size() > kMaxFactBytes || !HasWords(line)) return std::nullopt;
  return line;
}

std::string FactKey(std::string_view text) {
  std::string key;
  for (const char c : Lowercase(CleanLine(text))) {
    if (c != ' ' || !key.ends_with(' ')) key += c;
  }
  while (key.ends_with('.')) key.pop_back();
  return key;
}

}  // namespace memoryd
