// What an embedder makes of the messages of an index.
#ifndef MEMORYD_CORE_RETRIEVAL_MESSAGE_EMBEDDINGS_H_
#define MEMORYD_CORE_RETRIEVAL_MESSAGE_EMBEDDINGS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/retrieval/quantized_vectors.h"

namespace memoryd {

// By the messages' places: the first one has 0. They may come in any order, and all have the size
// of the first.
class MessageEmbeddings {
 public:
  // Gives a message its embedding, once; nothing for a text without words. Ignored: for one that
  // has its own, and of another size.
  void Add(std::size_t place, std::span<const float> embedding);
  void Clear() { *this = {}; }

  bool Has(std::size_t place) const { return place < numbers_.size() && numbers_[place] != kNone; }
  // Messages that have one, if it be nothing.
  std::size_t count() const { return count_; }

  // Whether there are any that `query` can be compared with.
  bool IsLike(std::span<const float> query) const {
    return !query.empty() && query.size() == vectors_.dimensions();
  }

  // Calls take(place, cosine) for each message whose embedding is not nothing. `query` is like
  // them.
  template <typename Take>
  void ForEachCosine(std::span<const float> query, const Take& take) const {
    const std::vector<float> cosines = Cosines(query);
    for (std::size_t place = 0; place < numbers_.size(); ++place) {
      if (numbers_[place] < kNoWords) take(place, cosines[numbers_[place]]);
    }
  }

  // Memory on the heap in bytes, in constant time.
  std::size_t ByteSize() const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::uint32_t kNoWords = kNone - 1;

  std::vector<float> Cosines(std::span<const float> query) const;

  // In the order they came; empty before the first.
  QuantizedVectors vectors_{Precision::k8Bits, 0};
  std::vector<std::uint32_t> numbers_;  // In vectors_, by place.
  std::size_t count_ = 0;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_MESSAGE_EMBEDDINGS_H_
