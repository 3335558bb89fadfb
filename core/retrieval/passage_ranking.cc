#include "core/retrieval/passage_ranking.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "core/retrieval/folding.h"
#include "core/retrieval/terms.h"
#include "core/retrieval/text_vectors.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {
namespace {

double WordScore(std::string_view passage, const PassageQuery& query) {
  std::vector<std::uint32_t> counts(query.places.size());
  ForEachTerm(FoldedText(passage), query.language,
              [&](std::string_view term, TermKind, std::string_view) {
                const auto found = query.places.find(term);
                if (found != query.places.end()) ++counts[found->second];
              });
  double score = 0;
  for (const std::vector<PassageQuery::Term>& word : query.words) {
    double best = 0;
    for (const auto& [place, weight] : word) {
      const std::uint32_t count = counts[place];
      if (count > 0) best = std::max(best, weight * count / (count + query.bm25_k1));
    }
    score += best;
  }
  return score;
}

double Cosine(std::string_view passage, const PassageQuery& query) {
  const WordVectors::Vector vector = VectorOf(*query.vectors, passage);
  double cosine = 0;
  for (std::size_t i = 0; i < vector.size(); ++i) cosine += vector[i] * query.vector[i];
  return cosine;
}

double ShareOfLargest(const std::vector<double>& scores, std::size_t i) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  return largest > 0 ? scores[i] / largest : 0;
}

}  // namespace

std::size_t BestOf(std::span<const std::string_view> passages, const PassageQuery& query) {
  std::vector<double> words;
  std::vector<double> cosines;
  for (const std::string_view passage : passages) {
    words.push_back(WordScore(passage, query));
    cosines.push_back(query.vectors == nullptr ? 0 : Cosine(passage, query));
  }
  std::size_t best = 0;
  double best_score = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < passages.size(); ++i) {
    const double score =
        ShareOfLargest(words, i) + query.vector_weight * ShareOfLargest(cosines, i);
    if (score > best_score) {
      best = i;
      best_score = score;
    }
  }
  return best;
}

}  // namespace memoryd
