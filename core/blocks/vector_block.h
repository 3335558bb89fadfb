// A block that finds what was said before by what it means.
#ifndef MEMORYD_CORE_BLOCKS_VECTOR_BLOCK_H_
#define MEMORYD_CORE_BLOCKS_VECTOR_BLOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/blocks/block_kinds.h"
#include "core/blocks/model_calls.h"

namespace memoryd {

// Options: `embedder`, `top_k` (2), `retrieval_context_window` (5), `similarity_threshold` (none),
// `filter` (values of an entry's metadata), `format_template` with {text},
// `accept_short_term_memory` (true), `ttl` (none), `template`. The state is an EmbeddingState that
// says what made the entries, and is asked what a query means. By another embedder, or model,
// entries are made anew (docs/adr/0049-entries-made-anew.md).
//
// `llama-index` does what VectorMemoryBlock of llama-index-core 0.14.25 does over a store that
// ranks as its SimpleVectorStore: an entry for each job, a line for each message that has text;
// its metadata is {"session_id": ...}. The query is the text of the last messages. Entries below
// the threshold are left out after top_k, as by its SimilarityPostprocessor.
//
// Else an entry for each turn, in pieces if it is long, with the metadata of its messages; the most
// similar comes first, and each is a part of its own.
absl::StatusOr<std::shared_ptr<const Block>> MakeVectorBlock(const BlockSettings& settings,
                                                             const std::string& field,
                                                             Profile profile,
                                                             const BlockEnvironment& environment);

// The embedder of a `vector` block. `settings` are a session's, and so were checked.
ModelName EntryEmbedder(const BlockSettings& settings);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_VECTOR_BLOCK_H_
