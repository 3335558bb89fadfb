// Finds what a session holds, by an index that is kept up to the session as it grows.
#ifndef MEMORYD_CORE_RECALL_SESSION_SEARCH_H_
#define MEMORYD_CORE_RECALL_SESSION_SEARCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/model/body_reader.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/reads/message_filter.h"
#include "core/recall/index_cache.h"
#include "core/recall/known_texts.h"
#include "core/recall/searched_session.h"
#include "core/retrieval/session_index.h"
#include "core/storage/store.h"

namespace memoryd {

// Where something was found, when it was not in the session that was asked.
struct OtherPlace {
  std::string session_id;
  SessionRow row;  // As it was found.
};

// A message, a content or what a block knows, whichever is set.
struct FoundItem {
  double score = 0;
  MessagePtr message;
  ContentPtr content;
  std::vector<MessagePtr> neighbours;  // Of `message`, oldest first.
  ScoreParts parts = {};  // They add up to the score, where it is not the least there is.
  std::optional<double> cosine = std::nullopt;
  std::optional<double> embedding_cosine = std::nullopt;
  // What of a long text is to be shown; empty: all.
  std::string passage = {};
  std::int64_t shown_tokens = 0;  // Without the neighbours.
  std::shared_ptr<const OtherPlace> other = nullptr;
  std::shared_ptr<const KnownText> known = nullptr;
};

// Each of them, for what is done to all.
inline std::array<double*, 8> EachOf(ScoreParts& parts) {
  return {&parts.words, &parts.vector, &parts.embedding, &parts.author,
          &parts.user,  &parts.length, &parts.recency,   &parts.neighbours};
}

// What of the hits is shown.
struct AnswerShape {
  // How many messages around each message found come with it.
  std::size_t neighbours = 0;
  // Of all that is shown; a hit that does not fit is passed over. None: any number.
  std::optional<std::int64_t> token_budget;
  // Whether long texts are cut to their best passage.
  bool passages = false;
  // What has a time of its own that is over by then is left out.
  std::int64_t now_us = 0;
};

struct Found {
  std::vector<FoundItem> items;
  // The session as it was found; at least as new as it was asked for.
  SessionRow row;
  // Whether vectors were to count and there are none.
  bool lacks_vectors = false;
  Usage usage;  // What the embedder took for the query.
  // Whether more hits could have passed the filter than were looked at.
  bool filter_limit = false;
  double best = 0;  // SearchHit::raw_score of the best hit.
  SearchScale scale = {};
  bool embedding_counted = false;
  // Messages without an embedding, where the session has an embedder that counts.
  std::int64_t pending_embeddings = 0;
  // Why that could not say what the query means, in capitals; empty: it could, or was not asked.
  std::string embedder_failure = {};
};

// Indexes of the sessions searched lately, in memory. A search reads from the store what came since
// the last one, so its cost does not grow with the session but for the first, and for one after a
// Reset.
//
// Any thread; calls block on the store, and those for one session wait for each other.
class SessionSearch {
 public:
  using Index = IndexCache::Index;

  // Store, bodies and budget must outlive it. `vectors` may be null: then words alone find. At most
  // `max_bytes` of indexes are kept, the least recently used go first, and they are a cache of the
  // budget's.
  SessionSearch(Store* store, const BodyReader* bodies, std::size_t max_bytes, MemoryBudget* budget,
                std::shared_ptr<const WordVectors> vectors = nullptr);
  SessionSearch(const SessionSearch&) = delete;
  SessionSearch& operator=(const SessionSearch&) = delete;

  bool has_vectors() const { return vectors_ != nullptr; }

  // The session's index, kept from before or empty.
  Index Open(const SessionKey& key) { return cache_.Open(key); }

  // Takes a step towards the session that `row` describes: true when the index is there, false when
  // another step is due. A step reads some 10,000 rows or 16 MiB, so that a large session does not
  // hold up others. `ranking` is the session's, as of `row`, and `embeddings` its block
  // kRetrievalBlock, null for none; an index that was made for another ranking is made anew where
  // that matters. ABORTED when a Set or Reset has cut the session since `row` was read, or since
  // the index was last brought up: read it again and begin anew. With `accept_missing` what is gone
  // is left out instead. RESOURCE_EXHAUSTED `MEMORY_SHORT` when the budget has no room for the
  // index.
  absl::StatusOr<bool> CatchUp(const Index& index, const SessionRow& row,
                               const RankingOptions& ranking, bool accept_missing,
                               const BlockState* embeddings = nullptr);

  // What an embedder is asked of a query, once the index has caught up.
  static std::string EmbedderQuery(const Index& index, std::string_view query) {
    return index->EmbedderQuery(query);
  }

  // Searches an index that has caught up, for what passes both filters, the request's and `filter`.
  // Each message stands only once in the result. An `embedding` counts if the index is of the
  // embeddings that it can be compared with. ABORTED as above; FAILED_PRECONDITION
  // `REPLY_TOO_LARGE` when what was found exceeds kMaxReplyBytes.
  absl::StatusOr<Found> Find(const Index& index, SearchRequest request, const MessageFilter& filter,
                             const AnswerShape& shape, bool accept_missing,
                             const QueryEmbedding& embedding = {});

  // What the blocks know, kept with the index until that, one of them or `ranking` changes.
  std::shared_ptr<const KnownTexts> TextsOf(const Index& index, BlockStates blocks,
                                            const TokenCounter& counter,
                                            const RankingOptions& ranking);

  // Searches what blocks know, as Find() does an index.
  static Found FindKnown(const KnownTexts& texts, const SearchRequest& request,
                         const AnswerShape& shape);

  // The scale of an index that has caught up, for searches of several. ABORTED as above.
  static absl::StatusOr<SearchScale> Scale(const Index& index, const SearchRequest& request) {
    return index->Scale(request);
  }

  // Drops what is kept of a session that is no more.
  void Forget(const SessionKey& key) { cache_.Forget(key); }

  std::size_t ByteSize() { return cache_.ByteSize(); }
  // Indexes dropped for want of room, ever.
  std::uint64_t evictions() const { return cache_.evictions(); }

 private:
  // Leaves the first top_k of `hits` that pass the filter.
  absl::Status KeepPassing(const SessionKey& key, const SessionRow& row,
                           const MessageFilter& filter, std::size_t top_k,
                           std::vector<SearchHit>& hits) const;
  // Reads the rows of `hits` and of what stands `beside` each, as many as are to be shown.
  absl::Status ReadFound(SearchedSession& session, const SearchRequest& request,
                         const AnswerShape& shape, bool accept_missing,
                         std::span<const SearchHit> hits,
                         std::span<const std::vector<std::int64_t>> beside, Found& found) const;
  // Cuts a long text to what answers the query best; returns the whole text's bytes.
  std::size_t CutToPassage(SearchedSession& session, const SearchRequest& request,
                           FoundItem& item) const;
  // What an index ranked so takes in.
  IndexOptions OptionsFor(const RankingOptions& ranking) const;

  Store& store_;
  const BodyReader& bodies_;
  const std::shared_ptr<const WordVectors> vectors_;
  IndexCache cache_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RECALL_SESSION_SEARCH_H_
