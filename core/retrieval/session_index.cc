#include "core/retrieval/session_index.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "core/retrieval/terms.h"

namespace memoryd {
namespace {

// BM25's constants. Measured on conversations, turn by turn: flatter than the usual 1.2 and 0.75,
// which were made for documents.
constexpr double kSaturation = 0.9;
constexpr double kLengthWeight = 0.4;

// What malloc adds to a block, on average.
constexpr std::size_t kBlockOverhead = 16;

std::size_t HeapBytes(const std::string& text) {
  static const std::size_t inline_capacity = std::string().capacity();
  return text.capacity() > inline_capacity ? text.capacity() + 1 + kBlockOverhead : 0;
}

template <typename T>
std::size_t HeapBytes(const std::vector<T>& items) {
  return items.capacity() == 0 ? 0 : items.capacity() * sizeof(T) + kBlockOverhead;
}

template <typename Map>
std::size_t TableBytes(const Map& map) {
  // A byte of control for each slot.
  return map.capacity() * (sizeof(typename Map::value_type) + 1) + kBlockOverhead;
}

void AppendVarint(std::uint64_t value, std::string& bytes) {
  for (; value >= 0x80; value >>= 7) {
    bytes.push_back(static_cast<char>(value | 0x80));
  }
  bytes.push_back(static_cast<char>(value));
}

std::uint64_t ReadVarint(const char*& p) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(*p++);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
}

}  // namespace

// Walks through the items that have one term of a query.
class SessionIndex::Cursor {
 public:
  Cursor(const Postings& postings, std::size_t item_count)
      : postings_(&postings),
        p_(postings.packed.data()),
        end_(p_ + postings.packed.size()),
        weight_((kSaturation + 1) *
                std::log(1 + (static_cast<double>(item_count) - postings.doc_count + 0.5) /
                                 (postings.doc_count + 0.5))) {
    Next();
  }

  bool done() const { return done_; }
  DocId doc() const { return doc_; }

  // What the term adds to the score of the item, whose length is `relative_length` times the usual.
  double Score(double relative_length) const {
    return weight_ * count_ /
           (count_ + kSaturation * (1 - kLengthWeight + kLengthWeight * relative_length));
  }

  void Next() {
    if (p_ < end_) {
      const std::uint64_t head = ReadVarint(p_);
      doc_ += static_cast<DocId>(head >> 1);
      count_ = (head & 1) == 0 ? 1 : static_cast<std::uint32_t>(ReadVarint(p_));
    } else if (!at_last_) {
      at_last_ = true;
      doc_ = postings_->last_doc;
      count_ = postings_->last_count;
    } else {
      done_ = true;
    }
  }

 private:
  const Postings* postings_;
  const char* p_;
  const char* end_;
  double weight_;
  DocId doc_ = 0;
  std::uint32_t count_ = 0;
  bool at_last_ = false;
  bool done_ = false;
};

// SearchFilter with its names looked up.
class SessionIndex::Filter {
 public:
  Filter(const SessionIndex& index, const SearchFilter& filter)
      : filter_(filter), any_role_(filter.roles.empty()), any_thread_(!filter.thread_id) {
    for (const std::string& role : filter.roles) {
      if (const auto found = index.roles_.find(role); found != index.roles_.end()) {
        roles_.push_back(found->second);
      }
    }
    if (!any_thread_) {
      const auto found = index.threads_.find(*filter.thread_id);
      possible_ = found != index.threads_.end();
      if (possible_) thread_ = found->second;
    }
    possible_ = possible_ && (any_role_ || !roles_.empty());
  }

  // False: nothing passes.
  bool possible() const { return possible_; }

  bool Passes(const Doc& doc) const {
    return (any_role_ || std::find(roles_.begin(), roles_.end(), doc.role) != roles_.end()) &&
           (any_thread_ || doc.thread == thread_) &&
           (!filter_.start_us || doc.time_us >= *filter_.start_us) &&
           (!filter_.end_us || doc.time_us < *filter_.end_us) &&
           (!filter_.accept || filter_.accept(doc.kind, doc.position));
  }

 private:
  const SearchFilter& filter_;
  const bool any_role_;
  const bool any_thread_;
  bool possible_ = true;
  std::vector<std::uint32_t> roles_;
  std::uint32_t thread_ = 0;
};

// The best hits so far, the worst of them on top of a heap.
class SessionIndex::Ranking {
 public:
  explicit Ranking(std::size_t top_k) : top_k_(top_k) {}

  void Offer(const Doc& doc, double bm25) {
    const SearchHit hit{doc.kind, doc.position, 0, bm25};
    if (hits_.size() == top_k_) {
      if (!Better(hit, hits_.front())) return;
      std::pop_heap(hits_.begin(), hits_.end(), Better);
      hits_.pop_back();
    }
    hits_.push_back(hit);
    std::push_heap(hits_.begin(), hits_.end(), Better);
  }

  std::vector<SearchHit> Take() {
    std::sort_heap(hits_.begin(), hits_.end(), Better);
    for (SearchHit& hit : hits_) {
      hit.score = hit.bm25 / hits_.front().bm25;
    }
    return std::move(hits_);
  }

 private:
  static bool Better(const SearchHit& a, const SearchHit& b) {
    if (a.bm25 != b.bm25) return a.bm25 > b.bm25;
    if (a.kind != b.kind) return a.kind == ItemKind::kMessage;
    return a.position > b.position;
  }

  const std::size_t top_k_;
  std::vector<SearchHit> hits_;
};

void SessionIndex::Add(const IndexedItem& item) {
  assert(!LastPosition(item.kind) || item.position > *LastPosition(item.kind));
  const auto doc = static_cast<DocId>(docs_.size());
  std::uint32_t length = 0;
  ForEachTerm(item.text, [&](std::string_view term, TermKind kind) {
    AddPosting(term, doc);
    if (kind == TermKind::kWord) ++length;
  });
  total_length_ += length;

  std::uint32_t role = kNoName;
  std::uint32_t thread = kNoName;
  if (item.kind == ItemKind::kMessage) {
    role = Intern(roles_, item.role);
    thread = Intern(threads_, item.thread_id);
    if (thread == docs_of_thread_.size()) docs_of_thread_.emplace_back();
    std::vector<DocId>& of_thread = docs_of_thread_[thread];
    heap_bytes_ -= HeapBytes(of_thread);
    of_thread.push_back(doc);
    heap_bytes_ += HeapBytes(of_thread);
  }
  docs_.push_back({item.position, item.time_us, length, role, thread, item.kind});
  docs_of_kind_[static_cast<std::size_t>(item.kind)].push_back(doc);
}

std::uint32_t SessionIndex::Intern(NameMap<std::uint32_t>& names, std::string_view name) {
  const auto found = names.find(name);
  if (found != names.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(names.size());
  heap_bytes_ += HeapBytes(names.emplace(std::string(name), number).first->first);
  return number;
}

void SessionIndex::AddPosting(std::string_view term, DocId doc) {
  auto found = terms_.find(term);
  if (found == terms_.end()) {
    found = terms_.emplace(std::string(term), Postings()).first;
    heap_bytes_ += HeapBytes(found->first);
  }
  Postings& postings = found->second;
  if (postings.doc_count > 0 && postings.last_doc == doc) {
    ++postings.last_count;
    return;
  }
  if (postings.doc_count > 0) {
    heap_bytes_ -= HeapBytes(postings.packed);
    const std::uint64_t distance = postings.last_doc - postings.packed_doc;
    AppendVarint(distance << 1 | (postings.last_count > 1 ? 1 : 0), postings.packed);
    if (postings.last_count > 1) AppendVarint(postings.last_count, postings.packed);
    postings.packed_doc = postings.last_doc;
    heap_bytes_ += HeapBytes(postings.packed);
  }
  postings.last_doc = doc;
  postings.last_count = 1;
  ++postings.doc_count;
}

std::vector<SearchHit> SessionIndex::Search(const SearchRequest& request) const {
  const Filter filter(*this, request.filter);
  if (request.top_k == 0 || !filter.possible()) return {};
  std::vector<Cursor> cursors;
  for (const std::string& term : QueryTerms(request.query)) {
    if (const auto found = terms_.find(term); found != terms_.end()) {
      cursors.emplace_back(found->second, docs_.size());
    }
  }
  if (cursors.empty()) return {};

  // Item by item would cost a heap of cursors, term by term a table of all items. So a stretch of
  // items at a time, from the first that any cursor is at: the sums of a stretch stay in the cache.
  constexpr std::size_t kStretch = 4096;
  std::vector<double> sums(std::min(kStretch, docs_.size()));
  std::vector<DocId> touched;
  const double usual_length =
      std::max<double>(static_cast<double>(total_length_), 1) / static_cast<double>(docs_.size());
  Ranking ranking(request.top_k);
  while (!cursors.empty()) {
    const DocId first =
        std::min_element(cursors.begin(), cursors.end(), [](const Cursor& a, const Cursor& b) {
          return a.doc() < b.doc();
        })->doc();
    for (Cursor& cursor : cursors) {
      for (; !cursor.done() && cursor.doc() - first < kStretch; cursor.Next()) {
        double& sum = sums[cursor.doc() - first];
        if (sum == 0) touched.push_back(cursor.doc());
        sum += cursor.Score(docs_[cursor.doc()].length / usual_length);
      }
    }
    for (const DocId doc : touched) {
      if (filter.Passes(docs_[doc])) ranking.Offer(docs_[doc], sums[doc - first]);
      sums[doc - first] = 0;
    }
    touched.clear();
    std::erase_if(cursors, [](const Cursor& cursor) { return cursor.done(); });
  }
  return ranking.Take();
}

std::vector<std::int64_t> SessionIndex::Neighbours(std::int64_t position, std::size_t count) const {
  const auto before = [this](DocId doc, std::int64_t wanted) {
    return docs_[doc].position < wanted;
  };
  const std::vector<DocId>& messages = OfKind(ItemKind::kMessage);
  const auto found = std::lower_bound(messages.begin(), messages.end(), position, before);
  if (found == messages.end() || docs_[*found].position != position) return {};
  const std::vector<DocId>& thread = docs_of_thread_[docs_[*found].thread];
  const auto self = static_cast<std::size_t>(
      std::lower_bound(thread.begin(), thread.end(), *found) - thread.begin());
  std::vector<std::int64_t> positions;
  const std::size_t end = self + std::min(count, thread.size() - 1 - self) + 1;
  for (std::size_t i = self - std::min(count, self); i < end; ++i) {
    if (i != self) positions.push_back(docs_[thread[i]].position);
  }
  return positions;
}

std::optional<std::int64_t> SessionIndex::LastPosition(ItemKind kind) const {
  const std::vector<DocId>& docs = OfKind(kind);
  if (docs.empty()) return std::nullopt;
  return docs_[docs.back()].position;
}

std::size_t SessionIndex::ByteSize() const {
  return sizeof(*this) + heap_bytes_ + HeapBytes(docs_) + HeapBytes(docs_of_kind_[0]) +
         HeapBytes(docs_of_kind_[1]) + HeapBytes(docs_of_thread_) + TableBytes(terms_) +
         TableBytes(roles_) + TableBytes(threads_);
}

}  // namespace memoryd
