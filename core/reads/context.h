// What a Get returns.
#ifndef MEMORYD_CORE_READS_CONTEXT_H_
#define MEMORYD_CORE_READS_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/blocks/block.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session_config.h"
#include "core/reads/explain.h"
#include "core/storage/store.h"

namespace memoryd {

// What is asked of a Get besides the session.
struct ContextQuestion {
  // What the user is about to say, for blocks to choose by; "" is something.
  std::optional<std::string> input = {};
  bool explain = false;  // Whether Context::explanation is wanted.
};

// A block that could not answer, and why, in capitals.
struct MissingBlock {
  std::string block;
  std::string reason;
};

// What a Get returns.
struct Context {
  std::vector<MessagePtr> messages;
  std::int64_t token_count = 0;
  std::int64_t limit = 0;
  std::int64_t over_limit_tokens = 0;
  std::int64_t revision = 0;
  std::uint64_t generation = 0;
  // What blocks say: messages before the others, and parts to be put into one of them.
  std::vector<StoredMessage> block_messages;
  std::vector<BlockPart> memory;
  InsertMethod insert_method = InsertMethod::kSystem;
  std::vector<std::string> blocks_used;
  std::vector<std::string> blocks_dropped;
  std::vector<MissingBlock> missing_blocks;
  Usage usage;  // What models took for it.
  // Null where it is not wanted, or there is no session.
  std::shared_ptr<const Explanation> explanation;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_READS_CONTEXT_H_
