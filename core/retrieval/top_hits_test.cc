#include "core/retrieval/top_hits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/retrieval/search.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;

// `m7` is the message at 7, `c7` the content.
std::vector<std::string> Names(TopHits& top) {
  std::vector<std::string> names;
  for (const SearchHit& hit : top.Take()) {
    names.push_back((hit.kind == ItemKind::kMessage ? "m" : "c") + std::to_string(hit.position));
  }
  return names;
}

TEST(TopHitsTest, KeepsTheBestInOrder) {
  TopHits top(3);
  for (const std::int64_t position : {4, 1, 5, 2, 3}) {
    top.Offer(ItemKind::kMessage, position, static_cast<double>(position));
  }
  EXPECT_FALSE(top.MayTake(2.5));
  EXPECT_TRUE(top.MayTake(3));
  EXPECT_THAT(Names(top), ElementsAre("m5", "m4", "m3"));
}

TEST(TopHitsTest, OfEqualsMessagesComeFirstAndLaterOnesBeforeEarlier) {
  TopHits top(3);
  top.Offer(ItemKind::kContent, 9, 1);
  top.Offer(ItemKind::kMessage, 1, 1);
  top.Offer(ItemKind::kContent, 8, 1);
  top.Offer(ItemKind::kMessage, 2, 1);
  EXPECT_THAT(Names(top), ElementsAre("m2", "m1", "c9"));
}

TEST(TopHitsTest, FewerThanAskedForAreAll) {
  TopHits top(3);
  EXPECT_TRUE(top.MayTake(-1));
  top.Offer(ItemKind::kMessage, 1, -1);
  EXPECT_THAT(Names(top), ElementsAre("m1"));
}

}  // namespace
}  // namespace memoryd
