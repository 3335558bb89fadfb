// Get.
#ifndef MEMORYD_CORE_READS_CONTEXT_READER_H_
#define MEMORYD_CORE_READS_CONTEXT_READER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/base/wall_clock.h"
#include "core/calls/calls.h"
#include "core/model/body_reader.h"
#include "core/model/session.h"
#include "core/model/trace_context.h"
#include "core/reads/context.h"
#include "core/sessions/session_blocks.h"
#include "core/sessions/session_reader.h"
#include "core/sessions/session_touches.h"
#include "core/writes/token_rules.h"

namespace memoryd {

// Any thread may call; nothing waits.
class ContextReader {
 public:
  // What is pointed to outlives it.
  struct Options {
    Calls* calls = nullptr;
    SessionReader* reader = nullptr;
    SessionTouches* touches = nullptr;
    const SessionBlocks* blocks = nullptr;
    const TokenRules* token_rules = nullptr;
    const BodyReader* bodies = nullptr;
    // How long a Get waits for a block, and at most half the time it has.
    std::chrono::milliseconds block_timeout{2000};
    const WallClock* clock = nullptr;
  };

  explicit ContextReader(const Options& options) : options_(options) {}

  // `trace`: of the call; blocks tell it to whom they ask.
  void Get(const SessionKey& key, ContextQuestion question, CallEnd end,
           std::function<void(absl::StatusOr<Context>)> done, TracePtr trace);

 private:
  // The answer where it is at hand: of a session that is in memory and this server's alone, has no
  // blocks and is small.
  std::optional<Context> AtHand(CachedSession& session, bool explain);
  void ComposeContext(const std::shared_ptr<CachedSession>& session,
                      const ContextQuestion& question, const TracePtr& trace,
                      const std::shared_ptr<ReadCall<Context>>& read);
  // What a Get returns of a session without blocks.
  Context ComposeLive(const Session& session, bool explain) const;

  const Options options_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_READS_CONTEXT_READER_H_
