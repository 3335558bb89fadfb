#include "core/blocks/fact_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/utf8_decode.h"
#include "core/blocks/answer_text.h"
#include "core/blocks/block_text.h"
#include "core/blocks/model_answer.h"

namespace memoryd {
namespace {

using nlohmann::json;

constexpr std::string_view kOpen = "<fact>";
constexpr std::string_view kClose = "</fact>";

void AddFact(FactAnswer& answer, AnsweredFact fact) {
  std::optional<std::string> line = FactLine(fact.text);
  if (answer.facts.size() >= kMaxAnsweredFacts || !line.has_value()) return;
  if (IsApology(*line) || IsEmptyItem(*line)) return;
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

// Case and compatibility forms do not count.
std::string Folded(std::string text) {
  const bool is_ascii = std::all_of(text.begin(), text.end(),
                                    [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (is_ascii) return Lowercase(text);
  utf8proc_uint8_t* folded = nullptr;
  const auto size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
      static_cast<utf8proc_ssize_t>(text.size()), &folded,
      static_cast<utf8proc_option_t>(UTF8PROC_COMPAT | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD |
                                     UTF8PROC_IGNORE | UTF8PROC_STABLE));
  if (size < 0) return Lowercase(text);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(folded, &std::free);
  return std::string(reinterpret_cast<const char*>(folded), static_cast<std::size_t>(size));
}

bool IsApostrophe(char32_t c) { return c == U'\'' || c == 0x2019 || c == 0x02BC; }

bool IsWordCharacter(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
      return true;
    default:
      return false;
  }
}

bool IsPunctuation(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    default:
      return c == U'`';
  }
}

// Whether a character, between these two, tells one fact from another: C and C#, 15 and 1.5, 5 and
// -5.
bool Counts(char32_t before, char32_t c, char32_t after) {
  if (c == U' ' || utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ZS) {
    return false;
  }
  if (!IsPunctuation(c)) return true;
  const auto is_digit = [](char32_t d) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(d)) == UTF8PROC_CATEGORY_ND;
  };
  if (c == U'-') return is_digit(after) && (is_digit(before) || before == U' ');
  if (c == U'.' || c == U',' || c == U':') {
    return c == U',' ? is_digit(before) && is_digit(after)
                     : IsWordCharacter(before) && IsWordCharacter(after);
  }
  return c == U'#' || c == U'@' || c == U'%' || c == U'&' || c == U'*' || c == U'/' || c == U'\\';
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
  const std::string folded = Folded(CleanLine(text));
  std::string key;
  const char* const end = folded.data() + folded.size();
  char32_t before = U' ';
  for (const char* p = folded.data(); p < end;) {
    const DecodedUtf8 next = DecodeUtf8(p, end);
    const char32_t after =
        p + next.length < end ? DecodeUtf8(p + next.length, end).code_point : U' ';
    if (Counts(before, next.code_point, after)) {
      key.append(p, next.length);
    } else if (!IsApostrophe(next.code_point) && !key.empty() && !key.ends_with(' ')) {
      key += ' ';
    }
    before = next.code_point;
    p += next.length;
  }
  while (key.ends_with(' ')) key.pop_back();
  return key;
}

}  // namespace memoryd
