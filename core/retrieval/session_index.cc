#include "core/retrieval/session_index.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/model/time_zone.h"
#include "core/retrieval/make_room.h"
#include "core/retrieval/passages.h"

namespace memoryd {
namespace {

// Of the words that a word of the query also finds: the most, the least cosine, and the most words
// a session may have when the caller did not ask for it: they are all looked at. A query's words
// beyond the first are a text, in which enough is said by itself; each costs memory and time.
constexpr std::size_t kMaxLikeWords = 20;
constexpr std::size_t kMaxExpandedWords = 64;
constexpr double kLeastLikeness = 0.3;
constexpr std::size_t kMaxVocabulary = 10'000;

// By how many of its messages a thread is measured.
constexpr std::size_t kBestOfThread = 3;

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

bool EndsAsQuestion(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\n\v\f\r");
  text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  return text.ends_with('?') || text.ends_with("\uFF1F") || text.ends_with("\u061F");
}

}  // namespace

// Walks through the items that have one term of a query.
class SessionIndex::Cursor {
 public:
  Cursor(const SessionIndex& index, const Postings& postings) : postings_(&postings) {
    if (postings.doc_count > 1) {
      const std::string& packed = index.packed_[postings.packed];
      p_ = packed.data();
      end_ = p_ + packed.size();
    }
    Next();
  }

  bool done() const { return done_; }
  DocId doc() const { return doc_; }

  // How often the item has the term.
  std::uint32_t count() const { return count_; }

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
  const char* p_ = nullptr;
  const char* end_ = nullptr;
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
      for (const auto& [name, number] : index.threads_) {
        // Behind the last of them, if any, is the thread.
        if (std::string_view(name).substr(name.rfind('\n') + 1) == *filter.thread_id) {
          threads_.push_back(number);
        }
      }
      std::sort(threads_.begin(), threads_.end());
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

// The best hits so far, the worst of them on top of a heap.
class SessionIndex::TopHits {
 public:
  explicit TopHits(std::size_t top_k) : top_k_(top_k) {}

  // Whether an item of this score may be among them.
  bool MayTake(double raw_score) const {
    return hits_.size() < top_k_ || raw_score >= hits_.front().raw_score;
  }

  void Offer(const Doc& doc, double raw_score) {
    SearchHit hit;
    hit.kind = doc.kind();
    hit.position = doc.position;
    hit.raw_score = raw_score;
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
    return std::move(hits_);
  }

 private:
  static bool Better(const SearchHit& a, const SearchHit& b) {
    if (a.raw_score != b.raw_score) return a.raw_score > b.raw_score;
    if (a.kind != b.kind) return a.kind == ItemKind::kMessage;
    return a.position > b.position;
  }

  const std::size_t top_k_;
  std::vector<SearchHit> hits_;
};

// How much the threads of a session have to say to a query, by the messages in each that are most
// like it.
class SessionIndex::ThreadLikenesses {
 public:
  explicit ThreadLikenesses(std::size_t threads) : best_(threads) {}

  void Add(std::uint32_t thread, double likeness) {
    if (likeness <= best_[thread].back()) return;
    for (double& best : best_[thread]) {
      if (likeness > best) std::swap(likeness, best);
    }
    largest_ = std::max(largest_, Mean(thread));
  }

  // By how much it is behind the best thread; at least 0. To be asked when all are added.
  double Behind(std::uint32_t thread) const { return largest_ - Mean(thread); }

 private:
  double Mean(std::uint32_t thread) const {
    const auto& best = best_[thread];
    return std::accumulate(best.begin(), best.end(), 0.0) / kBestOfThread;
  }

  // The largest first; 0 where a thread has no more.
  std::vector<std::array<double, kBestOfThread>> best_;
  double largest_ = 0;
};

SessionIndex::SessionIndex(IndexOptions options)
    : options_(std::move(options)),
      keeps_vocabulary_(options_.vectors != nullptr && options_.expansion.value_or(true)),
      vectors_(options_.precision, WordVectors::kDimensions) {}

void SessionIndex::Add(const IndexedItem& item) {
  assert(!LastPosition(item.kind) || item.position > *LastPosition(item.kind));
  const auto doc = static_cast<DocId>(docs_.size());
  std::uint32_t length = 0;
  if (options_.dates && item.create_us.has_value()) {
    length += AddTerms(DayWords(*item.create_us, options_.zone), doc);
  }
  length += AddTerms(item.text, doc);
  total_length_ += length;
  if (options_.vectors != nullptr) AddVector(item.text);

  std::uint32_t role = kNoName;
  std::uint32_t thread = kNoName;
  std::uint32_t author = kNoName;
  if (item.kind == ItemKind::kMessage) {
    role = Intern(roles_, item.role);
    author = authors_.Add(item.name.empty() ? item.role : item.name);
    thread = item.source.empty()
                 ? Intern(threads_, item.thread_id)
                 : Intern(threads_, std::string(item.source) + '\n' + std::string(item.thread_id));
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
  MakeRoom(lengths_, 1);
  lengths_.push_back(length);
  docs_of_kind_[static_cast<std::size_t>(item.kind)].push_back(doc);
}

std::uint32_t SessionIndex::AddTerms(std::string_view text, DocId doc) {
  std::uint32_t words = 0;
  ForEachTerm(text, [&](std::string_view term, TermKind kind, std::string_view word) {
    AddPosting(term, doc);
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

void SessionIndex::AddVector(std::string_view text) {
  std::vector<WordVectors::Token> tokens = options_.vectors->Tokens(text);
  WordVectors::Vector vector = {};
  for (const WordVectors::Token token : tokens) options_.vectors->Add(token, 1, vector);
  Normalize(vector);
  vectors_.Append(vector);
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  for (const WordVectors::Token token : tokens) ++token_docs_[token].docs;
}

void SessionIndex::AddEmbedding(std::int64_t position, std::span<const float> embedding) {
  const std::vector<DocId>& messages = OfKind(ItemKind::kMessage);
  const std::size_t place = PlaceFrom(ItemKind::kMessage, position);
  if (place == messages.size() || docs_[messages[place]].position != position) return;
  if (place < embedding_of_.size() && embedding_of_[place] != kNoEmbedding) return;
  std::uint32_t number = kNoWords;
  if (!embedding.empty()) {
    if (embeddings_.size() == 0) embeddings_ = {Precision::k8Bits, embedding.size()};
    if (embedding.size() != embeddings_.dimensions()) return;
    number = static_cast<std::uint32_t>(embeddings_.size());
    std::vector<float> unit(embedding.begin(), embedding.end());
    Normalize(unit);
    embeddings_.Append(unit);
  }
  if (place >= embedding_of_.size()) {
    MakeRoom(embedding_of_, place + 1 - embedding_of_.size());
    embedding_of_.resize(place + 1, kNoEmbedding);
  }
  embedding_of_[place] = number;
  ++embedded_messages_;
}

void SessionIndex::RemoveEmbeddings() {
  embeddings_ = {Precision::k8Bits, 0};
  embedding_of_ = {};
  embedded_messages_ = 0;
}

std::optional<std::pair<std::int64_t, std::int64_t>> SessionIndex::NextWithoutEmbedding(
    std::int64_t from) const {
  const std::vector<DocId>& messages = OfKind(ItemKind::kMessage);
  const auto lacks = [this](std::size_t place) {
    return place >= embedding_of_.size() || embedding_of_[place] == kNoEmbedding;
  };
  std::size_t first = PlaceFrom(ItemKind::kMessage, from);
  while (first < messages.size() && !lacks(first)) ++first;
  if (first == messages.size()) return std::nullopt;
  std::size_t end = first + 1;
  while (end < messages.size() && lacks(end)) ++end;
  return std::pair(docs_[messages[first]].position, docs_[messages[end - 1]].position);
}

std::string SessionIndex::EmbedderQuery(std::string_view query) const {
  return QueryTerms(query).empty() ? std::string() : authors_.Split(query).rest;
}

std::uint32_t SessionIndex::Intern(NameMap<std::uint32_t>& names, std::string_view name) {
  const auto found = names.find(name);
  if (found != names.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(names.size());
  heap_bytes_ += HeapBytes(names.emplace(std::string(name), number).first->first);
  return number;
}

void SessionIndex::AddPosting(std::string_view term, DocId doc) {
  const std::uint32_t number = terms_.Add(term);
  if (number == postings_.size()) {
    MakeRoom(postings_, 1);
    postings_.emplace_back();
  }
  Postings& postings = postings_[number];
  if (postings.doc_count > 0 && postings.last_doc == doc) {
    ++postings.last_count;
    return;
  }
  if (postings.doc_count > 0) {
    if (postings.doc_count == 1) {
      postings.packed = static_cast<std::uint32_t>(packed_.size());
      MakeRoom(packed_, 1);
      packed_.emplace_back();
    }
    std::string& packed = packed_[postings.packed];
    heap_bytes_ -= HeapBytes(packed);
    const std::uint64_t distance = postings.last_doc - postings.packed_doc;
    AppendVarint(distance << 1 | (postings.last_count > 1 ? 1 : 0), packed);
    if (postings.last_count > 1) AppendVarint(postings.last_count, packed);
    postings.packed_doc = postings.last_doc;
    heap_bytes_ += HeapBytes(packed);
  }
  postings.last_doc = doc;
  postings.last_count = 1;
  ++postings.doc_count;
}

const SessionIndex::Postings* SessionIndex::FindPostings(std::string_view term) const {
  const std::uint32_t number = terms_.Find(term);
  return number == StringTable::kNone ? nullptr : &postings_[number];
}

bool SessionIndex::ExpandsQueries() const {
  return keeps_vocabulary_ && options_.expansion.value_or(!authors_.is_role_chat());
}

double SessionIndex::Rarity(std::uint32_t doc_count) const {
  return std::log(1 + (static_cast<double>(docs_.size()) - doc_count + 0.5) / (doc_count + 0.5));
}

void SessionIndex::RaiseToBm25(const Postings& postings, const RankingOptions& ranking,
                               double weight, Scores& scores, std::vector<DocId>& touched) const {
  weight *= Rarity(postings.doc_count) * (ranking.bm25_k1 + 1);
  const double usual_length =
      std::max<double>(static_cast<double>(total_length_), 1) / static_cast<double>(docs_.size());
  for (Cursor cursor(*this, postings); !cursor.done(); cursor.Next()) {
    const double length = lengths_[cursor.doc()] / usual_length;
    const double norm = ranking.bm25_k1 * (1 - ranking.bm25_b + ranking.bm25_b * length);
    double& score = scores[cursor.doc()];
    if (score == 0) touched.push_back(cursor.doc());
    score = std::max(score, weight * cursor.count() / (cursor.count() + norm));
  }
}

SessionIndex::WordMatches SessionIndex::MatchWords(std::string_view query,
                                                   const RankingOptions& ranking) const {
  WordMatches matches{Scores(docs_.size()), {}};
  Scores of_word(docs_.size());
  std::vector<DocId> touched;
  const auto raise = [&](std::string_view term, double weight) {
    if (const Postings* const postings = FindPostings(term); postings != nullptr) {
      RaiseToBm25(*postings, ranking, weight, of_word, touched);
    }
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
  const Postings* const own = FindPostings(word.term);
  const double own_rarity = Rarity(own == nullptr ? 0 : own->doc_count);
  absl::flat_hash_set<std::string> seen = {word.term};
  for (const LikeWord& like : like_words) {
    const std::string term = StemOf(like.word);
    const Postings* const postings = FindPostings(term);
    if (postings == nullptr || !seen.insert(term).second) continue;
    // A rare word like a common one of the query counts no more than that.
    const double rarity = Rarity(postings->doc_count);
    raise(term, (like.cosine - kLeastLikeness) / (1 - kLeastLikeness) *
                    std::min(own_rarity, rarity) / rarity);
  }
}

WordVectors::Vector SessionIndex::QueryVector(std::string_view query) const {
  WordVectors::Vector vector = {};
  for (const WordVectors::Token token : options_.vectors->Tokens(query)) {
    const auto found = token_docs_.find(token);
    const double rarity = Rarity(found == token_docs_.end() ? 0 : found->second.docs);
    options_.vectors->Add(token, static_cast<float>(rarity), vector);
  }
  Normalize(vector);
  return vector;
}

SessionIndex::Likenesses SessionIndex::Cosines(std::string_view query) const {
  Likenesses cosines(docs_.size());
  vectors_.Dot(QueryVector(query), cosines);
  return cosines;
}

SessionIndex::Likenesses SessionIndex::EmbeddingCosines(std::span<const float> query) const {
  if (query.empty() || query.size() != embeddings_.dimensions()) return {};
  std::vector<float> unit(query.begin(), query.end());
  Normalize(unit);
  Likenesses products(embeddings_.size());
  embeddings_.Dot(unit, products);
  Likenesses cosines(docs_.size(), kNoCosine);
  const std::vector<DocId>& messages = OfKind(ItemKind::kMessage);
  for (std::size_t i = 0; i < embedding_of_.size(); ++i) {
    if (embedding_of_[i] < kNoWords) cosines[messages[i]] = products[embedding_of_[i]];
  }
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
    if (filter.Passes(docs_[doc])) top.Offer(docs_[doc], score);
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

SessionIndex::DocId SessionIndex::FindDoc(ItemKind kind, std::int64_t position) const {
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
  NameMap<std::size_t> places;  // In `rarities`.
  std::vector<double> rarities;
  for (std::string& term : QueryTerms(rest)) {
    const Postings* const postings = FindPostings(term);
    places.emplace(std::move(term), rarities.size());
    rarities.push_back(Rarity(postings == nullptr ? 0 : postings->doc_count));
  }
  const bool by_vector = options_.vectors != nullptr && ranking.vector_weight > 0;
  const WordVectors::Vector wanted = by_vector ? QueryVector(rest) : WordVectors::Vector();
  Scores words(passages.size());
  Scores cosines(passages.size());
  for (std::size_t i = 0; i < passages.size(); ++i) {
    std::vector<std::uint32_t> counts(rarities.size());
    ForEachTerm(passages[i], [&](std::string_view term, TermKind, std::string_view) {
      if (const auto found = places.find(term); found != places.end()) ++counts[found->second];
    });
    for (std::size_t j = 0; j < counts.size(); ++j) {
      if (counts[j] > 0) words[i] += rarities[j] * counts[j] / (counts[j] + ranking.bm25_k1);
    }
    if (!by_vector) continue;
    WordVectors::Vector vector = {};
    for (const WordVectors::Token token : options_.vectors->Tokens(passages[i])) {
      options_.vectors->Add(token, 1, vector);
    }
    Normalize(vector);
    for (std::size_t j = 0; j < vector.size(); ++j) cosines[i] += vector[j] * wanted[j];
  }
  const auto share_of_largest = [](const Scores& scores, std::size_t i) {
    const double largest = *std::max_element(scores.begin(), scores.end());
    return largest > 0 ? scores[i] / largest : 0;
  };
  std::size_t best = 0;
  double best_score = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < passages.size(); ++i) {
    const double score =
        share_of_largest(words, i) + ranking.vector_weight * share_of_largest(cosines, i);
    if (score > best_score) {
      best = i;
      best_score = score;
    }
  }
  return best;
}

std::optional<std::int64_t> SessionIndex::LastPosition(ItemKind kind) const {
  const std::vector<DocId>& docs = OfKind(kind);
  if (docs.empty()) return std::nullopt;
  return docs_[docs.back()].position;
}

std::size_t SessionIndex::ByteSize() const {
  return sizeof(*this) + heap_bytes_ + HeapBytes(docs_) + asks_.capacity() / 8 +
         HeapBytes(lengths_) + HeapBytes(docs_of_kind_[0]) + HeapBytes(docs_of_kind_[1]) +
         HeapBytes(docs_of_thread_) + terms_.ByteSize() + HeapBytes(postings_) +
         HeapBytes(packed_) + TableBytes(roles_) + TableBytes(threads_) + authors_.ByteSize() +
         vocabulary_.ByteSize() + vectors_.ByteSize() + embeddings_.ByteSize() +
         HeapBytes(embedding_of_) + TableBytes(token_docs_);
}

}  // namespace memoryd
