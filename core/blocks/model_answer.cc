#include "core/blocks/model_answer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_replace.h"
#include "core/blocks/answer_text.h"
#include "core/blocks/block_text.h"
#include "core/blocks/fact_text.h"
#include "core/blocks/reasoning.h"
#include "core/llm/model.h"
#include "core/model/body_reader.h"

namespace memoryd {
namespace {

constexpr std::size_t kNone = std::string_view::npos;
// A shorter line of a prompt may well be said by chance.
constexpr std::size_t kMinEchoedLine = 40;
constexpr std::size_t kMaxApology = 600;

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
  return absl::StrReplaceAll(Lowercase(text), {{"\xE2\x80\x99", "'"}});
}

}  // namespace

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
