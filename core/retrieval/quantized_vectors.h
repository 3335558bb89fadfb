// Many vectors in little memory.
#ifndef MEMORYD_CORE_RETRIEVAL_QUANTIZED_VECTORS_H_
#define MEMORYD_CORE_RETRIEVAL_QUANTIZED_VECTORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace memoryd {

// How many bits a number has. Each vector's largest one takes them all.
enum class Precision : std::uint8_t {
  k8Bits,   // Products of unit vectors are off by up to about 0.002.
  k16Bits,  // By up to about 0.00001, at twice the memory and some times the work.
};

class QuantizedVectors {
 public:
  // Of vectors that have so many numbers each.
  QuantizedVectors(Precision precision, std::size_t dimensions);

  void Append(std::span<const float> vector);

  // The product of each vector and `query`, to `products`, which has size() places.
  void Dot(std::span<const float> query, std::span<float> products) const;

  std::size_t size() const { return scales_.size(); }
  std::size_t dimensions() const { return dimensions_; }

  // Memory on the heap in bytes, in constant time.
  std::size_t ByteSize() const;

 private:
  Precision precision_;
  std::size_t dimensions_;
  std::size_t stride_;         // With the zeros behind a vector.
  std::vector<float> scales_;  // What a number stands for is its vector's scale times it.
  // One of them is used.
  std::vector<std::int8_t> small_;
  std::vector<std::int16_t> large_;
};

}  // namespace memoryd

#endif  // MEMORYD_CORE_RETRIEVAL_QUANTIZED_VECTORS_H_
