// Blocks of the agent's own, which run in its process.
#ifndef MEMORYD_CORE_BLOCKS_WORKER_BLOCKS_H_
#define MEMORYD_CORE_BLOCKS_WORKER_BLOCKS_H_

#include <cstdint>
#include <string>

#include "core/blocks/block.h"

namespace memoryd {

// Which block of which worker, and how the session configures it. The tenant is the session's.
struct WorkerBlockName {
  std::string worker;
  std::string block;
  std::string options_json;
};

// Every method may be called from any thread and returns at once; `done` runs exactly once, on the
// calling or another thread, shortly after the deadline at the latest, and must not block. Errors:
//   UNAVAILABLE          `WORKER_ELSEWHERE`: no such worker is attached to this server;
//                        `WORKER_GONE`: it went before it answered
//   FAILED_PRECONDITION  `WORKER_LACKS_BLOCK`: it is attached and serves no such block
//   RESOURCE_EXHAUSTED   too many calls wait for it, or what is sent or answered is too large
//   DEADLINE_EXCEEDED    no answer in time
//   DATA_LOSS            an answer that is not what the protocol says
// and what the worker itself says, with the reason `WORKER_FAILED`. What the worker says that
// models took for an answer is added to the request's `usage`, where there is one.
class WorkerBlocks {
 public:
  template <typename T>
  using Done = Block::Done<T>;

  virtual ~WorkerBlocks() = default;

  // A block that takes no messages keeps its state.
  virtual void Put(const WorkerBlockName& block, FeedRequest request, Done<FeedResult> done) = 0;
  virtual void Get(const WorkerBlockName& block, RenderRequest request,
                   Done<BlockContent> done) = 0;
  // `content` shorter by about `tokens`; empty from a block that can't truncate.
  virtual void Truncate(const WorkerBlockName& block, const BlockSession& session,
                        BlockContent content, std::int64_t tokens, BlockDeadline deadline,
                        Done<BlockContent> done) = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_BLOCKS_WORKER_BLOCKS_H_
