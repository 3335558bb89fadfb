#include "core/recall/searched_session.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/memory_budget.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"
#include "core/blocks/vector_entry.h"
#include "core/model/body_reader.h"
#include "core/model/job.h"
#include "core/model/language.h"
#include "core/model/message.h"
#include "core/model/session.h"
#include "core/reads/message_filter.h"
#include "core/recall/known_texts.h"
#include "core/retrieval/search.h"
#include "core/sessions/session_info.h"
#include "core/storage/store.h"
#include "core/tokens/token_counter.h"

namespace memoryd {
namespace {

// Of one read, and of one step, while an index catches up.
constexpr std::int64_t kReadRows = 1000;
constexpr std::int64_t kReadBytes = std::int64_t{4} << 20;
constexpr std::int64_t kStepRows = 10'000;
constexpr std::int64_t kStepBytes = std::int64_t{16} << 20;

}  // namespace

absl::Status SessionChanged() { return absl::AbortedError("the session changed meanwhile"); }

SearchedSession::SearchedSession(SessionKey key, Store* store, const BodyReader* bodies,
                                 MemoryBudget* budget)
    : key_(std::move(key)),
      store_(*store),
      bodies_(*bodies),
      memory_(budget->Count(key_.tenant, MemoryUse::kIndexes, 0)) {}

absl::StatusOr<bool> SearchedSession::CatchUp(const SessionRow& row, const IndexOptions& options,
                                              bool accept_missing, const BlockState* embeddings) {
  MutexLock lock(mutex_);
  absl::StatusOr<bool> done = Step(row, options, accept_missing);
  // Those of an older state than the index's would take newer ones out.
  if (done.ok() && *done && row_.revision <= row.revision) done = AddEmbeddings(embeddings);
  if (const absl::Status charged = Charge(); !charged.ok()) done = charged;
  return done;
}

absl::StatusOr<bool> SearchedSession::Step(const SessionRow& row, const IndexOptions& options,
                                           bool accept_missing) {
  const bool same = !spoilt_ && row_.generation == row.generation &&
                    row_.edit_revision == row.edit_revision && row_.floor == row.floor &&
                    (contents_ == 0 || row.content_count == 0 ||
                     row_.content_generation == row.content_generation) &&
                    // An older row may have other settings, which hold no longer.
                    (options_ == options || row_.revision > row.revision);
  if (!same) {
    // Either may be the later state: revisions begin anew once the tombstone of a deleted session
    // is gone.
    if (!spoilt_ && row_.revision > row.revision && !accept_missing) {
      return SessionChanged();
    }
    index_ = SessionIndex(options);
    options_ = options;
    messages_ = contents_ = 0;
    timed_.clear();
    entry_generation_ = 0;
    spoilt_ = false;
  } else if (complete_ && row_.revision >= row.revision) {
    return true;
  }
  if (!same || row_.revision < row.revision) row_ = row;
  complete_ = false;
  MEMORYD_ASSIGN_OR_RETURN(const bool all, AddMissing());
  if (!all) return false;
  // Rows leave a generation only when a Reset takes them, and then the counts no longer agree.
  spoilt_ = messages_ != row_.active_count + row_.archived_count || contents_ != row_.content_count;
  if (spoilt_ && !accept_missing) return SessionChanged();
  complete_ = true;
  return true;
}

absl::StatusOr<bool> SearchedSession::AddMissing() {
  const SessionRow row = row_;
  StepRoom room{kStepRows, kStepBytes};
  for (const PositionRange& range : StoredRanges(row, StatusFilter::kAll)) {
    MEMORYD_RETURN_IF_ERROR(AddRange(ItemKind::kMessage, row.generation, range, room));
  }
  MEMORYD_RETURN_IF_ERROR(
      AddRange(ItemKind::kContent, row.content_generation, StoredContents(row), room));
  return !room.empty();
}

absl::Status SearchedSession::AddRange(ItemKind kind, std::uint64_t generation, PositionRange range,
                                       StepRoom& room) {
  if (const auto last = index_.LastPosition(kind); last.has_value()) {
    range.begin = std::max(range.begin, *last + 1);
  }
  while (range.begin < range.end && !room.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(const std::vector<MessagePtr> rows,
                             store_.ReadRange(key_, generation, range, kReadRows, kReadBytes));
    if (rows.empty()) break;
    for (const MessagePtr& row : rows) {
      Add(kind, *row);
      room.bytes -= static_cast<std::int64_t>(row->body.size());
    }
    range.begin = rows.back()->position + 1;
    room.rows -= std::ssize(rows);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SearchedSession::AddEmbeddings(const BlockState* embeddings) {
  const std::uint64_t generation = embeddings == nullptr ? 0 : embeddings->entry_generation;
  if (entry_generation_ != generation) {
    index_.RemoveEmbeddings();
    entry_generation_ = generation;
    embedded_ = next_embedded_ = -1;
  }
  if (generation == 0 || embedded_ == embeddings->done) return true;
  if (next_embedded_ == -1) {
    next_embedded_ = embeddings->done;
    next_embedding_ = 0;
  }
  StepRoom room{kStepRows, kStepBytes};
  while (const auto lacking = index_.NextWithoutEmbedding(next_embedding_)) {
    PositionRange range{lacking->first, std::min(lacking->second + 1, embeddings->next_entry)};
    if (range.begin >= range.end) break;
    while (range.begin < range.end) {
      if (room.empty()) return false;
      MEMORYD_ASSIGN_OR_RETURN(const std::vector<MessagePtr> rows,
                               store_.ReadRange(key_, generation, range, kReadRows, kReadBytes));
      room.rows -= std::max<std::int64_t>(1, std::ssize(rows));
      for (const MessagePtr& row : rows) {
        room.bytes -= static_cast<std::int64_t>(row->body.size());
        // One that can't be read is missing; it must not end all searches of its session.
        const absl::StatusOr<VectorEntry> read = DecodeVectorEntry(row->body);
        if (read.ok()) index_.AddEmbedding(row->position, read->vector);
      }
      range.begin = rows.empty() ? range.end : rows.back()->position + 1;
      next_embedding_ = range.begin;
    }
  }
  // Jobs that have ended since it began may have come behind.
  embedded_ = next_embedded_;
  next_embedded_ = -1;
  return embedded_ == embeddings->done;
}

void SearchedSession::Add(ItemKind kind, const Message& row) {
  IndexedItem item;
  item.kind = kind;
  item.position = row.position;
  if (row.ids->expire_us > 0) timed_.push_back({row.ids->expire_us, {kind, row.position}});
  // A body that can't be read has no words; it must not end all searches of its session.
  if (kind == ItemKind::kMessage) {
    const MessageText message = bodies_.ReadMessage(row.body).value_or(MessageText());
    item.role = message.role;
    item.thread_id = message.thread_id;
    item.source = message.source_session_id;
    item.name = message.name;
    item.create_us = message.create_us;
    item.text = message.text;
    index_.Add(item);
    ++messages_;
    return;
  }
  const ContentValue content = bodies_.ReadContent(row.body).value_or(ContentValue());
  if (content.kind == ContentValue::Kind::kText || content.kind == ContentValue::Kind::kJson) {
    item.text = content.value;
  }
  index_.Add(item);
  ++contents_;
}

absl::Status SearchedSession::Charge() {
  absl::Status status;
  const std::int64_t more = static_cast<std::int64_t>(Bytes()) - memory_.bytes();
  if (more > 0) status = memory_.Grow(more);
  if (!status.ok()) {
    index_ = SessionIndex(options_);
    texts_ = nullptr;
    timed_ = std::vector<TimedItem>();
    complete_ = false;
    spoilt_ = true;
  }
  SetBytes();
  return status;
}

absl::StatusOr<SearchedSession::Hits> SearchedSession::Search(SearchRequest request,
                                                              const MessageFilter& filter,
                                                              std::int64_t now_us,
                                                              const QueryEmbedding& embedding) {
  MutexLock lock(mutex_);
  if (!complete_) return SessionChanged();
  Hits found;
  found.row = row_;
  std::vector<std::int64_t> positions;
  if (!filter.message_ids.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(positions,
                             PositionsOf(store_, key_, row_.generation, filter.message_ids));
  }
  for (const TimedItem& item : timed_) {
    if (item.expire_us <= now_us) found.expired.insert(item.place);
  }
  const bool by_place = !filter.message_ids.empty() || filter.status != StatusFilter::kAll;
  if (by_place || !found.expired.empty()) {
    request.filter.accept = [&, by_place](ItemKind kind, std::int64_t position) {
      if (found.expired.contains({kind, position})) return false;
      if (!by_place) return true;
      return kind == ItemKind::kMessage &&
             (filter.message_ids.empty() ||
              std::binary_search(positions.begin(), positions.end(), position)) &&
             (filter.status == StatusFilter::kAll ||
              IsActive(found.row, position) == (filter.status == StatusFilter::kActive));
    };
  }
  found.pending_embeddings = static_cast<std::int64_t>(index_.without_embedding());
  if (embedding.entry_generation == entry_generation_) request.embedding = embedding.vector;
  found.embedding_counted = !request.embedding.empty();
  found.hits = index_.Search(request, &found.scale);
  return found;
}

absl::StatusOr<std::vector<std::vector<std::int64_t>>> SearchedSession::Neighbours(
    const Hits& found, std::size_t count) {
  std::vector<std::vector<std::int64_t>> beside(found.hits.size());
  if (count == 0) return beside;
  MutexLock lock(mutex_);
  if (!complete_ || row_.generation != found.row.generation) return SessionChanged();
  for (std::size_t i = 0; i < found.hits.size(); ++i) {
    if (found.hits[i].kind != ItemKind::kMessage) continue;
    beside[i] = index_.Neighbours(found.hits[i].position, count);
    std::erase_if(beside[i], [&found](std::int64_t position) {
      return found.expired.contains({ItemKind::kMessage, position});
    });
  }
  return beside;
}

absl::StatusOr<SearchScale> SearchedSession::Scale(const SearchRequest& request) {
  MutexLock lock(mutex_);
  if (!complete_) return SessionChanged();
  return index_.Scale(request);
}

std::string SearchedSession::EmbedderQuery(std::string_view query) {
  MutexLock lock(mutex_);
  return index_.EmbedderQuery(query);
}

std::size_t SearchedSession::BestPassage(const SearchRequest& request,
                                         const std::vector<std::string_view>& passages) {
  MutexLock lock(mutex_);
  return index_.BestPassage(request.query, request.ranking, passages);
}

std::shared_ptr<const KnownTexts> SearchedSession::TextsOf(BlockStates blocks,
                                                           const TokenCounter& counter,
                                                           IndexOptions options) {
  MutexLock lock(mutex_);
  // Facts are short and seldom tell; the session does.
  if (const Language usual = index_.usual_language(); usual != Language::kEnglish) {
    options.usual_language = usual;
  }
  if (texts_ == nullptr || !texts_->IsOf(blocks, options)) {
    texts_ = std::make_shared<const KnownTexts>(std::move(blocks), counter, std::move(options));
    SetBytes();
  }
  return texts_;
}

std::size_t SearchedSession::Bytes() const {
  return sizeof(*this) + key_.tenant.size() + key_.session.size() + row_.config.size() +
         index_.ByteSize() + timed_.capacity() * sizeof(TimedItem) +
         (texts_ == nullptr ? 0 : texts_->ByteSize());
}

void SearchedSession::SetBytes() {
  const std::size_t bytes = Bytes();
  bytes_.store(bytes, std::memory_order_relaxed);
  memory_.Resize(static_cast<std::int64_t>(bytes));
}

}  // namespace memoryd
