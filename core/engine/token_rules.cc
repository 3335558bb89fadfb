#include "core/engine/token_rules.h"

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/tokens/python_repr.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
namespace {

// Role and separators of a message in a chat prompt.
constexpr std::int64_t kMessageOverhead = 4;
// Tags around a content; tags and name of one that is not text.
constexpr std::int64_t kContentOverhead = 8;
constexpr std::int64_t kNamedContent = 16;

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

template <typename Count>
std::int64_t ContentTokens(const IncomingContent& content, const Count& count) {
  return content.value.kind == CountedPart::Kind::kText
             ? kContentOverhead + count(content.value.text)
             : kNamedContent;
}

absl::StatusOr<TokenCounts> CountedByCaller(const WriteRequest& request) {
  TokenCounts counts;
  for (std::size_t i = 0; i < request.messages.size(); ++i) {
    const std::optional<std::int64_t>& given = request.messages[i].token_count;
    if (!given.has_value()) {
      return InvalidField(fmt::format("messages[{}].token_count", i),
                          "is required, since the session's tokenizer is `caller`");
    }
    counts.messages.push_back(*given);
  }
  for (const IncomingContent& content : request.contents) {
    counts.contents.push_back(ContentTokens(
        content, [](std::string_view text) { return static_cast<std::int64_t>(text.size() / 4); }));
  }
  return counts;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenCounter>> TokenRules::CounterOf(
    const CountingRules& rules) const {
  if (rules.tokenizer == "caller") return nullptr;
  return MakeTokenCounter(rules.tokenizer, vocabulary_directory_);
}

absl::StatusOr<TokenCounts> TokenRules::Count(const CountingRules& rules,
                                              const WriteRequest& request) const {
  TokenCounts counts;
  if (request.RowCount() == 0) return counts;
  if (rules.tokenizer == "caller") return CountedByCaller(request);
  counts.messages.reserve(request.messages.size());
  MEMORYD_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenCounter> counter,
                           MakeTokenCounter(rules.tokenizer, vocabulary_directory_));
  for (const IncomingMessage& message : request.messages) {
    if (rules.profile == Profile::kLlamaIndex) {
      MEMORYD_ASSIGN_OR_RETURN(const std::int64_t tokens,
                               CountLlamaIndex(rules, *counter, message));
      counts.messages.push_back(tokens);
    } else {
      counts.messages.push_back(CountDefault(rules, *counter, message));
    }
  }
  for (const IncomingContent& content : request.contents) {
    counts.contents.push_back(
        ContentTokens(content, [&counter](std::string_view text) { return counter->Count(text); }));
  }
  return counts;
}

}  // namespace memoryd
