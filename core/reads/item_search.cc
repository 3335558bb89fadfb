#include "core/reads/item_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"
#include "core/base/status_macros.h"
#include "core/calls/call_end.h"
#include "core/items/item.h"
#include "core/items/namespace_config.h"
#include "core/items/namespace_path.h"
#include "core/items/searched_text.h"
#include "core/model/ranking_options.h"
#include "core/reads/item_reads.h"
#include "core/reads/item_view.h"
#include "core/retrieval/languages.h"
#include "core/retrieval/search.h"
#include "core/retrieval/session_index.h"
#include "core/retrieval/word_vectors.h"
#include "core/storage/item_store.h"

namespace memoryd {
namespace {

constexpr std::int64_t kReadAtOnce = 500;
constexpr std::int64_t kBytesAtOnce = std::int64_t{4} << 20;
constexpr std::int64_t kNamespacesAtOnce = 1000;
// What an item takes in an index, beside its text: measured of session indexes.
constexpr std::int64_t kIndexedBytes = 1024;

// A configuration may have 64 KiB.
std::int64_t BytesOf(const ListedNamespace& listed) {
  return static_cast<std::int64_t>(sizeof(listed) + listed.path.stored().size() +
                                   listed.row.subject.size() + listed.row.config.size());
}

// 0 for vectors without a direction.
double Cosine(std::span<const float> a, std::span<const float> b) {
  double product = 0;
  double a_square = 0;
  double b_square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product += double{a[i]} * b[i];
    a_square += double{a[i]} * a[i];
    b_square += double{b[i]} * b[i];
  }
  if (a_square == 0 || b_square == 0) return 0;
  return std::clamp(product / std::sqrt(a_square) / std::sqrt(b_square), -1.0, 1.0);
}

}  // namespace

ItemSearch::ItemSearch(const ItemView* store, MemoryBudget* memory,
                       std::shared_ptr<const WordVectors> vectors, const ItemSearchRequest* request,
                       std::int64_t now_us, std::function<bool()> has_ended)
    : store_(*store),
      memory_(*memory),
      vectors_(std::move(vectors)),
      request_(*request),
      now_us_(now_us),
      has_ended_(std::move(has_ended)),
      is_ranked_(!request->query.empty() || !request->vector.empty()),
      wanted_(static_cast<std::size_t>(request->offset + request->limit)) {}

absl::Status ItemSearch::ListNamespaces(MemoryBudget::Hold& hold) {
  for (std::string after;;) {
    if (has_ended_()) return NobodyWaits();
    MEMORYD_ASSIGN_OR_RETURN(
        std::vector<ListedNamespace> page,
        store_.ListNamespaces(request_.tenant, request_.prefix, after, kNamespacesAtOnce));
    if (page.empty()) break;
    after = page.back().path.stored();
    const bool is_last = std::ssize(page) < kNamespacesAtOnce;
    std::int64_t bytes = 0;
    for (ListedNamespace& listed : page) {
      if (listed.row.item_count == 0) continue;
      if (!FindsWithoutVector() && listed.row.vector_size == 0) continue;
      bytes += BytesOf(listed);
      namespaces_.push_back(std::move(listed));
    }
    MEMORYD_RETURN_IF_ERROR(hold.Grow(bytes));
    if (is_last) break;
    if (std::ssize(namespaces_) >= kMaxNamespacesSearched) {
      limit_ = true;
      break;
    }
  }
  for (const ListedNamespace& listed : namespaces_) {
    const auto size = static_cast<std::size_t>(listed.row.vector_size);
    if (request_.vector.empty() || size == 0 || size == request_.vector.size()) continue;
    return Error(absl::StatusCode::kInvalidArgument, "VECTOR_SIZE",
                 "vector: must have " + std::to_string(size) +
                     " numbers, as those of a namespace below namespace_prefix",
                 {{"field", "vector"}, {"vector_size", std::to_string(size)}});
  }
  // What was written last may make the rest needless.
  std::stable_sort(namespaces_.begin(), namespaces_.end(),
                   [](const ListedNamespace& a, const ListedNamespace& b) {
                     return a.row.update_us > b.row.update_us;
                   });
  return absl::OkStatus();
}

bool ItemSearch::FindsWithoutVector() const {
  return request_.vector.empty() || (!request_.query.empty() && !request_.least_cosine.has_value());
}

bool ItemSearch::IsFull() const {
  return items_read_ >= kMaxItemsSearched || bytes_read_ >= kMaxBytesSearched;
}

bool ItemSearch::AreAllNewer(std::int64_t update_us) const {
  if (is_ranked_ || candidates_.size() < wanted_) return false;
  // Those of the namespace that is being read stand behind older ones of others.
  const auto newer =
      std::count_if(candidates_.begin(), candidates_.end(),
                    [update_us](const Candidate& one) { return one.update_us > update_us; });
  return static_cast<std::size_t>(newer) >= wanted_;
}

absl::Status ItemSearch::Look(std::size_t name_space, const std::string& search, const Item& item) {
  ++items_read_;
  bytes_read_ += CountedBytes(item.key, item.content);
  Candidate found{name_space, item.key, item.update_us, item.version};
  if (!request_.vector.empty() && item.content.vector.size() == request_.vector.size()) {
    found.cosine = Cosine(item.content.vector, request_.vector);
    if (found.cosine < request_.least_cosine.value_or(-1)) return absl::OkStatus();
    if (request_.query.empty()) found.score = found.cosine;
  } else if (!FindsWithoutVector()) {
    return absl::OkStatus();
  }
  MEMORYD_ASSIGN_OR_RETURN(const bool passes, request_.filter.Passes(item.content));
  if (!passes) return absl::OkStatus();
  if (!request_.query.empty()) texts_.push_back(SearchedText(item.content, search));
  candidates_.push_back(std::move(found));
  return absl::OkStatus();
}

absl::Status ItemSearch::Scan(std::size_t name_space) {
  const ListedNamespace& listed = namespaces_[name_space];
  MEMORYD_ASSIGN_OR_RETURN(const NamespaceConfig config, ConfigOf(listed.row));
  ItemRange range;
  range.order = ItemListOrder::kNewestFirst;
  range.max_bytes = kBytesAtOnce;
  range.with_values = !request_.filter.empty() || !request_.query.empty();
  range.with_vectors = !request_.vector.empty();
  const NamespaceKey key{request_.tenant, listed.path};
  for (std::size_t before = candidates_.size();;) {
    if (has_ended_()) return NobodyWaits();
    if (IsFull()) {
      limit_ = true;
      return absl::OkStatus();
    }
    range.max_items = is_ranked_ || !request_.filter.empty()
                          ? kReadAtOnce
                          : std::min(kReadAtOnce, static_cast<std::int64_t>(wanted_));
    MEMORYD_ASSIGN_OR_RETURN(const ItemPage page,
                             store_.ListItems(key, listed.row.generation, range, now_us_));
    for (const Item& item : page.items)
      MEMORYD_RETURN_IF_ERROR(Look(name_space, config.search, item));
    if (!page.more || page.items.empty()) return absl::OkStatus();
    range.after_version = page.items.back().version;
    if (is_ranked_) continue;
    if (candidates_.size() - before >= wanted_) return absl::OkStatus();
    if (AreAllNewer(page.items.back().update_us)) return absl::OkStatus();
  }
}

std::vector<double> ItemSearch::WordScores() const {
  IndexOptions options;
  options.vectors = vectors_;
  options.dates = false;
  // The items lie in the order in which they were last written.
  options.usual_language = UsualLanguage(texts_);
  SessionIndex index(std::move(options));
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    // It is searched by nothing, and must not resemble a query by chance.
    if (texts_[i].empty()) continue;
    IndexedItem item;
    item.kind = ItemKind::kContent;
    item.position = static_cast<std::int64_t>(i);
    item.text = texts_[i];
    index.Add(item);
  }
  SearchRequest search;
  search.query = request_.query;
  search.top_k = request_.vector.empty() ? wanted_ : texts_.size();
  search.ranking = vectors_ == nullptr ? WordsAlone() : RankingOptions();
  search.ranking.dates = false;
  // That is tuned to messages. An item may be a document, which must not lose all of its score.
  search.ranking.length_weight = 0;
  std::vector<double> scores(texts_.size());
  for (const SearchHit& hit : index.Search(search)) {
    scores[static_cast<std::size_t>(hit.position)] = hit.score;
  }
  return scores;
}

void ItemSearch::RankByQuery() {
  const std::vector<double> words = WordScores();
  double best_words = 0;
  double best_cosine = 0;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    best_words = std::max(best_words, words[i]);
    best_cosine = std::max(best_cosine, candidates_[i].cosine);
  }
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    double score = words[i];
    if (!request_.vector.empty()) {
      score = 0;
      if (best_words > 0) score += words[i] / best_words / 2;
      if (best_cosine > 0) score += std::max(0.0, candidates_[i].cosine) / best_cosine / 2;
    }
    if (score > 0) candidates_[i].score = score;
  }
}

void ItemSearch::Sort(std::size_t most) {
  const auto is_before = [this](const Candidate& a, const Candidate& b) {
    // None is less than any.
    if (a.score != b.score) return a.score > b.score;
    if (a.update_us != b.update_us) return a.update_us > b.update_us;
    if (a.name_space != b.name_space) {
      return namespaces_[a.name_space].path < namespaces_[b.name_space].path;
    }
    return a.version > b.version;
  };
  const std::size_t kept = std::min(most, candidates_.size());
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(kept),
                    candidates_.end(), is_before);
  candidates_.resize(kept);
}

absl::StatusOr<FoundKeys> ItemSearch::Run() {
  MEMORYD_ASSIGN_OR_RETURN(MemoryBudget::Hold hold,
                           memory_.Take(request_.tenant, MemoryUse::kReplies, kBytesAtOnce));
  MEMORYD_RETURN_IF_ERROR(ListNamespaces(hold));
  for (std::size_t i = 0; i < namespaces_.size(); ++i) {
    if (AreAllNewer(namespaces_[i].row.update_us)) break;
    const std::int64_t bytes = bytes_read_;
    const std::int64_t items = items_read_;
    MEMORYD_RETURN_IF_ERROR(Scan(i));
    if (!request_.query.empty()) {
      MEMORYD_RETURN_IF_ERROR(
          hold.Grow(bytes_read_ - bytes + (items_read_ - items) * kIndexedBytes));
    } else if (!is_ranked_ || candidates_.size() > 2 * wanted_) {
      Sort(wanted_);
    }
  }
  if (!request_.query.empty()) RankByQuery();
  Sort(wanted_);
  FoundKeys found;
  found.filter_limit = limit_;
  for (std::size_t i = static_cast<std::size_t>(request_.offset); i < candidates_.size(); ++i) {
    Candidate& candidate = candidates_[i];
    FoundKey key{
        {{request_.tenant, namespaces_[candidate.name_space].path}, std::move(candidate.key)}};
    key.score = candidate.score;
    found.keys.push_back(std::move(key));
  }
  return found;
}

}  // namespace memoryd
