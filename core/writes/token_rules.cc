#include "core/writes/token_rules.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/model/session_config.h"
#include "core/tokens/python_repr.h"
#include "core/tokens/token_counter.h"
#include "core/writes/incoming.h"

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

absl::StatusOr<TokenCounts> CountedByCaller(const IncomingItems& items) {
  TokenCounts counts;
  for (std::size_t i = 0; i < items.messages.size(); ++i) {
    const std::optional<std::int64_t>& given = items.messages[i].token_count;
    if (!given.has_value()) {
      return InvalidField(fmt::format("messages[{}].token_count", i),
                          "is required, since the session's tokenizer is `caller`");
    }
    counts.messages.push_back(*given);
  }
  for (const IncomingContent& content : items.contents) {
    const bool is_text = content.value.kind == CountedPart::Kind::kText;
    counts.contents.push_back(is_text ? kContentOverhead +
                                            static_cast<std::int64_t>(content.value.text.size() / 4)
                                      : kNamedContent);
  }
  return counts;
}

// Memory that each thread that counts takes without asking the budget.
constexpr std::size_t kUnaskedBytes = std::size_t{1} << 20;
// No byte of text makes TokenCounter::ScratchBytes() more.
constexpr std::size_t kMostScratchOfByte = 32;

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenCounter>> TokenRules::CounterOf(
    const CountingRules& rules) const {
  if (rules.tokenizer == "caller") return nullptr;
  return MakeTokenCounter(rules.tokenizer, vocabulary_directory_);
}

// What counting may take: no more than `cost`; or, with `memory`, what it will as long as something
// of `cost` is left.
class TokenRules::Effort {
 public:
  Effort(std::int64_t cost, MemoryBudget::Hold* memory) : cost_(cost), memory_(memory) {}

  // None when it would be too much.
  absl::StatusOr<std::optional<std::int64_t>> Count(const TokenCounter& counter,
                                                    std::string_view text) {
    if (memory_ == nullptr) return counter.CountWithin(text, cost_);
    if (cost_ <= 0) return std::nullopt;
    cost_ -= static_cast<std::int64_t>(text.size());
    const bool may_take_much = text.size() > kUnaskedBytes / kMostScratchOfByte;
    const std::size_t scratch = may_take_much ? counter.ScratchBytes(text) : 0;
    if (scratch <= kUnaskedBytes) return counter.Count(text);
    MEMORYD_RETURN_IF_ERROR(memory_->Grow(static_cast<std::int64_t>(scratch)));
    const std::int64_t tokens = counter.Count(text);
    memory_->Resize(memory_->bytes() - static_cast<std::int64_t>(scratch));
    return tokens;
  }
  // Whether so many bytes may be worked on before they are counted.
  bool MayPrepare(std::size_t bytes) {
    if (memory_ != nullptr) return cost_ > 0;
    cost_ -= static_cast<std::int64_t>(bytes);
    return cost_ >= 0;
  }

 private:
  std::int64_t cost_;
  MemoryBudget::Hold* const memory_;
};

absl::StatusOr<bool> TokenRules::CountWithin(const CountingRules& rules, const IncomingItems& items,
                                             std::int64_t cost, CountProgress& progress) const {
  Effort effort(cost, nullptr);
  return CountOn(rules, items, effort, progress);
}

absl::StatusOr<bool> TokenRules::CountNext(const CountingRules& rules, const IncomingItems& items,
                                           std::int64_t cost, MemoryBudget::Hold& memory,
                                           CountProgress& progress) const {
  Effort effort(cost, &memory);
  return CountOn(rules, items, effort, progress);
}

absl::StatusOr<bool> TokenRules::CountOn(const CountingRules& rules, const IncomingItems& items,
                                         Effort& effort, CountProgress& progress) const {
  TokenCounts& counts = progress.counts;
  if (items.count() == 0) return true;
  if (rules.tokenizer == "caller") {
    MEMORYD_ASSIGN_OR_RETURN(counts, CountedByCaller(items));
    return true;
  }
  counts.messages.reserve(items.messages.size());
  MEMORYD_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenCounter> counter,
                           MakeTokenCounter(rules.tokenizer, vocabulary_directory_));
  while (counts.messages.size() < items.messages.size()) {
    const IncomingMessage& message = items.messages[counts.messages.size()];
    for (; progress.steps <= 2 * message.parts.size(); ++progress.steps) {
      MEMORYD_ASSIGN_OR_RETURN(const std::optional<std::int64_t> tokens,
                               CountStep(rules, *counter, message, progress.steps, effort));
      if (!tokens.has_value()) return false;
      progress.tokens += *tokens;
    }
    counts.messages.push_back(std::exchange(progress.tokens, 0));
    progress.steps = 0;
  }
  while (counts.contents.size() < items.contents.size()) {
    const CountedPart& value = items.contents[counts.contents.size()].value;
    if (value.kind != CountedPart::Kind::kText) {
      counts.contents.push_back(kNamedContent);
      continue;
    }
    MEMORYD_ASSIGN_OR_RETURN(const std::optional<std::int64_t> tokens,
                             effort.Count(*counter, value.text));
    if (!tokens.has_value()) return false;
    counts.contents.push_back(kContentOverhead + *tokens);
  }
  return true;
}

absl::StatusOr<std::optional<std::int64_t>> TokenRules::CountStep(const CountingRules& rules,
                                                                  const TokenCounter& counter,
                                                                  const IncomingMessage& message,
                                                                  std::size_t step,
                                                                  Effort& effort) {
  const bool llama_index = rules.profile == Profile::kLlamaIndex;
  if (step == 0) {
    if (!llama_index) return kMessageOverhead;
    // An empty JSON object is falsy in Python, so it counts nothing.
    if (message.metadata_json.empty()) return 0;
    if (!effort.MayPrepare(message.metadata_json.size())) return std::nullopt;
    MEMORYD_ASSIGN_OR_RETURN(const std::string repr, PythonRepr(message.metadata_json));
    if (repr == "{}") return 0;
    return effort.Count(counter, repr);
  }
  const CountedPart& part = message.parts[(step - 1) / 2];
  const bool is_second = step % 2 == 0;
  if (IsMedia(part.kind)) {
    if (is_second) return 0;
    const std::int64_t estimate = MediaEstimate(rules, part.kind);
    return llama_index ? estimate : part.token_count.value_or(estimate);
  }
  if (llama_index && (is_second || part.kind != CountedPart::Kind::kText)) return 0;
  const std::string_view text = is_second ? part.second_text : part.text;
  if (text.empty()) return 0;
  return effort.Count(counter, text);
}

}  // namespace memoryd
