#include "server/binary_path.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace memoryd {
namespace {

TEST(BinaryPathTest, IsTheFileThatRuns) {
  EXPECT_TRUE(std::filesystem::equivalent(BinaryPath(), "/proc/self/exe"));
}

TEST(BinaryPathTest, IsTheSameWithoutProc) {
  const auto path = BinaryPath("/proc/self/no-such-link");
  EXPECT_TRUE(path.is_absolute());
  EXPECT_EQ(path, std::filesystem::canonical(BinaryPath()));
}

}  // namespace
}  // namespace memoryd
