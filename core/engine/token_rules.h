// What a message counts for.
#ifndef MEMORYD_CORE_ENGINE_TOKEN_RULES_H_
#define MEMORYD_CORE_ENGINE_TOKEN_RULES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/engine/write.h"
#include "core/model/session_config.h"
#include "core/tokens/token_counter.h"

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

  // The counts of a request's messages and contents. INVALID_ARGUMENT naming the message when the
  // tokenizer is `caller` and a message brings no count; FAILED_PRECONDITION when a vocabulary is
  // missing.
  absl::StatusOr<TokenCounts> Count(const CountingRules& rules, const WriteRequest& request) const;

  // Null for the tokenizer `caller`.
  absl::StatusOr<std::shared_ptr<const TokenCounter>> CounterOf(const CountingRules& rules) const;

 private:
  const std::string vocabulary_directory_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_ENGINE_TOKEN_RULES_H_
