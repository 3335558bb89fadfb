#include "core/blocks/model_answer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include "core/blocks/answer_text.h"
#include "core/blocks/block_text.h"
#include "core/blocks/fact_text.h"

namespace memoryd {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
// A tag with attributes is no longer than this; the bound keeps the reading linear.
constexpr std::size_t kMaxTag = 500;
// How far from a tag its quotes are looked for; the bound keeps the reading linear.
constexpr std::size_t kQuoteReach = 300;
// A shorter line of a prompt may well be said by chance.
constexpr std::size_t kMinEchoedLine = 40;
constexpr std::size_t kMaxApology = 600;

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

// Behind a well-formed tag with attributes at `at`, else `at`.
std::size_t EndOfAttributes(std::string_view lower, std::size_t at) {
  std::size_t i = at + 1;
  const std::size_t limit = std::min(lower.size(), at + kMaxTag);
  while (i < limit && IsName(lower[i])) ++i;
  if (i == at + 1) return at;
  bool any = false;
  while (i < limit) {
    while (i < limit && IsSpace(lower[i])) ++i;
    if (i < limit && lower[i] == '/') ++i;
    if (i < limit && lower[i] == '>') return any ? i + 1 : at;
    const std::size_t name = i;
    while (i < limit && IsName(lower[i])) ++i;
    if (i == name || i >= limit || lower[i] != '=') return at;
    ++i;
    if (i >= limit || (lower[i] != '"' && lower[i] != '\'')) return at;
    const std::size_t close = lower.substr(0, limit).find(lower[i], i + 1);
    if (close == kNone) return at;
    i = close + 1;
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

bool IsCut(std::string_view finish_reason) {
  const std::string reason = Lowercase(finish_reason);
  for (const std::string_view cut : {"length", "max_tokens", "max_output_tokens", "model_length",
                                     "model_context_window_exceeded"}) {
    if (reason == cut) return true;
  }
  return false;
}

bool IsFiltered(std::string_view finish_reason) {
  const std::string reason = Lowercase(finish_reason);
  for (const std::string_view filtered :
       {"content_filter", "safety", "refusal", "recitation", "prohibited_content", "blocklist"}) {
    if (reason == filtered) return true;
  }
  return false;
}

// Lower case, with straight apostrophes, without what a list or a heading puts before the text.
std::string Plain(std::string_view text) {
  text = PythonStrip(text);
  if (const std::string_view item = ListItem(text); !item.empty()) text = item;
  while (text.starts_with('*') || text.starts_with('"') || text.starts_with('_')) {
    text.remove_prefix(1);
  }
  std::string plain = Lowercase(text);
  constexpr std::string_view kCurly = "\xE2\x80\x99";
  for (std::size_t at = plain.find(kCurly); at != std::string::npos; at = plain.find(kCurly, at)) {
    plain.replace(at, kCurly.size(), "'");
  }
  return plain;
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

ModelAnswer ReadAnswer(const ChatReply& reply, std::string_view prompt) {
  ModelAnswer answer;
  std::string_view text = PythonStrip(reply.text);
  prompt = PythonStrip(prompt);
  if (!prompt.empty() && text.starts_with(prompt)) text.remove_prefix(prompt.size());
  answer.text = WithoutTurnMarkers(WithoutReasoning(text));
  if (IsCut(reply.finish_reason)) {
    answer.status = ModelAnswer::Status::kCut;
  } else if (IsFiltered(reply.finish_reason) || answer.text.empty()) {
    answer.status = ModelAnswer::Status::kNothing;
    answer.text.clear();
  }
  return answer;
}

bool IsModelRole(std::string_view role) {
  const std::string lower = Lowercase(role);
  for (const std::string_view model : {"assistant", "ai", "model", "gpt", "bot", "chatbot"}) {
    if (lower == model) return true;
  }
  return false;
}

std::string SpokenWords(const StoredMessage& message) {
  if (!IsModelRole(message.role)) return MessageWords(message);
  StoredMessage spoken = message;
  for (StoredPart& part : spoken.parts) {
    if (part.kind == StoredPart::Kind::kText) part.text = WithoutReasoning(part.text);
  }
  return MessageWords(spoken);
}

bool IsApology(std::string_view text) {
  const std::string plain = Plain(Head(PythonStrip(text), kMaxApology));
  const auto starts = [&plain](std::string_view phrase) { return plain.starts_with(phrase); };
  static constexpr std::string_view kApologies[] = {
      "i'm sorry",
      "i am sorry",
      "i'm really sorry",
      "i'm very sorry",
      "sorry, ",
      "sorry but",
      "i apologize",
      "i apologise",
      "my apologies",
      "apologies, ",
      "as an ai,",
      "as an ai language",
      "as an ai model",
      "as an ai assistant",
      "as a language model",
      "as a large language model",
      "i'm just an ai",
      "i am an ai language",
      "i am an ai assistant",
      "i'm an ai language",
      "i'm an ai assistant",
      "es tut mir leid",
      "tut mir leid",
      "entschuldigung, ",
      "als ki-",
      "als ki ",
      "lo siento",
      "como modelo de lenguaje",
      "je suis d\xC3\xA9sol\xC3\xA9",
      "d\xC3\xA9sol\xC3\xA9",
      "en tant qu'ia",
      "mi dispiace",
      "desculpe",
      "sinto muito",
      "het spijt me",
      "przepraszam, ",
      "przykro mi",
      "\xE5\xAF\xB9\xE4\xB8\x8D\xE8\xB5\xB7",
      "\xE6\x8A\xB1\xE6\xAD\x89",
      "\xE5\xBE\x88\xE6\x8A\xB1\xE6\xAD\x89",
      "\xE7\x94\xB3\xE3\x81\x97\xE8\xA8\xB3",
      "\xE3\x81\x99\xE3\x81\xBF\xE3\x81\xBE\xE3\x81\x9B\xE3\x82\x93",
      "\xEC\xA3\x84\xEC\x86\xA1",
      "\xD0\x98\xD0\xB7\xD0\xB2\xD0\xB8\xD0\xBD\xD0\xB8\xD1\x82\xD0\xB5",
      "\xD0\xBF\xD1\x80\xD0\xBE\xD1\x81\xD1\x82\xD0\xB8\xD1\x82\xD0\xB5"};
  if (std::any_of(std::begin(kApologies), std::end(kApologies), starts)) return true;
  static constexpr std::array<std::string_view, 11> kRefusals = {
      "i can't",        "i cannot",          "i can not",    "i won't",
      "i'm unable",     "i am unable",       "i'm not able", "i am not able",
      "i must decline", "unfortunately, i ", "i don't have "};
  if (std::none_of(kRefusals.begin(), kRefusals.end(), starts)) return false;
  // A user may say of himself what he can't do; a model says so of these.
  static constexpr std::array<std::string_view, 21> kTasks = {
      "assist",        "help you", "help with",       "provide", "comply",
      "fulfill",       "fulfil",   "summar",          "extract", "that request",
      "this request",  "process",  "your request",    "access",  "generate",
      "complete this", "engage",   "any information", "enough",  "answer",
      "continue with"};
  const std::string_view begin = std::string_view(plain).substr(0, 120);
  return std::any_of(kTasks.begin(), kTasks.end(),
                     [begin](std::string_view task) { return begin.find(task) != kNone; });
}

bool IsEmptyItem(std::string_view text) {
  std::string plain = Plain(text);
  while (!plain.empty() && (plain.back() == '.' || plain.back() == '!' || plain.back() == ')')) {
    plain.pop_back();
  }
  if (plain.starts_with('(')) plain.erase(0, 1);
  for (const std::string_view nothing :
       {"none", "nothing", "n/a", "null", "empty", "no", "no facts", "no fact", "unknown",
        "not applicable", "nothing new", "no information", "not specified", "nothing to add"}) {
    if (plain == nothing) return true;
  }
  for (const std::string_view start :
       {"no new fact", "no additional fact", "no further fact", "no relevant fact",
        "no new information", "no new entit", "no entit", "there are no new fact",
        "there are no fact", "there is no new information", "there is nothing new", "no facts were",
        "no facts to", "no facts found", "no facts can"}) {
    if (plain.starts_with(start)) return true;
  }
  return false;
}

bool IsPlaceholder(std::string_view text) {
  text = PythonStrip(text);
  for (const std::string_view name : {"{existing_facts}", "{messages}", "{max_facts}", "{summary}",
                                      "{existing_entities}", "{max_tokens}", "{today}"}) {
    if (text.find(name) != kNone) return true;
  }
  if (text.size() < 2) return false;
  const char first = text.front();
  const char last = text.back();
  const std::string_view inside = text.substr(1, text.size() - 2);
  const bool is_bracketed = (first == '{' && last == '}') || (first == '[' && last == ']') ||
                            (first == '<' && last == '>');
  return is_bracketed && inside.find_first_of("{}[]<>") == kNone;
}

PromptEcho::PromptEcho(std::string_view prompt) {
  // Tags and quotes part the examples in it.
  std::string parted;
  for (const char c : UnescapeEntities(prompt)) {
    parted += c == '<' || c == '>' || c == '"' ? '\n' : c;
  }
  ForEachLine(parted, [this](std::string_view line) {
    const std::string_view item = ListItem(line);
    std::string key = FactKey(item.empty() ? line : item);
    // A name or a word of the prompt may well be what the answer is about.
    if (key.find(' ') != std::string::npos) items_.insert(std::move(key));
  });
  ForEachLine(prompt, [this](std::string_view line) {
    // Between the placeholders, which the answer has filled in.
    while (!line.empty()) {
      const std::size_t brace = line.find_first_of("{}");
      const std::string_view piece = PythonStrip(line.substr(0, brace));
      if (piece.size() >= kMinEchoedLine) lines_.emplace_back(piece);
      if (brace == kNone) break;
      line.remove_prefix(brace + 1);
    }
  });
}

bool PromptEcho::HasItem(std::string_view item) const {
  return IsPlaceholder(item) || items_.contains(FactKey(item));
}

bool PromptEcho::HasLine(std::string_view text) const {
  return std::any_of(lines_.begin(), lines_.end(),
                     [text](const std::string& line) { return text.find(line) != kNone; });
}

}  // namespace memoryd
