// What blocks say, as it stands in a message, and what it counts for: pure functions.
#ifndef MEMORYD_CORE_BLOCKS_MEMORY_TEXT_H_
#define MEMORYD_CORE_BLOCKS_MEMORY_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/blocks/block_options.h"
#include "core/model/session_config.h"
#include "core/tokens/token_counter.h"

namespace memoryd {

bool IsMedia(StoredPart::Kind kind);

// What one block says. `section` as Block::section().
struct MemorySection {
  std::string name;
  std::string section;
  BlockContent content;
};

// The parts that a Get puts ahead of a message's own, of the sections in the order given; none when
// no section has parts.
//
//   <memory>
//   <NAME1>
//   TEXT, a line for each part
//   </NAME1>
//   </memory>
//
// Media become parts of their own, between what comes before and after them.
//
// `llama-index` as llama-index-core 0.14.25 does it: names and texts stand as they are; what is
// around media loses the white space at its ends and goes if nothing is left; of media only those
// with a URL stay, made anew of the URL alone; other parts vanish. INVALID_ARGUMENT for a document
// whose URL has the suffix of neither a text nor a PDF, and for a URL without a scheme, which the
// library takes for a file.
//
// Else texts can't close a tag around them: where one reads as the tag of a section, of the whole,
// or of UpdateContext, its `<` is `&lt;`. Media stay as configured; JSON stands as text.
absl::StatusOr<std::vector<BlockPart>> MemoryParts(Profile profile,
                                                   std::span<const MemorySection> sections);

// The parts as text alone, a line for each: texts and JSON, of media what they are in brackets.
std::string PlainText(const BlockContent& content);

// Counts four bytes as a token: for sessions whose caller counts the tokens of his messages.
const TokenCounter& ByteTokenCounter();

// What sections[i] counts for, as one of them. `llama-index`: the content alone, as
// Memory._estimate_token_count does: texts, media by their estimates, messages by their texts,
// media and metadata; INVALID_ARGUMENT for parts that are none of this (`Invalid message type:
// <class 'list'>`). Else what MemoryParts() makes of it, and its messages.
absl::StatusOr<std::int64_t> SectionTokens(const CountingRules& rules, const TokenCounter& counter,
                                           std::span<const MemorySection> sections, std::size_t i);

// What a Get's reply grows by beyond the sections: in `llama-index` nothing; else the tags of the
// whole and a message around them, when any section has parts.
std::int64_t FrameTokens(const CountingRules& rules, const TokenCounter& counter,
                         std::span<const MemorySection> sections);

// The option `template` that every kind of block has: a section with `{name}` and `{content}`.
std::string SectionOption(BlockOptions& options);

// `content` without the parts of the lowest ranks, until what is left out counts at least `tokens`;
// empty when that takes all of it.
BlockContent WithoutLowestRanks(BlockContent content, std::int64_t tokens,
                                const TokenCounter& counter);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_MEMORY_TEXT_H_
