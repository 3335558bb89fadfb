#include "cli/target.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <initializer_list>

namespace memoryd::cli {
namespace {

class TargetTest : public ::testing::Test {
 protected:
  TargetTest() { Clear(); }
  ~TargetTest() override { Clear(); }

 private:
  static void Clear() {
    for (const char* name : {"MEMORYD_TARGET", "MEMORYD_ADDRESS", "MEMORYD_URI"}) ::unsetenv(name);
  }
};

TEST_F(TargetTest, IsThatOfAnOlderNameWhereTheNameOfNowIsNotSet) {
  EXPECT_FALSE(FindOldTarget().has_value());
  ::setenv("MEMORYD_URI", "memoryd://h:1/space?tls=true", 1);
  EXPECT_EQ(FindOldTarget()->target, "h:1");
  EXPECT_EQ(FindOldTarget()->variable, "MEMORYD_URI");
  ::setenv("MEMORYD_ADDRESS", "h:2", 1);
  EXPECT_EQ(FindOldTarget()->target, "h:2");
  EXPECT_EQ(FindOldTarget()->variable, "MEMORYD_ADDRESS");
  ::setenv("MEMORYD_TARGET", "h:3", 1);
  EXPECT_FALSE(FindOldTarget().has_value());
}

TEST_F(TargetTest, OfAUriMayBeASocket) {
  ::setenv("MEMORYD_URI", "memoryd:///run/memoryd.sock?timeout=1", 1);
  EXPECT_EQ(FindOldTarget()->target, "unix:/run/memoryd.sock");
  ::setenv("MEMORYD_URI", "sqlite:///x.db", 1);
  EXPECT_FALSE(FindOldTarget().has_value());
}

}  // namespace
}  // namespace memoryd::cli
