// A block that keeps facts which a chat model finds in the messages.
#ifndef MEMORYD_CORE_BLOCKS_FACT_BLOCK_H_
#define MEMORYD_CORE_BLOCKS_FACT_BLOCK_H_

#include <memory>

#include "core/blocks/block.h"
#include "core/blocks/fact_traits.h"

namespace memoryd {

// Options: `model`, `max_facts` (50), `facts` (those it begins with), `extraction_prompt`,
// `condense_prompt`, `accept_short_term_memory` (true), `template`.
//
// `llama-index` does what FactExtractionMemoryBlock of llama-index-core 0.14.25 does: the model is
// given the messages and then the prompt, with {existing_facts} and {max_facts} filled in and
// stripped; new facts are appended; more than max_facts are condensed by a second call, whose
// answer replaces them unless it is empty.
//
// Else the prompts may hold {messages} too, the messages in one text, or {dated_messages}, with
// their times; without either that text stands before the prompt. {today} and {time_zone} are
// filled in. Where the session has an embedder, a fact that says in other words what is known is
// not kept beside it: see same_facts.h, and the option `same_fact_similarity`, 0.5 to 1 (0.92).
// While the embedder does not answer, it is. Facts: see fact_state.h. An answer that makes no sense
// takes nothing away and is counted; while condensing fails, there may be half as many facts again
// as max_facts.
std::shared_ptr<const Block> MakeFactBlock(const BlockSettings& settings,
                                           const std::shared_ptr<const FactTraits>& traits,
                                           const BlockEnvironment& environment);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_FACT_BLOCK_H_
