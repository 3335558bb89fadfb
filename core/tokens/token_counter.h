#ifndef MEMORYD_CORE_TOKENS_TOKEN_COUNTER_H_
#define MEMORYD_CORE_TOKENS_TOKEN_COUNTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace memoryd {

// Counts tokens the way one tokenizer does. Immutable, so any thread may call it.
class TokenCounter {
 public:
  virtual ~TokenCounter() = default;

  // The number of tokens in `text`, 0 when empty. `text` is UTF-8 of less than 4 GiB; a byte that
  // is not UTF-8 counts as some symbol would, at least one token in a run of them.
  virtual std::int64_t Count(std::string_view text) const = 0;
};

// The counter called `name`:
//   cl100k_base, o200k_base  What tiktoken's encode(text, allowed_special="all") gives: the text of
//                            a special token, such as <|endoftext|>, is one token. Needs the file
//                            `<vocabulary_dir>/<name>.tiktoken`.
//   whitespace               Words, as Python's len(text.split()).
// Any thread may call this. A vocabulary is read the first time it is asked for, which takes some
// tens of milliseconds, and then shared by all counters of the process.
// InvalidArgument for another name; FailedPrecondition, which names the file and the remedy, when
// the vocabulary is missing or is not the one its name promises.
absl::StatusOr<std::shared_ptr<const TokenCounter>> MakeTokenCounter(
    std::string_view name, const std::string& vocabulary_dir);

}  // namespace memoryd

#endif  // MEMORYD_CORE_TOKENS_TOKEN_COUNTER_H_
