// What a Get returns for a session with blocks.
#ifndef MEMORYD_CORE_READS_BLOCK_CONTEXT_H_
#define MEMORYD_CORE_READS_BLOCK_CONTEXT_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/model/body_reader.h"
#include "core/model/trace_context.h"
#include "core/reads/context.h"
#include "core/sessions/session.h"

namespace memoryd {

struct BlockContextRequest {
  SessionKey key;
  Session session;  // A copy: what the context is made from.
  std::shared_ptr<const BlockSet> blocks;
  // What the user is about to say; "" is something.
  std::optional<std::string> input;
  bool explain = false;  // Whether Context::explanation is wanted.
  // With `explain`: the session with what has expired; null where nothing has.
  std::shared_ptr<const Session> stored = nullptr;
  TracePtr trace = nullptr;  // Of the call; null for none.
  std::int64_t now_us = 0;   // Microseconds since the epoch.
  // For each block, and at most half the time left; one that needs longer is left out and named.
  std::chrono::milliseconds block_timeout{0};
  std::chrono::steady_clock::time_point deadline;
  const BodyReader* bodies = nullptr;
  std::shared_ptr<const TokenCounter> counter;  // Null where the caller counts.
  // Runs what takes long, away from the threads of models.
  std::function<void(std::function<void()>)> run;
};

// Why a block, or a model, could not answer, as in memoryd.v1.MissingBlock.
std::string MissingReason(const absl::Status& status);

// Asks the blocks, those with the highest priority number first: `llama-index` one after the other,
// as the library does, else all at a time. Then fits them into the token limit beside the messages.
// `done` runs once, on any thread. INVALID_ARGUMENT for what a block says and no library could
// return; other failures of blocks are named in the context.
void BuildBlockContext(BlockContextRequest request,
                       std::function<void(absl::StatusOr<Context>)> done);

}  // namespace memoryd

#endif  // MEMORYD_CORE_READS_BLOCK_CONTEXT_H_
