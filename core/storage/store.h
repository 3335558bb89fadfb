// The storage interface. Two implementations, one contract suite (tests/contract).
#ifndef MEMORYD_CORE_STORAGE_STORE_H_
#define MEMORYD_CORE_STORAGE_STORE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/model/job.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/storage/item_store.h"

namespace memoryd {

// The reply to a request that carried a request_id.
struct RequestRecord {
  std::string request_id;
  std::string fingerprint;  // SHA-256 of the request, 32 bytes. Empty: the request is forgotten.
  std::string reply;        // Opaque to stores.
  std::int64_t create_us = 0;
};

// Positions [begin, end).
struct PositionRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct RowSize {
  std::int64_t position = 0;
  std::int64_t token_count = 0;
  std::int64_t bytes = 0;  // Of the body.
};

// Rows of a generation with positions in [begin, end), to be purged behind. A generation may get
// several ranges over time, each with another end.
struct Garbage {
  std::uint64_t generation = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// A row of a block's own, in the form of a message; `generation` and `row->position` are its key.
struct BlockEntry {
  std::uint64_t generation = 0;
  MessagePtr row;
};

// Rows of contents, or of a block's own.
struct EntryRange {
  std::uint64_t generation = 0;
  PositionRange positions;
};

// How a job of the changed session ended; `key.session` is not read.
struct JobEnd {
  JobKey key;
  JobState state = JobState::kDone;
  std::string error;  // Empty: the stored one, of an earlier attempt, stays.
  Usage usage;        // Added to the row's.
};

// All that one commit changes in one session; stored whole or not at all.
struct SessionChange {
  SessionKey key;
  // The revision that the stored row must have; 0: there must be no row.
  std::int64_t expected_revision = 0;
  // The row afterwards. `config` and `subject` are written only if `write_config`.
  SessionRow row;
  bool write_config = false;
  // Whether `row.expire_us`, and `row.drop_us` with `row.has_timed_items`, are written: most
  // commits leave them as they are, and what TouchSessions() has raised meanwhile too.
  bool write_expire_us = false;
  bool write_drop_us = false;
  // The row differs from the stored one in the columns that IsAppend() names alone. Stores write no
  // other.
  bool appends_only = false;
  // Appended under row.generation; positions ascending.
  std::vector<MessagePtr> messages;
  // Message rows of row.generation to delete now; they do not overlap.
  std::vector<PositionRange> erase;
  // Entries and contents to delete now; they do not overlap, and none of them is in `entries` or
  // `contents`.
  std::vector<EntryRange> erased_entries;
  // Message rows of row.generation whose role, token count, tool ids and body are written anew, by
  // their positions. None of them is in `messages` or `erase`.
  std::vector<MessagePtr> replaced;
  // The same of row.content_generation.
  std::vector<ContentPtr> replaced_contents;
  // Appended under row.content_generation; positions ascending.
  std::vector<ContentPtr> contents;
  // Appended under the given generations, see BlockState::entry_generation.
  std::vector<BlockEntry> entries;
  // Written whole, over what stands under row.block_generation, if anything. Names differ.
  std::vector<BlockState> blocks;
  // Appended under row.block_generation, whatever their keys say of session and generation. They
  // are due at once; lease_until_us is read as a duration from now. Both by the store's clock.
  std::vector<Job> jobs;
  // Jobs that end with this change, and are nobody's from then on. What was not open before the
  // change is left as it is.
  std::vector<JobEnd> ended_jobs;
  // All open jobs of this block generation become kCancelled, those of `jobs` and `ended_jobs`
  // excepted; 0: none.
  std::uint64_t cancel_jobs_of = 0;
  // Rows that nothing refers to from now on; several ranges of a generation have different ends.
  // For a block generation the range says nothing: all its block and job rows go.
  std::vector<Garbage> garbage;
  // The session's request records that were made before this time, in microseconds since the epoch,
  // lose fingerprint and reply, purged behind. The records stay. 0: none.
  std::int64_t forget_requests_before_us = 0;
  std::vector<RequestRecord> requests;
};

enum class CommitOutcome {
  kCommitted,       // Durable.
  kRevisionLost,    // Not stored: the row has another revision.
  kMessageIdTaken,  // Not stored: a given message_id or content_id exists in its generation.
  kRequestIdTaken,  // Not stored: a request_id of this session is recorded already.
  kFailed,          // Not stored, for the reason in `status`.
  kUnknown,         // May or may not be stored: the connection broke and could not be settled.
};

struct CommitResult {
  CommitOutcome outcome = CommitOutcome::kFailed;
  absl::Status status;  // OK unless kFailed or kUnknown.
  // The store's answer was lost, and `outcome` is what could be found out afterwards.
  bool in_doubt = false;
};

struct LoadedSession {
  SessionRow row;
  // Pinned, then the one at row.opening, then from the watermark on; empty for a tombstone.
  std::vector<MessagePtr> active;
  std::vector<BlockState> blocks;  // Of row.block_generation, by name; empty for a tombstone.
  // How much the active messages are, where that is more than was asked for: `active` is empty then
  // and none of their bodies was read.
  std::optional<std::int64_t> too_large = {};
};

// Active messages however many bytes they are.
inline constexpr std::int64_t kAllActive = std::numeric_limits<std::int64_t>::max();

struct SessionVersion {
  std::uint64_t generation = 0;
  std::int64_t revision = 0;
};

struct ListedSession {
  std::string session;
  SessionRow row;
};

// What a list of sessions brings at the most.
struct SessionListLimits {
  std::int64_t max_sessions = 0;
  // Bytes of configurations. One session is listed however large its configuration is.
  std::int64_t max_bytes = std::int64_t{1} << 20;
  // Otherwise configurations are not read: those of the rows are empty.
  bool with_configs = true;
  // Only sessions whose ids begin with this; empty: all.
  std::string_view prefix = {};
};

// Bytewise behind every id that begins with `prefix`, and behind no other: in the characters that
// are the last, more than an id has bytes.
inline std::string BehindPrefix(std::string_view prefix) {
  std::string behind(prefix);
  for (int i = 0; i < 65; ++i) behind += "\xF4\x8F\xBF\xBF";
  return behind;
}

// Where a list of the latest changed sessions goes on: behind this one.
struct LatestPlace {
  std::int64_t update_us = std::numeric_limits<std::int64_t>::max();
  std::string session;
};

struct SessionPage {
  std::vector<ListedSession> sessions;
  bool more = false;  // There are further ones, unless `max_sessions` was 0.
};

// A session that the sweeper has to look at. A configuration of more than kSmallConfigBytes is not
// read: the row's is empty.
struct DueSession {
  SessionKey key;
  SessionRow row;
};

inline constexpr std::int64_t kSmallConfigBytes = 256;

// A session that was read: it expires no sooner than this.
struct SessionTouch {
  SessionKey key;
  std::uint64_t generation = 0;
  std::int64_t expire_us = 0;
};

// What a tenant has stored, tombstones and what waits to be purged left out.
struct TenantUsage {
  std::int64_t sessions = 0;
  std::int64_t messages = 0;  // And contents.
  std::int64_t bytes = 0;     // Of their bodies, and of the sessions' configurations.

  friend bool operator==(const TenantUsage&, const TenantUsage&) = default;
};

// What a session that is there counts for its tenant.
inline TenantUsage StoredUsage(const SessionRow& row) {
  return {1, row.active_count + row.archived_count + row.content_count,
          row.message_bytes + row.content_bytes + static_cast<std::int64_t>(row.config.size())};
}

// What is left of purged rows where no table shows them.
struct PurgedTraces {
  // Nothing is left in files that the server writes by itself. False while somebody reads these.
  bool removed = true;
  // Where bytes may be that nobody but the store's operator can remove, in words for him.
  std::string_view left_elsewhere;
};

// What one call has purged of a session.
struct SessionPurge {
  std::int64_t rows = 0;
  // There is no garbage of the session, and it has no record left to forget.
  bool done = false;
};

// Who claims jobs, and how many.
struct ClaimRequest {
  // Random and not 0; marks the jobs as this claimer's.
  std::uint64_t lease = 0;
  // By the store's clock, from some moment of the call on.
  std::int64_t lease_us = 0;
  std::int64_t max_jobs = 0;
  // Takes jobs under other leases that have not run out too: their holders are known to be gone.
  bool take_over = false;
  // Jobs to be left to others, should there be any; at most kMaxSkippedJobs. Asked on the calling
  // thread; empty: none.
  std::function<bool(const JobKey&)> skip = {};
};

inline constexpr std::int64_t kMaxSkippedJobs = 256;

// Which jobs of a session to list.
struct JobFilter {
  std::uint64_t generation = 0;  // The session's block_generation.
  std::optional<JobState> state;
  // Only jobs behind this block and number, in the order of (block, number).
  std::string after_block;
  std::int64_t after_number = 0;
  std::int64_t max_jobs = 0;
};

struct JobCounts {
  std::int64_t open = 0;
  std::int64_t failed = 0;
  // Since the oldest open job was made, at least 0; 0 when there is none.
  std::int64_t oldest_open_us = 0;
};

struct PurgeLimits {
  std::int64_t now_us = 0;
  // Request records, tombstones and jobs that ended, older than this, go.
  std::int64_t keep_us = 0;
  // The most rows to delete in this call.
  std::int64_t max_rows = 0;
};

// What survives when the store's process is killed or its machine is lost.
enum class Durability {
  kNone,        // What is acknowledged may be lost by a crash.
  kLocal,       // It survives a crash of the store's machine, not the loss of that machine.
  kReplicated,  // It is on another machine as well before it is acknowledged.
};

// What a store is, as far as it can tell by itself.
struct StoreInfo {
  std::string_view kind;  // The scheme of its URL.
  std::int64_t schema_version = 0;
  Durability durability = Durability::kNone;
  // What PostgreSQL has planned anew for this server, since it had no name.
  std::int64_t unnamed_statements = 0;
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
  // when the schema is newer than this binary and does not say that it can work on it.
  virtual absl::Status Migrate() = 0;

  // Writes every change that can be written and says for each, in order, what became of it. A
  // change that can't be written never hurts another. Keys must differ. No transaction stays open
  // between two round trips.
  virtual std::vector<CommitResult> Commit(std::span<const SessionChange> changes) = 0;

  // The row, the active messages and the block states, consistent with each other, in one round
  // trip; nullopt when there is no row. A tombstone is returned as such. No active message is read
  // where all of them are more than `max_active_bytes`: those of their bodies and
  // kActiveMessageBytes for each.
  virtual absl::StatusOr<std::optional<LoadedSession>> LoadSession(
      const SessionKey& key, std::int64_t max_active_bytes) = 0;

  // Rows of a generation (of messages, contents or entries) in `range`, ascending, at most
  // `max_messages` and, but for the first, at most `max_bytes` of bodies.
  virtual absl::StatusOr<std::vector<MessagePtr>> ReadRange(const SessionKey& key,
                                                            std::uint64_t generation,
                                                            PositionRange range,
                                                            std::int64_t max_messages,
                                                            std::int64_t max_bytes) = 0;

  // The same from the range's end: descending, at most `max_messages` and, but for the first, at
  // most `max_bytes` of bodies. Takes as long as what it returns, however long the range is.
  virtual absl::StatusOr<std::vector<MessagePtr>> ReadNewest(const SessionKey& key,
                                                             std::uint64_t generation,
                                                             PositionRange range,
                                                             std::int64_t max_messages,
                                                             std::int64_t max_bytes) = 0;

  // Rows of a generation at `positions`, which ascend; what is not there is left out.
  // FAILED_PRECONDITION `REPLY_TOO_LARGE` when their bodies exceed `max_bytes`.
  virtual absl::StatusOr<std::vector<MessagePtr>> ReadPositions(
      const SessionKey& key, std::uint64_t generation, std::span<const std::int64_t> positions,
      std::int64_t max_bytes) = 0;

  // Where the rows of a generation stand that were given one of these ids, ascending.
  virtual absl::StatusOr<std::vector<std::int64_t>> FindPositions(
      const SessionKey& key, std::uint64_t generation,
      std::span<const std::string> message_ids) = 0;

  // The size of each row of a generation in `range`, descending, at most `max_rows`.
  virtual absl::StatusOr<std::vector<RowSize>> ReadSizes(const SessionKey& key,
                                                         std::uint64_t generation,
                                                         PositionRange range,
                                                         std::int64_t max_rows) = 0;

  // For each key the stored version, nullopt when there is no row (or a tombstone). Reads what is
  // committed at some instant after the call began.
  virtual absl::StatusOr<std::vector<std::optional<SessionVersion>>> Revisions(
      std::span<const SessionKey> keys) = 0;

  // For each request_id of the session its record, if any. A record that is returned is as durable
  // as a commit that was answered.
  virtual absl::StatusOr<std::vector<std::optional<RequestRecord>>> FindRequests(
      const SessionKey& key, std::span<const std::string> request_ids) = 0;

  // The tenant's sessions without tombstones whose id is bytewise greater than `after`, ascending.
  virtual absl::StatusOr<SessionPage> ListSessions(std::string_view tenant, std::string_view after,
                                                   const SessionListLimits& limits) = 0;

  // The same of one subject, which is not empty; with `tombstones` also those that have kept it.
  virtual absl::StatusOr<SessionPage> ListSubject(std::string_view tenant, std::string_view subject,
                                                  std::string_view after,
                                                  const SessionListLimits& limits,
                                                  bool tombstones) = 0;

  // The same without tombstones, by their `update_us`, the latest first, and of equal ones by their
  // ids. Takes as long as the subject has sessions.
  virtual absl::StatusOr<SessionPage> ListLatest(std::string_view tenant, std::string_view subject,
                                                 const LatestPlace& after,
                                                 const SessionListLimits& limits) = 0;

  // How many request records of the session are neither forgotten nor to be.
  virtual absl::StatusOr<std::int64_t> CountRequests(const SessionKey& key) = 0;

  // Takes as long as the tenant has sessions.
  virtual absl::StatusOr<TenantUsage> ReadUsage(std::string_view tenant) = 0;

  // Leases open jobs that are due, nobody's, and the first of their block (number = done + 1 of the
  // session's block_generation), those first that have been due for the longest, and counts an
  // attempt for each. A job is handed to one claimer at a time, however many ask; who asks beside
  // others may get fewer than there are. A lease that has run out is nobody's.
  virtual absl::StatusOr<std::vector<Job>> ClaimJobs(const ClaimRequest& request) = 0;

  // Prolongs every lease of `lease` on an open job of `jobs` to `lease_us` from now, also one that
  // has run out and that nobody else has taken.
  virtual absl::Status RenewJobs(std::uint64_t lease, std::span<const JobKey> jobs,
                                 std::int64_t lease_us) = 0;

  // Gives an open job that `lease` holds back, due again in `delay_us` (ten minutes at most), with
  // the attempt's error, unless that is empty, and its usage added; nothing when another holds it
  // by now, or nobody. Without `begun` the attempt is taken back.
  virtual absl::Status ReleaseJob(std::uint64_t lease, const JobKey& job, std::int64_t delay_us,
                                  std::string_view error, const Usage& usage, bool begun) = 0;

  // Jobs of a session by block, bytewise, and number.
  virtual absl::StatusOr<std::vector<Job>> ListJobs(const SessionKey& key,
                                                    const JobFilter& filter) = 0;

  // nullopt when there is no such job.
  virtual absl::StatusOr<std::optional<Job>> FindJob(const JobKey& key) = 0;

  // Of all tenants.
  virtual absl::StatusOr<JobCounts> CountJobs() = 0;

  // Forgets records, and deletes garbage, old records, old jobs and old tombstones, in small steps;
  // returns how many rows went. Fewer than max_rows: nothing is left for now.
  virtual absl::StatusOr<std::int64_t> Purge(const PurgeLimits& limits) = 0;

  // Sessions of all tenants, tombstones left out, that expire, or have messages to be looked at, at
  // or before `now_us`: of each kind those that are due the longest, at most `max_sessions`. One
  // that is of both kinds may be listed twice.
  virtual absl::StatusOr<std::vector<DueSession>> ListDueSessions(std::int64_t now_us,
                                                                  std::int64_t max_sessions) = 0;

  // Raises the time at which sessions expire, of those that are still of their generation, expire
  // some time and not as late. No revision rises. Keys must differ.
  virtual absl::Status TouchSessions(std::span<const SessionTouch> touches) = 0;

  // Ids of the tenant's sessions that have garbage, or records to forget, bytewise greater than
  // `after`, ascending.
  virtual absl::StatusOr<std::vector<std::string>> ListGarbage(std::string_view tenant,
                                                               std::string_view after,
                                                               std::int64_t max_sessions) = 0;

  // Deletes what the garbage of a session names and forgets its records, at most `max_rows` rows,
  // as Purge() does.
  virtual absl::StatusOr<SessionPurge> PurgeSession(const SessionKey& key,
                                                    std::int64_t max_rows) = 0;

  // Removes what is left of purged rows in files that this server alone writes, beside the tables.
  // To be called again, and somewhat later, when it says that another reads them.
  virtual absl::StatusOr<PurgedTraces> RemoveTraces() = 0;

  // The namespaces and items of the same database; lives as long as the store.
  virtual ItemStore& Items() = 0;

  // OK when the store answers and takes writes. In exclusive coherence also checks that this
  // server still holds the store: FAILED_PRECONDITION when another one does, DEADLINE_EXCEEDED when
  // nobody else can have written, but the store is too busy to answer in time.
  virtual absl::Status Ping() = 0;

  // Asks the store what it is now: an operator may change its durability while it runs. The schema
  // must have been migrated.
  virtual absl::StatusOr<StoreInfo> Describe() = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_STORE_H_
