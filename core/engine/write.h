// A write on its way: what the caller asked for, and what became of it.
#ifndef MEMORYD_CORE_ENGINE_WRITE_H_
#define MEMORYD_CORE_ENGINE_WRITE_H_

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
#include "core/base/error.h"
#include "core/engine/pending_calls.h"
#include "core/engine/session_cache.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/model/session_config.h"

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

// A message as it arrived. The views point into memory that the write keeps alive.
struct IncomingMessage {
  Message message;        // Without position, token count and ingest time.
  std::string_view role;  // As sent.
  std::vector<CountedPart> parts;
  std::string_view metadata_json;
  std::optional<std::int64_t> token_count;  // What the caller said.
};

enum class WriteKind { kPut, kSet, kReset, kCreateSession, kUpdateSession, kDeleteSession };
enum class ResetScope { kProfile, kMessages, kActive, kArchived, kEverything };

// What a write did, for the reply.
struct WriteResult {
  std::int64_t revision = 0;
  std::uint64_t generation = 0;
  std::vector<MessagePtr> messages;  // As stored, in the order of the request.
  std::int64_t archived_count = 0;   // Put and Set: moved out of short-term memory.
  std::int64_t removed_active = 0;
  std::int64_t removed_archived = 0;
  SessionRow row;  // CreateSession and UpdateSession: the row afterwards.
  std::shared_ptr<const SessionConfig> config;
};

struct WriteRequest {
  WriteKind kind = WriteKind::kPut;
  SessionKey key;
  std::vector<IncomingMessage> messages;
  std::optional<SessionSettings> settings;
  ResetScope scope = ResetScope::kProfile;
  std::optional<std::int64_t> expected_revision;
  std::string request_id;   // Empty for none.
  std::string fingerprint;  // With a request_id: SHA-256 of the request, 32 bytes.
  std::size_t byte_size = 0;
  std::chrono::steady_clock::time_point deadline;
  // The serialized reply; stored with the request_id. Must not depend on anything but its argument.
  std::string (*encode_reply)(const WriteResult& result) = nullptr;
  // What the views in `messages` point into.
  std::shared_ptr<const void> keep_alive;
};

// ALREADY_EXISTS for a request_id that came before with another request.
absl::Status RequestIdReused();

// UNAVAILABLE for a write that may or may not be stored.
absl::Status OutcomeUnknown();

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

  // Ends a call that can't be answered in time: nothing was stored if it still waits for a batch.
  void Expire() override;

  const WriteRequest request;
  const std::shared_ptr<CachedSession> session;
  // Token counts of request.messages, made under `counted_with`.
  std::vector<std::int64_t> token_counts;
  std::optional<CountingRules> counted_with;
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

#endif  // MEMORYD_CORE_ENGINE_WRITE_H_
