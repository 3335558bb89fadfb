// The vectors of texts, each the sum of its tokens'.
#ifndef MEMORYD_CORE_RETRIEVAL_TEXT_VECTORS_H_
#define MEMORYD_CORE_RETRIEVAL_TEXT_VECTORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "core/retrieval/quantized_vectors.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {

// The vector of a text in which all tokens count the same.
WordVectors::Vector VectorOf(const WordVectors& words, std::string_view text);

class TextVectors {
 public:
  explicit TextVectors(Precision precision) : vectors_(precision, WordVectors::kDimensions) {}

  void Add(const WordVectors& words, std::string_view text);

  // The vector of a query: each token counts by `rarity`, which is told how many texts have it.
  WordVectors::Vector QueryVector(const WordVectors& words, std::string_view query,
                                  absl::FunctionRef<double(std::uint32_t)> rarity) const;

  // The cosine of each text's vector and `query`, to as many `cosines`.
  void Cosines(const WordVectors::Vector& query, std::span<float> cosines) const {
    vectors_.Dot(query, cosines);
  }

  // Memory on the heap in bytes, in constant time.
  std::size_t ByteSize() const;

 private:
  // So that a place in a map by tokens takes 6 bytes instead of 8.
  struct __attribute__((packed, aligned(2))) TextCount {
    std::uint32_t texts = 0;
  };

  QuantizedVectors vectors_;
  // How many texts have a token.
  absl::flat_hash_map<WordVectors::Token, TextCount> token_texts_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_TEXT_VECTORS_H_
