// Any bytes through what blocks make their texts with.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json_check.h"
#include "core/base/utf8_decode.h"
#include "core/blocks/answer_text.h"
#include "core/blocks/block_text.h"
#include "core/blocks/memory_text.h"
#include "core/model/session_config.h"
#include "tests/fuzz/require.h"

namespace memoryd {
namespace {

using Json = nlohmann::ordered_json;

bool IsWithin(std::string_view part, std::string_view text) {
  return part.empty() ||
         (part.data() >= text.data() && part.data() + part.size() <= text.data() + text.size());
}

void RunLines(std::string_view text) {
  const std::string line = CleanLine(text);
  Require(IsUtf8(line) && CleanLine(line) == line);
  Require(std::none_of(line.begin(), line.end(),
                       [](char c) { return c == 0x7F || static_cast<unsigned char>(c) < 0x20; }));
  const std::string_view stripped = PythonStrip(text);
  Require(IsWithin(stripped, text) && PythonStrip(stripped) == stripped);
  Require(IsWithin(WithoutFences(text), text));
  Require(NumbersIn(text).size() <= 100);
  std::string joined;
  ForEachLine(text, [&](std::string_view each) {
    Require(each.find('\n') == std::string_view::npos);
    Require(IsWithin(ListItem(each), each));
    joined.append(each) += '\n';
  });
  if (!text.empty() && !text.ends_with('\n')) joined.pop_back();
  Require(joined == text);
  const std::size_t half = text.size() / 2;
  Require(Head(text, half).size() <= half && text.starts_with(Head(text, half)));
  Require(Tail(text, half).size() <= half && text.ends_with(Tail(text, half)));
  if (IsUtf8(text)) Require(IsUtf8(Head(text, half)) && IsUtf8(Tail(text, half)));
}

void RunTags(std::string_view text) {
  constexpr std::array<std::string_view, 2> kNames = {"memory", "a"};
  const std::string escaped = EscapeTags(text, kNames);
  Require(EscapeTags(escaped, kNames) == escaped);
  Require(UnescapeEntities(EscapeAttribute(text)) == text);
  std::size_t visited = 0;
  ForEachElement(text, "a", [&](std::string_view attributes, std::string_view inside) {
    Require(IsWithin(attributes, text) && IsWithin(inside, text));
    Require(IsWithin(AttributeValue(attributes, "b"), attributes));
    visited += attributes.size() + inside.size();
  });
  Require(visited <= text.size());
}

// Whatever blocks say, they can't end the section that they stand in.
void RunMemory(std::string_view text) {
  const std::size_t half = text.size() / 2;
  std::vector<MemorySection> sections(2);
  sections[0].name = "one";
  sections[0].content.parts.emplace_back().text = text.substr(0, half);
  sections[0].content.parts.emplace_back().text = text.substr(half);
  sections[1].name = "two";
  sections[1].content.parts.emplace_back().text = text;
  const auto parts = MemoryParts(Profile::kDefault, sections);
  Require(parts.ok() && parts->size() == 1);
  const std::string lower = Lowercase((*parts)[0].text);
  for (const std::string_view tag :
       {"<memory>", "</memory>", "<one>", "</one>", "<two>", "</two>"}) {
    const std::size_t at = lower.find(tag);
    Require(at != std::string::npos && lower.find(tag, at + 1) == std::string::npos);
  }
}

void RunTemplate(std::string_view text) {
  Require(FillTemplate(text, {}) == text);
  Require(FillTemplate(text, {{"a", "{a}"}, {"b", "{b}"}}) == text);
}

void RunObject(std::string_view text) {
  // Any bytes may come, only an object means something.
  const std::vector<JsonMember> members = JsonMembers(text);
  if (!CheckJsonObject(text).ok()) return;
  Json expected = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (expected.is_discarded()) return;  // An integer beyond all doubles.
  Require(members.size() == expected.size());
  expected["a"] = "\"\n";
  Require(Json::parse(WithStringMember(text, "a", "\"\n"), nullptr, false) == expected);
  expected.erase("a");
  const std::string without = WithoutMember(text, "a");
  Require(without.empty() ? expected.empty() : Json::parse(without, nullptr, false) == expected);
}

void RunString(std::string_view text) {
  const Json json = Json::parse(JsonString(text), nullptr, /*allow_exceptions=*/false);
  Require(json.is_string());
  if (IsUtf8(text)) Require(json.get<std::string>() == text);
}

}  // namespace
}  // namespace memoryd

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  memoryd::RunLines(text);
  memoryd::RunTags(text);
  memoryd::RunMemory(text);
  memoryd::RunTemplate(text);
  memoryd::RunObject(text);
  memoryd::RunString(text);
  return 0;
}
