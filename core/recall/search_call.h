// One search of a session on its way.
#ifndef MEMORYD_CORE_RECALL_SEARCH_CALL_H_
#define MEMORYD_CORE_RECALL_SEARCH_CALL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/wall_clock.h"
#include "core/blocks/other_sessions.h"
#include "core/calls/calls.h"
#include "core/llm/model.h"
#include "core/model/job.h"
#include "core/recall/recall.h"
#include "core/recall/search_queue.h"
#include "core/recall/session_search.h"
#include "core/sessions/session_blocks.h"
#include "core/sessions/session_info.h"
#include "core/sessions/session_reader.h"
#include "core/sessions/session_touches.h"
#include "core/writes/token_rules.h"
#include "core/writes/write_queue.h"

namespace memoryd {

// What searches work with. It and what it points to outlives them.
struct SearchEnvironment {
  Calls* calls = nullptr;
  SessionReader* reader = nullptr;
  SessionTouches* touches = nullptr;
  const SessionBlocks* blocks = nullptr;
  const TokenRules* token_rules = nullptr;
  Recall* recall = nullptr;
  SearchQueue* queue = nullptr;
  OtherSessions* others = nullptr;
  ModelDirectory* models = nullptr;
  WriteQueue* writes = nullptr;
  // How long a Query waits for an embedder, and at most half the time it has.
  std::chrono::milliseconds block_timeout{2000};
  const WallClock* clock = nullptr;
};

// The session is confirmed, its index brought up in steps, and then Next() says how it goes on. One
// step of a call runs at a time. When the session was cut meanwhile the call begins anew, a few
// times.
class SearchCall : public std::enable_shared_from_this<SearchCall> {
 public:
  virtual ~SearchCall() = default;
  SearchCall(const SearchCall&) = delete;
  SearchCall& operator=(const SearchCall&) = delete;

  void Begin();

 protected:
  SearchCall(const SearchEnvironment* environment, std::shared_ptr<PendingRead> read,
             const SessionKey& key);

  virtual bool NeedsIndex(const SessionInfo& info) const = 0;
  // Answers, or has something asked and is called again, by QueueStep(), when that has answered.
  // The index has caught up with `info` where it is needed. `embeddings`: the session's block
  // kRetrievalBlock; null for none.
  virtual void Next(const SessionInfo& info, const BlockState* embeddings) = 0;
  // Whether the session counts as read.
  virtual bool NotesRead() const { return true; }

  const SearchEnvironment& environment() const { return environment_; }
  const std::shared_ptr<CachedSession>& session() const { return session_; }
  // Null where none was needed.
  const SessionSearch::Index& index() const { return index_; }
  // What is gone by now is left out rather than looked for anew.
  bool accept_missing() const { return tries_left_ == 0; }

  void QueueStep();
  // Has a searcher do the work, behind other steps of the session.
  void Queue(std::function<void()> work);
  // Ends the call with an error, or begins anew where the session was cut.
  void Fail(const absl::Status& status);
  // What the session's blocks know; null for nothing.
  absl::StatusOr<std::shared_ptr<const KnownTexts>> KnownTextsOfBlocks() const;

 private:
  void Step();

  const SearchEnvironment& environment_;
  const std::shared_ptr<PendingRead> read_;
  const std::shared_ptr<CachedSession> session_;
  SessionSearch::Index index_;
  int tries_left_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RECALL_SEARCH_CALL_H_
