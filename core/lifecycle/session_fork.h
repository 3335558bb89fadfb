// ForkSession: a session written again under another id, piece by piece.
#ifndef MEMORYD_CORE_LIFECYCLE_SESSION_FORK_H_
#define MEMORYD_CORE_LIFECYCLE_SESSION_FORK_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/random_source.h"
#include "core/blocks/embedding_state.h"
#include "core/model/body_reader.h"
#include "core/sessions/session.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_loader.h"
#include "core/storage/store.h"
#include "core/writes/write.h"
#include "core/writes/write_queue.h"

namespace memoryd {

struct ForkRequest {
  SessionKey source;
  SessionKey target;  // Of the same tenant.
  // Messages from here on are left out; by position or by id, at most one of them.
  std::optional<std::int64_t> up_to_position;
  std::string up_to_message_id;
  std::optional<std::int64_t> expected_revision;  // Of the source.
  std::string request_id;                         // Of the target; empty for none.
  std::string fingerprint;
  // The subject that the caller's credential is of; empty: any. A source of another is unknown.
  std::string subject = {};
  std::chrono::steady_clock::time_point deadline;
  std::string (*encode_reply)(const WriteResult& result) = nullptr;
};

// As Write::Done gives it.
struct ForkReply {
  std::string reply;
  bool replayed = false;
};

// One fork on its way (docs/adr/0027). Each step is a read on a reader or a write through the
// committers, and only one of them is under way at a time.
class SessionFork : public std::enable_shared_from_this<SessionFork> {
 public:
  // What is pointed to outlives it.
  struct Options {
    Store* store = nullptr;
    const BodyReader* bodies = nullptr;
    // Has a reader run the task. Must not block, nor refuse.
    std::function<void(std::function<void()>)> run;
    // Asked before the write that makes the copy. False: nobody waits for it any more.
    std::function<bool()> begin_write;
    SessionLoader* loader = nullptr;
    WriteQueue* writes = nullptr;
    RandomSource* random = nullptr;
    // Whether the caller has been answered already.
    std::function<bool()> answered;
    std::function<void(absl::StatusOr<ForkReply>)> done;
  };

  SessionFork(Options options, ForkRequest request, std::shared_ptr<CachedSession> source)
      : options_(std::move(options)), request_(std::move(request)), source_(std::move(source)) {}

  void Start();

 private:
  // Rows of the source that are read from the store; those in memory need not be.
  struct Part {
    enum class Kind { kMessages, kContents, kEntries };
    Kind kind = Kind::kMessages;
    std::uint64_t from = 0;  // Their generation, and that of the copies.
    std::uint64_t to = 0;
    PositionRange range;
  };

  // What the store has recorded for the request, if anything; else goes on with `otherwise`.
  void AnswerRecorded(std::function<void()> otherwise);
  void Begin();
  // Reads what to copy off the source as it is now.
  absl::Status Plan();
  // OK when the call may copy the source.
  absl::Status CheckSource() const;
  // OK when no block would show the copy to itself.
  absl::Status CheckBlocks() const;
  // Of the messages before `end`.
  void PlanMessages(std::int64_t end);
  void PlanContents();
  // What the copy is counted as, so that one for which there is no room is refused before it is
  // made. How much of what was archived belongs to a part of the session is not known yet.
  void PlanUsage(bool whole);
  absl::Status PlanBlocks();
  // The first position that is not copied.
  absl::StatusOr<std::int64_t> EndOfCopy() const;
  // A state whose embeddings are being made anew, for a copy, which makes its own.
  std::string EmbeddingsOfCopy(EmbeddingState embeddings) const;
  // The jobs of the source that are open in `state`, each to be done by the copy as well.
  absl::Status PlanJobs(const BlockState& state);
  void CopyNext();
  absl::StatusOr<StagedRows> NextRows();
  void Publish();
  // Whether what was copied is what the source held when the copy began.
  bool SourceStands() const;
  bool HasWhatIsCopied(const Session& now) const;
  void Submit(WriteCommand step, std::function<void(absl::Status)> then);
  // Ends the call, after what is staged has been given up.
  void Fail(absl::Status status);
  void Drop(std::function<void()> then);

  const Options options_;
  const ForkRequest request_;
  const std::shared_ptr<CachedSession> source_;
  int tries_ = 0;
  // The source as the copy shows it.
  Session base_;
  std::shared_ptr<StagedSession> staged_;
  std::vector<MessagePtr> in_memory_;
  std::size_t next_in_memory_ = 0;
  std::vector<Part> parts_;
  std::size_t next_part_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_LIFECYCLE_SESSION_FORK_H_
