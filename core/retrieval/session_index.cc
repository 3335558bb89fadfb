#include "core/retrieval/session_index.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "core/model/ranking_options.h"
#include "core/model/time_zone.h"
#include "core/retrieval/heap_bytes.h"
#include "core/retrieval/make_room.h"
#include "core/retrieval/passage_ranking.h"
#include "core/retrieval/passages.h"
#include "core/retrieval/posting_lists.h"
#include "core/retrieval/search.h"
#include "core/retrieval/terms.h"
#include "core/retrieval/thread_likenesses.h"
#include "core/retrieval/top_hits.h"
#include "core/retrieval/vocabulary.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {
namespace {

// Of the words that a word of the query also finds: the most, the least cosine, and the most words
// a session may have when the caller did not ask for it: they are all looked at. A query's words
// beyond the first are a text, in which enough is said by itself; each costs memory and time.
constexpr std::size_t kMaxLikeWords = 20;
constexpr std::size_t kMaxExpandedWords = 64;
constexpr double kLeastLikeness = 0.3;
constexpr std::size_t kMaxVocabulary = 10'000;

bool EndsAsQuestion(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\n\v\f\r");
  text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  return text.ends_with('?') || text.ends_with("\uFF1F") || text.ends_with("\u061F");
}

}  // namespace

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

SessionIndex::SessionIndex(IndexOptions options)
    : options_(std::move(options)),
      keeps_vocabulary_(options_.vectors != nullptr && options_.expansion.value_or(true)),
      vectors_(options_.precision) {}

void SessionIndex::Add(const IndexedItem& item) {
  assert(!LastPosition(item.kind) || item.position > *LastPosition(item.kind));
  const auto doc = static_cast<DocId>(docs_.size());
  std::uint32_t length = 0;
  if (options_.dates && item.create_us.has_value()) {
    length += AddTerms(DayWords(*item.create_us, options_.zone));
  }
  length += AddTerms(item.text);
  terms_.EndItem(length);
  if (options_.vectors != nullptr) vectors_.Add(*options_.vectors, item.text);

  std::uint32_t role = kNoName;
  std::uint32_t thread = kNoName;
  std::uint32_t author = kNoName;
  if (item.kind == ItemKind::kMessage) {
    role = roles_.Add(item.role);
    author = authors_.Add(item.name.empty() ? item.role : item.name);
    thread = item.source.empty()
                 ? threads_.Add(item.thread_id)
                 : threads_.Add(std::string(item.source) + '\n' + std::string(item.thread_id));
    if (thread == docs_of_thread_.size()) docs_of_thread_.emplace_back();
    std::vector<DocId>& of_thread = docs_of_thread_[thread];
    heap_bytes_ -= HeapBytes(of_thread);
    of_thread.push_back(doc);
    heap_bytes_ += HeapBytes(of_thread);
  }
  const float tokens = std::max(1.0F, static_cast<float>(CharacterCount(item.text)) / 4);
  MakeRoom(docs_, 1);
  docs_.push_back({item.position, tokens, role, thread, author});
  asks_.push_back(EndsAsQuestion(item.text));
  docs_of_kind_[static_cast<std::size_t>(item.kind)].push_back(doc);
}

std::uint32_t SessionIndex::AddTerms(std::string_view text) {
  std::uint32_t words = 0;
  ForEachTerm(text, [&](std::string_view term, TermKind kind, std::string_view word) {
    terms_.Add(term);
    if (kind != TermKind::kWord) return;
    ++words;
    if (keeps_vocabulary_ && !word.empty()) vocabulary_.Add(*options_.vectors, word);
  });
  if (vocabulary_.size() > kMaxVocabulary && !options_.expansion.has_value()) {
    vocabulary_ = Vocabulary();
    keeps_vocabulary_ = false;
  }
  return words;
}

void SessionIndex::AddEmbedding(std::int64_t position, std::span<const float> embedding) {
  const std::vector<DocId>& messages = OfKind(ItemKind::kMessage);
  const std::size_t place = PlaceFrom(ItemKind::kMessage, position);
  if (place == messages.size() || docs_[messages[place]].position != position) return;
  embeddings_.Add(place, embedding);
}

std::optional<std::pair<std::int64_t, std::int64_t>> SessionIndex::NextWithoutEmbedding(
    std::int64_t from) const {
  const std::vector<DocId>& messages = OfKind(ItemKind::kMessage);
  std::size_t first = PlaceFrom(ItemKind::kMessage, from);
  while (first < messages.size() && embeddings_.Has(first)) ++first;
  if (first == messages.size()) return std::nullopt;
  std::size_t end = first + 1;
  while (end < messages.size() && !embeddings_.Has(end)) ++end;
  return std::pair(docs_[messages[first]].position, docs_[messages[end - 1]].position);
}

std::string SessionIndex::EmbedderQuery(std::string_view query) const {
  return QueryTerms(query).empty() ? std::string() : authors_.Split(query).rest;
}

bool SessionIndex::ExpandsQueries() const {
  return keeps_vocabulary_ && options_.expansion.value_or(!authors_.is_role_chat());
}

SessionIndex::WordMatches SessionIndex::MatchWords(std::string_view query,
                                                   const RankingOptions& ranking) const {
  WordMatches matches{Scores(docs_.size()), {}};
  Scores of_word(docs_.size());
  std::vector<DocId> touched;
  const auto raise = [&](std::string_view term, double weight) {
    terms_.RaiseToBm25(term, ranking, weight, of_word, touched);
  };
  const auto add = [&] {
    for (const DocId doc : touched) {
      if (matches.scores[doc] == 0) matches.docs.push_back(doc);
      matches.scores[doc] += of_word[doc];
      of_word[doc] = 0;
    }
    touched.clear();
  };
  if (!ExpandsQueries()) {
    for (const std::string& term : QueryTerms(query)) {
      raise(term, 1);
      add();
    }
  } else {
    const std::vector<QueryWord> words = QueryWords(query);
    std::vector<std::string_view> wanted;
    wanted.reserve(kMaxExpandedWords);
    for (const QueryWord& word : words) {
      if (wanted.size() == kMaxExpandedWords) break;
      wanted.push_back(word.word);
    }
    const std::vector<std::vector<LikeWord>> like =
        vocabulary_.Nearest(*options_.vectors, wanted, kMaxLikeWords, kLeastLikeness);
    for (std::size_t i = 0; i < words.size(); ++i) {
      raise(words[i].term, 1);
      if (i < like.size()) RaiseLikeWords(words[i], like[i], raise);
      add();
    }
  }
  for (const DocId doc : matches.docs) {
    matches.largest = std::max(matches.largest, matches.scores[doc]);
  }
  return matches;
}

void SessionIndex::RaiseLikeWords(
    const QueryWord& word, const std::vector<LikeWord>& like_words,
    absl::FunctionRef<void(std::string_view term, double weight)> raise) const {
  if (word.word.empty()) return;
  const double own_rarity = terms_.Rarity(terms_.DocCount(word.term));
  absl::flat_hash_set<std::string> seen = {word.term};
  for (const LikeWord& like : like_words) {
    const std::string term = StemOf(like.word);
    const std::uint32_t doc_count = terms_.DocCount(term);
    if (doc_count == 0 || !seen.insert(term).second) continue;
    // A rare word like a common one of the query counts no more than that.
    const double rarity = terms_.Rarity(doc_count);
    raise(term, (like.cosine - kLeastLikeness) / (1 - kLeastLikeness) *
                    std::min(own_rarity, rarity) / rarity);
  }
}

WordVectors::Vector SessionIndex::QueryVector(std::string_view query) const {
  return vectors_.QueryVector(*options_.vectors, query,
                              [this](std::uint32_t texts) { return terms_.Rarity(texts); });
}

SessionIndex::Likenesses SessionIndex::Cosines(std::string_view query) const {
  Likenesses cosines(docs_.size());
  vectors_.Cosines(QueryVector(query), cosines);
  return cosines;
}

SessionIndex::Likenesses SessionIndex::EmbeddingCosines(std::span<const float> query) const {
  if (!embeddings_.IsLike(query)) return {};
  Likenesses cosines(docs_.size(), kNoCosine);
  const std::vector<DocId>& messages = OfKind(ItemKind::kMessage);
  embeddings_.ForEachCosine(
      query, [&](std::size_t place, float cosine) { cosines[messages[place]] = cosine; });
  return cosines;
}

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

std::vector<SearchHit> SessionIndex::Search(const SearchRequest& request,
                                            SearchScale* scale) const {
  if (scale != nullptr) *scale = request.scale;
  const Filter filter(*this, request.filter);
  if (request.top_k == 0 || docs_.empty() || !filter.possible()) return {};
  if (QueryTerms(request.query).empty()) return {};
  const Scorer scorer(*this, request);
  if (scale != nullptr) *scale = scorer.largest();
  TopHits top(request.top_k);
  const auto offer = [&](DocId doc, double score) {
    // Few come so far that it pays to keep more of them than a score.
    if (!top.MayTake(score) || !scorer.Own(doc).is_hit) return;
    const std::optional<double> cosine = scorer.Cosine(doc);
    if (cosine.has_value() && cosine < request.least_cosine) return;
    const Doc& item = docs_[doc];
    if (filter.Passes(item)) top.Offer(item.kind(), item.position, score);
  };
  ThreadLikenesses threads(docs_of_thread_.size());
  // `own` gives the score of each message before its neighbours count.
  const auto offer_message = [&](const std::vector<DocId>& thread, std::size_t place, auto own) {
    const DocId doc = thread[place];
    double score = own(doc);
    if (const double share = scorer.Share(doc); share > 0) {
      if (place > 0) {
        const DocId before = thread[place - 1];
        score += share * (asks_[before] ? request.ranking.answer_factor : 1) * own(before);
      }
      if (place + 1 < thread.size()) score += share * own(thread[place + 1]);
    }
    score -= request.ranking.thread_weight * threads.Behind(docs_[doc].thread);
    offer(doc, score);
  };
  if (scorer.LooksAtAll()) {
    Scores scores(docs_.size());
    // In the order in which they lie in memory, whatever their threads.
    for (DocId doc = 0; doc < docs_.size(); ++doc) {
      const Scorer::Score own = scorer.Own(doc);
      scores[doc] = own.score;
      if (docs_[doc].kind() == ItemKind::kMessage) threads.Add(docs_[doc].thread, own.likeness);
    }
    const auto own = [&scores](DocId doc) { return scores[doc]; };
    for (const std::vector<DocId>& thread : docs_of_thread_) {
      for (std::size_t place = 0; place < thread.size(); ++place) offer_message(thread, place, own);
    }
    for (const DocId doc : OfKind(ItemKind::kContent)) offer(doc, scores[doc]);
  } else {
    for (const DocId doc : scorer.docs_with_words()) {
      if (docs_[doc].kind() == ItemKind::kMessage) {
        threads.Add(docs_[doc].thread, scorer.Own(doc).likeness);
      }
    }
    const auto own = [&scorer](DocId doc) { return scorer.Own(doc).score; };
    for (const DocId doc : scorer.docs_with_words()) {
      if (docs_[doc].kind() == ItemKind::kContent) {
        offer(doc, own(doc));
        continue;
      }
      const std::vector<DocId>& thread = docs_of_thread_[docs_[doc].thread];
      offer_message(thread, PlaceIn(thread, doc), own);
    }
  }

  std::vector<SearchHit> hits = top.Take();
  const double best = scorer.Best();
  for (SearchHit& hit : hits) {
    const DocId doc = FindDoc(hit.kind, hit.position);
    const ScoreParts own = scorer.OwnParts(doc);
    hit.parts = {own.words / best,     own.vector / best,
                 own.embedding / best, own.author / best,
                 own.user / best,      own.length / best,
                 own.recency / best,   (hit.raw_score - scorer.Own(doc).score) / best};
    hit.score = std::clamp(hit.raw_score / best, 0.0, 1.0);
    hit.cosine = scorer.Cosine(doc);
    hit.embedding_cosine = scorer.EmbeddingCosine(doc);
  }
  return hits;
}

SearchScale SessionIndex::Scale(const SearchRequest& request) const {
  if (docs_.empty() || QueryTerms(request.query).empty()) return {};
  return Scorer(*this, request).largest();
}

std::size_t SessionIndex::PlaceIn(const std::vector<DocId>& thread, DocId doc) {
  return static_cast<std::size_t>(std::lower_bound(thread.begin(), thread.end(), doc) -
                                  thread.begin());
}

std::size_t SessionIndex::PlaceFrom(ItemKind kind, std::int64_t position) const {
  const std::vector<DocId>& docs = OfKind(kind);
  const auto found = std::lower_bound(
      docs.begin(), docs.end(), position,
      [this](DocId doc, std::int64_t wanted) { return docs_[doc].position < wanted; });
  return static_cast<std::size_t>(found - docs.begin());
}

DocId SessionIndex::FindDoc(ItemKind kind, std::int64_t position) const {
  const std::vector<DocId>& docs = OfKind(kind);
  const std::size_t place = PlaceFrom(kind, position);
  return place == docs.size() || docs_[docs[place]].position != position ? kNoDoc : docs[place];
}

std::vector<std::int64_t> SessionIndex::Neighbours(std::int64_t position, std::size_t count) const {
  const DocId doc = FindDoc(ItemKind::kMessage, position);
  if (doc == kNoDoc) return {};
  const std::vector<DocId>& thread = docs_of_thread_[docs_[doc].thread];
  const std::size_t self = PlaceIn(thread, doc);
  std::vector<std::int64_t> positions;
  const std::size_t end = self + std::min(count, thread.size() - 1 - self) + 1;
  for (std::size_t i = self - std::min(count, self); i < end; ++i) {
    if (i != self) positions.push_back(docs_[thread[i]].position);
  }
  return positions;
}

std::size_t SessionIndex::BestPassage(std::string_view query, const RankingOptions& ranking,
                                      const std::vector<std::string_view>& passages) const {
  const std::string rest = authors_.Split(query).rest;
  PassageQuery wanted;
  for (std::string& term : QueryTerms(rest)) {
    const double rarity = terms_.Rarity(terms_.DocCount(term));
    wanted.AddTerm(std::move(term), rarity);
  }
  wanted.bm25_k1 = ranking.bm25_k1;
  if (options_.vectors != nullptr && ranking.vector_weight > 0) {
    wanted.words = options_.vectors.get();
    wanted.vector = QueryVector(rest);
    wanted.vector_weight = ranking.vector_weight;
  }
  return BestOf(passages, wanted);
}

std::optional<std::int64_t> SessionIndex::LastPosition(ItemKind kind) const {
  const std::vector<DocId>& docs = OfKind(kind);
  if (docs.empty()) return std::nullopt;
  return docs_[docs.back()].position;
}

std::size_t SessionIndex::ByteSize() const {
  return sizeof(*this) + heap_bytes_ + HeapBytes(docs_) + asks_.capacity() / 8 +
         HeapBytes(docs_of_kind_[0]) + HeapBytes(docs_of_kind_[1]) + HeapBytes(docs_of_thread_) +
         terms_.ByteSize() + roles_.ByteSize() + threads_.ByteSize() + authors_.ByteSize() +
         vocabulary_.ByteSize() + vectors_.ByteSize() + embeddings_.ByteSize();
}

}  // namespace memoryd
