#include "core/recall/session_search.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/blocks/vector_entry.h"
#include "core/retrieval/passages.h"
#include "core/sessions/session_info.h"

namespace memoryd {
namespace {

// Of one read, and of one step, while an index catches up.
constexpr std::int64_t kReadRows = 1000;
constexpr std::int64_t kReadBytes = std::int64_t{4} << 20;
constexpr std::int64_t kStepRows = 10'000;
constexpr std::int64_t kStepBytes = std::int64_t{16} << 20;

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

absl::Status SessionChanged() { return absl::AbortedError("the session changed meanwhile"); }

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

}  // namespace

SessionSearch::SessionSearch(Store* store, const BodyReader* bodies, std::size_t max_bytes,
                             MemoryBudget* budget, std::shared_ptr<const WordVectors> vectors)
    : store_(*store),
      bodies_(*bodies),
      max_bytes_(max_bytes),
      budget_(*budget),
      vectors_(std::move(vectors)) {
  budget_.AddCache(MemoryUse::kIndexes, [this](const std::string& tenant, std::int64_t bytes) {
    EvictTenant(tenant, bytes);
  });
}

SessionSearch::~SessionSearch() { budget_.RemoveCache(MemoryUse::kIndexes); }

IndexOptions SessionSearch::OptionsFor(const RankingOptions& ranking) const {
  IndexOptions options;
  options.expansion = ranking.expansion;
  if (ranking.vector_weight == 0 && !ranking.expansion.has_value()) options.expansion = false;
  if (ranking.vector_weight > 0 || ranking.expansion == true) options.vectors = vectors_;
  options.dates = ranking.dates;
  options.zone = ranking.zone;
  return options;
}

absl::StatusOr<bool> SessionSearch::CatchUp(const Index& index, const SessionRow& row,
                                            const RankingOptions& ranking, bool accept_missing,
                                            const BlockState* embeddings) {
  absl::StatusOr<bool> done;
  std::size_t bytes = 0;
  {
    MutexLock lock(index->mutex);
    done = Step(*index, row, ranking, accept_missing);
    // Those of an older state than the index's would take newer ones out.
    if (done.ok() && *done && index->row.revision <= row.revision) {
      done = AddEmbeddings(*index, embeddings);
    }
    if (const absl::Status charged = Charge(*index); !charged.ok()) done = charged;
    bytes = ByteSizeOf(*index);
  }
  Recharge(index, bytes);
  return done;
}

absl::StatusOr<Found> SessionSearch::Find(const Index& index, SearchRequest request,
                                          const MessageFilter& filter, const AnswerShape& shape,
                                          bool accept_missing, const QueryEmbedding& embedding) {
  Found found;
  std::vector<SearchHit> hits;
  const std::size_t top_k = request.top_k;
  const bool looks_at_rows = LooksAtRows(filter);
  if (looks_at_rows) request.top_k = std::max(top_k, kFilteredHits);
  request.filter.roles = filter.roles;
  request.filter.thread_id = filter.thread_id;
  std::set<std::pair<ItemKind, std::int64_t>> expired;
  {
    MutexLock lock(index->mutex);
    if (!index->complete) return SessionChanged();
    found.row = index->row;
    std::vector<std::int64_t> positions;
    if (!filter.message_ids.empty()) {
      MEMORYD_ASSIGN_OR_RETURN(
          positions, PositionsOf(store_, index->key, found.row.generation, filter.message_ids));
    }
    for (const Entry::TimedItem& item : index->timed) {
      if (item.expire_us <= shape.now_us) expired.emplace(item.kind, item.position);
    }
    const bool by_place = !filter.message_ids.empty() || filter.status != StatusFilter::kAll;
    if (by_place || !expired.empty()) {
      request.filter.accept = [&, by_place](ItemKind kind, std::int64_t position) {
        if (expired.contains({kind, position})) return false;
        if (!by_place) return true;
        return kind == ItemKind::kMessage &&
               (filter.message_ids.empty() ||
                std::binary_search(positions.begin(), positions.end(), position)) &&
               (filter.status == StatusFilter::kAll ||
                IsActive(found.row, position) == (filter.status == StatusFilter::kActive));
      };
    }
    found.pending_embeddings = static_cast<std::int64_t>(index->index.without_embedding());
    if (embedding.entry_generation == index->entry_generation) request.embedding = embedding.vector;
    found.embedding_counted = !request.embedding.empty();
    hits = index->index.Search(request, &found.scale);
  }
  if (looks_at_rows || !filter.message_ids.empty()) {
    const bool all_seen = hits.size() < request.top_k;
    MEMORYD_RETURN_IF_ERROR(KeepPassing(index->key, found.row, filter, top_k, hits));
    found.filter_limit = !all_seen && hits.size() < top_k;
  }
  // Around each hit.
  std::vector<std::vector<std::int64_t>> beside(hits.size());
  if (shape.neighbours > 0) {
    MutexLock lock(index->mutex);
    if (!index->complete || index->row.generation != found.row.generation) return SessionChanged();
    for (std::size_t i = 0; i < hits.size(); ++i) {
      if (hits[i].kind != ItemKind::kMessage) continue;
      beside[i] = index->index.Neighbours(hits[i].position, shape.neighbours);
      std::erase_if(beside[i], [&expired](std::int64_t position) {
        return expired.contains({ItemKind::kMessage, position});
      });
    }
  }

  HitRows rows;
  auto bytes_left = static_cast<std::int64_t>(kMaxReplyBytes);
  MEMORYD_RETURN_IF_ERROR(rows.Read(store_, index->key, found.row, hits, bytes_left));
  std::int64_t tokens_left = shape.token_budget.value_or(std::numeric_limits<std::int64_t>::max());
  // Whether there is room, and then it is taken.
  const auto fits = [&tokens_left](std::int64_t tokens) {
    if (tokens > tokens_left) return false;
    tokens_left -= tokens;
    return true;
  };
  if (!hits.empty()) found.best = hits.front().raw_score;
  std::vector<std::size_t> shown;  // Indexes in `hits`.
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
    const std::size_t text_bytes = shape.passages ? CutToPassage(index, request, item) : 0;
    item.shown_tokens = ShownTokens(item, text_bytes);
    if (!fits(item.shown_tokens)) continue;
    if (is_message) message_positions.insert(hits[i].position);
    shown.push_back(i);
    found.items.push_back(std::move(item));
  }

  std::set<std::int64_t> wanted;
  for (const std::size_t i : shown) {
    for (const std::int64_t position : beside[i]) {
      if (!message_positions.contains(position)) wanted.insert(position);
    }
  }
  Rows neighbours;
  MEMORYD_RETURN_IF_ERROR(
      neighbours.Read(store_, index->key, found.row.generation, wanted, bytes_left));
  for (std::size_t i = 0; i < shown.size(); ++i) {
    for (const std::int64_t position : beside[shown[i]]) {
      if (wanted.erase(position) == 0) continue;
      if (MessagePtr row = neighbours.at(position); row != nullptr && fits(row->token_count)) {
        found.items[i].neighbours.push_back(std::move(row));
      }
    }
  }
  return found;
}

std::shared_ptr<const KnownTexts> SessionSearch::TextsOf(const Index& index, BlockStates blocks,
                                                         const TokenCounter& counter,
                                                         const RankingOptions& ranking) {
  IndexOptions options = OptionsFor(ranking);
  std::shared_ptr<const KnownTexts> texts;
  std::size_t bytes = 0;
  {
    MutexLock lock(index->mutex);
    if (index->texts != nullptr && index->texts->IsOf(blocks, options)) return index->texts;
    texts = std::make_shared<const KnownTexts>(std::move(blocks), counter, std::move(options));
    index->texts = texts;
    bytes = ByteSizeOf(*index);
    index->memory.Resize(static_cast<std::int64_t>(bytes));
  }
  Recharge(index, bytes);
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

std::size_t SessionSearch::ByteSizeOf(const Entry& entry) {
  return sizeof(Entry) + entry.key.tenant.size() + entry.key.session.size() +
         entry.row.config.size() + entry.index.ByteSize() +
         entry.timed.capacity() * sizeof(Entry::TimedItem) +
         (entry.texts == nullptr ? 0 : entry.texts->ByteSize());
}

absl::StatusOr<SearchScale> SessionSearch::Scale(const Index& index, const SearchRequest& request) {
  MutexLock lock(index->mutex);
  if (!index->complete) return SessionChanged();
  return index->index.Scale(request);
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

std::size_t SessionSearch::CutToPassage(const Index& index, const SearchRequest& request,
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
  MutexLock lock(index->mutex);
  item.passage = passages[index->index.BestPassage(request.query, request.ranking, passages)];
  return text.size();
}

absl::StatusOr<bool> SessionSearch::Step(Entry& entry, const SessionRow& row,
                                         const RankingOptions& ranking, bool accept_missing) {
  const IndexOptions options = OptionsFor(ranking);
  const bool same = !entry.spoilt && entry.row.generation == row.generation &&
                    entry.row.edit_revision == row.edit_revision && entry.row.floor == row.floor &&
                    (entry.contents == 0 || row.content_count == 0 ||
                     entry.row.content_generation == row.content_generation) &&
                    // An older row may have other settings, which hold no longer.
                    (entry.options == options || entry.row.revision > row.revision);
  if (!same) {
    // Either may be the later state: revisions begin anew once the tombstone of a deleted session
    // is gone.
    if (!entry.spoilt && entry.row.revision > row.revision && !accept_missing) {
      return SessionChanged();
    }
    entry.index = SessionIndex(options);
    entry.options = options;
    entry.messages = entry.contents = 0;
    entry.timed.clear();
    entry.entry_generation = 0;
    entry.spoilt = false;
  } else if (entry.complete && entry.row.revision >= row.revision) {
    return true;
  }
  if (!same || entry.row.revision < row.revision) entry.row = row;
  entry.complete = false;
  MEMORYD_ASSIGN_OR_RETURN(const bool all, AddMissing(entry));
  if (!all) return false;
  // Rows leave a generation only when a Reset takes them, and then the counts no longer agree.
  entry.spoilt = entry.messages != entry.row.active_count + entry.row.archived_count ||
                 entry.contents != entry.row.content_count;
  if (entry.spoilt && !accept_missing) return SessionChanged();
  entry.complete = true;
  return true;
}

absl::Status SessionSearch::Charge(Entry& entry) {
  const auto bytes = static_cast<std::int64_t>(ByteSizeOf(entry));
  const std::int64_t more = bytes - entry.memory.bytes();
  if (more <= 0) {
    entry.memory.Resize(bytes);
    return absl::OkStatus();
  }
  absl::Status status = entry.memory.Grow(more);
  if (!status.ok()) {
    entry.index = SessionIndex(entry.options);
    entry.texts = nullptr;
    entry.timed = std::vector<Entry::TimedItem>();
    entry.complete = false;
    entry.spoilt = true;
    entry.memory.Resize(static_cast<std::int64_t>(ByteSizeOf(entry)));
  }
  return status;
}

absl::StatusOr<bool> SessionSearch::AddMissing(Entry& entry) {
  const SessionRow row = entry.row;
  StepRoom room{kStepRows, kStepBytes};
  for (const PositionRange& range : StoredRanges(row, StatusFilter::kAll)) {
    MEMORYD_RETURN_IF_ERROR(AddRange(entry, ItemKind::kMessage, row.generation, range, room));
  }
  MEMORYD_RETURN_IF_ERROR(
      AddRange(entry, ItemKind::kContent, row.content_generation, StoredContents(row), room));
  return !room.empty();
}

absl::Status SessionSearch::AddRange(Entry& entry, ItemKind kind, std::uint64_t generation,
                                     PositionRange range, StepRoom& room) {
  if (const auto last = entry.index.LastPosition(kind); last.has_value()) {
    range.begin = std::max(range.begin, *last + 1);
  }
  while (range.begin < range.end && !room.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(const std::vector<MessagePtr> rows,
                             store_.ReadRange(entry.key, generation, range, kReadRows, kReadBytes));
    if (rows.empty()) break;
    for (const MessagePtr& row : rows) {
      Add(entry, kind, *row);
      room.bytes -= static_cast<std::int64_t>(row->body.size());
    }
    range.begin = rows.back()->position + 1;
    room.rows -= std::ssize(rows);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SessionSearch::AddEmbeddings(Entry& entry, const BlockState* embeddings) {
  const std::uint64_t generation = embeddings == nullptr ? 0 : embeddings->entry_generation;
  if (entry.entry_generation != generation) {
    entry.index.RemoveEmbeddings();
    entry.entry_generation = generation;
    entry.embedded = entry.next_embedded = -1;
  }
  if (generation == 0 || entry.embedded == embeddings->done) return true;
  if (entry.next_embedded == -1) {
    entry.next_embedded = embeddings->done;
    entry.next_embedding = 0;
  }
  StepRoom room{kStepRows, kStepBytes};
  while (const auto lacking = entry.index.NextWithoutEmbedding(entry.next_embedding)) {
    PositionRange range{lacking->first, std::min(lacking->second + 1, embeddings->next_entry)};
    if (range.begin >= range.end) break;
    while (range.begin < range.end) {
      if (room.empty()) return false;
      MEMORYD_ASSIGN_OR_RETURN(
          const std::vector<MessagePtr> rows,
          store_.ReadRange(entry.key, generation, range, kReadRows, kReadBytes));
      room.rows -= std::max<std::int64_t>(1, std::ssize(rows));
      for (const MessagePtr& row : rows) {
        room.bytes -= static_cast<std::int64_t>(row->body.size());
        // One that can't be read is missing; it must not end all searches of its session.
        const absl::StatusOr<VectorEntry> read = DecodeVectorEntry(row->body);
        if (read.ok()) entry.index.AddEmbedding(row->position, read->vector);
      }
      range.begin = rows.empty() ? range.end : rows.back()->position + 1;
      entry.next_embedding = range.begin;
    }
  }
  // Jobs that have ended since it began may have come behind.
  entry.embedded = entry.next_embedded;
  entry.next_embedded = -1;
  return entry.embedded == embeddings->done;
}

std::string SessionSearch::EmbedderQuery(const Index& index, std::string_view query) const {
  MutexLock lock(index->mutex);
  return index->index.EmbedderQuery(query);
}

void SessionSearch::Add(Entry& entry, ItemKind kind, const Message& row) {
  IndexedItem item;
  item.kind = kind;
  item.position = row.position;
  if (row.ids->expire_us > 0) entry.timed.push_back({row.ids->expire_us, kind, row.position});
  // A body that can't be read has no words; it must not end all searches of its session.
  if (kind == ItemKind::kMessage) {
    const MessageText message = bodies_.ReadMessage(row.body).value_or(MessageText());
    item.role = message.role;
    item.thread_id = message.thread_id;
    item.source = message.source_session_id;
    item.name = message.name;
    item.create_us = message.create_us;
    item.text = message.text;
    entry.index.Add(item);
    ++entry.messages;
    return;
  }
  const ContentValue content = bodies_.ReadContent(row.body).value_or(ContentValue());
  if (content.kind == ContentValue::Kind::kText || content.kind == ContentValue::Kind::kJson) {
    item.text = content.value;
  }
  entry.index.Add(item);
  ++entry.contents;
}

SessionSearch::Index SessionSearch::Open(const SessionKey& key) {
  MutexLock lock(mutex_);
  if (const auto found = entries_.find(key); found != entries_.end()) {
    order_.splice(order_.begin(), order_, found->second);
    return order_.front();
  }
  order_.push_front(std::make_shared<Entry>(key, budget_));
  entries_.emplace(key, order_.begin());
  return order_.front();
}

void SessionSearch::Recharge(const std::shared_ptr<Entry>& entry, std::size_t bytes) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(entry->key);
  // Evicted meanwhile.
  if (found == entries_.end() || *found->second != entry) return;
  bytes_ = bytes_ - entry->charged_bytes + bytes;
  entry->charged_bytes = bytes;
  // The one that there is no room for goes, rather than all others before it.
  if (bytes > max_bytes_) {
    Drop(found->second);
    Increment(evictions_);
  }
  Evict(max_bytes_);
}

void SessionSearch::Evict(std::size_t max_bytes) {
  while (bytes_ > max_bytes && !order_.empty()) {
    Drop(std::prev(order_.end()));
    Increment(evictions_);
  }
}

void SessionSearch::Drop(Order::iterator place) {
  bytes_ -= (*place)->charged_bytes;
  entries_.erase((*place)->key);
  order_.erase(place);
}

void SessionSearch::Forget(const SessionKey& key) {
  MutexLock lock(mutex_);
  if (const auto found = entries_.find(key); found != entries_.end()) Drop(found->second);
}

void SessionSearch::EvictTenant(const std::string& tenant, std::int64_t bytes) {
  MutexLock lock(mutex_);
  for (auto place = order_.end(); bytes > 0 && place != order_.begin();) {
    --place;
    // Who searches it keeps it in memory.
    if (place->use_count() > 1 || (*place)->key.tenant != tenant) continue;
    bytes -= static_cast<std::int64_t>((*place)->charged_bytes);
    const Order::iterator evicted = place++;
    Drop(evicted);
    Increment(evictions_);
  }
}

std::size_t SessionSearch::ByteSize() {
  MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace memoryd
