// The kinds of blocks that there are.
#include <span>

#include "core/blocks/block_traits.h"
#include "core/blocks/entity_block.h"
#include "core/blocks/fact_traits.h"
#include "core/blocks/session_block.h"
#include "core/blocks/static_block.h"
#include "core/blocks/summary_block.h"
#include "core/blocks/vector_block.h"
#include "core/blocks/worker_block.h"

namespace memoryd {

// In a file of its own: a test that has a kind of its own links another table in its place.
std::span<const BlockKind> BlockKindTable() {
  static constexpr BlockKind kKinds[] = {
      {"entity", ReadEntityTraits},   {"fact-extraction", ReadFactTraits},
      {"session", ReadSessionTraits}, {"static", ReadStaticTraits},
      {"summary", ReadSummaryTraits}, {"vector", ReadVectorTraits},
      {"worker", ReadWorkerTraits},
  };
  return kKinds;
}

}  // namespace memoryd
