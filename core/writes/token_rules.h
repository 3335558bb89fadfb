// What a message counts for.
#ifndef MEMORYD_CORE_WRITES_TOKEN_RULES_H_
#define MEMORYD_CORE_WRITES_TOKEN_RULES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/model/session_config.h"
#include "core/tokens/token_counter.h"
#include "core/writes/incoming.h"

namespace memoryd {

// Counts messages and contents by a session's rules. Immutable; any thread.
//
// `default`: the tokens of every part (text, tool names, arguments and answers, reasoning,
// citations; estimates for media) plus 4 a message.
// `llama-index` (0.14.25, Memory._estimate_token_count): tokens of Python's str() of the metadata
// when it is not empty, tokens of each text part, estimates for media, nothing for other parts.
// Contents, in every profile: the tokens of text and JSON plus 8, as they stand in a context that
// UpdateContext makes, and 16 for images and bytes, which are only named there; with the tokenizer
// `caller` a token for four bytes.
class TokenRules {
 public:
  explicit TokenRules(std::string vocabulary_directory)
      : vocabulary_directory_(std::move(vocabulary_directory)) {}

  // What may be counted by a thread that others wait for: some 0.2 ms at the most. That is enough
  // for 4 KiB in any language, and mostly for 32 KiB of English.
  static constexpr std::int64_t kCheapCost = 4608;

  // Counts messages and contents, from where `progress` is and as long as that costs no
  // more than `cost` (TokenCounter::CountWithin) in all; true once all are counted.
  // INVALID_ARGUMENT naming the message when the tokenizer is `caller` and a message brings no
  // count; FAILED_PRECONDITION when a vocabulary is missing.
  absl::StatusOr<bool> CountWithin(const CountingRules& rules, const IncomingItems& items,
                                   std::int64_t cost, CountProgress& progress) const;

  // The same for a thread of its own: the next text may cost what it will, and further ones are
  // counted until `cost` is spent. Takes from `memory`, and gives back, what counting takes.
  // RESOURCE_EXHAUSTED `MEMORY_SHORT` where there is not enough.
  absl::StatusOr<bool> CountNext(const CountingRules& rules, const IncomingItems& items,
                                 std::int64_t cost, MemoryBudget::Hold& memory,
                                 CountProgress& progress) const;

  // Null for the tokenizer `caller`.
  absl::StatusOr<std::shared_ptr<const TokenCounter>> CounterOf(const CountingRules& rules) const;

 private:
  class Effort;

  absl::StatusOr<bool> CountOn(const CountingRules& rules, const IncomingItems& items,
                               Effort& effort, CountProgress& progress) const;
  // What a message's step counts: its overhead or metadata, then the first and second text of each
  // part. None when that would be too much.
  static absl::StatusOr<std::optional<std::int64_t>> CountStep(const CountingRules& rules,
                                                               const TokenCounter& counter,
                                                               const IncomingMessage& message,
                                                               std::size_t step, Effort& effort);

  const std::string vocabulary_directory_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_TOKEN_RULES_H_
