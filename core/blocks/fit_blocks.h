// Makes what blocks say fit beside the messages.
#ifndef MEMORYD_CORE_BLOCKS_FIT_BLOCKS_H_
#define MEMORYD_CORE_BLOCKS_FIT_BLOCKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/blocks/memory_text.h"
#include "core/model/session_config.h"
#include "core/tokens/token_counter.h"

namespace memoryd {

struct FitRequest {
  BlockSession session;
  CountingRules counting;
  std::int64_t token_limit = 0;
  bool highest_first = true;        // Priorities are cut in this order.
  std::int64_t message_tokens = 0;  // Of the messages that a Get returns beside.
  // In the order of the configuration, with what each says.
  std::vector<std::shared_ptr<const Block>> blocks;
  std::vector<BlockContent> contents;
  std::shared_ptr<const TokenCounter> counter;  // Null: ByteTokenCounter().
  BlockDeadline deadline;
};

struct FitResult {
  std::vector<MemorySection> sections;       // Of the blocks, in order, for MemoryParts().
  std::int64_t tokens = 0;                   // What they count for, with what frames them.
  std::vector<std::int64_t> section_tokens;  // Of each of `sections`.
  std::vector<std::int64_t> uncut_tokens;    // The same before any was cut.
  // Names of the blocks that said something and were left out whole, or in part.
  std::vector<std::string> dropped;
  std::vector<std::string> truncated;
};

// Truncates blocks until messages and blocks are within the limit, or nothing is left that may be
// cut. Blocks of priority 0 are never cut. A block that fails to truncate itself is left out whole.
// `done` runs once, on the calling thread or that of the last truncation. INVALID_ARGUMENT for
// content that can't be counted.
//
// `llama-index`, as Memory.aget of 0.14.25: the lowest priority first, 1 before 2, equals in order;
// each is asked to shorten itself by what is over, also one that says nothing, and when that is not
// enough, all go whole in the same order. What follows counts the content of blocks alone.
//
// Else: the highest priority first, of equals the last; one that has shortened itself by too little
// is asked once more and then left out whole, before the next is cut.
void FitBlocks(FitRequest request, std::function<void(absl::StatusOr<FitResult>)> done);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_FIT_BLOCKS_H_
