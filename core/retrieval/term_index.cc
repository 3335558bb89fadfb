#include "core/retrieval/term_index.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/model/ranking_options.h"
#include "core/retrieval/heap_bytes.h"
#include "core/retrieval/make_room.h"
#include "core/retrieval/posting_lists.h"

namespace memoryd {

void TermIndex::EndItem(std::uint32_t words) {
  MakeRoom(lengths_, 1);
  lengths_.push_back(words);
  total_length_ += words;
}

std::uint32_t TermIndex::DocCount(std::string_view term) const {
  const PostingLists::List* const list = postings_.Find(term);
  return list == nullptr ? 0 : list->doc_count();
}

double TermIndex::Rarity(std::uint32_t doc_count) const {
  return std::log(1 + (static_cast<double>(lengths_.size()) - doc_count + 0.5) / (doc_count + 0.5));
}

void TermIndex::RaiseToBm25(std::string_view term, const RankingOptions& ranking, double weight,
                            std::vector<double>& scores, std::vector<DocId>& touched) const {
  const PostingLists::List* const list = postings_.Find(term);
  if (list == nullptr) return;
  weight *= Rarity(list->doc_count()) * (ranking.bm25_k1 + 1);
  const double usual_length = std::max<double>(static_cast<double>(total_length_), 1) /
                              static_cast<double>(lengths_.size());
  for (auto cursor = postings_.Walk(*list); !cursor.done(); cursor.Next()) {
    const double length = lengths_[cursor.doc()] / usual_length;
    const double norm = ranking.bm25_k1 * (1 - ranking.bm25_b + ranking.bm25_b * length);
    double& score = scores[cursor.doc()];
    if (score == 0) touched.push_back(cursor.doc());
    score = std::max(score, weight * cursor.count() / (cursor.count() + norm));
  }
}

std::size_t TermIndex::ByteSize() const { return postings_.ByteSize() + HeapBytes(lengths_); }

}  // namespace memoryd
