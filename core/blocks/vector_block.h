// A block that finds what was said before by what it means.
#ifndef MEMORYD_CORE_BLOCKS_VECTOR_BLOCK_H_
#define MEMORYD_CORE_BLOCKS_VECTOR_BLOCK_H_

#include <memory>
#include <string>

#include "core/blocks/block_traits.h"

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
std::shared_ptr<const BlockTraits> ReadVectorTraits(const BlockSettings& settings,
                                                    const std::string& field, Profile profile);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_VECTOR_BLOCK_H_
