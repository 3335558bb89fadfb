// The way of a write from its call to a committer and back.
#ifndef MEMORYD_CORE_WRITES_WRITE_PATH_H_
#define MEMORYD_CORE_WRITES_WRITE_PATH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/base/random_source.h"
#include "core/base/wall_clock.h"
#include "core/calls/calls.h"
#include "core/model/body_reader.h"
#include "core/model/session_template.h"
#include "core/sessions/session_blocks.h"
#include "core/sessions/session_loader.h"
#include "core/sessions/session_reader.h"
#include "core/sessions/session_usage.h"
#include "core/storage/store.h"
#include "core/writes/committed_jobs.h"
#include "core/writes/committer.h"
#include "core/writes/quotas.h"
#include "core/writes/token_counting.h"
#include "core/writes/token_rules.h"
#include "core/writes/write.h"
#include "core/writes/write_queue.h"

namespace memoryd {

// A write is admitted, what it names is found, its session loaded, its blocks checked and its
// tokens counted; then the committer that owns the session decides. Any thread may call.
class WritePath final : public WriteQueue, private UndecidedWrites {
 public:
  // What is pointed to outlives the write path.
  struct Options {
    Store* store = nullptr;
    const BodyReader* bodies = nullptr;
    MemoryBudget* memory = nullptr;
    Calls* calls = nullptr;
    SessionCache* cache = nullptr;
    SessionLoader* loader = nullptr;
    SessionReader* reader = nullptr;
    const SessionBlocks* blocks = nullptr;
    const TokenRules* token_rules = nullptr;
    TokenCounting* counting = nullptr;
    CommittedJobs* jobs = nullptr;
    SessionUsage* usage = nullptr;
    Quotas* quotas = nullptr;  // Null: no tenant has one.
    // What the operator says of sessions; may be empty.
    const SessionDefaultsLookup* defaults_of = nullptr;
    // Threads that commit, at least 1; each owns a share of the sessions.
    int committers = 1;
    // Large writes have one more, so that others do not wait behind them.
    bool large_writes_apart = false;
    std::int64_t max_active_bytes = kAllActive;
    const WallClock* clock = nullptr;
    RandomSource* random = nullptr;
  };

  explicit WritePath(Options options);
  // Commits what is queued.
  ~WritePath() override;
  WritePath(const WritePath&) = delete;
  WritePath& operator=(const WritePath&) = delete;

  // For an UpdateMessage or DeleteMessage the message is found first, for an UpdateContent or
  // DeleteContent the content, for an EditFact the evidence. NOT_FOUND `SESSION_NOT_FOUND`,
  // `MESSAGE_NOT_FOUND` or `CONTENT_NOT_FOUND`, FAILED_PRECONDITION `TOOL_PAIR`.
  void Submit(WriteRequest request, Write::Done done) override;

  // Commits what is queued, and takes nothing more.
  void Stop() { committers_.clear(); }

 private:
  // Submits a write that names nothing, or for which that has been found.
  void SubmitFound(WriteRequest request, Write::Done done);
  // Finds the message that the write names and submits it; anew when it has changed by then.
  void FindAndSubmit(const std::shared_ptr<const WriteRequest>& request, const Write::Done& done,
                     int tries);
  absl::StatusOr<Admission::Place> Admit(const WriteRequest& request);
  // See AdmitInTime().
  absl::Status CheckTime(const WriteRequest& request);
  // A write that was admitted; `place` is given back when it is gone.
  std::shared_ptr<Write> Begin(WriteRequest request, Admission::Place place, Write::Done done);
  // OK when the blocks that the session would have after this write can be made.
  absl::Status CheckBlocks(const Write& write) const;
  // What the write is to be counted with, as far as that is known.
  static std::optional<CountingRules> CountingRulesOf(const Write& write);
  // Counts ahead of the committer: at once where that is cheap, since others wait for this thread.
  void CountAndEnqueue(std::shared_ptr<Write> write);
  // Goes on with the counting where nobody else waits, then enqueues the write.
  void CountApart(const std::shared_ptr<Write>& write, CountingRules rules, CountProgress progress);
  // The index of the committer for a write of a session that none owns.
  std::size_t CommitterFor(const WriteRequest& request) const;
  void Enqueue(std::shared_ptr<Write> write);
  // Archives the oldest messages of the write's session, a piece at a time, until it can be held
  // whole, and enqueues the write then.
  void ArchiveOldest(std::shared_ptr<Write> write);
  void ArchivePiece(const std::shared_ptr<Write>& write);
  void Answer(const std::shared_ptr<Write>& write,
              const std::optional<SessionDraft::Decision>& otherwise);
  // Replies, once the jobs that the write made have ended where it waits for them.
  void Reply(const Write& write, WriteReply reply, const Write::Done& done);

  void Reload(std::shared_ptr<Write> write) override;
  void ReadUsage(std::shared_ptr<Write> write) override;
  void Count(std::shared_ptr<Write> write) override;
  void LookUp(std::shared_ptr<Write> write,
              std::optional<SessionDraft::Decision> otherwise) override;

  const Options options_;
  std::vector<std::unique_ptr<Committer>> committers_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_WRITE_PATH_H_
