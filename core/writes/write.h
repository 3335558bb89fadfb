// A write on its way: what the caller asked for, and what became of it.
#ifndef MEMORYD_CORE_WRITES_WRITE_H_
#define MEMORYD_CORE_WRITES_WRITE_H_

#include <atomic>
#include <chrono>
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
#include "core/blocks/block.h"
#include "core/blocks/embedding_state.h"
#include "core/blocks/entry_log.h"
#include "core/blocks/fact_state.h"
#include "core/calls/pending_calls.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"
#include "core/model/session_template.h"
#include "core/model/trace_context.h"
#include "core/model/usage_count.h"
#include "core/sessions/oldest_messages.h"
#include "core/sessions/session_cache.h"
#include "core/sessions/session_errors.h"
#include "core/storage/store.h"

namespace memoryd {

// One part of a message as far as its tokens go.
struct CountedPart {
  enum class Kind {
    kText,
    kImage,
    kAudio,
    kVideo,
    kDocument,
    kToolCall,
    kToolResult,
    kThinking,
    kOther
  };
  Kind kind = Kind::kOther;
  std::string_view text;         // The text; a tool's name.
  std::string_view second_text;  // A tool's arguments or answer; a citation's other texts.
  std::optional<std::int64_t> token_count;  // Given by the caller for media.
};

// A job that was not done when the Put that made it was answered.
struct OpenJob {
  JobKey job;
  JobState state = JobState::kOpen;  // Or kFailed.
  std::string error;                 // Of the latest attempt; empty for none.
};

// A message as it arrived. The views point into memory that the write keeps alive.
struct IncomingMessage {
  MessageDraft message;   // Without position, token count and ingest time.
  std::string_view role;  // As sent.
  std::vector<CountedPart> parts;
  std::string_view metadata_json;
  std::optional<std::int64_t> token_count;  // What the caller said.
};

// A content as it arrived. The view points into memory that the write keeps alive.
struct IncomingContent {
  ContentDraft content;  // Without position, token count and ingest time.
  CountedPart value;
};

enum class WriteKind {
  kPut,
  kSet,
  kReset,
  kCreateSession,
  kUpdateSession,
  kDeleteSession,
  kForgetSession,
  kUpdateMessage,
  kDeleteMessage,
  kUpdateContent,
  kDeleteContent,
  kBeginStaged,
  kAddStaged,
  kPublishStaged,
  kDropStaged,
  kEndJob,
  kRetryJob,
  kUndoBlockChange,
  kEditFact,
  kSweep,
  kTakeOutEntries,
  kStoreUsage,
  kNoteEmbedder,
  kArchiveOldest
};
enum class ResetScope { kProfile, kMessages, kActive, kArchived, kEverything };

// The end of a job: what it changes.
struct JobOutcome {
  JobKey job;
  JobState state = JobState::kDone;
  std::string error;  // Of a job that failed.
  Usage usage;        // Of this attempt.
  // Of a job that is done: the state that it was fed in, null for none, and the one afterwards.
  std::shared_ptr<const BlockState> fed;
  std::string block_state;
  // The session's when the messages it was fed with were read.
  std::int64_t read_revision = 0;
  // Rows to be appended to the block's own, see FeedResult.
  std::vector<std::string> entries;
  std::vector<std::int64_t> entry_positions;
  std::vector<EntryMessages> entry_messages = {};
  // Of a job that embeds entries anew: it has come to those before this number.
  std::int64_t entries_to = 0;
};

// The stored messages or content that a write names, as it was found before the write was decided
// on.
struct FoundMessages {
  absl::Status status;           // Why there is none to be changed.
  std::uint64_t generation = 0;  // Of what was found.
  // Of the session as they were read.
  std::int64_t revision = 0;
  std::int64_t watermark = 0;
  std::int64_t next_position = 0;
  // Those that are named; for a DeleteMessage also what goes with it. Ascending.
  std::vector<MessagePtr> messages;
};

// A session that is written in pieces. Until it is published its row is a tombstone, and nobody
// sees it; what becomes of one that never is, see docs/adr/0027.
struct StagedSession {
  // As it will be published, but for revision, times and commit tag. The generations are chosen
  // when it is begun; all else counts when it is published.
  SessionRow row;
  SessionSettings settings;
  std::shared_ptr<const SessionConfig> config;
  // Under row.block_generation, fed by none of its jobs yet.
  std::vector<BlockState> blocks;
  struct OpenJob {
    std::string block;
    PositionRange range;
  };
  // Made when it is published, in this order.
  std::vector<OpenJob> jobs;
  // What the tenant stores more by it, as far as that is known.
  TenantUsage usage;
  bool with_blocks = false;  // For the reply.
  // The request's field that named it, for errors.
  std::string_view id_field = "new_session_id";
};

// A piece of it: rows as they are to be stored.
struct StagedRows {
  std::vector<MessagePtr> messages;
  std::vector<ContentPtr> contents;
  std::vector<BlockEntry> entries;
  std::size_t bytes = 0;  // Of the bodies.

  bool empty() const { return messages.empty() && contents.empty() && entries.empty(); }
};

// In the order of the request.
struct TokenCounts {
  std::vector<std::int64_t> messages;
  std::vector<std::int64_t> contents;
};

// How far a request's counting has come.
struct CountProgress {
  TokenCounts counts;  // Of the messages and contents that are done.
  // Of the next message: the steps that are done, see TokenRules, and their tokens.
  std::size_t steps = 0;
  std::int64_t tokens = 0;
};

// What a write did, for the reply.
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
  // kEndJob: the job, which was the next one of its block; kRetryJob: the new one. 0: none.
  std::int64_t job_number = 0;
  std::vector<Fact> facts;   // kUndoBlockChange: those that hold now.
  EditedFact edited_fact;    // kEditFact.
  bool with_blocks = false;  // kPublishStaged.
  SessionCounts removed;     // kDeleteSession.
  SessionRow row;            // CreateSession, UpdateSession, kPublishStaged: the row afterwards.
  std::shared_ptr<const SessionConfig> config;
};

// Items whose own time is over that go with one write, about.
inline constexpr std::size_t kExpiredAtOnce = 500;

// What the sweeper has found a session to be whose time has come.
struct SweepRequest {
  // Of the session as it was listed.
  std::uint64_t generation = 0;
  std::int64_t revision = 0;
  std::int64_t floor = 0;
  std::vector<std::int64_t> pinned;
  std::int64_t opening = 0;
  // Where that stands below the floor; 0: not known.
  std::int64_t opening_ingest_us = 0;
  std::int64_t expire_us = 0;
  // The archived messages that go, and the bytes of their bodies.
  LeavingMessages leaving;
  std::int64_t archived_bytes = 0;
  // Where what open jobs have still to feed begins.
  std::int64_t keep_from = kNothingToFeed;
  // There are more that go, or else when the first that stays was accepted; 0: nobody asks.
  bool more = false;
  std::int64_t next_ingest_us = 0;
  // Of a session with times of items: messages and contents whose time is over, ascending, and the
  // first time of the others; 0: none has one. Active messages, pinned ones too, only where the
  // session may not be held whole.
  std::vector<MessagePtr> expired_messages;
  std::vector<ContentPtr> expired_contents;
  std::int64_t next_expire_us = 0;
  // Of the session as it was listed, if it was looked at: what came behind since was not.
  std::int64_t watermark = 0;
  std::int64_t next_content = 0;
  // Before so long the session is not looked through for such items again.
  std::int64_t pause_us = 0;
};

// The oldest active messages of a session that can't be held whole, but for the pinned.
struct OldestActive {
  // Of the session as they were read.
  std::uint64_t generation = 0;
  std::int64_t revision = 0;
  std::vector<MessagePtr> messages;
};
// As many as are read at once, about.
inline constexpr std::int64_t kOldestBytes = std::int64_t{8} << 20;
inline constexpr std::int64_t kOldestRows = 10'000;

// What the sweeper has found of a block's entries that hold what is not to be said any more.
struct EntryRemoval {
  std::string block;
  // Of the session and its block as they were looked at.
  std::uint64_t message_generation = 0;
  std::uint64_t entry_generation = 0;
  EntryLog log;
  // The entries that go, and how many there are.
  std::vector<NumberRange> numbers;
  std::int64_t count = 0;
  // Messages to be fed once more: of entries that go because of some of their messages.
  std::vector<PositionRange> feed_again;
  // There are more that go.
  bool more = false;
  // Of a block with `ttl`: its next entry, and when the oldest message came of those that stay; 0:
  // none stays.
  bool by_age = false;
  std::int64_t next_entry = 0;
  std::int64_t oldest_us = 0;
  // Before so long the block is not looked at again.
  std::int64_t pause_us = 0;
};

// What a caller may not do where its credential is limited (docs/adr/0021). Such a caller adds no
// block with texts of its own to a session, and leaves those that are there as they are.
struct CallerLimits {
  // Of messages that it may write, change and take out, by their role as sent. Empty: any.
  std::function<bool(std::string_view role)> may_write;
  // A fact that the caller adds has at most this trust, and the caller changes no fact with more.
  double max_trust = 1;
};

struct WriteRequest {
  WriteKind kind = WriteKind::kPut;
  SessionKey key;
  std::vector<IncomingMessage> messages;
  std::vector<IncomingContent> contents;
  std::optional<SessionSettings> settings;
  // kPut, kCreateSession and kUpdateSession: the template that the caller names; empty: none. Then
  // `settings` have no field but `subject` and `time_zone`. For a Put into a session that exists,
  // the session must have a template of this name. An UpdateSession gives it to the session.
  std::string template_name;
  // Asked when the write makes a session, or gives one a template, and not before. Null: there are
  // no templates, and nothing goes by itself. Outlives the write.
  const SessionDefaultsLookup* defaults_of = nullptr;
  ResetScope scope = ResetScope::kProfile;
  // The message or content that a write updates or deletes, what it was found to be, and what
  // becomes of it: `edit` fills in `messages` or `contents`, for the stored one, and may be called
  // several times. kEditFact: `found` is the evidence, and `edit` says whether it is untrusted.
  std::string message_id;
  bool with_tool_messages = false;
  std::optional<FoundMessages> found;
  std::function<absl::Status(const FoundMessages& found, WriteRequest& write)> edit;
  std::optional<JobOutcome> job_outcome;  // kEndJob.
  std::optional<Job> job;                 // kRetryJob: the one that failed.
  // kSweep: the session goes if it has expired, else messages that its retention does not keep.
  std::optional<SweepRequest> sweep;
  // kArchiveOldest, and a kSweep of a session that may not be held whole.
  std::optional<OldestActive> oldest;
  // kTakeOutEntries: nothing is done where others have taken out entries of the block since.
  std::optional<EntryRemoval> entry_removal;
  // kNoteEmbedder: what answers for the session's embedder. If that is not what made the session's
  // embeddings, they are made anew.
  std::optional<EmbeddingSource> embedder;
  // kDeleteSession: nothing is done unless it is the session's; empty: whatever that is.
  // kForgetSession: a tombstone of this subject lets go of what it still keeps of its session, the
  // replies and what is staged under it; nothing is done where there is none.
  std::string subject;
  std::string block;        // kUndoBlockChange and kEditFact.
  std::int64_t change = 0;  // kUndoBlockChange: a number of the block's history.
  FactEdit fact_edit;       // kEditFact.
  std::string writer;       // kUndoBlockChange and kEditFact: the caller's credential.
  std::shared_ptr<const CallerLimits> limits;   // Null: there are none.
  std::shared_ptr<const StagedSession> staged;  // kBeginStaged and those that follow it.
  StagedRows staged_rows;                       // kAddStaged.
  std::optional<std::int64_t> expected_revision;
  // kPut: only into a session that is there, of this generation; ABORTED `SESSION_REPLACED`.
  std::optional<std::uint64_t> only_generation;
  std::string request_id;   // Empty for none.
  std::string fingerprint;  // With a request_id: SHA-256 of the request, 32 bytes.
  std::size_t byte_size = 0;
  std::chrono::steady_clock::time_point deadline;
  // The serialized reply; stored with the request_id. Must not depend on anything but its argument.
  std::string (*encode_reply)(const WriteResult& result) = nullptr;
  // Puts and Sets: how long to wait for the jobs they make; with `feed: before_reply` until each
  // has been tried once, up to the deadline.
  std::optional<std::chrono::steady_clock::time_point> wait_until;
  // Adds to a serialized reply the jobs that are open, and what models took meanwhile for those
  // that it has waited for.
  std::string (*with_open_jobs)(std::string reply, const std::vector<OpenJob>& jobs,
                                const Usage& usage) = nullptr;
  // What the views in `messages` point into.
  std::shared_ptr<const void> keep_alive;
  // Of the call; the jobs that the write makes go on with it. Null for none.
  TracePtr trace = nullptr;

  std::size_t RowCount() const { return messages.size() + contents.size(); }
};

// The reply to a request that is recorded already. ALREADY_EXISTS `REQUEST_ID_REUSED` when it was
// another request; FAILED_PRECONDITION `REQUEST_FORGOTTEN` when the record was forgotten.
absl::StatusOr<std::string> ReplyOf(const RequestRecord& record, std::string_view fingerprint);

// A write that was admitted. Whoever finishes it first decides the reply; the committer that works
// on it owns all other fields while it does.
class Write : public PendingCall {
 public:
  // `done(status, reply, replayed)` is called exactly once, from any thread.
  using Done = std::function<void(absl::Status, std::string, bool)>;

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
  void Finish(absl::Status status, std::string reply = {}, bool replayed = false) {
    if (state_.exchange(State::kFinished) != State::kFinished) {
      done_(std::move(status), std::move(reply), replayed);
    }
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
  // Token counts of request.messages and request.contents, made under `counted_with`.
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
