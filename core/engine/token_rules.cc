#include "core/engine/token_rules.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tokens/python_repr.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
namespace {

// Role and separators of a message in a chat prompt.
constexpr std::int64_t kMessageOverhead = 4;

std::int64_t MediaEstimate(const CountingRules& rules, CountedPart::Kind kind) {
  switch (kind) {
    case CountedPart::Kind::kImage:
      return rules.image_token_count;
    case CountedPart::Kind::kAudio:
      return rules.audio_token_count;
    case CountedPart::Kind::kVideo:
      return rules.video_token_count;
    case CountedPart::Kind::kDocument:
      return rules.document_token_count;
    default:
      return 0;
  }
}

bool IsMedia(CountedPart::Kind kind) {
  return kind == CountedPart::Kind::kImage || kind == CountedPart::Kind::kAudio ||
         kind == CountedPart::Kind::kVideo || kind == CountedPart::Kind::kDocument;
}

absl::StatusOr<std::int64_t> CountLlamaIndex(const CountingRules& rules,
                                             const TokenCounter& counter,
                                             const IncomingMessage& message) {
  std::int64_t tokens = 0;
  // An empty JSON object is falsy in Python, so it counts nothing.
  if (!message.metadata_json.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(const std::string repr, PythonRepr(message.metadata_json));
    if (repr != "{}") tokens += counter.Count(repr);
  }
  for (const CountedPart& part : message.parts) {
    if (part.kind == CountedPart::Kind::kText) {
      tokens += counter.Count(part.text);
    } else {
      tokens += MediaEstimate(rules, part.kind);
    }
  }
  return tokens;
}

std::int64_t CountDefault(const CountingRules& rules, const TokenCounter& counter,
                          const IncomingMessage& message) {
  std::int64_t tokens = kMessageOverhead;
  for (const CountedPart& part : message.parts) {
    if (IsMedia(part.kind)) {
      tokens += part.token_count.value_or(MediaEstimate(rules, part.kind));
      continue;
    }
    tokens += counter.Count(part.text);
    if (!part.second_text.empty()) tokens += counter.Count(part.second_text);
  }
  return tokens;
}

}  // namespace

absl::StatusOr<std::vector<std::int64_t>> TokenRules::Count(
    const CountingRules& rules, const std::vector<IncomingMessage>& messages) const {
  std::vector<std::int64_t> counts;
  if (messages.empty()) return counts;
  counts.reserve(messages.size());
  if (rules.tokenizer == "caller") {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (!messages[i].token_count.has_value()) {
        return InvalidField(fmt::format("messages[{}].token_count", i),
                            "is required, since the session's tokenizer is `caller`");
      }
      counts.push_back(*messages[i].token_count);
    }
    return counts;
  }
  MEMORYD_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenCounter> counter,
                           MakeTokenCounter(rules.tokenizer, vocabulary_directory_));
  for (const IncomingMessage& message : messages) {
    if (rules.profile == Profile::kLlamaIndex) {
      MEMORYD_ASSIGN_OR_RETURN(const std::int64_t tokens,
                               CountLlamaIndex(rules, *counter, message));
      counts.push_back(tokens);
    } else {
      counts.push_back(CountDefault(rules, *counter, message));
    }
  }
  return counts;
}

}  // namespace memoryd
