#include "core/retrieval/quantized_vectors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace memoryd {
namespace {

class QuantizedVectorsTest : public ::testing::TestWithParam<Precision> {};

TEST_P(QuantizedVectorsTest, ProductsAreThoseOfTheVectors) {
  const double tolerance = GetParam() == Precision::k8Bits ? 3e-3 : 2e-5;
  std::mt19937 generator(1);
  std::normal_distribution<float> numbers;
  const auto random_unit = [&] {
    WordVectors::Vector vector;
    for (float& number : vector) number = numbers(generator);
    Normalize(vector);
    return vector;
  };
  QuantizedVectors quantized(GetParam());
  std::vector<WordVectors::Vector> vectors(300);
  for (WordVectors::Vector& vector : vectors) quantized.Append(vector = random_unit());
  for (int tries = 0; tries < 10; ++tries) {
    const WordVectors::Vector query = tries == 0 ? vectors[7] : random_unit();
    std::vector<double> products(quantized.size());
    quantized.Dot(query, products);
    for (std::size_t i = 0; i < vectors.size(); ++i) {
      double product = 0;
      for (std::size_t j = 0; j < query.size(); ++j) product += query[j] * vectors[i][j];
      EXPECT_NEAR(products[i], product, tolerance) << i;
    }
  }
}

TEST_P(QuantizedVectorsTest, ZerosAndExtremesFit) {
  QuantizedVectors quantized(GetParam());
  quantized.Append({});
  WordVectors::Vector equal;
  equal.fill(-1.0F / 16);
  quantized.Append(equal);
  std::vector<double> products(2);
  quantized.Dot(equal, products);
  EXPECT_EQ(products[0], 0);
  EXPECT_NEAR(products[1], 1, 1e-4);
  quantized.Dot({}, products);
  EXPECT_EQ(products[1], 0);
}

INSTANTIATE_TEST_SUITE_P(Precisions, QuantizedVectorsTest,
                         ::testing::Values(Precision::k8Bits, Precision::k16Bits));

}  // namespace
}  // namespace memoryd
