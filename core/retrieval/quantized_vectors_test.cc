#include "core/retrieval/quantized_vectors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <tuple>
#include <vector>

#include "core/retrieval/word_vectors.h"

namespace memoryd {
namespace {

class QuantizedVectorsTest : public ::testing::TestWithParam<std::tuple<Precision, std::size_t>> {
 protected:
  static Precision precision() { return std::get<0>(GetParam()); }
  static std::size_t dimensions() { return std::get<1>(GetParam()); }
};

TEST_P(QuantizedVectorsTest, ProductsAreThoseOfTheVectors) {
  const double tolerance = precision() == Precision::k8Bits ? 3e-3 : 2e-5;
  std::mt19937 generator(1);
  std::normal_distribution<float> numbers;
  const auto random_unit = [&] {
    std::vector<float> vector(dimensions());
    for (float& number : vector) number = numbers(generator);
    Normalize(vector);
    return vector;
  };
  QuantizedVectors quantized(precision(), dimensions());
  std::vector<std::vector<float>> vectors(300);
  for (std::vector<float>& vector : vectors) quantized.Append(vector = random_unit());
  for (int tries = 0; tries < 10; ++tries) {
    const std::vector<float> query = tries == 0 ? vectors[7] : random_unit();
    std::vector<float> products(quantized.size());
    quantized.Dot(query, products);
    for (std::size_t i = 0; i < vectors.size(); ++i) {
      double product = 0;
      for (std::size_t j = 0; j < query.size(); ++j) product += query[j] * vectors[i][j];
      EXPECT_NEAR(products[i], product, tolerance) << i;
    }
  }
}

TEST_P(QuantizedVectorsTest, ZerosAndExtremesFit) {
  QuantizedVectors quantized(precision(), dimensions());
  const std::vector<float> zeros(dimensions());
  quantized.Append(zeros);
  // All numbers are the largest: the sum of their products is too.
  std::vector<float> equal(dimensions(), -1);
  Normalize(equal);
  quantized.Append(equal);
  std::vector<float> products(2);
  quantized.Dot(equal, products);
  EXPECT_EQ(products[0], 0);
  EXPECT_NEAR(products[1], 1, 1e-4);
  quantized.Dot(zeros, products);
  EXPECT_EQ(products[1], 0);
}

INSTANTIATE_TEST_SUITE_P(Precisions, QuantizedVectorsTest,
                         ::testing::Combine(::testing::Values(Precision::k8Bits,
                                                              Precision::k16Bits),
                                            ::testing::Values(1, 255, 256, 384, 3072, 8192)));

}  // namespace
}  // namespace memoryd
