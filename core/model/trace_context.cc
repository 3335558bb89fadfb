#include "core/model/trace_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/random/random.h"

namespace memoryd {
namespace {

constexpr std::size_t kMaxMembers = 32;
constexpr std::size_t kMaxPart = 256;

bool IsHexDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }
bool IsHex(std::string_view text) { return std::all_of(text.begin(), text.end(), &IsHexDigit); }
bool IsZero(std::string_view text) { return text.find_first_not_of('0') == text.npos; }

bool IsKeyStart(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool IsKeyByte(char c) {
  return IsKeyStart(c) || c == '_' || c == '-' || c == '*' || c == '/' || c == '@';
}
bool IsValueByte(char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; }

bool IsMember(std::string_view member) {
  const std::size_t equals = member.find('=');
  if (equals == member.npos) return false;
  const std::string_view key = member.substr(0, equals);
  const std::string_view value = member.substr(equals + 1);
  return !key.empty() && key.size() <= kMaxPart && IsKeyStart(key.front()) &&
         std::all_of(key.begin(), key.end(), &IsKeyByte) && !value.empty() &&
         value.size() <= kMaxPart && std::all_of(value.begin(), value.end(), &IsValueByte);
}

bool IsTracestate(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  std::size_t members = 0;
  while (true) {
    const std::size_t comma = text.find(',');
    std::string_view member = text.substr(0, comma);
    member.remove_prefix(std::min(member.find_first_not_of(kSpace), member.size()));
    member = member.substr(0, member.find_last_not_of(kSpace) + 1);
    // Empty ones are allowed.
    if (!member.empty() && (!IsMember(member) || ++members > kMaxMembers)) return false;
    if (comma == text.npos) return members > 0;
    text.remove_prefix(comma + 1);
  }
}

std::uint64_t NewSpan() {
  thread_local absl::BitGen generator;
  // A span of zero is none.
  return std::max<std::uint64_t>(1, absl::Uniform<std::uint64_t>(generator));
}

}  // namespace

std::optional<Traceparent> ParseTraceparent(std::string_view text) {
  // version "-" trace-id "-" parent-id "-" flags; a later version may append to it.
  constexpr std::size_t kLength = 55;
  if (text.size() < kLength) return std::nullopt;
  const std::string_view version = text.substr(0, 2);
  const std::string_view flags = text.substr(53, 2);
  Traceparent parsed{text.substr(3, 32), text.substr(36, 16)};
  const bool delimited = text[2] == '-' && text[35] == '-' && text[52] == '-';
  const bool ended = text.size() == kLength || (version != "00" && text[kLength] == '-');
  if (!delimited || !ended || version == "ff" || !IsHex(version) || !IsHex(parsed.trace_id) ||
      !IsHex(parsed.parent_id) || !IsHex(flags) || IsZero(parsed.trace_id) ||
      IsZero(parsed.parent_id)) {
    return std::nullopt;
  }
  // The lowest bit of the last digit.
  parsed.sampled = (flags[1] <= '9' ? flags[1] - '0' : flags[1] - 'a' + 10) % 2 == 1;
  return parsed;
}

TracePtr MakeTrace(const Traceparent& caller, std::string_view tracestate) {
  auto trace = std::make_shared<TraceContext>();
  trace->traceparent =
      fmt::format("00-{}-{:016x}-{}", caller.trace_id, NewSpan(), caller.sampled ? "01" : "00");
  if (IsTracestate(tracestate)) trace->tracestate = tracestate;
  trace->parent_id = caller.parent_id;
  return trace;
}

}  // namespace memoryd
