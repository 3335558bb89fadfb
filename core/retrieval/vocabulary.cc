#include "core/retrieval/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/retrieval/make_room.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {
namespace {

using Vector = WordVectors::Vector;

float Product(const Vector& a, const Vector& b) {
  float sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// The products of rows of the table with some vectors, made when a row is first asked for.
class RowProducts {
 public:
  RowProducts(const WordVectors& table, const std::vector<Vector>& vectors)
      : table_(table), vectors_(vectors), places_(table.token_count(), kNone) {}

  // As many as there are vectors, valid until the next call.
  const float* operator[](WordVectors::Token token) {
    std::uint32_t& place = places_[token];
    if (place == kNone) {
      place = static_cast<std::uint32_t>(products_.size());
      products_.resize(products_.size() + vectors_.size());
      table_.Dot(token, vectors_, &products_[place]);
    }
    return &products_[place];
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  const WordVectors& table_;
  const std::vector<Vector>& vectors_;
  std::vector<std::uint32_t> places_;  // In products_, by token.
  std::vector<float> products_;
};

bool Better(const LikeWord& a, const LikeWord& b) {
  return a.cosine != b.cosine ? a.cosine > b.cosine : a.word < b.word;
}

// Keeps the best `count`, the worst of them on top of a heap.
void Offer(const LikeWord& like, std::size_t count, std::vector<LikeWord>& best) {
  if (best.size() == count) {
    if (!Better(like, best.front())) return;
    std::pop_heap(best.begin(), best.end(), Better);
    best.pop_back();
  }
  best.push_back(like);
  std::push_heap(best.begin(), best.end(), Better);
}

}  // namespace

void Vocabulary::Add(const WordVectors& vectors, std::string_view word) {
  if (texts_.Find(word) != StringTable::kNone) return;
  const std::vector<WordVectors::Token> tokens = vectors.Tokens(word);
  Vector vector = {};
  for (const WordVectors::Token token : tokens) vectors.Add(token, 1, vector);
  const float length = std::sqrt(Product(vector, vector));
  if (length == 0) return;
  for (std::size_t i = 0; i < vector.size(); ++i) sum_[i] += vector[i] / length;
  MakeRoom(tokens_, tokens.size());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  texts_.Add(word);
  MakeRoom(words_, 1);
  words_.push_back({static_cast<std::uint32_t>(tokens_.size()), 1 / length});
}

std::vector<std::vector<LikeWord>> Vocabulary::Nearest(const WordVectors& vectors,
                                                       const std::vector<std::string_view>& wanted,
                                                       std::size_t count, double least) const {
  std::vector<std::vector<LikeWord>> nearest(wanted.size());
  if (words_.empty() || wanted.empty() || count == 0) return nearest;
  Vector mean;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    mean[i] = static_cast<float>(sum_[i] / static_cast<double>(words_.size()));
  }
  // Those of `wanted` without the mean, and behind them the mean.
  std::vector<Vector> factors(wanted.size(), Vector());
  std::vector<float> with_mean;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    for (const WordVectors::Token token : vectors.Tokens(wanted[i])) {
      vectors.Add(token, 1, factors[i]);
    }
    Normalize(factors[i]);
    for (std::size_t j = 0; j < mean.size(); ++j) factors[i][j] -= mean[j];
    Normalize(factors[i]);
    with_mean.push_back(Product(mean, factors[i]));
  }
  const float mean_square = Product(mean, mean);
  factors.push_back(mean);
  RowProducts row_products(vectors, factors);
  std::vector<float> products(factors.size());
  std::uint32_t token = 0;  // In tokens_.
  for (std::uint32_t number = 0; number < words_.size(); ++number) {
    const Word& place = words_[number];
    std::fill(products.begin(), products.end(), 0.0F);
    for (; token < place.tokens_end; ++token) {
      const float* const of_token = row_products[tokens_[token]];
      for (std::size_t j = 0; j < products.size(); ++j) products[j] += of_token[j];
    }
    // The square of the length of what is left without the mean.
    const float square = 1 - 2 * products.back() * place.scale + mean_square;
    if (square <= 1e-6F) continue;
    const float length = std::sqrt(square);
    const float least_product = static_cast<float>(least) * length;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const float product = products[i] * place.scale - with_mean[i];
      if (product < least_product) continue;
      Offer({texts_[number], product / length}, count, nearest[i]);
    }
  }
  for (std::vector<LikeWord>& best : nearest) std::sort_heap(best.begin(), best.end(), Better);
  return nearest;
}

std::size_t Vocabulary::ByteSize() const {
  return texts_.ByteSize() + words_.capacity() * sizeof(Word) +
         tokens_.capacity() * sizeof(WordVectors::Token);
}

}  // namespace memoryd
