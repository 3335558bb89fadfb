// How an index is searched: SessionIndex::Search().
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/ranking_options.h"
#include "core/retrieval/authors.h"
#include "core/retrieval/posting_lists.h"
#include "core/retrieval/query_terms.h"
#include "core/retrieval/search.h"
#include "core/retrieval/session_index.h"
#include "core/retrieval/string_table.h"
#include "core/retrieval/thread_likenesses.h"
#include "core/retrieval/top_hits.h"

namespace memoryd {

// SearchFilter with its names looked up.
class SessionIndex::Filter {
 public:
  Filter(const SessionIndex& index, const SearchFilter& filter)
      : filter_(filter), any_role_(filter.roles.empty()), any_thread_(!filter.thread_id) {
    for (const std::string& role : filter.roles) {
      const std::uint32_t number = index.roles_.Find(role);
      if (number != StringTable::kNone) roles_.push_back(number);
    }
    if (!any_thread_) {
      for (std::uint32_t number = 0; number < index.threads_.size(); ++number) {
        const std::string_view name = index.threads_[number];
        // Behind the last of them, if any, is the thread.
        if (name.substr(name.rfind('\n') + 1) == *filter.thread_id) threads_.push_back(number);
      }
    }
    possible_ = (any_thread_ || !threads_.empty()) && (any_role_ || !roles_.empty());
  }

  // False: nothing passes.
  bool possible() const { return possible_; }

  bool Passes(const Doc& doc) const {
    return (any_role_ || std::find(roles_.begin(), roles_.end(), doc.role) != roles_.end()) &&
           (any_thread_ || std::binary_search(threads_.begin(), threads_.end(), doc.thread)) &&
           (!filter_.accept || filter_.accept(doc.kind(), doc.position));
  }

 private:
  const SearchFilter& filter_;
  const bool any_role_;
  const bool any_thread_;
  bool possible_ = true;
  std::vector<std::uint32_t> roles_;
  std::vector<std::uint32_t> threads_;  // Ascending.
};

// The scores of items for one query.
class SessionIndex::Scorer {
 public:
  struct Score {
    double score = 0;
    double likeness = 0;  // Of its words and vectors alone.
    bool is_hit = false;  // Whether something speaks for the item itself.
  };

  // `index` and `request` must outlive it.
  Scorer(const SessionIndex& index, const SearchRequest& request)
      : index_(index),
        ranking_(request.ranking),
        named_(index.authors_.Split(request.query)),
        words_(index.MatchWords(named_.rest, ranking_)),
        by_vector_(index.options_.vectors != nullptr && ranking_.vector_weight > 0),
        cosines_(by_vector_ ? index.Cosines(named_.rest) : Likenesses()),
        largest_{std::max(words_.largest, request.scale.words),
                 std::max<double>(Largest(cosines_), request.scale.cosine)},
        vector_scale_(ToOne(largest_.cosine)),
        embedding_cosines_(ranking_.embedder_weight > 0 ? index.EmbeddingCosines(request.embedding)
                                                        : Likenesses()),
        embedding_scale_(ToOne(Largest(embedding_cosines_))),
        user_weight_(index.authors_.is_role_chat() ? ranking_.user_weight : 0),
        // A single item is the newest and the oldest.
        newest_(std::max<double>(1, static_cast<double>(index.docs_.size()) - 1)) {}

  // The best score there could be.
  double Best() const {
    return (1 + (by_vector_ ? ranking_.vector_weight : 0) +
            (by_embedding() ? ranking_.embedder_weight : 0) + ranking_.author_weight +
            user_weight_ + ranking_.recency_weight) *
           (1 + (1 + std::max(1.0, ranking_.answer_factor)) * ranking_.neighbour_weight);
  }

  // Whether anything but words can speak for an item.
  bool LooksAtAll() const { return by_vector_ || by_embedding() || named_.author.has_value(); }
  const std::vector<DocId>& docs_with_words() const { return words_.docs; }
  SearchScale largest() const { return largest_; }

  // Without the neighbours.
  ScoreParts OwnParts(DocId doc) const {
    const Doc& item = index_.docs_[doc];
    ScoreParts parts;
    if (words_.scores[doc] > 0) parts.words = words_.scores[doc] / largest_.words;
    const double likeness = by_vector_ ? vector_scale_ * cosines_[doc] : 0;
    parts.vector = ranking_.vector_weight * likeness;
    if (by_embedding()) {
      const double cosine = embedding_cosines_[doc];
      parts.embedding = ranking_.embedder_weight *
                        std::max(0.0, cosine == kNoCosine ? likeness : embedding_scale_ * cosine);
    }
    if (item.kind() == ItemKind::kMessage) {
      if (named_.author == item.author) parts.author = ranking_.author_weight;
      if (user_weight_ > 0 && index_.authors_.IsUser(item.author)) parts.user = user_weight_;
    }
    if (ranking_.length_weight > 0 && item.tokens > ranking_.length_tokens) {
      parts.length = -ranking_.length_weight * std::log(item.tokens / ranking_.length_tokens);
    }
    parts.recency = ranking_.recency_weight * doc / newest_;
    return parts;
  }

  Score Own(DocId doc) const {
    const ScoreParts parts = OwnParts(doc);
    const bool is_like = (by_vector_ && cosines_[doc] >= ranking_.vector_threshold) ||
                         (by_embedding() && embedding_cosines_[doc] >= ranking_.vector_threshold);
    const double likeness = parts.words + parts.vector + parts.embedding;
    return {likeness + parts.author + parts.user + parts.length + parts.recency, likeness,
            parts.words > 0 || is_like || parts.author > 0};
  }

  std::optional<double> Cosine(DocId doc) const {
    return by_vector_ ? std::optional(cosines_[doc]) : std::nullopt;
  }

  std::optional<double> EmbeddingCosine(DocId doc) const {
    if (!by_embedding() || embedding_cosines_[doc] == kNoCosine) return std::nullopt;
    return embedding_cosines_[doc];
  }

  // What a message gets of the sum of its neighbours' scores.
  double Share(DocId doc) const {
    const double tokens = index_.docs_[doc].tokens;
    const bool is_long = ranking_.neighbour_tokens > 0 && tokens > ranking_.neighbour_tokens;
    return ranking_.neighbour_weight * (is_long ? ranking_.neighbour_tokens / tokens : 1);
  }

 private:
  bool by_embedding() const { return !embedding_cosines_.empty(); }

  // At least 0.
  static float Largest(const Likenesses& cosines) {
    float largest = 0;
    for (const float cosine : cosines) largest = std::max(largest, cosine);
    return largest;
  }
  // By which cosines are multiplied, so that the largest becomes 1.
  static double ToOne(double largest) {
    // With none above 0 there is nothing to tell them apart by.
    return largest > 0 ? 1 / largest : 0;
  }

  const SessionIndex& index_;
  const RankingOptions& ranking_;
  const Authors::NamedQuery named_;
  const WordMatches words_;
  const bool by_vector_;
  const Likenesses cosines_;
  const SearchScale largest_;
  const double vector_scale_;
  const Likenesses embedding_cosines_;  // Empty: none counts.
  const double embedding_scale_;
  const double user_weight_;
  const double newest_;
};

// Ranks the items for one request.
class SessionIndex::Ranker {
 public:
  // All of them must outlive it.
  Ranker(const SessionIndex& index, const SearchRequest& request, const Filter& filter,
         const Scorer& scorer)
      : index_(index),
        request_(request),
        filter_(filter),
        scorer_(scorer),
        top_(request.top_k),
        threads_(index.docs_of_thread_.size()) {}

  void RankAll() {
    Scores scores(index_.docs_.size());
    // In the order in which they lie in memory, whatever their threads.
    for (DocId doc = 0; doc < scores.size(); ++doc) {
      const Scorer::Score own = scorer_.Own(doc);
      scores[doc] = own.score;
      if (IsMessage(doc)) threads_.Add(index_.docs_[doc].thread, own.likeness);
    }
    const auto own = [&scores](DocId doc) { return scores[doc]; };
    for (const std::vector<DocId>& thread : index_.docs_of_thread_) {
      for (std::size_t place = 0; place < thread.size(); ++place) OfferMessage(thread, place, own);
    }
    for (const DocId doc : index_.OfKind(ItemKind::kContent)) Offer(doc, scores[doc]);
  }

  void RankThoseWithWords() {
    for (const DocId doc : scorer_.docs_with_words()) {
      if (IsMessage(doc)) threads_.Add(index_.docs_[doc].thread, scorer_.Own(doc).likeness);
    }
    const auto own = [this](DocId doc) { return scorer_.Own(doc).score; };
    for (const DocId doc : scorer_.docs_with_words()) {
      if (!IsMessage(doc)) {
        Offer(doc, own(doc));
        continue;
      }
      const std::vector<DocId>& thread = index_.docs_of_thread_[index_.docs_[doc].thread];
      OfferMessage(thread, PlaceIn(thread, doc), own);
    }
  }

  // The best first. Once.
  std::vector<SearchHit> Take() {
    std::vector<SearchHit> hits = top_.Take();
    const double best = scorer_.Best();
    for (SearchHit& hit : hits) {
      const DocId doc = index_.FindDoc(hit.kind, hit.position);
      const ScoreParts own = scorer_.OwnParts(doc);
      hit.parts = {own.words / best,     own.vector / best,
                   own.embedding / best, own.author / best,
                   own.user / best,      own.length / best,
                   own.recency / best,   (hit.raw_score - scorer_.Own(doc).score) / best};
      hit.score = std::clamp(hit.raw_score / best, 0.0, 1.0);
      hit.cosine = scorer_.Cosine(doc);
      hit.embedding_cosine = scorer_.EmbeddingCosine(doc);
    }
    return hits;
  }

 private:
  bool IsMessage(DocId doc) const { return index_.docs_[doc].kind() == ItemKind::kMessage; }

  void Offer(DocId doc, double score) {
    // Few come so far that it pays to keep more of them than a score.
    if (!top_.MayTake(score) || !scorer_.Own(doc).is_hit) return;
    const std::optional<double> cosine = scorer_.Cosine(doc);
    if (cosine.has_value() && cosine < request_.least_cosine) return;
    const Doc& item = index_.docs_[doc];
    if (filter_.Passes(item)) top_.Offer(item.kind(), item.position, score);
  }

  // `own` gives the score of each message before its neighbours count.
  template <typename Own>
  void OfferMessage(const std::vector<DocId>& thread, std::size_t place, const Own& own) {
    const DocId doc = thread[place];
    double score = own(doc);
    if (const double share = scorer_.Share(doc); share > 0) {
      if (place > 0) {
        const DocId before = thread[place - 1];
        score += share * (index_.asks_[before] ? request_.ranking.answer_factor : 1) * own(before);
      }
      if (place + 1 < thread.size()) score += share * own(thread[place + 1]);
    }
    score -= request_.ranking.thread_weight * threads_.Behind(index_.docs_[doc].thread);
    Offer(doc, score);
  }

  const SessionIndex& index_;
  const SearchRequest& request_;
  const Filter& filter_;
  const Scorer& scorer_;
  TopHits top_;
  ThreadLikenesses threads_;
};

std::vector<SearchHit> SessionIndex::Search(const SearchRequest& request,
                                            SearchScale* scale) const {
  if (scale != nullptr) *scale = request.scale;
  const Filter filter(*this, request.filter);
  if (request.top_k == 0 || docs_.empty() || !filter.possible()) return {};
  if (!HasQueryWords(request.query)) return {};
  const Scorer scorer(*this, request);
  if (scale != nullptr) *scale = scorer.largest();
  Ranker ranker(*this, request, filter, scorer);
  if (scorer.LooksAtAll()) {
    ranker.RankAll();
  } else {
    ranker.RankThoseWithWords();
  }
  return ranker.Take();
}

SearchScale SessionIndex::Scale(const SearchRequest& request) const {
  if (docs_.empty() || !HasQueryWords(request.query)) return {};
  return Scorer(*this, request).largest();
}

}  // namespace memoryd
