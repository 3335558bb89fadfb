// What Query and UpdateContext answer.
#ifndef MEMORYD_CORE_RECALL_RECALL_H_
#define MEMORYD_CORE_RECALL_RECALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/body_reader.h"
#include "core/model/session.h"
#include "core/model/trace_context.h"
#include "core/reads/message_filter.h"
#include "core/reads/page.h"
#include "core/recall/recent_recalls.h"
#include "core/recall/session_search.h"
#include "core/recall/update_context.h"
#include "core/storage/store.h"

namespace memoryd {

struct QueryRequest {
  SessionKey key;
  std::size_t byte_size = 0;
  std::string query;
  std::size_t top_k = 10;
  AnswerShape shape;
  MessageFilter filter;
  std::optional<double> score_threshold;
  std::optional<double> vector_threshold;  // Absent: the session's.
  bool without_blocks = false;
  TracePtr trace = nullptr;  // Of the call; null for none.

  // Whether what blocks know may be found.
  bool AsksBlocks() const;
};

// Asks for a session's index, to search it with another's.
struct PrepareRequest {
  SessionKey key;
  std::size_t byte_size = 0;
  bool with_blocks = false;

  bool AsksBlocks() const { return with_blocks; }
};

struct PreparedSession {
  SessionKey key;
  SessionInfo info;
  SessionSearch::Index index;                         // Null: there is nothing to be searched.
  std::shared_ptr<const KnownTexts> texts = nullptr;  // Null: none.
};

struct UpdateContextRequest {
  SessionKey key;
  std::size_t byte_size = 0;
  std::vector<ContextMessage> messages;
  bool alternate_roles = false;
  // What the views in `messages` point into.
  std::shared_ptr<const void> keep_alive;
  // What has a time of its own that is over by then is left out.
  std::int64_t now_us = 0;
};

// What a block of the session says of itself, for the stable prefix.
struct OfferedBlock {
  StableBlock block;
  std::int64_t tokens = 0;
  bool may_go = false;  // Where there is no room for it.
};

struct UpdatedContext {
  std::vector<KeptMessage> kept;
  MemoryInsertions insertions;
  Found found;  // What the insertions are made of.
  std::int64_t contents_left_out = 0;
  // Names, in the order of the configuration.
  std::vector<std::string> blocks_used;
  std::vector<std::string> blocks_dropped;
};

// Any thread; calls block on the store. `info` is the session's state, read before; `index` has
// caught up with it where NeedsIndex() says so. ABORTED without a reason when the session was cut
// by a Set or Reset since then: read it again and ask anew, at last with `accept_missing`, and what
// is gone is left out. FAILED_PRECONDITION `REPLY_TOO_LARGE`.
class Recall {
 public:
  // Store, bodies and budget must outlive it; `vectors` may be null.
  Recall(Store* store, const BodyReader* bodies, std::size_t index_bytes, MemoryBudget* budget,
         std::shared_ptr<const WordVectors> vectors = nullptr)
      : store_(*store),
        bodies_(*bodies),
        search_(store, bodies, index_bytes, budget, std::move(vectors)) {}

  static bool NeedsIndex(const SessionInfo& info, const QueryRequest& request);
  // `texts`: what the session's blocks know; null for nothing.
  absl::StatusOr<Found> Answer(const SessionInfo& info, const SessionSearch::Index& index,
                               const QueryRequest& request, bool accept_missing,
                               const QueryEmbedding& embedding = {},
                               const KnownTexts* texts = nullptr);

  // The sessions that `request` is to look at besides, by what blocks of the session name.
  static std::vector<std::string> OtherSessions(const SessionInfo& info,
                                                const QueryRequest& request);
  static bool NeedsIndex(const SessionInfo& info, const PrepareRequest& request);
  static absl::StatusOr<PreparedSession> Answer(const SessionInfo& info,
                                                const SessionSearch::Index& index,
                                                const PrepareRequest& request,
                                                std::shared_ptr<const KnownTexts> texts);
  // As Answer() to a QueryRequest, ranked together with the others.
  absl::StatusOr<Found> AnswerWithOthers(PreparedSession asked, const QueryRequest& request,
                                         bool accept_missing,
                                         std::span<const PreparedSession> others);

  static bool NeedsIndex(const SessionInfo& info, const UpdateContextRequest& request);
  // `blocks` are looked at only in profiles that put them into a context.
  absl::StatusOr<UpdatedContext> Answer(const SessionInfo& info, const SessionSearch::Index& index,
                                        const UpdateContextRequest& request, bool accept_missing,
                                        std::span<const OfferedBlock> blocks = {});

  SessionSearch& search() { return search_; }

 private:
  // Of a message and what it was handed on as, leaves the message alone, and of copies the first.
  // `asked` and `generation` are of the session that what has no other place is in.
  absl::Status LeaveOutCopies(const std::string& asked, std::uint64_t generation,
                              std::vector<FoundItem>& items) const;
  // All contents whose time is not over, in order, when the bodies of all are within `max_bytes`.
  absl::StatusOr<Found> AllContents(const SessionKey& key, const SessionRow& row,
                                    std::int64_t max_bytes, std::int64_t now_us,
                                    bool accept_missing);
  absl::StatusOr<UpdatedContext> UpdateListContext(const SessionInfo& info,
                                                   const UpdateContextRequest& request,
                                                   bool accept_missing);
  // The newest contents that fit into `tokens`, oldest first. Those whose time is over, and which
  // the sweeper has not taken out yet, still take their place.
  absl::StatusOr<std::vector<ContentPtr>> LatestContents(const SessionKey& key,
                                                         const SessionRow& row, std::int64_t tokens,
                                                         std::int64_t now_us, bool accept_missing);
  // What is recalled for the context's question, by position: what was before while the question is
  // worked on, as far as it is still there, else what is found.
  absl::StatusOr<std::vector<FoundItem>> RecallFor(const SessionInfo& info,
                                                   const SessionSearch::Index& index,
                                                   const UpdateContextRequest& request,
                                                   const BareContext& context, std::int64_t tokens,
                                                   bool accept_missing);
  // Archived messages that answer to the context's question and are not in it, best first, as many
  // as fit into `tokens`.
  absl::StatusOr<std::vector<FoundItem>> RecallMessages(const SessionInfo& info,
                                                        const SessionSearch::Index& index,
                                                        const UpdateContextRequest& request,
                                                        const BareContext& context,
                                                        std::int64_t tokens, bool accept_missing);

  Store& store_;
  const BodyReader& bodies_;
  SessionSearch search_;
  RecentRecalls recent_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RECALL_RECALL_H_
