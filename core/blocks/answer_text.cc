#include "core/blocks/answer_text.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/base/utf8_decode.h"
#include "core/blocks/block_text.h"

namespace memoryd {
namespace {

using nlohmann::json;

// An answer that says in so many words that there is nothing is short.
constexpr std::size_t kMaxRefusal = 200;
// How many brackets in an answer are tried as the beginning of JSON.
constexpr int kMaxJsonTries = 8;
constexpr std::size_t kMaxNumbers = 100;

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Behind the next `start` that is a whole tag's name; npos when there is none.
std::size_t FindOpenTag(std::string_view lower, std::string_view start, std::size_t from) {
  for (std::size_t at = lower.find(start, from); at != std::string_view::npos;
       at = lower.find(start, at + 1)) {
    const std::size_t end = at + start.size();
    if (end < lower.size() && (lower[end] == '>' || IsSpace(lower[end]))) return end;
  }
  return std::string_view::npos;
}

}  // namespace

std::string Lowercase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = Lower(c);
  return lower;
}

bool HasWords(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return IsDigit(c) || (Lower(c) >= 'a' && Lower(c) <= 'z') ||
           static_cast<unsigned char>(c) >= 0x80;
  });
}

std::string CleanLine(std::string_view text) {
  std::string clean;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end;) {
    const DecodedUtf8 next = DecodeUtf8(p, end);
    if (next.length == 0 || next.code_point < 0x20 || next.code_point == 0x7F) {
      clean += ' ';
      ++p;
    } else {
      clean.append(p, next.length);
      p += next.length;
    }
  }
  return std::string(PythonStrip(clean));
}

std::vector<std::int64_t> NumbersIn(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < text.size() && numbers.size() < kMaxNumbers;) {
    if (!IsDigit(text[i])) {
      ++i;
      continue;
    }
    std::int64_t number = 0;
    const auto read = std::from_chars(text.data() + i, text.data() + text.size(), number);
    if (read.ec == std::errc()) numbers.push_back(number);
    while (i < text.size() && IsDigit(text[i])) ++i;
  }
  return numbers;
}

std::vector<std::int64_t> NumbersIn(const json& object, const char* member) {
  std::vector<std::int64_t> numbers;
  const auto found = object.find(member);
  if (found == object.end()) return numbers;
  const auto add = [&numbers](const json& value) {
    if (value.is_number_integer()) numbers.push_back(value.get<std::int64_t>());
    if (!value.is_string()) return;
    const std::vector<std::int64_t> in_text = NumbersIn(value.get_ref<const std::string&>());
    numbers.insert(numbers.end(), in_text.begin(), in_text.end());
  };
  if (!found->is_array()) {
    add(*found);
    return numbers;
  }
  for (const json& item : *found) {
    if (numbers.size() < kMaxNumbers) add(item);
  }
  return numbers;
}

bool ForEachElement(std::string_view answer, std::string_view name,
                    const std::function<void(std::string_view, std::string_view)>& visit) {
  const std::string lower = Lowercase(answer);
  const std::string start = std::string("<").append(name);
  const std::string close = std::string("</").append(name).append(">");
  const std::string close_list = std::string("</").append(name).append("s");
  std::size_t at = FindOpenTag(lower, start, 0);
  if (at == std::string_view::npos) return false;
  bool any_closed = false;
  while (at != std::string_view::npos) {
    const std::size_t end_of_tag = lower.find('>', at);
    if (end_of_tag == std::string::npos) break;
    const std::size_t begin = end_of_tag + 1;
    const std::size_t next = FindOpenTag(lower, start, begin);
    // Within what comes before the next one, so that the whole is read but once.
    std::size_t end = next == std::string_view::npos ? lower.size() : next - start.size();
    const std::string_view inside = std::string_view(lower).substr(begin, end - begin);
    const std::size_t closed = std::min(inside.find(close), inside.find(close_list));
    const bool is_half = next == std::string_view::npos && closed == std::string_view::npos;
    any_closed = any_closed || closed != std::string_view::npos;
    if (is_half && any_closed) break;
    end = begin + std::min(inside.size(), closed);
    visit(answer.substr(at, end_of_tag - at), answer.substr(begin, end - begin));
    at = next;
  }
  return true;
}

std::string_view AttributeValue(std::string_view attributes, std::string_view name) {
  const std::string lower = Lowercase(attributes);
  for (std::size_t at = lower.find(name); at != std::string::npos; at = lower.find(name, at + 1)) {
    if (at == 0 || !IsSpace(lower[at - 1])) continue;
    std::size_t begin = at + name.size();
    while (begin < lower.size() && IsSpace(lower[begin])) ++begin;
    if (begin == lower.size() || lower[begin] != '=') continue;
    ++begin;
    while (begin < lower.size() && IsSpace(lower[begin])) ++begin;
    if (begin == lower.size()) return {};
    const char quote = lower[begin];
    if (quote == '"' || quote == '\'') {
      ++begin;
      return attributes.substr(begin, attributes.find(quote, begin) - begin);
    }
    return attributes.substr(begin, attributes.find_first_of(" \t\n\r", begin) - begin);
  }
  return {};
}

std::string_view WithoutFences(std::string_view answer) {
  constexpr std::string_view kFence = "```";
  const std::size_t open = answer.find(kFence);
  if (open == std::string_view::npos) return answer;
  const std::size_t line_end = answer.find('\n', open);
  if (line_end == std::string_view::npos) return answer;
  const std::size_t close = answer.find(kFence, line_end);
  const std::string_view inside = answer.substr(line_end + 1, close - line_end - 1);
  return PythonStrip(inside).empty() ? answer : inside;
}

bool ForJsonIn(std::string_view answer, const std::function<bool(const json&)>& take) {
  std::size_t begin = answer.find_first_of("[{");
  for (int tries = 0; begin != std::string_view::npos && tries < kMaxJsonTries; ++tries) {
    const std::size_t end = answer.find_last_of(answer[begin] == '[' ? ']' : '}');
    if (end != std::string_view::npos && end > begin) {
      const json value = json::parse(answer.substr(begin, end + 1 - begin), nullptr, false);
      if (value.is_structured() && take(value)) return true;
    }
    begin = answer.find_first_of("[{", begin + 1);
  }
  return false;
}

std::string_view ListItem(std::string_view line) {
  constexpr std::string_view kBullet = "\xE2\x80\xA2";
  line = PythonStrip(line);
  std::size_t mark = 0;
  while (mark < line.size() && mark < 4 && IsDigit(line[mark])) ++mark;
  if (mark > 0) {
    if (mark == line.size() || (line[mark] != '.' && line[mark] != ')')) return {};
    ++mark;
  } else if (line.starts_with('-') || line.starts_with('*')) {
    mark = 1;
  } else if (line.starts_with(kBullet)) {
    mark = kBullet.size();
  } else {
    return {};
  }
  const std::string_view rest = line.substr(mark);
  return rest.starts_with(' ') || rest.starts_with('\t') ? PythonStrip(rest) : std::string_view();
}

void ForEachLine(std::string_view text, const std::function<void(std::string_view)>& visit) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool SaysNothing(std::string_view answer) {
  if (answer.size() > kMaxRefusal) return false;
  std::string lower = Lowercase(PythonStrip(answer));
  while (!lower.empty() && (lower.back() == '!' || lower.back() == '.')) lower.pop_back();
  for (const std::string_view nothing : {"none", "nothing", "n/a", "null", "empty", "no"}) {
    if (lower == nothing) return true;
  }
  for (const std::string_view phrase :
       {"no fact", "no new ", "no relevant ", "no additional ", "no further ", "no important ",
        "nothing new", "not contain any", "any new facts", "no entit", "no named entit"}) {
    if (lower.find(phrase) != std::string::npos) return true;
  }
  return false;
}

}  // namespace memoryd
