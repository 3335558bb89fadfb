#ifndef MEMORYD_CORE_TOKENS_TOKEN_COUNTER_H_
#define MEMORYD_CORE_TOKENS_TOKEN_COUNTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

  // The same where counting costs no more than `cost`, which it takes off; none, and `cost` is
  // anything, where it would cost more. The unit is some 50 ns at the most, and ordinary text costs
  // about one for 8 bytes. Finds out within `cost`, however long the text is.
  virtual std::optional<std::int64_t> CountWithin(std::string_view text, std::int64_t& cost) const;

  // At most how much memory Count() takes meanwhile. A fraction of its time.
  virtual std::size_t ScratchBytes(std::string_view /*text*/) const { return 0; }

 protected:
  // What bytes cost that are only looked at.
  static std::int64_t ScanCost(std::string_view text) {
    constexpr std::size_t kBytes = 16;
    return static_cast<std::int64_t>(text.size() / kBytes) + 1;
  }
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
