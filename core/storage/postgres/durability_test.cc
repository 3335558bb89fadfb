#include "core/storage/postgres/durability.h"

#include <gtest/gtest.h>

#include "core/storage/store.h"

namespace memoryd {
namespace {

TEST(DurabilityTest, WithoutFsyncNothingIsPromised) {
  EXPECT_EQ(DurabilityOf("off", "on", "*"), Durability::kNone);
}

TEST(DurabilityTest, WithoutAStandbyItIsLocal) {
  for (const char* commit : {"on", "local", "remote_write", "remote_apply"}) {
    EXPECT_EQ(DurabilityOf("on", commit, ""), Durability::kLocal) << commit;
  }
  EXPECT_EQ(DurabilityOf("on", "off", ""), Durability::kNone);
}

TEST(DurabilityTest, AStandbyCountsWhenCommitsWaitForIt) {
  for (const char* commit : {"on", "remote_write", "remote_apply"}) {
    EXPECT_EQ(DurabilityOf("on", commit, "ANY 1 (b, c)"), Durability::kReplicated) << commit;
  }
  EXPECT_EQ(DurabilityOf("on", "local", "*"), Durability::kLocal);
  EXPECT_EQ(DurabilityOf("on", "off", "*"), Durability::kNone);
}

TEST(DurabilityTest, WhatIsNotKnownPromisesNothing) {
  EXPECT_EQ(DurabilityOf("", "", ""), Durability::kNone);
  EXPECT_EQ(DurabilityOf("on", "quorum", "*"), Durability::kNone);
}

}  // namespace
}  // namespace memoryd
