#include "core/retrieval/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace memoryd {
namespace {

using Vector = WordVectors::Vector;

float Product(const Vector& a, const Vector& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The products of rows of the table with one vector, each made when it is first asked for.
class RowProducts {
 public:
  RowProducts(const WordVectors& vectors, const Vector& vector)
      : vectors_(vectors),
        vector_(vector),
        products_(vectors.token_count(), std::numeric_limits<float>::quiet_NaN()) {}

  float operator[](WordVectors::Token token) {
    float& product = products_[token];
    if (std::isnan(product)) product = vectors_.Dot(token, vector_);
    return product;
  }

 private:
  const WordVectors& vectors_;
  const Vector& vector_;
  std::vector<float> products_;
};

bool Better(const LikeWord& a, const LikeWord& b) {
  return a.cosine != b.cosine ? a.cosine > b.cosine : a.word < b.word;
}

}  // namespace

void Vocabulary::Add(const WordVectors& vectors, std::string_view word) {
  if (words_.contains(word)) return;
  const std::vector<WordVectors::Token> tokens = vectors.Tokens(word);
  Vector vector = {};
  for (const WordVectors::Token token : tokens) vectors.Add(token, 1, vector);
  const float length = std::sqrt(Product(vector, vector));
  if (length == 0) return;
  for (std::size_t i = 0; i < vector.size(); ++i) sum_[i] += vector[i] / length;
  const auto added =
      words_.emplace(word, Word{static_cast<std::uint32_t>(tokens_.size()),
                                static_cast<std::uint32_t>(tokens.size()), 1 / length});
  heap_bytes_ += added.first->first.capacity();
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

std::vector<LikeWord> Vocabulary::Nearest(const WordVectors& vectors, std::string_view word,
                                          std::size_t count, double least) const {
  std::vector<LikeWord> nearest;
  if (words_.empty() || count == 0) return nearest;
  Vector mean;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    mean[i] = static_cast<float>(sum_[i] / static_cast<double>(words_.size()));
  }
  Vector wanted = {};
  for (const WordVectors::Token token : vectors.Tokens(word)) vectors.Add(token, 1, wanted);
  Normalize(wanted);
  for (std::size_t i = 0; i < mean.size(); ++i) wanted[i] -= mean[i];
  Normalize(wanted);

  const float mean_square = Product(mean, mean);
  const float mean_wanted = Product(mean, wanted);
  RowProducts with_wanted(vectors, wanted);
  RowProducts with_mean(vectors, mean);
  for (const auto& [text, place] : words_) {
    float wanted_product = 0;
    float mean_product = 0;
    for (std::uint32_t i = 0; i < place.token_count; ++i) {
      const WordVectors::Token token = tokens_[place.first_token + i];
      wanted_product += with_wanted[token];
      mean_product += with_mean[token];
    }
    // The square of the length of what is left without the mean.
    const float square = 1 - 2 * mean_product * place.scale + mean_square;
    if (square <= 1e-6F) continue;
    const double cosine = (wanted_product * place.scale - mean_wanted) / std::sqrt(square);
    const LikeWord like{text, cosine};
    if (cosine < least || (nearest.size() == count && !Better(like, nearest.front()))) continue;
    if (nearest.size() == count) {
      std::pop_heap(nearest.begin(), nearest.end(), Better);
      nearest.pop_back();
    }
    nearest.push_back(like);
    std::push_heap(nearest.begin(), nearest.end(), Better);
  }
  std::sort_heap(nearest.begin(), nearest.end(), Better);
  return nearest;
}

std::size_t Vocabulary::ByteSize() const {
  return heap_bytes_ + tokens_.capacity() * sizeof(WordVectors::Token) +
         words_.capacity() * (sizeof(decltype(words_)::value_type) + 1);
}

}  // namespace memoryd
