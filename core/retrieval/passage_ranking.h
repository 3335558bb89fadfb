// Finds the passage of a text that answers a query best.
#ifndef MEMORYD_CORE_RETRIEVAL_PASSAGE_RANKING_H_
#define MEMORYD_CORE_RETRIEVAL_PASSAGE_RANKING_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/string_hash.h"
#include "core/model/language.h"
#include "core/retrieval/query_terms.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {

// What is looked for in the passages, and how much it counts.
struct PassageQuery {
  struct Term {
    std::size_t place;
    double weight;
  };

  // The weight of each of its terms is how much a passage gets for having it.
  void AddWord(QueryWord word) {
    std::vector<Term>& terms = words.emplace_back();
    for (QueryTerm& term : word.terms) {
      terms.push_back(
          {places.emplace(std::move(term.term), places.size()).first->second, term.weight});
    }
  }

  absl::flat_hash_map<std::string, std::size_t, StringHash, std::equal_to<>> places;  // By term.
  // A passage has each by that of its terms which scores best.
  std::vector<std::vector<Term>> words;
  double bm25_k1 = 0;
  Language language = Language::kEnglish;  // Of the passages.
  // Null: by words alone.
  const WordVectors* vectors = nullptr;
  WordVectors::Vector vector = {};
  double vector_weight = 0;
};

// The index of the best of `passages`, pieces of one text: by its words and its vector, each as a
// share of the best passage's; of equals the first. 0 when there is none.
std::size_t BestOf(std::span<const std::string_view> passages, const PassageQuery& query);

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_PASSAGE_RANKING_H_
