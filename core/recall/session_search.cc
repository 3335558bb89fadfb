#include "core/recall/session_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/model/body_reader.h"
#include "core/model/job.h"
#include "core/model/language.h"
#include "core/model/message.h"
#include "core/model/ranking_options.h"
#include "core/model/session.h"
#include "core/reads/message_filter.h"
#include "core/recall/known_texts.h"
#include "core/recall/searched_session.h"
#include "core/retrieval/passages.h"
#include "core/retrieval/search.h"
#include "core/retrieval/word_vectors.h"
#include "core/storage/store.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
namespace {

// With a filter that the index can't tell, so many hits are looked at, so many at a time.
constexpr std::size_t kFilteredHits = 10'000;
constexpr std::size_t kFilteredRead = 256;
// Where the rows are too large for that, a sixteenth, and at the last each by itself: one fits for
// certain.
constexpr std::size_t kFewerFilteredRead = 16;

// Whether an item's row must be read to know whether it passes: the index knows role, thread,
// status and ids alone.
bool LooksAtRows(const MessageFilter& filter) {
  return !filter.names.empty() || !filter.create.empty() || !filter.ingest.empty() ||
         !filter.metadata.empty() || !filter.any_of.empty() || !filter.writers.empty() ||
         filter.untrusted.has_value() || filter.source_session_id.has_value();
}

// Rows of a generation by position.
class Rows {
 public:
  // Takes the bytes read from `bytes_left`.
  absl::Status Read(Store& store, const SessionKey& key, std::uint64_t generation,
                    const std::set<std::int64_t>& positions, std::int64_t& bytes_left) {
    if (positions.empty()) return absl::OkStatus();
    const std::vector<std::int64_t> asked(positions.begin(), positions.end());
    MEMORYD_ASSIGN_OR_RETURN(rows_, store.ReadPositions(key, generation, asked, bytes_left));
    for (const MessagePtr& row : rows_) bytes_left -= static_cast<std::int64_t>(row->body.size());
    return absl::OkStatus();
  }

  // Null when it is not there.
  MessagePtr at(std::int64_t position) const {
    const auto found = std::lower_bound(
        rows_.begin(), rows_.end(), position,
        [](const MessagePtr& row, std::int64_t wanted) { return row->position < wanted; });
    return found != rows_.end() && (*found)->position == position ? *found : nullptr;
  }

 private:
  std::vector<MessagePtr> rows_;  // Ascending.
};

// Rows of messages and contents that were hit.
class HitRows {
 public:
  // Takes the bytes read from `bytes_left`.
  absl::Status Read(Store& store, const SessionKey& key, const SessionRow& row,
                    std::span<const SearchHit> hits, std::int64_t& bytes_left) {
    std::set<std::int64_t> messages, contents;
    for (const SearchHit& hit : hits) {
      (hit.kind == ItemKind::kMessage ? messages : contents).insert(hit.position);
    }
    MEMORYD_RETURN_IF_ERROR(messages_.Read(store, key, row.generation, messages, bytes_left));
    return contents_.Read(store, key, row.content_generation, contents, bytes_left);
  }

  // Null when it is not there.
  MessagePtr at(const SearchHit& hit) const {
    return (hit.kind == ItemKind::kMessage ? messages_ : contents_).at(hit.position);
  }

 private:
  Rows messages_;
  Rows contents_;
};

// Of what ranks so low that nothing would be left.
constexpr double kLeastScore = 1e-6;

double Sum(const ScoreParts& parts) {
  return parts.words + parts.vector + parts.embedding + parts.author + parts.user + parts.length +
         parts.recency + parts.neighbours;
}

// `best` has 1, and others their share of it.
void SetScore(const SearchHit& hit, const SearchHit& best, FoundItem& item) {
  const double whole = Sum(best.parts);
  const bool is_best = hit.raw_score == best.raw_score;
  item.score = is_best     ? 1
               : whole > 0 ? std::max(Sum(hit.parts) / whole, kLeastScore)
                           : kLeastScore;
  item.parts = hit.parts;
  if (whole > 0) {
    for (double* part : EachOf(item.parts)) *part /= whole;
  }
  item.cosine = hit.cosine;
  item.embedding_cosine = hit.embedding_cosine;
}

// A text of up to so many characters, 230 tokens, is shown whole, a longer one by so many.
constexpr std::size_t kWholeCharacters = 920;
constexpr std::size_t kPassageCharacters = 700;

// Those of a text that is too long to be shown whole; else none.
std::vector<std::string_view> PassagesOf(std::string_view text) {
  if (CharacterCount(text) <= kWholeCharacters) return {};
  std::vector<std::string_view> passages = SplitIntoPassages(text, kPassageCharacters);
  if (passages.size() < 2) passages.clear();
  return passages;
}

// What of an item's tokens is shown.
std::int64_t ShownTokens(const FoundItem& item, std::size_t text_bytes) {
  const std::int64_t tokens = item.known != nullptr     ? item.known->token_count
                              : item.message != nullptr ? item.message->token_count
                                                        : item.content->token_count;
  if (item.passage.empty()) return tokens;
  const auto whole = static_cast<std::int64_t>(text_bytes);
  return (tokens * static_cast<std::int64_t>(item.passage.size()) + whole - 1) / whole;
}

// What an answer may still show.
class TokenRoom {
 public:
  explicit TokenRoom(std::optional<std::int64_t> budget)
      : left_(budget.value_or(std::numeric_limits<std::int64_t>::max())) {}

  // Whether there is room, and then it is taken.
  bool Take(std::int64_t tokens) {
    if (tokens > left_) return false;
    left_ -= tokens;
    return true;
  }

 private:
  std::int64_t left_;
};

// Shows those at `positions` beside an item that are `wanted`, which each is once.
void AddNeighbours(std::span<const std::int64_t> positions, const Rows& rows,
                   std::set<std::int64_t>& wanted, TokenRoom& room, FoundItem& item) {
  for (const std::int64_t position : positions) {
    if (wanted.erase(position) == 0) continue;
    if (MessagePtr row = rows.at(position); row != nullptr && room.Take(row->token_count)) {
      item.neighbours.push_back(std::move(row));
    }
  }
}

}  // namespace

SessionSearch::SessionSearch(Store* store, const BodyReader* bodies, std::size_t max_bytes,
                             MemoryBudget* budget, std::shared_ptr<const WordVectors> vectors)
    : store_(*store),
      bodies_(*bodies),
      vectors_(std::move(vectors)),
      cache_(store, bodies, max_bytes, budget) {}

IndexOptions SessionSearch::OptionsFor(const RankingOptions& ranking) const {
  IndexOptions options;
  options.expansion = ranking.expansion;
  if (ranking.vector_weight == 0 && !ranking.expansion.has_value()) options.expansion = false;
  if (ranking.vector_weight > 0 || ranking.expansion == true) options.vectors = vectors_;
  options.dates = ranking.dates;
  if (!ranking.language.empty()) options.language = FindLanguage(ranking.language);
  options.zone = ranking.zone;
  return options;
}

absl::StatusOr<bool> SessionSearch::CatchUp(const Index& index, const SessionRow& row,
                                            const RankingOptions& ranking, bool accept_missing,
                                            const BlockState* embeddings) {
  absl::StatusOr<bool> done = index->CatchUp(row, OptionsFor(ranking), accept_missing, embeddings);
  cache_.Recharge(index);
  return done;
}

absl::StatusOr<Found> SessionSearch::Find(const Index& index, SearchRequest request,
                                          const MessageFilter& filter, const AnswerShape& shape,
                                          bool accept_missing, const QueryEmbedding& embedding) {
  const std::size_t top_k = request.top_k;
  const bool looks_at_rows = LooksAtRows(filter);
  if (looks_at_rows) request.top_k = std::max(top_k, kFilteredHits);
  request.filter.roles = filter.roles;
  request.filter.thread_id = filter.thread_id;
  MEMORYD_ASSIGN_OR_RETURN(SearchedSession::Hits searched,
                           index->Search(request, filter, shape.now_us, embedding));
  std::vector<SearchHit>& hits = searched.hits;
  Found found;
  found.row = searched.row;
  found.scale = searched.scale;
  found.pending_embeddings = searched.pending_embeddings;
  found.embedding_counted = searched.embedding_counted;
  if (looks_at_rows || !filter.message_ids.empty()) {
    const bool all_seen = hits.size() < request.top_k;
    MEMORYD_RETURN_IF_ERROR(KeepPassing(index->key(), found.row, filter, top_k, hits));
    found.filter_limit = !all_seen && hits.size() < top_k;
  }
  MEMORYD_ASSIGN_OR_RETURN(const std::vector<std::vector<std::int64_t>> beside,
                           index->Neighbours(searched, shape.neighbours));
  if (!hits.empty()) found.best = hits.front().raw_score;
  MEMORYD_RETURN_IF_ERROR(ReadFound(*index, request, shape, accept_missing, hits, beside, found));
  return found;
}

absl::Status SessionSearch::ReadFound(SearchedSession& session, const SearchRequest& request,
                                      const AnswerShape& shape, bool accept_missing,
                                      std::span<const SearchHit> hits,
                                      std::span<const std::vector<std::int64_t>> beside,
                                      Found& found) const {
  HitRows rows;
  auto bytes_left = static_cast<std::int64_t>(kMaxReplyBytes);
  MEMORYD_RETURN_IF_ERROR(rows.Read(store_, session.key(), found.row, hits, bytes_left));
  TokenRoom room(shape.token_budget);
  std::vector<std::span<const std::int64_t>> beside_shown;
  std::set<std::int64_t> message_positions;
  for (std::size_t i = 0; i < hits.size(); ++i) {
    FoundItem item;
    SetScore(hits[i], hits.front(), item);
    const bool is_message = hits[i].kind == ItemKind::kMessage;
    (is_message ? item.message : item.content) = rows.at(hits[i]);
    if (item.message == nullptr && item.content == nullptr) {
      if (!accept_missing) return SessionChanged();
      continue;
    }
    const std::size_t text_bytes = shape.passages ? CutToPassage(session, request, item) : 0;
    item.shown_tokens = ShownTokens(item, text_bytes);
    if (!room.Take(item.shown_tokens)) continue;
    if (is_message) message_positions.insert(hits[i].position);
    beside_shown.emplace_back(beside[i]);
    found.items.push_back(std::move(item));
  }

  std::set<std::int64_t> wanted;
  for (const std::span<const std::int64_t> positions : beside_shown) {
    for (const std::int64_t position : positions) {
      if (!message_positions.contains(position)) wanted.insert(position);
    }
  }
  Rows neighbours;
  MEMORYD_RETURN_IF_ERROR(
      neighbours.Read(store_, session.key(), found.row.generation, wanted, bytes_left));
  for (std::size_t i = 0; i < found.items.size(); ++i) {
    AddNeighbours(beside_shown[i], neighbours, wanted, room, found.items[i]);
  }
  return absl::OkStatus();
}

std::shared_ptr<const KnownTexts> SessionSearch::TextsOf(const Index& index, BlockStates blocks,
                                                         const TokenCounter& counter,
                                                         const RankingOptions& ranking) {
  std::shared_ptr<const KnownTexts> texts =
      index->TextsOf(std::move(blocks), counter, OptionsFor(ranking));
  cache_.Recharge(index);
  return texts;
}

Found SessionSearch::FindKnown(const KnownTexts& texts, const SearchRequest& request,
                               const AnswerShape& shape) {
  Found found;
  const std::vector<SearchHit> hits = texts.index().Search(request, &found.scale);
  if (!hits.empty()) found.best = hits.front().raw_score;
  for (const SearchHit& hit : hits) {
    FoundItem item;
    SetScore(hit, hits.front(), item);
    item.known = texts.at(hit.position);
    const std::string text = shape.passages ? item.known->text() : std::string();
    if (const std::vector<std::string_view> passages = PassagesOf(text); !passages.empty()) {
      item.passage = passages[texts.index().BestPassage(request.query, request.ranking, passages)];
    }
    item.shown_tokens = ShownTokens(item, text.size());
    found.items.push_back(std::move(item));
  }
  return found;
}

absl::Status SessionSearch::KeepPassing(const SessionKey& key, const SessionRow& row,
                                        const MessageFilter& filter, std::size_t top_k,
                                        std::vector<SearchHit>& hits) const {
  std::vector<SearchHit> kept;
  std::size_t at_once = kFilteredRead;
  for (std::span<const SearchHit> left(hits); !left.empty() && kept.size() < top_k;) {
    const std::span<const SearchHit> some = left.first(std::min(at_once, left.size()));
    HitRows rows;
    auto bytes_left = static_cast<std::int64_t>(kMaxReplyBytes);
    const absl::Status read = rows.Read(store_, key, row, some, bytes_left);
    if (ErrorReason(read) == "REPLY_TOO_LARGE" && at_once > 1) {
      at_once = std::max<std::size_t>(1, at_once / kFewerFilteredRead);
      continue;
    }
    MEMORYD_RETURN_IF_ERROR(read);
    for (const SearchHit& hit : some) {
      const MessagePtr item = rows.at(hit);
      // What is gone is found to be so when it is to be shown.
      bool passes = item == nullptr;
      if (item != nullptr) {
        MEMORYD_ASSIGN_OR_RETURN(passes, hit.kind == ItemKind::kMessage
                                             ? filter.Passes(*item, row, bodies_)
                                             : filter.PassesContent(*item, bodies_));
      }
      if (passes) kept.push_back(hit);
    }
    left = left.subspan(some.size());
  }
  kept.resize(std::min(kept.size(), top_k));
  hits = std::move(kept);
  return absl::OkStatus();
}

std::size_t SessionSearch::CutToPassage(SearchedSession& session, const SearchRequest& request,
                                        FoundItem& item) const {
  std::string text;
  if (item.message != nullptr) {
    text = bodies_.ReadMessage(item.message->body).value_or(MessageText()).text;
  } else {
    ContentValue content = bodies_.ReadContent(item.content->body).value_or(ContentValue());
    if (content.kind == ContentValue::Kind::kText) text = std::move(content.value);
  }
  const std::vector<std::string_view> passages = PassagesOf(text);
  if (passages.empty()) return text.size();
  item.passage = passages[session.BestPassage(request, passages)];
  return text.size();
}

}  // namespace memoryd
