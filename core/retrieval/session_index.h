// Finds what a session holds by its words, and by what is like them.
#ifndef MEMORYD_CORE_RETRIEVAL_SESSION_INDEX_H_
#define MEMORYD_CORE_RETRIEVAL_SESSION_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "core/base/string_hash.h"
#include "core/model/ranking_options.h"
#include "core/retrieval/authors.h"
#include "core/retrieval/quantized_vectors.h"
#include "core/retrieval/string_table.h"
#include "core/retrieval/terms.h"
#include "core/retrieval/vocabulary.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {

enum class ItemKind : std::uint8_t { kMessage = 0, kContent = 1 };

// What is to be found later. Borrows its strings for the call.
struct IndexedItem {
  ItemKind kind = ItemKind::kMessage;
  std::int64_t position = 0;   // Among the items of its kind.
  std::string_view role;       // Of a message; a content has none.
  std::string_view name;       // Its speaker's; "" for one without, who then goes by his role.
  std::string_view thread_id;  // Of a message, without a line feed; "" for one without.
  // Of a message that another session handed on, that session; else "". Neighbours are of one
  // thread of one source: conversations that were handed on to one session are not one for that.
  std::string_view source;
  // When a message was created, by the caller's word; its day is among the terms it is found by.
  std::optional<std::int64_t> create_us;
  std::string_view text;
};

// Which items may be hits. What is not set does not limit; what is set must all hold.
struct SearchFilter {
  // One of these; no content has one. Empty: any.
  std::vector<std::string> roles;
  // Whatever their source. "": messages without a thread. No content is in a thread.
  std::optional<std::string> thread_id;
  // Says false for what may not be a hit. Asked once for each item that has a word of the query and
  // passes the rest of the filter.
  std::function<bool(ItemKind kind, std::int64_t position)> accept;
};

// What words and cosines are divided by, so that the best has 1.
struct SearchScale {
  double words = 0;
  double cosine = 0;
};

struct SearchRequest {
  std::string_view query;
  std::size_t top_k = 0;
  SearchFilter filter;
  // Of these, `expansion`, `dates` and `zone` must be as in the index's IndexOptions.
  RankingOptions ranking;
  // The least cosine of a hit's vector and the query's; not looked at without vectors.
  std::optional<double> least_cosine = std::nullopt;
  // The best there is in other indexes, whose hits are to be compared with these.
  SearchScale scale = {};
  // Of the query without names, as EmbedderQuery() gives it, by the embedder that made the
  // messages' embeddings. Empty, or of another size than theirs: embeddings don't count.
  std::span<const float> embedding = {};
};

// What a score is made of. They add up to it, but for rounding and the bounds.
struct ScoreParts {
  double words = 0;
  double vector = 0;
  double embedding = 0;
  double author = 0;
  double user = 0;
  double length = 0;  // At most 0.
  double recency = 0;
  double neighbours = 0;  // Also below 0: in a thread that has less to say than another.
};

struct SearchHit {
  ItemKind kind = ItemKind::kMessage;
  std::int64_t position = 0;
  // 0 to 1, where 1 would be the best in every part: comparable within one search only, since words
  // and vectors are measured by the best item's.
  double score = 0;
  // Before it is bounded.
  double raw_score = 0;
  ScoreParts parts;
  // Of its vector and the query's; none without vectors.
  std::optional<double> cosine = std::nullopt;
  // Of its embedding and the query's; none without either.
  std::optional<double> embedding_cosine = std::nullopt;
};

// What an index takes in; others are made by building anew.
struct IndexOptions {
  // None: texts are found by their words alone.
  std::shared_ptr<const WordVectors> vectors;
  Precision precision = Precision::k8Bits;
  std::optional<bool> expansion;
  bool dates = true;
  absl::TimeZone zone = absl::UTCTimeZone();  // In which dates are written.

  friend bool operator==(const IndexOptions&, const IndexOptions&) = default;
};

// The messages and contents of one session in memory: an inverted index, a vector for each, and for
// messages what an embedder makes of them.
//
// Nothing is ever removed: what has left the session is kept out by SearchFilter::accept, or by
// building anew. Any number of threads may call the const functions at once; Add() must be alone.
class SessionIndex {
 public:
  SessionIndex() = default;
  explicit SessionIndex(IndexOptions options);

  // Adds an item. Positions of a kind rise with every call; messages and contents may come in any
  // order between them. Costs time with the length of the text, not of the session.
  void Add(const IndexedItem& item);

  // Gives the message at `position` what an embedder made of it, once; nothing for a text without
  // words. Ignored: for what is no message here, for one that has its own, and of another size than
  // those before. Must be alone, as Add().
  void AddEmbedding(std::int64_t position, std::span<const float> embedding);

  // Forgets all of them. Must be alone.
  void RemoveEmbeddings();

  // Messages that have not been given an embedding, if it be nothing.
  std::size_t without_embedding() const {
    return OfKind(ItemKind::kMessage).size() - embedded_messages_;
  }

  // Of those the first ones at `from` or behind that follow one another: the positions of the first
  // and the last.
  std::optional<std::pair<std::int64_t, std::int64_t>> NextWithoutEmbedding(
      std::int64_t from) const;

  // What an embedder is asked of a query: all but the names of speakers, or these when there is
  // nothing else. "" for a query without a word, which finds nothing.
  std::string EmbedderQuery(std::string_view query) const;

  // The best hits, at most top_k, that pass the filter: items that share a term with the query
  // (QueryTerms() in terms.h), have a word like it, or a vector or an embedding by
  // RankingOptions::vector_threshold, or were said by the one it names. What stands beside such a
  // one gets some of its score, but is no hit for that. None when the query has no term. Of equals,
  // messages come before contents, and of one kind the later position first.
  //
  // A message without an embedding, and a content, counts the likeness of its vector instead.
  //
  // RankingOptions tells what counts; BM25 takes each term of the query once. How rare a term is
  // and how long a text usually is are taken over all items, filtered or not. With vectors, or when
  // the query names a speaker, every item is looked at, else those with a term of the query.
  //
  // `scale`, unless null, becomes what words and cosines were divided by.
  std::vector<SearchHit> Search(const SearchRequest& request, SearchScale* scale = nullptr) const;

  // The best words and cosine that an item has for the query, whether it passes a filter or not; 0
  // where there is nothing.
  SearchScale Scale(const SearchRequest& request) const;

  // Positions of the messages around the one at `position` within its thread (messages without one
  // are one thread): up to `count` before it and as many behind, in order, without itself. Empty
  // when there is no such message.
  std::vector<std::int64_t> Neighbours(std::int64_t position, std::size_t count) const;

  // The best of `passages`, pieces of one text, for the query: by its words and its vector, as
  // items are ranked; of equals the first. 0 when there is none.
  std::size_t BestPassage(std::string_view query, const RankingOptions& ranking,
                          const std::vector<std::string_view>& passages) const;

  // The position of the kind's last item; none when there is no item of it.
  std::optional<std::int64_t> LastPosition(ItemKind kind) const;

  // The number of items.
  std::size_t size() const { return docs_.size(); }

  // Approximate memory in bytes, in constant time.
  std::size_t ByteSize() const;

 private:
  using DocId = std::uint32_t;  // Index in docs_.
  class Cursor;
  class Filter;
  class Scorer;
  class ThreadLikenesses;
  class TopHits;
  // A number for each item, by DocId.
  using Scores = std::vector<double>;
  using Likenesses = std::vector<float>;

  struct WordMatches {
    Scores scores;
    std::vector<DocId> docs;  // Those above 0.
    double largest = 0;
  };

  struct Doc {
    std::int64_t position;
    float tokens;          // A fourth of its characters, at least 1.
    std::uint32_t role;    // A content's is kNoName.
    std::uint32_t thread;  // A content's is kNoName.
    std::uint32_t author;  // A content's is kNoName.

    ItemKind kind() const { return role == kNoName ? ItemKind::kContent : ItemKind::kMessage; }
  };

  // The items that have a term, by rising DocId, and how often they have it. The last of them is
  // apart, since its count still rises while it is added; so a term of one item needs no more.
  struct Postings {
    DocId last_doc = 0;
    std::uint32_t last_count = 0;
    std::uint32_t doc_count = 0;  // With the last one.
    DocId packed_doc = 0;         // The last one in the packed.
    // In packed_, of those before the last: for each a varint of the distance from the DocId before
    // it, doubled, plus 1 where the count is above 1 and follows as another varint. Meaningless
    // for one item.
    std::uint32_t packed = 0;
  };

  // So that a place in a map by tokens takes 6 bytes instead of 8.
  struct __attribute__((packed, aligned(2))) DocCount {
    std::uint32_t docs = 0;
  };

  template <typename V>
  using NameMap = absl::flat_hash_map<std::string, V, StringHash, std::equal_to<>>;
  static constexpr std::uint32_t kNoName = ~std::uint32_t{0};
  static constexpr DocId kNoDoc = ~DocId{0};
  // In embedding_of_, of a message without one and of one without words.
  static constexpr std::uint32_t kNoEmbedding = ~std::uint32_t{0};
  static constexpr std::uint32_t kNoWords = kNoEmbedding - 1;
  static constexpr float kNoCosine = -2;

  // The number of `name` in `names`, given to it now if it is new.
  std::uint32_t Intern(NameMap<std::uint32_t>& names, std::string_view name);
  void AddPosting(std::string_view term, DocId doc);
  // Null when no item has the term.
  const Postings* FindPostings(std::string_view term) const;
  // Adds the terms of `text` and returns the number of words.
  std::uint32_t AddTerms(std::string_view text, DocId doc);
  void AddVector(std::string_view text);
  bool ExpandsQueries() const;

  // How rare what so many items have is.
  double Rarity(std::uint32_t doc_count) const;
  // BM25 of each item, multiplied by `weight`; or the larger one of that and what is in `scores`.
  void RaiseToBm25(const Postings& postings, const RankingOptions& ranking, double weight,
                   Scores& scores, std::vector<DocId>& touched) const;
  // Calls `raise` for the terms of `like_words`, those like `word`.
  void RaiseLikeWords(const QueryWord& word, const std::vector<LikeWord>& like_words,
                      absl::FunctionRef<void(std::string_view term, double weight)> raise) const;
  WordMatches MatchWords(std::string_view query, const RankingOptions& ranking) const;
  // The vector of a query, each token as rare as it is in the session.
  WordVectors::Vector QueryVector(std::string_view query) const;
  // The cosine of each item's vector and the query's.
  Likenesses Cosines(std::string_view query) const;
  // The cosine of each item's embedding and `query`; kNoCosine for an item without one. Empty when
  // they don't count.
  Likenesses EmbeddingCosines(std::span<const float> query) const;
  static std::size_t PlaceIn(const std::vector<DocId>& thread, DocId doc);
  // Among the items of the kind, of the first one at `position` or behind.
  std::size_t PlaceFrom(ItemKind kind, std::int64_t position) const;
  // kNoDoc when there is none.
  DocId FindDoc(ItemKind kind, std::int64_t position) const;
  const std::vector<DocId>& OfKind(ItemKind kind) const {
    return docs_of_kind_[static_cast<std::size_t>(kind)];
  }

  IndexOptions options_;
  std::vector<Doc> docs_;
  // By DocId, whether the text ends as a question does.
  std::vector<bool> asks_;
  // In words, by DocId. Apart, since it is read for every item that has a term.
  std::vector<std::uint32_t> lengths_;
  std::array<std::vector<DocId>, 2> docs_of_kind_;
  std::vector<std::vector<DocId>> docs_of_thread_;
  StringTable terms_;
  std::vector<Postings> postings_;  // By the terms' numbers.
  std::vector<std::string> packed_;
  NameMap<std::uint32_t> roles_;
  NameMap<std::uint32_t> threads_;  // With a source: it, a line feed, the thread.
  std::uint64_t total_length_ = 0;
  Authors authors_;
  Vocabulary vocabulary_;
  bool keeps_vocabulary_ = false;
  QuantizedVectors vectors_{Precision::k8Bits, WordVectors::kDimensions};
  // How many items have a token of a vector.
  absl::flat_hash_map<WordVectors::Token, DocCount> token_docs_;
  // Of messages, in the order they came; empty before the first.
  QuantizedVectors embeddings_{Precision::k8Bits, 0};
  // For each of the first messages its place in embeddings_.
  std::vector<std::uint32_t> embedding_of_;
  std::size_t embedded_messages_ = 0;
  // Of the strings in the maps and in packed_, and the lists in docs_of_thread_.
  std::size_t heap_bytes_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_SESSION_INDEX_H_
