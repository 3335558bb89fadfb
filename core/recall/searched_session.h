// The index of one session, and the session that it is of.
#ifndef MEMORYD_CORE_RECALL_SEARCHED_SESSION_H_
#define MEMORYD_CORE_RECALL_SEARCHED_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/reads/message_filter.h"
#include "core/recall/known_texts.h"
#include "core/retrieval/session_index.h"
#include "core/storage/store.h"

namespace memoryd {

// What an embedder makes of a query.
struct QueryEmbedding {
  std::vector<float> vector;
  // Of the embeddings that it can be compared with, see embedding_state.h.
  std::uint64_t entry_generation = 0;
};

// ABORTED: what was read of a session and its index are not of one state.
absl::Status SessionChanged();

// An index that is brought up to its session step by step, by what came since the last time.
//
// Any thread; those that search or bring up one session wait for each other, also while one reads
// from the store.
class SearchedSession {
 public:
  using ItemPlace = std::pair<ItemKind, std::int64_t>;

  struct Hits {
    std::vector<SearchHit> hits;
    SessionRow row;  // The session as it was searched.
    // Those whose own time is over, which are no hits.
    std::set<ItemPlace> expired;
    SearchScale scale = {};
    // Messages without an embedding.
    std::int64_t pending_embeddings = 0;
    bool embedding_counted = false;
  };

  // Store, bodies and budget must outlive it.
  SearchedSession(SessionKey key, Store* store, const BodyReader* bodies, MemoryBudget* budget);
  SearchedSession(const SearchedSession&) = delete;
  SearchedSession& operator=(const SearchedSession&) = delete;

  const SessionKey& key() const { return key_; }

  // Takes a step towards the session that `row` describes, as SessionSearch::CatchUp().
  absl::StatusOr<bool> CatchUp(const SessionRow& row, const IndexOptions& options,
                               bool accept_missing, const BlockState* embeddings)
      MEMORYD_EXCLUDES(mutex_);

  // The hits of an index that has caught up; of `filter` only ids and status are looked at. ABORTED
  // when it has not.
  absl::StatusOr<Hits> Search(SearchRequest request, const MessageFilter& filter,
                              std::int64_t now_us, const QueryEmbedding& embedding)
      MEMORYD_EXCLUDES(mutex_);

  // For each of `found.hits` the positions of the messages around it, without those expired.
  // ABORTED when the session was cut since they were found.
  absl::StatusOr<std::vector<std::vector<std::int64_t>>> Neighbours(const Hits& found,
                                                                    std::size_t count)
      MEMORYD_EXCLUDES(mutex_);

  // ABORTED when the index has not caught up.
  absl::StatusOr<SearchScale> Scale(const SearchRequest& request) MEMORYD_EXCLUDES(mutex_);
  std::string EmbedderQuery(std::string_view query) MEMORYD_EXCLUDES(mutex_);
  std::size_t BestPassage(const SearchRequest& request,
                          const std::vector<std::string_view>& passages) MEMORYD_EXCLUDES(mutex_);

  // What the blocks know, kept until that, one of them or the options change.
  std::shared_ptr<const KnownTexts> TextsOf(BlockStates blocks, const TokenCounter& counter,
                                            IndexOptions options) MEMORYD_EXCLUDES(mutex_);

  // After the last step; waits for nobody.
  std::size_t ByteSize() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  // What has a time of its own.
  struct TimedItem {
    std::int64_t expire_us = 0;
    ItemPlace place;
  };
  // What a step may still read.
  struct StepRoom {
    std::int64_t rows = 0;
    std::int64_t bytes = 0;
    bool empty() const { return rows <= 0 || bytes <= 0; }
  };

  absl::StatusOr<bool> Step(const SessionRow& row, const IndexOptions& options, bool accept_missing)
      MEMORYD_REQUIRES(mutex_);
  // Adds what is missing up to row_, at most some rows; true when nothing is left.
  absl::StatusOr<bool> AddMissing() MEMORYD_REQUIRES(mutex_);
  absl::Status AddRange(ItemKind kind, std::uint64_t generation, PositionRange range,
                        StepRoom& room) MEMORYD_REQUIRES(mutex_);
  void Add(ItemKind kind, const Message& row) MEMORYD_REQUIRES(mutex_);
  // Adds embeddings that are missing, at most some; true when nothing is left.
  absl::StatusOr<bool> AddEmbeddings(const BlockState* embeddings) MEMORYD_REQUIRES(mutex_);
  // Has the budget count what the index takes. An index that it has no room for is emptied.
  absl::Status Charge() MEMORYD_REQUIRES(mutex_);
  std::size_t Bytes() const MEMORYD_REQUIRES(mutex_);
  void SetBytes() MEMORYD_REQUIRES(mutex_);

  const SessionKey key_;
  Store& store_;
  const BodyReader& bodies_;
  Mutex mutex_;
  SessionIndex index_ MEMORYD_GUARDED_BY(mutex_);
  IndexOptions options_ MEMORYD_GUARDED_BY(mutex_);  // Of index_.
  // What the index is of, or is on the way to.
  SessionRow row_ MEMORYD_GUARDED_BY(mutex_);
  bool complete_ MEMORYD_GUARDED_BY(mutex_) = false;
  // Not to be gone on with: rows were missing.
  bool spoilt_ MEMORYD_GUARDED_BY(mutex_) = true;
  // Of the embeddings in the index; 0: it has none.
  std::uint64_t entry_generation_ MEMORYD_GUARDED_BY(mutex_) = 0;
  // All are there that BlockState::done jobs have made; -1: not all are there that any have.
  std::int64_t embedded_ MEMORYD_GUARDED_BY(mutex_) = -1;
  // While they are read: what embedded_ becomes, and the message to go on at.
  std::int64_t next_embedded_ MEMORYD_GUARDED_BY(mutex_) = -1;
  std::int64_t next_embedding_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::vector<TimedItem> timed_ MEMORYD_GUARDED_BY(mutex_);
  std::int64_t messages_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::int64_t contents_ MEMORYD_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const KnownTexts> texts_ MEMORYD_GUARDED_BY(mutex_);  // Null: not asked for yet.
  MemoryBudget::Hold memory_ MEMORYD_GUARDED_BY(mutex_);
  std::atomic<std::size_t> bytes_{0};
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RECALL_SEARCHED_SESSION_H_
