#include "core/retrieval/message_embeddings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <map>

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr std::array<float, 2> kEast = {3, 0};
constexpr std::array<float, 2> kNorth = {0, 5};
constexpr std::array<float, 3> kOfAnotherSize = {1, 0, 0};

std::map<std::size_t, float> Cosines(const MessageEmbeddings& embeddings) {
  std::map<std::size_t, float> cosines;
  if (!embeddings.IsLike(kEast)) return cosines;
  embeddings.ForEachCosine(kEast,
                           [&](std::size_t place, float cosine) { cosines[place] = cosine; });
  return cosines;
}

TEST(MessageEmbeddingsTest, ComparesThoseThatAreThere) {
  MessageEmbeddings embeddings;
  embeddings.Add(4, kNorth);
  embeddings.Add(1, kEast);
  EXPECT_THAT(Cosines(embeddings),
              ElementsAre(Pair(1, FloatNear(1, 0.01F)), Pair(4, FloatNear(0, 0.01F))));
  EXPECT_TRUE(embeddings.Has(1));
  EXPECT_FALSE(embeddings.Has(2));
  EXPECT_FALSE(embeddings.Has(5));
  EXPECT_EQ(embeddings.count(), 2U);
}

TEST(MessageEmbeddingsTest, NothingIsAnEmbeddingThatIsLikeNoOther) {
  MessageEmbeddings embeddings;
  embeddings.Add(0, {});
  EXPECT_TRUE(embeddings.Has(0));
  EXPECT_EQ(embeddings.count(), 1U);
  EXPECT_FALSE(embeddings.IsLike(kEast));
  embeddings.Add(1, kEast);
  EXPECT_THAT(Cosines(embeddings), ElementsAre(Pair(1, FloatNear(1, 0.01F))));
  EXPECT_FALSE(embeddings.IsLike({}));
}

TEST(MessageEmbeddingsTest, TheFirstOneStaysAndSetsTheSize) {
  MessageEmbeddings embeddings;
  embeddings.Add(0, kEast);
  embeddings.Add(0, kNorth);
  embeddings.Add(1, kOfAnotherSize);
  EXPECT_THAT(Cosines(embeddings), ElementsAre(Pair(0, FloatNear(1, 0.01F))));
  EXPECT_FALSE(embeddings.Has(1));
  EXPECT_FALSE(embeddings.IsLike(kOfAnotherSize));
  embeddings.Clear();
  EXPECT_EQ(embeddings.count(), 0U);
  embeddings.Add(1, kOfAnotherSize);
  EXPECT_TRUE(embeddings.IsLike(kOfAnotherSize));
  EXPECT_THAT(Cosines(embeddings), IsEmpty());
}

}  // namespace
}  // namespace memoryd
