// What blocks of kind `session` do: one session shows another and hands messages on to it.
#ifndef MEMORYD_CORE_LIFECYCLE_ATTACHED_SESSIONS_H_
#define MEMORYD_CORE_LIFECYCLE_ATTACHED_SESSIONS_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/blocks/block.h"
#include "core/blocks/other_sessions.h"
#include "core/calls/calls.h"
#include "core/sessions/session_blocks.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_loader.h"
#include "core/writes/write.h"
#include "core/writes/write_queue.h"

namespace memoryd {

// Stored messages that are put to another session.
struct HandedOn {
  std::string source_session_id;
  std::string job_id;
  std::span<const BlockMessage> messages;
};

// Fills in the messages of `write`, with where they come from, and a request_id that is the job's.
using HandOnEncoder = std::function<absl::Status(const HandedOn& from, WriteRequest& write)>;

class AttachedSessions final : public OtherSessions {
 public:
  // What is pointed to outlives it.
  struct Options {
    SessionCache* cache = nullptr;
    SessionLoader* loader = nullptr;
    Calls* calls = nullptr;
    const SessionBlocks* blocks = nullptr;
    WriteQueue* writes = nullptr;
    HandOnEncoder encode;
  };

  explicit AttachedSessions(Options options) : options_(std::move(options)) {}

  // The caller keeps all that is pointed to alive until `done` is gone.
  void Show(const SessionKey& other, RenderRequest request,
            Block::Done<BlockContent> done) override;
  void ShowStable(const SessionKey& other, RenderRequest request,
                  Block::Done<BlockContent> done) override;
  void HandOn(const SessionKey& other, FeedRequest request, Block::Done<FeedResult> done) override;

 private:
  struct Handing;
  class Showing;

  void Show(const SessionKey& other, RenderRequest request, bool stable_only,
            Block::Done<BlockContent> done);
  // In this order: what is erased together, the sources first, is put nowhere afterwards.
  void ConfirmOther(const std::shared_ptr<Handing>& call);
  void ConfirmSource(const std::shared_ptr<Handing>& call);
  void Put(const std::shared_ptr<Handing>& call);

  const Options options_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LIFECYCLE_ATTACHED_SESSIONS_H_
