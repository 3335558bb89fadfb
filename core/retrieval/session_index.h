// The search index of one session: finds messages and contents by their words and by likeness.
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
#include "core/model/language.h"
#include "core/model/ranking_options.h"
#include "core/retrieval/authors.h"
#include "core/retrieval/languages.h"
#include "core/retrieval/message_embeddings.h"
#include "core/retrieval/query_terms.h"
#include "core/retrieval/search.h"
#include "core/retrieval/stemmers.h"
#include "core/retrieval/string_table.h"
#include "core/retrieval/term_index.h"
#include "core/retrieval/terms.h"
#include "core/retrieval/text_vectors.h"
#include "core/retrieval/vocabulary.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {

// Holds three things in memory: an inverted index of the words, a vector of each item made from
// word vectors (if IndexOptions has them), and the embeddings that an embedder made of messages. An
// item is a message or a content.
//
// Items are never removed from an index. SearchFilter::accept must refuse those that have left the
// session, until its owner builds a new index. Any number of threads may call the const functions
// at once. A function that is not const must run alone.
class SessionIndex {
 public:
  SessionIndex() = default;
  explicit SessionIndex(IndexOptions options);

  // Adds an item. Within each kind, the position must be above that of the call before. The time
  // grows with the length of the text, not with the session.
  void Add(const IndexedItem& item);

  // Sets the embedding of the message at `position`. An empty one marks a text without words, which
  // has no embedding. Ignored if there is no such message, if its embedding is set already, or if
  // the size differs from that of the earlier embeddings.
  void AddEmbedding(std::int64_t position, std::span<const float> embedding);

  // Removes the embeddings of all messages.
  void RemoveEmbeddings() { embeddings_.Clear(); }

  // The number of messages for which AddEmbedding() is still to be called.
  std::size_t without_embedding() const {
    return OfKind(ItemKind::kMessage).size() - embeddings_.count();
  }

  // The first run of such messages, one after the other in the index, at or after position `from`.
  // Returns the positions of its first and last message; none if there is no such message.
  std::optional<std::pair<std::int64_t, std::int64_t>> NextWithoutEmbedding(
      std::int64_t from) const;

  // The text of a query that an embedder is to embed: the query without the names of speakers. A
  // query of names alone keeps them. "" for a query without words; such a query finds nothing.
  std::string EmbedderQuery(std::string_view query) const;

  // Returns the hits that pass the filter, the best first, at most top_k. None if the query has no
  // term. With equal scores, messages come before contents, then later positions before earlier.
  //
  // An item is a hit for any of these reasons:
  //   - it shares a term with the query (QueryTerms() in query_terms.h), or has a word like one;
  //     outside of English a term may be the beginning or the end of a word;
  //   - the cosine of its vector or embedding reaches RankingOptions::vector_threshold;
  //   - its speaker is one that the query names.
  // The neighbours of a hit in its thread get a share of its score. That alone makes no hit.
  //
  // RankingOptions has the weights. BM25 counts each term of the query once. The rarity of a term
  // and the usual length of a text are taken over all items, including those that the filter
  // refuses. A message without an embedding, and every content, counts the cosine of its vector in
  // place of the embedding's.
  //
  // With vectors or embeddings, or if the query names a speaker, every item is scored. Otherwise
  // only the items that have a term of the query, or a word like one, are.
  //
  // `scale`, unless null, is set to the values by which scores of words and cosines were divided.
  std::vector<SearchHit> Search(const SearchRequest& request, SearchScale* scale = nullptr) const;

  // The highest score of words and the highest cosine that any item has for the query. The filter
  // does not count. 0 where no item has one.
  SearchScale Scale(const SearchRequest& request) const;

  // The positions of the neighbours of the message at `position` in its thread, in order: up to
  // `count` before it and up to `count` after it. Messages without a thread form one thread. Empty
  // if there is no such message.
  std::vector<std::int64_t> Neighbours(std::int64_t position, std::size_t count) const;

  // The index of the best of `passages`, the pieces of one text in order, for the query. Passages
  // are ranked by words and vectors. Of equal ones the first is returned; 0 if there are none.
  std::size_t BestPassage(std::string_view query, const RankingOptions& ranking,
                          const std::vector<std::string_view>& passages) const;

  // Of a text that does not tell its language.
  Language usual_language() const { return languages_.usual(); }

  // The position of the last item of the kind; none if there is no such item.
  std::optional<std::int64_t> LastPosition(ItemKind kind) const;

  // The number of items.
  std::size_t size() const { return docs_.size(); }

  // Approximate memory in bytes, in constant time.
  std::size_t ByteSize() const;

 private:
  class Filter;
  class Scorer;
  class Ranker;
  // A number for each item, by DocId.
  using Scores = std::vector<double>;
  using Likenesses = std::vector<float>;

  struct WordMatches {
    Scores scores;
    std::vector<DocId> docs;  // The items with a score above 0.
    double largest = 0;       // The largest score.
  };

  struct Doc {
    std::int64_t position;
    float tokens;          // An estimate: a fourth of the characters, at least 1.
    std::uint32_t role;    // kNoName for a content.
    std::uint32_t thread;  // kNoName for a content.
    std::uint32_t author;  // kNoName for a content.

    ItemKind kind() const { return role == kNoName ? ItemKind::kContent : ItemKind::kMessage; }
  };

  static constexpr std::uint32_t kNoName = ~std::uint32_t{0};
  static constexpr DocId kNoDoc = ~DocId{0};
  static constexpr float kNoCosine = -2;

  // Adds the terms of `text` and returns the number of words.
  std::uint32_t AddTerms(const FoldedText& text, Language language);
  // The same for the words by which a day is named.
  std::uint32_t AddDay(std::int64_t create_us, const TextLanguage& language);
  QueryLanguages LanguagesOf(std::string_view query) const;
  bool ExpandsQueries() const;

  // The words like each of the first `words`.
  std::vector<std::vector<LikeWord>> LikeWords(const std::vector<QueryWord>& words) const;
  // Calls `raise` for each term of `like_words`, which are the words like `word`.
  void RaiseLikeWords(const QueryWord& word, const std::vector<LikeWord>& like_words,
                      Stemmers& stemmers,
                      absl::FunctionRef<void(std::string_view term, double weight)> raise) const;
  WordMatches MatchWords(std::string_view query, const RankingOptions& ranking) const;
  // The vector of a query. Each token weighs by its rarity in the session.
  WordVectors::Vector QueryVector(std::string_view query) const;
  // The cosine of each item's vector and the query's.
  Likenesses Cosines(std::string_view query) const;
  // The cosine of each item's embedding and `query`; kNoCosine for an item without one. Empty if
  // `query` is empty or has another size than the embeddings.
  Likenesses EmbeddingCosines(std::span<const float> query) const;
  static std::size_t PlaceIn(const std::vector<DocId>& thread, DocId doc);
  // The place, among the items of the kind, of the first one at or after `position`.
  std::size_t PlaceFrom(ItemKind kind, std::int64_t position) const;
  // The item of the kind at `position`; kNoDoc if there is none.
  DocId FindDoc(ItemKind kind, std::int64_t position) const;
  const std::vector<DocId>& OfKind(ItemKind kind) const {
    return docs_of_kind_[static_cast<std::size_t>(kind)];
  }

  IndexOptions options_;
  std::vector<Doc> docs_;
  // By DocId: whether the text ends like a question.
  std::vector<bool> asks_;
  std::array<std::vector<DocId>, 2> docs_of_kind_;
  std::vector<std::vector<DocId>> docs_of_thread_;
  TermIndex terms_;
  SessionLanguages languages_;
  StringTable roles_;
  StringTable threads_;  // For an item with a source: the source, a line feed, the thread.
  Authors authors_;
  Vocabulary vocabulary_;
  bool keeps_vocabulary_ = false;
  TextVectors vectors_{Precision::k8Bits};
  MessageEmbeddings embeddings_;
  // The bytes on the heap of the lists in docs_of_thread_.
  std::size_t heap_bytes_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_SESSION_INDEX_H_
