#include "core/retrieval/message_embeddings.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/retrieval/heap_bytes.h"
#include "core/retrieval/make_room.h"
#include "core/retrieval/quantized_vectors.h"
#include "core/retrieval/word_vectors.h"

namespace memoryd {

void MessageEmbeddings::Add(std::size_t place, std::span<const float> embedding) {
  if (Has(place)) return;
  std::uint32_t number = kNoWords;
  if (!embedding.empty()) {
    if (vectors_.size() == 0) vectors_ = {Precision::k8Bits, embedding.size()};
    if (embedding.size() != vectors_.dimensions()) return;
    number = static_cast<std::uint32_t>(vectors_.size());
    std::vector<float> unit(embedding.begin(), embedding.end());
    Normalize(unit);
    vectors_.Append(unit);
  }
  if (place >= numbers_.size()) {
    MakeRoom(numbers_, place + 1 - numbers_.size());
    numbers_.resize(place + 1, kNone);
  }
  numbers_[place] = number;
  ++count_;
}

std::vector<float> MessageEmbeddings::Cosines(std::span<const float> query) const {
  std::vector<float> unit(query.begin(), query.end());
  Normalize(unit);
  std::vector<float> cosines(vectors_.size());
  vectors_.Dot(unit, cosines);
  return cosines;
}

std::size_t MessageEmbeddings::ByteSize() const {
  return vectors_.ByteSize() + HeapBytes(numbers_);
}

}  // namespace memoryd
