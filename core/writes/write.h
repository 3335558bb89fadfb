// A write on its way: what the caller asked for, and what became of it.
#ifndef MEMORYD_CORE_WRITES_WRITE_H_
#define MEMORYD_CORE_WRITES_WRITE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/blocks/fact_changes.h"
#include "core/calls/pending_calls.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/model/session_template.h"
#include "core/model/trace_context.h"
#include "core/model/usage_count.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_errors.h"
#include "core/storage/store.h"
#include "core/writes/command.h"
#include "core/writes/found_messages.h"
#include "core/writes/incoming.h"

namespace memoryd {

// A job that was not done when the Put that made it was answered.
struct OpenJob {
  JobKey job;
  JobState state = JobState::kOpen;  // Or kFailed.
  std::string error;                 // Of the latest attempt; empty for none.
};

// What a write did.
struct WriteResult {
  std::int64_t revision = 0;
  std::uint64_t generation = 0;
  std::vector<MessagePtr> messages;  // As stored, in the order of the request.
  std::vector<ContentPtr> contents;  // As stored, in the order of the request.
  std::uint64_t content_generation = 0;
  std::int64_t archived_count = 0;  // Put and Set: moved out of short-term memory.
  std::int64_t removed_active = 0;
  std::int64_t removed_archived = 0;
  std::int64_t removed_contents = 0;
  std::int64_t retired_facts = 0;  // DeleteMessage.
  // EndJob: the job, which was the next one of its block; RetryJob: the new one. 0: none.
  std::int64_t job_number = 0;
  std::vector<Fact> facts;   // UndoBlockChange: those that hold now.
  EditedFact edited_fact;    // EditFact.
  bool with_blocks = false;  // PublishStaged.
  SessionCounts removed;     // DeleteSession.
  SessionRow row;            // CreateSession, UpdateSession, PublishStaged: the row afterwards.
  std::shared_ptr<const SessionConfig> config;
};

// What a caller may not do where its credential is limited (docs/adr/0021). Such a caller adds no
// block with texts of its own to a session, and leaves those that are there as they are.
struct CallerLimits {
  // Of messages that it may write, change and take out, by their role as sent. Empty: any.
  std::function<bool(std::string_view role)> may_write;
  // A fact that the caller adds has at most this trust, and the caller changes no fact with more.
  double max_trust = 1;
};

// A command and what every write has.
struct WriteRequest {
  WriteCommand command;
  SessionKey key;
  std::shared_ptr<const CallerLimits> limits;  // Null: there are none.
  // The subject that the caller's credential is of; empty: any (docs/adr/0064). Then the session is
  // of that subject, or is made with it, or the write is refused.
  std::string subject = {};
  std::optional<std::int64_t> expected_revision;
  std::string request_id;   // Empty for none.
  std::string fingerprint;  // With a request_id: SHA-256 of the request, 32 bytes.
  std::size_t byte_size = 0;
  std::chrono::steady_clock::time_point deadline;
  // The reply on the wire; stored with the request_id. Must not depend on anything but its
  // argument. Null for a write whose reply nobody reads: an empty one is stored.
  std::string (*encode_reply)(const WriteResult& result) = nullptr;
  // Puts and Sets: how long to wait for the jobs they make; with `feed: before_reply` until each
  // has been tried once, up to the deadline.
  std::optional<std::chrono::steady_clock::time_point> wait_until;
  // Adds to a serialized reply the jobs that are open, and what models took meanwhile for those
  // that it has waited for.
  std::string (*with_open_jobs)(std::string reply, const std::vector<OpenJob>& jobs,
                                const Usage& usage) = nullptr;
  // Of the call; the jobs that the write makes go on with it. Null for none.
  TracePtr trace = nullptr;

  // Added by the write path.
  //
  // What the operator says of sessions, where the command takes that: asked when the write makes a
  // session, or gives one a template, and not before. Null: there are no templates, and nothing
  // goes by itself. Outlives the write.
  const SessionDefaultsLookup* defaults_of = nullptr;
  // What the command's CommandTraits::finds asks for; none where nobody had to look.
  std::optional<FoundMessages> found;

  std::size_t RowCount() const { return ItemsOf(command).count(); }
};

// The answer to a write that was done, or had nothing to do.
struct WriteReply {
  // What it did; nothing where the reply is a recorded one, or came when jobs had been waited for.
  WriteResult result;
  // By WriteRequest::encode_reply; empty without one.
  std::string encoded;
  bool replayed = false;  // It is that of the first request with this request_id.
};

// The reply to a request that is recorded already. ALREADY_EXISTS `REQUEST_ID_REUSED` when it was
// another request; FAILED_PRECONDITION `REQUEST_FORGOTTEN` when the record was forgotten.
absl::StatusOr<std::string> ReplyOf(const RequestRecord& record, std::string_view fingerprint);

// A write that was admitted. Whoever finishes it first decides the reply; the committer that works
// on it owns all other fields while it does.
class Write : public PendingCall {
 public:
  // Called exactly once, from any thread.
  using Done = std::function<void(absl::StatusOr<WriteReply>)>;

  Write(WriteRequest asked, std::shared_ptr<CachedSession> target, Done done)
      : PendingCall(asked.deadline),
        request(std::move(asked)),
        session(std::move(target)),
        done_(std::move(done)) {}

  // Claims the write for a batch; false when it has expired.
  bool BeginCommit() {
    State expected = State::kQueued;
    return state_.compare_exchange_strong(expected, State::kCommitting) ||
           expected == State::kCommitting;
  }
  // After a batch that provably did not store it.
  void BackToQueue() {
    State expected = State::kCommitting;
    state_.compare_exchange_strong(expected, State::kQueued);
  }
  void Finish(absl::StatusOr<WriteReply> reply) {
    if (state_.exchange(State::kFinished) != State::kFinished) done_(std::move(reply));
  }
  bool finished() const { return state_.load() == State::kFinished; }
  // Whether the reply comes when the jobs have been tried.
  bool WaitsForJobs() const {
    return request.with_open_jobs != nullptr &&
           (feed_before_reply || request.wait_until.has_value());
  }

  // Ends a call that can't be answered in time: nothing was stored if it still waits for a batch.
  void Expire() override;

  const WriteRequest request;
  const std::shared_ptr<CachedSession> session;
  // Of what the command brings, made under `counted_with`.
  TokenCounts token_counts;
  std::optional<CountingRules> counted_with;
  // Under which rules a write is to be counted that a draft has sent back.
  std::optional<CountingRules> count_with;
  // The jobs that it makes, and whether the session wants them tried before the reply.
  std::vector<JobKey> jobs;
  bool feed_before_reply = false;
  // Counts what models take for these jobs; null where the reply does not wait for them.
  std::shared_ptr<UsageCount> usage;
  // The session was loaded after the write came: a refusal decided since then is no fault of an
  // old cache.
  bool fresh = false;
  // Committed in a batch without other writes to its session, to tell whose fault a conflict is.
  bool alone = false;

 private:
  enum class State { kQueued, kCommitting, kFinished };
  std::atomic<State> state_{State::kQueued};
  const Done done_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_WRITES_WRITE_H_
