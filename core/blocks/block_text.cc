#include "core/blocks/block_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/utf8_decode.h"
#include "core/base/visible_text.h"
#include "core/model/body_reader.h"

namespace memoryd {
namespace {

bool IsPythonSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

bool IsInvisible(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F) || c == 0x2028 || c == 0x2029 ||
         IsDefaultIgnorable(c);
}

// The bytes of the character at `at` when `is_skipped` says so of it, else 0.
template <typename IsSkipped>
std::size_t SkippedAt(std::string_view text, std::size_t at, const IsSkipped& is_skipped) {
  if (at >= text.size()) return 0;
  const DecodedUtf8 next = DecodeUtf8(text.data() + at, text.data() + text.size());
  return next.length > 0 && is_skipped(next.code_point) ? next.length : 0;
}

// Whether `text`, behind a `<` and what may stand before a tag's name, reads as a tag called
// `name`, or as one that only begins so. A reader sees the name where characters that do not show,
// or a line's end, stand in it.
bool ReadsAsTag(std::string_view text, std::string_view name, bool whole_name) {
  std::size_t at = 0;
  for (std::size_t matched = 0; matched < name.size(); ++at, ++matched) {
    while (const std::size_t skipped = matched > 0 ? SkippedAt(text, at, &IsInvisible) : 0) {
      at += skipped;
    }
    if (at == text.size() || Lower(text[at]) != Lower(name[matched])) return false;
  }
  return !whole_name || at == text.size() || !IsNameCharacter(text[at]);
}

// `text` behind what may stand between a `<` and the tag's name.
std::string_view FromName(std::string_view text) {
  const auto is_skipped = [](char32_t c) { return c == '/' || IsPythonSpace(c) || IsInvisible(c); };
  while (const std::size_t skipped = SkippedAt(text, 0, is_skipped)) text.remove_prefix(skipped);
  return text;
}

std::string_view MediaName(StoredPart::Kind kind) {
  switch (kind) {
    case StoredPart::Kind::kImage:
      return "image";
    case StoredPart::Kind::kAudio:
      return "audio";
    case StoredPart::Kind::kVideo:
      return "video";
    case StoredPart::Kind::kDocument:
      return "document";
    default:
      return {};
  }
}

bool IsJsonSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

void SkipSpace(std::string_view text, std::size_t& at) {
  while (at < text.size() && IsJsonSpace(text[at])) ++at;
}

// Behind the JSON string that starts at `at`.
std::size_t EndOfString(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

// Behind the JSON value that starts at `at`.
std::size_t EndOfValue(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = EndOfString(text, at);
      if (depth == 0) return at;
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') {
      if (depth == 0) return at;
      if (--depth == 0) return at + 1;
    }
    if (depth == 0 && (c == ',' || IsJsonSpace(c))) return at;
    ++at;
  }
  return text.size();
}

}  // namespace

std::string_view PythonStrip(std::string_view text) {
  while (!text.empty()) {
    const DecodedUtf8 first = DecodeUtf8(text.data(), text.data() + text.size());
    if (first.length == 0 || !IsPythonSpace(first.code_point)) break;
    text.remove_prefix(first.length);
  }
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && text.size() - begin < 4 && IsContinuation(text[begin])) --begin;
    const DecodedUtf8 last = DecodeUtf8(text.data() + begin, text.data() + text.size());
    if (last.length != text.size() - begin || !IsPythonSpace(last.code_point)) break;
    text.remove_suffix(last.length);
  }
  return text;
}

std::string FillTemplate(
    std::string_view text,
    std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  return FillTemplate(text, std::span(values.begin(), values.size()));
}

std::string FillTemplate(std::string_view text,
                         std::span<const std::pair<std::string_view, std::string_view>> values) {
  std::string filled;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = text.find('{', at);
    filled.append(text.substr(at, open - at));
    if (open == std::string_view::npos) break;
    at = open + 1;
    const auto found = std::find_if(values.begin(), values.end(), [&](const auto& value) {
      const std::string_view rest = text.substr(at);
      return rest.starts_with(value.first) && rest.substr(value.first.size()).starts_with('}');
    });
    if (found == values.end()) {
      filled += '{';
    } else {
      filled += found->second;
      at += found->first.size() + 1;
    }
  }
  return filled;
}

std::string EscapeTags(std::string_view text, std::span<const std::string_view> names,
                       bool whole_names) {
  std::string escaped;
  escaped.reserve(text.size());
  std::size_t done = 0;
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    const std::string_view rest = FromName(text.substr(at + 1));
    const bool is_tag = std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return ReadsAsTag(rest, name, whole_names);
    });
    if (!is_tag) continue;
    escaped.append(text.substr(done, at - done)).append("&lt;");
    done = at + 1;
  }
  return escaped.append(text.substr(done));
}

std::string EscapeAttribute(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string UnescapeEntities(std::string_view text) {
  static constexpr std::pair<std::string_view, char> kEntities[] = {
      {"&lt;", '<'},   {"&gt;", '>'},    {"&amp;", '&'},
      {"&quot;", '"'}, {"&apos;", '\''}, {"&#39;", '\''}};
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto* const found =
        text[i] != '&'
            ? std::end(kEntities)
            : std::find_if(std::begin(kEntities), std::end(kEntities),
                           [&](const auto& e) { return text.substr(i).starts_with(e.first); });
    if (found == std::end(kEntities)) {
      plain += text[i++];
    } else {
      plain += found->second;
      i += found->first.size();
    }
  }
  return plain;
}

std::string_view Head(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  std::size_t end = max_bytes;
  while (end > 0 && IsContinuation(text[end])) --end;
  return text.substr(0, end);
}

std::string_view Tail(std::string_view text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  std::size_t begin = text.size() - max_bytes;
  while (begin < text.size() && IsContinuation(text[begin])) ++begin;
  return text.substr(begin);
}

std::string JoinedText(const StoredMessage& message) {
  std::string text;
  for (const StoredPart& part : message.parts) {
    if (part.kind == StoredPart::Kind::kText) text += part.text;
  }
  return text;
}

std::string MessageWords(const StoredMessage& message) {
  std::string words;
  const auto add = [&words](std::string_view line) {
    if (line.empty()) return;
    if (!words.empty()) words += '\n';
    words += line;
  };
  for (const StoredPart& part : message.parts) {
    if (IsIdAlone(message, part)) continue;
    switch (part.kind) {
      case StoredPart::Kind::kText:
      case StoredPart::Kind::kJson:
      case StoredPart::Kind::kCitation:
        add(part.text);
        break;
      case StoredPart::Kind::kToolCall:
        add(fmt::format("[calls {}: {}]", part.tool_name, part.arguments_json));
        break;
      case StoredPart::Kind::kToolResult:
        add(fmt::format("[{} answers: {}]", part.tool_name.empty() ? "a tool" : part.tool_name,
                        part.text));
        break;
      case StoredPart::Kind::kImage:
      case StoredPart::Kind::kAudio:
      case StoredPart::Kind::kVideo:
      case StoredPart::Kind::kDocument:
        add(part.url.empty() || part.url.starts_with("data:")
                ? fmt::format("[{}]", MediaName(part.kind))
                : fmt::format("[{} {}]", MediaName(part.kind), part.url));
        break;
      case StoredPart::Kind::kThinking:
      case StoredPart::Kind::kOpaque:
        break;
    }
  }
  return words;
}

StoredMessage UserMessage(std::string text) {
  StoredMessage message;
  message.role = "user";
  message.parts.emplace_back().text = std::move(text);
  return message;
}

std::vector<JsonMember> JsonMembers(std::string_view object) {
  std::vector<JsonMember> members;
  std::size_t at = 0;
  SkipSpace(object, at);
  if (at >= object.size() || object[at] != '{') return members;
  ++at;
  for (;;) {
    SkipSpace(object, at);
    if (at >= object.size() || object[at] != '"') return members;
    JsonMember member;
    const std::size_t key_end = EndOfValue(object, at);
    member.key_text = object.substr(at, key_end - at);
    const auto key = nlohmann::json::parse(member.key_text, nullptr, false);
    if (key.is_string()) member.key = key.get<std::string>();
    at = key_end;
    SkipSpace(object, at);
    if (at >= object.size() || object[at] != ':') return members;
    ++at;
    SkipSpace(object, at);
    const std::size_t value_end = EndOfValue(object, at);
    member.value_text = object.substr(at, value_end - at);
    members.push_back(std::move(member));
    at = value_end;
    SkipSpace(object, at);
    if (at >= object.size() || object[at] != ',') return members;
    ++at;
  }
}

std::string WithStringMember(std::string_view object, std::string_view key,
                             std::string_view value) {
  std::string result = "{";
  bool placed = false;
  const auto add = [&result](std::string_view key_text, std::string_view value_text) {
    fmt::format_to(std::back_inserter(result), "{}{}: {}", result.size() > 1 ? ", " : "", key_text,
                   value_text);
  };
  for (const JsonMember& member : JsonMembers(object)) {
    const bool same = member.key == key;
    add(member.key_text, same ? JsonString(value) : std::string(member.value_text));
    placed = placed || same;
  }
  if (!placed) add(JsonString(key), JsonString(value));
  return result += '}';
}

std::string WithoutMember(std::string_view object, std::string_view key) {
  std::string result;
  for (const JsonMember& member : JsonMembers(object)) {
    if (member.key == key) continue;
    fmt::format_to(std::back_inserter(result), "{}{}: {}", result.empty() ? "{" : ", ",
                   member.key_text, member.value_text);
  }
  if (!result.empty()) result += '}';
  return result;
}

std::string WithoutHistory(std::string_view state) {
  // Within a JSON string the quotes would have backslashes.
  constexpr std::string_view kHistory = ",\"history\":[";
  const std::size_t at = state.find(kHistory);
  if (at == std::string_view::npos) return std::string(state);
  return std::string(state.substr(0, at + kHistory.size())).append("]}");
}

std::string JsonString(std::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace memoryd
