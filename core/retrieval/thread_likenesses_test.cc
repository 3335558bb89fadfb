#include "core/retrieval/thread_likenesses.h"

#include <gtest/gtest.h>

namespace memoryd {
namespace {

TEST(ThreadLikenessesTest, MeasuresAThreadByItsBestThreeMessages) {
  ThreadLikenesses threads(3);
  for (const double likeness : {0.1, 0.9, 0.3, 0.6, 0.2}) threads.Add(0, likeness);
  threads.Add(1, 0.9);
  EXPECT_DOUBLE_EQ(threads.Behind(0), 0);
  EXPECT_DOUBLE_EQ(threads.Behind(1), 0.6 - 0.3);
  EXPECT_DOUBLE_EQ(threads.Behind(2), 0.6) << "one of which nothing is like the query";
}

TEST(ThreadLikenessesTest, WhatIsUnlikeTheQueryTakesNothingAway) {
  ThreadLikenesses threads(1);
  threads.Add(0, -1);
  EXPECT_DOUBLE_EQ(threads.Behind(0), 0);
}

}  // namespace
}  // namespace memoryd
