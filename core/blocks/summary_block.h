// A block that keeps a summary of what has left short-term memory.
#ifndef MEMORYD_CORE_BLOCKS_SUMMARY_BLOCK_H_
#define MEMORYD_CORE_BLOCKS_SUMMARY_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/blocks/block_traits.h"

namespace memoryd {

// Options: `model`, `max_tokens` (512), `prompt` with {summary}, {messages} or {dated_messages},
// {max_tokens}, {today} and {time_zone}, `accept_short_term_memory` (true), `template`.
//
// A model writes the summary anew, of the old one and of the messages. Messages whose summary came
// back empty or in a loop wait and are given to it again with the next ones.
std::shared_ptr<const BlockTraits> ReadSummaryTraits(const BlockSettings& settings,
                                                     const std::string& field, Profile profile);

struct SummaryState {
  std::string summary;
  std::string waiting;               // Messages, as a model reads them, that are not in it yet.
  std::vector<std::string> earlier;  // Summaries before this one, the latest last.
  std::string first_id, last_id;     // Of the messages that are in it or wait.
  std::int64_t messages = 0;         // How many these are.

  friend bool operator==(const SummaryState&, const SummaryState&) = default;

  std::string ToJson() const;
  // DATA_LOSS for what ToJson() did not write. "" is the empty state.
  static absl::StatusOr<SummaryState> FromJson(std::string_view json);
};

// The summary in a model's answer, at most `max_bytes` of whole sentences; "" when there is none.
std::string ReadSummary(std::string_view answer, std::size_t max_bytes);

// The longest beginning of `text` that ends with a sentence and has at most `max_bytes`, or "".
std::string_view Sentences(std::string_view text, std::size_t max_bytes);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_SUMMARY_BLOCK_H_
