#include "core/retrieval/passage_ranking.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "core/retrieval/terms.h"
#include "core/retrieval/text_vectors.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {
namespace {

double WordScore(std::string_view passage, const PassageQuery& query) {
  std::vector<std::uint32_t> counts(query.rarities.size());
  ForEachTerm(FoldedText(passage), query.language,
              [&](std::string_view term, TermKind, std::string_view) {
                const auto found = query.places.find(term);
                if (found != query.places.end()) ++counts[found->second];
              });
  double score = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) score += query.rarities[i] * counts[i] / (counts[i] + query.bm25_k1);
  }
  return score;
}

double Cosine(std::string_view passage, const PassageQuery& query) {
  const WordVectors::Vector vector = VectorOf(*query.words, passage);
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
    cosines.push_back(query.words == nullptr ? 0 : Cosine(passage, query));
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
