#include "core/retrieval/quantized_vectors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/retrieval/make_room.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace memoryd {
namespace {

constexpr std::size_t kDimensions = WordVectors::kDimensions;
using Vector = WordVectors::Vector;
// Of a query: more bits than the vectors have, and sums of 256 products still fit into 32.
using Query = std::array<std::int16_t, kDimensions>;

// The number of which `vector` is made up, when numbers are at most `limit`.
float ScaleOf(const Vector& vector, float limit) {
  float largest = 0;
  for (const float number : vector) largest = std::max(largest, std::abs(number));
  return largest / limit;
}

template <typename Number>
void AppendNumbers(const Vector& vector, float scale, std::vector<Number>& numbers) {
  MakeRoom(numbers, kDimensions);
  for (const float number : vector) {
    numbers.push_back(scale == 0 ? Number{0} : static_cast<Number>(std::lrint(number / scale)));
  }
}

std::int32_t PlainProduct(const std::int8_t* numbers, const Query& query) {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < kDimensions; ++i) sum += std::int32_t{numbers[i]} * query[i];
  return sum;
}

#ifdef __x86_64__
__attribute__((target("avx2"))) std::int32_t Avx2Product(const std::int8_t* numbers,
                                                         const Query& query) {
  __m256i sums = _mm256_setzero_si256();
  for (std::size_t i = 0; i < kDimensions; i += 16) {
    const __m256i a =
        _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers + i)));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(query.data() + i));
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
  }
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  return _mm_cvtsi128_si32(four);
}
#endif

using Product = std::int32_t (*)(const std::int8_t*, const Query&);

Product FastestProduct() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return Avx2Product;
#endif
  return PlainProduct;
}

}  // namespace

void QuantizedVectors::Append(const Vector& vector) {
  MakeRoom(scales_, 1);
  if (precision_ == Precision::k8Bits) {
    scales_.push_back(ScaleOf(vector, std::numeric_limits<std::int8_t>::max()));
    AppendNumbers(vector, scales_.back(), small_);
  } else {
    scales_.push_back(ScaleOf(vector, std::numeric_limits<std::int16_t>::max()));
    AppendNumbers(vector, scales_.back(), large_);
  }
}

void QuantizedVectors::Dot(const Vector& query, std::span<double> products) const {
  if (precision_ == Precision::k16Bits) {
    for (std::size_t i = 0; i < size(); ++i) {
      const std::int16_t* const numbers = large_.data() + i * kDimensions;
      std::array<float, 16> sums = {};
      for (std::size_t j = 0; j < kDimensions; j += sums.size()) {
        for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += query[j + k] * numbers[j + k];
      }
      float sum = 0;
      for (const float part : sums) sum += part;
      products[i] = sum * scales_[i];
    }
    return;
  }
  static const Product product = FastestProduct();
  // 256 products of these and of 127 add up to less than 2^31.
  const float scale = ScaleOf(query, std::numeric_limits<std::int16_t>::max());
  Query numbers = {};
  for (std::size_t i = 0; i < kDimensions && scale > 0; ++i) {
    numbers[i] = static_cast<std::int16_t>(std::lrint(query[i] / scale));
  }
  for (std::size_t i = 0; i < size(); ++i) {
    products[i] =
        static_cast<float>(product(small_.data() + i * kDimensions, numbers)) * scale * scales_[i];
  }
}

std::size_t QuantizedVectors::ByteSize() const {
  return scales_.capacity() * sizeof(float) + small_.capacity() +
         large_.capacity() * sizeof(std::int16_t);
}

}  // namespace memoryd
