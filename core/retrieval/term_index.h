// How well the items of an index match a term, by BM25.
#ifndef MEMORYD_CORE_RETRIEVAL_TERM_INDEX_H_
#define MEMORYD_CORE_RETRIEVAL_TERM_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/model/ranking_options.h"
#include "core/retrieval/posting_lists.h"

namespace memoryd {

// An inverted index. Any number of threads may call the const functions at once; others must be
// alone.
class TermIndex {
 public:
  // A term of the item to come.
  void Add(std::string_view term) { postings_.Add(term, static_cast<DocId>(lengths_.size())); }
  // That item has come, with so many words.
  void EndItem(std::uint32_t words);

  // How many items have the term.
  std::uint32_t DocCount(std::string_view term) const;
  // How rare what so many items have is.
  double Rarity(std::uint32_t doc_count) const;

  // Raises the scores of the items that have the term to BM25, multiplied by `weight`, where they
  // are less. `touched` gets those whose score was 0.
  void RaiseToBm25(std::string_view term, const RankingOptions& ranking, double weight,
                   std::vector<double>& scores, std::vector<DocId>& touched) const;

  // Approximate memory on the heap in bytes, in constant time.
  std::size_t ByteSize() const;

 private:
  PostingLists postings_;
  // In words, by DocId.
  std::vector<std::uint32_t> lengths_;
  std::uint64_t total_length_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_TERM_INDEX_H_
