#include "core/blocks/reasoning.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/blocks/answer_text.h"
#include "core/blocks/block_text.h"

namespace memoryd {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
// A tag with attributes is no longer than this; the bound keeps the reading linear.
constexpr std::size_t kMaxTag = 500;
// How far from a tag its quotes are looked for; the bound keeps the reading linear.
constexpr std::size_t kQuoteReach = 300;

constexpr std::array<std::string_view, 9> kReasoningNames = {
    "think",      "thinking",   "thought",     "thoughts", "reasoning",
    "reflection", "scratchpad", "antthinking", "analysis"};

// Openers and closers that are no tags of XML.
struct Bracket {
  std::string_view open;
  std::string_view close;
};
constexpr std::array<Bracket, 5> kBrackets = {{
    {"[think]", "[/think]"},                                              // Magistral
    {"\xE2\x97\x81think\xE2\x96\xB7", "\xE2\x97\x81/think\xE2\x96\xB7"},  // Kimi
    {"<|begin_of_thought|>", "<|end_of_thought|>"},                       // OpenThinker
    {"<|start_thinking|>", "<|end_thinking|>"},                           // Command A
    {"<unused94>", "<unused95>"},                                         // MedGemma
}};

// Behind these a model's turn is over; what follows are turns that it makes up.
constexpr std::array<std::string_view, 9> kTurnEnds = {
    "<|im_end|>",
    "<|im_start|>",
    "<|eot_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<end_of_turn>",
    "<\xEF\xBD\x9C"
    "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};
constexpr std::array<std::string_view, 4> kTurnBegins = {
    "<|im_start|>assistant", "<|start_header_id|>assistant<|end_header_id|>",
    "<start_of_turn>model", "<|assistant|>"};

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool IsName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == ':';
}

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

bool Contains(const std::vector<Range>& ranges, std::size_t at, std::size_t* which = nullptr) {
  const auto next =
      std::upper_bound(ranges.begin(), ranges.end(), at,
                       [](std::size_t place, const Range& r) { return place < r.begin; });
  if (next == ranges.begin() || std::prev(next)->end <= at) return false;
  if (which != nullptr) *which = static_cast<std::size_t>(std::prev(next) - ranges.begin());
  return true;
}

// The fence that a line begins, "" for another line.
std::string_view FenceOf(std::string_view line) {
  std::size_t at = 0;
  while (at < line.size() && at < 4 && line[at] == ' ') ++at;
  std::size_t end = at;
  while (end < line.size() && (line[end] == '`' || line[end] == '~') && line[end] == line[at])
    ++end;
  return end - at >= 3 ? line.substr(at, end - at) : std::string_view();
}

// Code blocks with their fences. One that is never closed is none.
std::vector<Range> FencesIn(std::string_view text) {
  std::vector<Range> fences;
  std::string_view open;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const std::string_view fence = FenceOf(line);
    if (open.empty()) {
      // Backticks behind it on the line are inline code.
      if (!fence.empty() && line.find('`', line.find(fence) + fence.size()) == kNone) {
        open = fence;
        begin = at;
      }
    } else if (!fence.empty() && fence[0] == open[0] && fence.size() >= open.size() &&
               PythonStrip(line) == fence) {
      fences.push_back({begin, end});
      open = {};
    }
    at = end + 1;
  }
  return fences;
}

// Behind the attribute of a tag at `at`, a name and a quoted value; kNone: there is none.
std::size_t EndOfAttribute(std::string_view lower, std::size_t at) {
  std::size_t i = at;
  while (i < lower.size() && IsName(lower[i])) ++i;
  if (i == at || i >= lower.size() || lower[i] != '=') return kNone;
  ++i;
  if (i >= lower.size() || (lower[i] != '"' && lower[i] != '\'')) return kNone;
  const std::size_t close = lower.find(lower[i], i + 1);
  return close == kNone ? kNone : close + 1;
}

// Behind a well-formed tag with attributes at `at`, else `at`.
std::size_t EndOfAttributes(std::string_view lower, std::size_t at) {
  lower = lower.substr(0, at + kMaxTag);
  std::size_t i = at + 1;
  while (i < lower.size() && IsName(lower[i])) ++i;
  if (i == at + 1) return at;
  bool any = false;
  while (i < lower.size()) {
    while (i < lower.size() && IsSpace(lower[i])) ++i;
    if (i < lower.size() && lower[i] == '/') ++i;
    if (i < lower.size() && lower[i] == '>') return any ? i + 1 : at;
    i = EndOfAttribute(lower, i);
    if (i == kNone) return at;
    any = true;
  }
  return at;
}

struct Mark {
  enum class Kind { kOpen, kClose, kBoth };
  Kind kind = Kind::kOpen;
  std::size_t begin = 0;
  std::size_t end = 0;
  bool quoted = false;
  bool begins = false;  // A line, a sentence or an element.
  std::optional<std::size_t> fence = {};
};

// The tag or bracket of reasoning that begins at `at`.
std::optional<Mark> MarkAt(std::string_view lower, std::size_t at) {
  for (const Bracket& bracket : kBrackets) {
    const std::string_view rest = lower.substr(at);
    if (rest.starts_with(bracket.open))
      return Mark{Mark::Kind::kOpen, at, at + bracket.open.size()};
    if (rest.starts_with(bracket.close)) {
      return Mark{Mark::Kind::kClose, at, at + bracket.close.size()};
    }
  }
  if (lower[at] != '<') return std::nullopt;
  std::size_t i = at + 1;
  while (i < lower.size() && lower[i] == ' ') ++i;
  const bool closes = i < lower.size() && lower[i] == '/';
  if (closes) ++i;
  while (i < lower.size() && lower[i] == ' ') ++i;
  std::size_t name_end = i;
  while (name_end < lower.size() && name_end - i < kMaxTag && IsName(lower[name_end])) ++name_end;
  std::string_view name = lower.substr(i, name_end - i);
  if (const std::size_t colon = name.rfind(':'); colon != kNone) name.remove_prefix(colon + 1);
  if (std::find(kReasoningNames.begin(), kReasoningNames.end(), name) == kReasoningNames.end()) {
    return std::nullopt;
  }
  const std::string_view rest = lower.substr(name_end, kMaxTag);
  if (rest.empty() || (rest[0] != '>' && rest[0] != '/' && !IsSpace(rest[0]))) return std::nullopt;
  const std::size_t close = rest.find_first_of("<>");
  if (close == kNone || rest[close] != '>') return std::nullopt;
  Mark mark{closes ? Mark::Kind::kClose : Mark::Kind::kOpen, at, name_end + close + 1};
  if (!closes && close > 0 && rest[close - 1] == '/') mark.kind = Mark::Kind::kBoth;
  return mark;
}

bool EndsWithQuote(std::string_view text) {
  for (const std::string_view quote :
       {"\"", "'", "`", "\xE2\x80\x9C", "\xE2\x80\x9D", "\xE2\x80\x98", "\xE2\x80\x99", "\xC2\xAB",
        "\xC2\xBB", "\xE2\x80\x9E", "\xE3\x80\x8C", "\xE3\x80\x8D", "\xE3\x80\x8E"}) {
    if (text.ends_with(quote)) return true;
  }
  return false;
}

bool BeginsWithQuote(std::string_view text) {
  for (const std::string_view quote :
       {"\"", "'", "`", "\xE2\x80\x9C", "\xE2\x80\x9D", "\xE2\x80\x98", "\xE2\x80\x99", "\xC2\xAB",
        "\xC2\xBB", "\xE3\x80\x8C", "\xE3\x80\x8D", "\xE3\x80\x8F"}) {
    if (text.starts_with(quote)) return true;
  }
  return false;
}

// Whether the mark stands between quotes or backticks of its own line, or in a quoted line.
bool IsQuoted(std::string_view text, const Mark& mark) {
  const std::size_t from = mark.begin > kQuoteReach ? mark.begin - kQuoteReach : 0;
  std::string_view before = text.substr(from, mark.begin - from);
  std::string_view after = text.substr(mark.end, kQuoteReach);
  if (const std::size_t line = before.rfind('\n'); line != kNone) before.remove_prefix(line + 1);
  after = after.substr(0, after.find('\n'));
  if (PythonStrip(before).starts_with('>')) return true;
  const bool is_close = mark.kind == Mark::Kind::kClose;
  if (is_close ? BeginsWithQuote(after) : EndsWithQuote(before)) return true;
  // A tag's end parts what stands within attributes from what is said.
  if (const std::size_t tag = before.rfind('>'); tag != kNone) before.remove_prefix(tag + 1);
  for (const char quote : {'"', '`'}) {
    if (std::count(before.begin(), before.end(), quote) % 2 == 1 && after.find(quote) != kNone) {
      return true;
    }
  }
  const std::size_t open = before.rfind("\xE2\x80\x9C");
  return open != kNone && before.find("\xE2\x80\x9D", open) == kNone &&
         after.find("\xE2\x80\x9D") != kNone;
}

bool BeginsSomething(std::string_view text, std::size_t at) {
  while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\t')) --at;
  if (at == 0) return true;
  constexpr std::string_view kEnds = "\n\r>.!?:*";
  return kEnds.find(text[at - 1]) != kNone || text.substr(0, at).ends_with("\xE2\x80\xA6") ||
         text.substr(0, at).ends_with("\xE3\x80\x82");
}

std::vector<Mark> MarksIn(std::string_view text) {
  constexpr std::string_view kMessage = "<message ";
  constexpr std::string_view kMessageEnd = "</message>";
  const std::string lower = Lowercase(text);
  const std::string_view view = lower;
  const std::vector<Range> fences = FencesIn(text);
  std::vector<Mark> marks;
  bool messages_end = true;
  for (std::size_t at = view.find_first_of("<[\xE2"); at < view.size();
       at = view.find_first_of("<[\xE2", at)) {
    if (std::optional<Mark> mark = MarkAt(view, at)) {
      std::size_t fence = 0;
      if (Contains(fences, at, &fence)) mark->fence = fence;
      mark->quoted = IsQuoted(text, *mark);
      mark->begins = BeginsSomething(text, at);
      at = mark->end;
      marks.push_back(*mark);
      continue;
    }
    if (messages_end && view.substr(at).starts_with(kMessage)) {
      const std::size_t end = view.find(kMessageEnd, at);
      messages_end = end != kNone;
      if (messages_end) {
        at = end + kMessageEnd.size();
        continue;
      }
    }
    const std::size_t end = view[at] == '<' ? EndOfAttributes(view, at) : at;
    at = end > at ? end : at + 1;
  }
  return marks;
}

// Leaves only marks of the answer itself.
std::vector<Mark> OwnMarks(std::vector<Mark> marks) {
  // A pair within one fence is code. A closing tag alone ends the reasoning that opened the fence.
  std::vector<bool> is_code(marks.size(), false);
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (!marks[i].fence.has_value()) continue;
    if (marks[i].kind != Mark::Kind::kClose) {
      is_code[i] = true;
      open = i;
    } else if (open.has_value() && marks[*open].fence == marks[i].fence) {
      is_code[i] = true;
    }
  }
  std::vector<Mark> own;
  // An opening tag in quotes may have its end without, but not where reasoning is open.
  bool quotes = false;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (is_code[i]) continue;
    const Mark& mark = marks[i];
    if (mark.quoted) {
      quotes =
          mark.kind == Mark::Kind::kOpen && (own.empty() || own.back().kind != Mark::Kind::kOpen);
      continue;
    }
    if (quotes && mark.kind == Mark::Kind::kClose && !mark.begins) {
      quotes = false;
      continue;
    }
    own.push_back(mark);
  }
  return own;
}

std::string WithoutMarked(std::string_view text, bool& open_end) {
  open_end = false;
  const std::vector<Mark> marks = OwnMarks(MarksIn(text));
  // Of each mark, the next closing one.
  std::vector<std::size_t> close_at(marks.size() + 1, kNone);
  for (std::size_t i = marks.size(); i > 0; --i) {
    close_at[i - 1] = marks[i - 1].kind == Mark::Kind::kClose ? i - 1 : close_at[i];
  }
  std::string kept;
  std::size_t at = 0;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const Mark& mark = marks[i];
    if (mark.begin < at) continue;
    if (mark.kind == Mark::Kind::kClose) {
      kept.clear();
      at = mark.end;
      continue;
    }
    if (mark.kind == Mark::Kind::kBoth) {
      kept.append(text.substr(at, mark.begin - at));
      at = mark.end;
    } else if (close_at[i] != kNone) {
      kept.append(text.substr(at, mark.begin - at));
      at = marks[close_at[i]].end;
    } else if (mark.begins) {
      kept.append(text.substr(at, mark.begin - at));
      at = text.size();
      open_end = true;
    }
  }
  return kept.append(text.substr(at));
}

// The channel `final` of an answer in the Harmony format; nullopt for another answer.
std::optional<std::string> FinalChannel(std::string_view text) {
  constexpr std::string_view kChannel = "<|channel|>";
  constexpr std::string_view kMessage = "<|message|>";
  if (text.find(kChannel) == kNone || text.find(kMessage) == kNone) return std::nullopt;
  std::string final_text;
  for (std::size_t at = text.find(kChannel); at != kNone; at = text.find(kChannel, at)) {
    at += kChannel.size();
    const std::size_t message = text.find(kMessage, at);
    if (message == kNone) break;
    if (!PythonStrip(text.substr(at, message - at)).starts_with("final")) continue;
    const std::size_t begin = message + kMessage.size();
    final_text = text.substr(begin, text.find("<|", begin) - begin);
  }
  return final_text;
}

// `text` when all of it is one fenced block, without the fence; else nullopt.
std::optional<std::string_view> WithinFence(std::string_view text) {
  const std::vector<Range> fences = FencesIn(text);
  if (fences.size() != 1 || fences[0].begin != 0 || fences[0].end != text.size()) {
    return std::nullopt;
  }
  const std::size_t begin = text.find('\n') + 1;
  const std::size_t end = text.rfind('\n');
  return text.substr(begin, std::max(begin, end) - begin);
}

}  // namespace

std::string WithoutReasoning(std::string_view text) {
  if (const std::optional<std::string> final_text = FinalChannel(text)) return *final_text;
  bool open_end = false;
  std::string kept = WithoutMarked(text, open_end);
  const std::string_view stripped = PythonStrip(kept);
  if (const auto inside = WithinFence(stripped)) {
    std::string cleaned = WithoutMarked(*inside, open_end);
    if (cleaned != *inside) return cleaned;
  }
  return kept;
}

std::string WithoutTurnMarkers(std::string_view text) {
  text = PythonStrip(text);
  for (const std::string_view begin : kTurnBegins) {
    if (text.starts_with(begin)) text = PythonStrip(text.substr(begin.size()));
  }
  std::size_t end = text.size();
  for (const std::string_view mark : kTurnEnds) {
    for (std::size_t at = text.find(mark); at < end; at = text.find(mark, at + 1)) {
      if (IsQuoted(text, {Mark::Kind::kOpen, at, at + mark.size()})) continue;
      end = at;
    }
  }
  text = PythonStrip(text.substr(0, end));
  if (text.ends_with("</s>")) text.remove_suffix(4);
  if (text.ends_with("<eos>")) text.remove_suffix(5);
  return std::string(PythonStrip(text));
}

}  // namespace memoryd
