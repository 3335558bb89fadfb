#include "core/retrieval/quantized_vectors.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/retrieval/make_room.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace memoryd {
namespace {

// As many numbers as the fastest loop takes at once.
constexpr std::size_t kStep = 16;

// The number of which `vector` is made up, when numbers are at most `limit`.
float ScaleOf(std::span<const float> vector, float limit) {
  float largest = 0;
  for (const float number : vector) largest = std::max(largest, std::abs(number));
  return largest / limit;
}

template <typename Number>
void AppendNumbers(std::span<const float> vector, float scale, std::size_t stride,
                   std::vector<Number>& numbers) {
  MakeRoom(numbers, stride);
  const std::size_t end = numbers.size() + stride;
  for (const float number : vector) {
    numbers.push_back(scale == 0 ? Number{0} : static_cast<Number>(std::lrint(number / scale)));
  }
  numbers.resize(end);
}

// The largest number of a query for which the sum of `count` products with numbers of 8 bits fits
// into 32.
float QueryLimit(std::size_t count) {
  const std::size_t most =
      std::numeric_limits<std::int32_t>::max() /
      (std::numeric_limits<std::int8_t>::max() * std::max<std::size_t>(count, 1));
  return static_cast<float>(std::min<std::size_t>(most, std::numeric_limits<std::int16_t>::max()));
}

std::int32_t PlainProduct(const std::int8_t* a, const std::int16_t* b, std::size_t size) {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < size; ++i) sum += std::int32_t{a[i]} * b[i];
  return sum;
}

#ifdef __x86_64__
__attribute__((target("avx2"))) std::int32_t Avx2Product(const std::int8_t* a,
                                                         const std::int16_t* b, std::size_t size) {
  __m256i sums = _mm256_setzero_si256();
  for (std::size_t i = 0; i < size; i += kStep) {
    const __m256i left =
        _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + i)));
    const __m256i right = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + i));
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(left, right));
  }
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  return _mm_cvtsi128_si32(four);
}
#endif

using Product = std::int32_t (*)(const std::int8_t*, const std::int16_t*, std::size_t);

Product FastestProduct() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return Avx2Product;
#endif
  return PlainProduct;
}

}  // namespace

QuantizedVectors::QuantizedVectors(Precision precision, std::size_t dimensions)
    : precision_(precision),
      dimensions_(dimensions),
      stride_((dimensions + kStep - 1) / kStep * kStep) {}

void QuantizedVectors::Append(std::span<const float> vector) {
  assert(vector.size() == dimensions_);
  MakeRoom(scales_, 1);
  if (precision_ == Precision::k8Bits) {
    scales_.push_back(ScaleOf(vector, std::numeric_limits<std::int8_t>::max()));
    AppendNumbers(vector, scales_.back(), stride_, small_);
  } else {
    scales_.push_back(ScaleOf(vector, std::numeric_limits<std::int16_t>::max()));
    AppendNumbers(vector, scales_.back(), stride_, large_);
  }
}

void QuantizedVectors::Dot(std::span<const float> query, std::span<float> products) const {
  assert(query.size() == dimensions_);
  if (precision_ == Precision::k16Bits) {
    std::vector<float> padded(query.begin(), query.end());
    padded.resize(stride_);
    for (std::size_t i = 0; i < size(); ++i) {
      const std::int16_t* const numbers = large_.data() + i * stride_;
      std::array<float, kStep> sums = {};
      for (std::size_t j = 0; j < stride_; j += sums.size()) {
        for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += padded[j + k] * numbers[j + k];
      }
      float sum = 0;
      for (const float part : sums) sum += part;
      products[i] = sum * scales_[i];
    }
    return;
  }
  static const Product product = FastestProduct();
  const float scale = ScaleOf(query, QueryLimit(dimensions_));
  // More bits than the vectors have.
  std::vector<std::int16_t> numbers;
  AppendNumbers(query, scale, stride_, numbers);
  for (std::size_t i = 0; i < size(); ++i) {
    products[i] =
        static_cast<float>(product(small_.data() + i * stride_, numbers.data(), stride_)) * scale *
        scales_[i];
  }
}

std::size_t QuantizedVectors::ByteSize() const {
  return scales_.capacity() * sizeof(float) + small_.capacity() +
         large_.capacity() * sizeof(std::int16_t);
}

}  // namespace memoryd
