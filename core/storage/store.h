// The storage interface. Two implementations, one contract suite (tests/contract).
#ifndef MEMORYD_CORE_STORAGE_STORE_H_
#define MEMORYD_CORE_STORAGE_STORE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/message.h"
#include "core/model/session.h"

namespace memoryd {

// The reply to a request that carried a request_id.
struct RequestRecord {
  std::string request_id;
  std::string fingerprint;  // SHA-256 of the request, 32 bytes.
  std::string reply;        // Opaque to stores.
  std::int64_t create_us = 0;
};

// Positions [begin, end).
struct PositionRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Message rows of a generation with positions in [begin, end), to be purged behind. A generation
// may get several ranges over time, each with another end.
struct Garbage {
  std::uint64_t generation = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// All that one commit changes in one session; stored whole or not at all.
struct SessionChange {
  SessionKey key;
  // The revision that the stored row must have; 0: there must be no row.
  std::int64_t expected_revision = 0;
  // The row afterwards. `config` is written only if `write_config`.
  SessionRow row;
  bool write_config = false;
  // Appended under row.generation; positions ascending.
  std::vector<MessagePtr> messages;
  // Message rows of row.generation to delete now.
  std::optional<PositionRange> erase;
  // Message rows that nothing refers to from now on.
  std::optional<Garbage> garbage;
  std::vector<RequestRecord> requests;
};

enum class CommitOutcome {
  kCommitted,       // Durable.
  kRevisionLost,    // Not stored: the row has another revision.
  kMessageIdTaken,  // Not stored: a given message_id exists in this generation.
  kRequestIdTaken,  // Not stored: a request_id of this session is recorded already.
  kFailed,          // Not stored, for the reason in `status`.
  kUnknown,         // May or may not be stored: the connection broke and could not be settled.
};

struct CommitResult {
  CommitOutcome outcome = CommitOutcome::kFailed;
  absl::Status status;  // OK unless kFailed or kUnknown.
};

struct LoadedSession {
  SessionRow row;
  std::vector<MessagePtr> active;  // Pinned, then from the watermark on; empty for a tombstone.
};

struct SessionVersion {
  std::uint64_t generation = 0;
  std::int64_t revision = 0;
};

struct ListedSession {
  std::string session;
  SessionRow row;
};

struct PurgeLimits {
  std::int64_t now_us = 0;
  // Request records and tombstones older than this go.
  std::int64_t keep_us = 0;
  // The most rows to delete in this call.
  std::int64_t max_rows = 0;
};

// Where sessions are kept.
//
// Any thread may call any method at any time; a call blocks until done or until the store's own
// timeouts end it. Errors: UNAVAILABLE when the store can't be reached (nothing was read),
// RESOURCE_EXHAUSTED when it is full, DATA_LOSS for a row that can't be read back, INTERNAL for
// what should not happen.
class Store {
 public:
  virtual ~Store() = default;

  // Brings an empty or older schema up to date; safe with many servers at once. FAILED_PRECONDITION
  // when the schema is newer than this binary.
  virtual absl::Status Migrate() = 0;

  // Writes every change that can be written and says for each, in order, what became of it. A
  // change that can't be written never hurts another. Keys must differ. No transaction stays open
  // between two round trips.
  virtual std::vector<CommitResult> Commit(std::span<const SessionChange> changes) = 0;

  // The row and the active messages, consistent with each other, in one round trip; nullopt when
  // there is no row. A tombstone is returned as such.
  virtual absl::StatusOr<std::optional<LoadedSession>> LoadSession(const SessionKey& key) = 0;

  // Message rows of a generation in `range`, ascending, at most `max_messages` and, but for the
  // first, at most `max_bytes` of bodies.
  virtual absl::StatusOr<std::vector<MessagePtr>> ReadRange(const SessionKey& key,
                                                            std::uint64_t generation,
                                                            PositionRange range,
                                                            std::int64_t max_messages,
                                                            std::int64_t max_bytes) = 0;

  // For each key the stored version, nullopt when there is no row (or a tombstone). Reads what is
  // committed at some instant after the call began.
  virtual absl::StatusOr<std::vector<std::optional<SessionVersion>>> Revisions(
      std::span<const SessionKey> keys) = 0;

  // For each request_id of the session its record, if any.
  virtual absl::StatusOr<std::vector<std::optional<RequestRecord>>> FindRequests(
      const SessionKey& key, std::span<const std::string> request_ids) = 0;

  // The tenant's sessions without tombstones whose id is bytewise greater than `after`, ascending.
  virtual absl::StatusOr<std::vector<ListedSession>> ListSessions(std::string_view tenant,
                                                                  std::string_view after,
                                                                  std::int64_t max_sessions) = 0;

  // Deletes garbage, old request records and old tombstones in small steps; returns how many rows
  // went. Fewer than max_rows: nothing is left for now.
  virtual absl::StatusOr<std::int64_t> Purge(const PurgeLimits& limits) = 0;

  // OK when the store answers and takes writes. In exclusive coherence also checks that this
  // server still holds the store: FAILED_PRECONDITION when another one does.
  virtual absl::Status Ping() = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_STORE_H_
