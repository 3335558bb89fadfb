// Finds what a session holds by its words, and by what is like them.
#ifndef MEMORYD_CORE_RETRIEVAL_SESSION_INDEX_H_
#define MEMORYD_CORE_RETRIEVAL_SESSION_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/model/ranking_options.h"
#include "core/retrieval/authors.h"
#include "core/retrieval/message_embeddings.h"
#include "core/retrieval/search.h"
#include "core/retrieval/string_table.h"
#include "core/retrieval/term_index.h"
#include "core/retrieval/terms.h"
#include "core/retrieval/text_vectors.h"
#include "core/retrieval/vocabulary.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {

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
  void RemoveEmbeddings() { embeddings_.Clear(); }

  // Messages that have not been given an embedding, if it be nothing.
  std::size_t without_embedding() const {
    return OfKind(ItemKind::kMessage).size() - embeddings_.count();
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
  class Filter;
  class Scorer;
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

  static constexpr std::uint32_t kNoName = ~std::uint32_t{0};
  static constexpr DocId kNoDoc = ~DocId{0};
  static constexpr float kNoCosine = -2;

  // Adds the terms of `text` and returns the number of words.
  std::uint32_t AddTerms(std::string_view text);
  bool ExpandsQueries() const;

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
  std::array<std::vector<DocId>, 2> docs_of_kind_;
  std::vector<std::vector<DocId>> docs_of_thread_;
  TermIndex terms_;
  StringTable roles_;
  StringTable threads_;  // With a source: it, a line feed, the thread.
  Authors authors_;
  Vocabulary vocabulary_;
  bool keeps_vocabulary_ = false;
  TextVectors vectors_{Precision::k8Bits};
  MessageEmbeddings embeddings_;
  // Of the lists in docs_of_thread_.
  std::size_t heap_bytes_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_SESSION_INDEX_H_
