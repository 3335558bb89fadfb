// What a block knows, for whoever looks at it.
#ifndef MEMORYD_CORE_BLOCKS_BLOCK_KNOWLEDGE_H_
#define MEMORYD_CORE_BLOCKS_BLOCK_KNOWLEDGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "core/blocks/embedding_state.h"
#include "core/blocks/entity_block.h"
#include "core/blocks/fact_state.h"
#include "core/blocks/summary_block.h"

namespace memoryd {

// Entries are read apart, by pages.
struct KnownEntries {
  std::int64_t count = 0;
  EmbeddingSource source = {};
  std::optional<NextEmbeddings> next = std::nullopt;
  std::int64_t next_entry = 1;  // The number that the next entry gets.
};

// Of kRetrievalBlock.
struct KnownEmbeddings {
  EmbeddingState state;
  // Of the session's messages: of the first, and that which the next one gets.
  std::int64_t first_position = 0;
  std::int64_t next_position = 0;
};

// As the worker returned it.
struct WorkerState {
  std::string bytes;
};

struct BlockKnowledge {
  // The form that the block's kind shows it in; several may share one. In `llama-index` a fact has
  // only its text, and there is no history.
  std::variant<std::monostate, FactState, SummaryState, EntityState, KnownEntries, WorkerState,
               KnownEmbeddings>
      of_kind;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_BLOCK_KNOWLEDGE_H_
