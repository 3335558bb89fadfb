// Why a Get returns what it returns: a pure function of what it was made of.
#ifndef MEMORYD_CORE_READS_EXPLAIN_H_
#define MEMORYD_CORE_READS_EXPLAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/message.h"
#include "core/sessions/session.h"

namespace memoryd {

// As memoryd.v1.LeftOutReason.
enum class LeftOutReason {
  kTokenLimit,
  kResultWithoutCall,
  kCallWithoutResult,
  kBeforeHuman,
  kExpired,
};

// Neighbours in short-term memory that were left out for one reason.
struct LeftOut {
  std::int64_t first_position = 0;
  std::int64_t last_position = 0;
  std::int64_t messages = 0;
  std::int64_t tokens = 0;
  LeftOutReason reason = LeftOutReason::kTokenLimit;

  friend bool operator==(const LeftOut&, const LeftOut&) = default;
};

// As memoryd.v1.BlockOutcome.
enum class BlockOutcome { kShown, kCut, kDropped, kEmpty, kMissing };

// As memoryd.v1.ExplainedBlock.
struct ExplainedBlock {
  std::string block;
  std::string kind;
  std::int32_t priority = 0;
  BlockOutcome outcome = BlockOutcome::kEmpty;
  std::int64_t tokens = 0;
  std::int64_t uncut_tokens = 0;
  std::string missing_reason;

  friend bool operator==(const ExplainedBlock&, const ExplainedBlock&) = default;
};

// As memoryd.v1.ContextExplanation.
struct Explanation {
  std::int64_t token_limit = 0;
  std::int64_t short_term_token_limit = 0;
  std::int64_t token_flush_size = 0;
  std::int64_t watermark = 0;
  std::int64_t opening_position = 0;
  std::int64_t archived_count = 0;
  std::int64_t message_tokens = 0;
  std::int64_t pinned_tokens = 0;
  std::int64_t block_tokens = 0;
  std::vector<ExplainedBlock> blocks;
  std::vector<LeftOut> left_out;
};

// Of `shown`, the messages that Compose() made of `live`, which is `session` without what has
// expired. Blocks are the caller's to add. Cost grows with what is active.
Explanation Explain(const Session& session, const Session& live,
                    const std::vector<MessagePtr>& shown);

}  // namespace memoryd

#endif  // MEMORYD_CORE_READS_EXPLAIN_H_
