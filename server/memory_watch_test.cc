#include "server/memory_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/error.h"

namespace memoryd {
namespace {

TEST(MemoryWatchTest, WithoutALimitNothingIsRefusedOrShrunk) {
  int shrunk = 0;
  MemoryWatch watch(
      0, [] { return std::int64_t{1} << 40; }, [&shrunk] { ++shrunk; });
  watch.Look();
  EXPECT_TRUE(watch.Admit().ok());
  EXPECT_EQ(shrunk, 0);
  EXPECT_EQ(watch.used(), std::int64_t{1} << 40);
}

TEST(MemoryWatchTest, CachesShrinkFirst) {
  std::int64_t used = 810;
  int shrunk = 0;
  MemoryWatch watch(
      1000, [&used] { return used; },
      [&used, &shrunk] {
        ++shrunk;
        used = 790;
      });
  watch.Look();
  EXPECT_EQ(shrunk, 1);
  EXPECT_TRUE(watch.Admit().ok());
  EXPECT_EQ(watch.used(), 790);
}

TEST(MemoryWatchTest, CallsAreRefusedUntilThereIsRoomToSpare) {
  std::int64_t used = 810;
  MemoryWatch watch(
      1000, [&used] { return used; }, [] {});
  EXPECT_TRUE(watch.Admit().ok());
  watch.Look();
  const absl::Status refusal = watch.Admit();
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(refusal), "MEMORY_SHORT");
  EXPECT_EQ(ErrorDetails(refusal).front().first, kRetryAfterMs);
  EXPECT_EQ(watch.refused(), 1U);
  used = 760;
  watch.Look();
  EXPECT_FALSE(watch.Admit().ok());
  used = 740;
  watch.Look();
  EXPECT_TRUE(watch.Admit().ok());
  EXPECT_EQ(watch.refused(), 2U);
}

TEST(MemoryWatchTest, ThisProcessTakesSome) { EXPECT_GT(ResidentBytes(), 1 << 20); }

TEST(MemoryWatchTest, TheLeastLimitOfTheGroupsAboveCounts) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("memory_watch_test." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "pod/container");
  const auto write = [&folder](const char* name, const char* text) {
    std::ofstream(folder / name) << text << '\n';
  };
  const auto limit = [&folder] {
    return ContainerMemoryLimit(folder.string(), (folder / "cgroup").string());
  };
  EXPECT_EQ(limit(), 0);
  write("cgroup", "1:name=systemd:/other\n0::/pod/container");
  EXPECT_EQ(limit(), 0);
  write("pod/container/memory.max", "max");
  EXPECT_EQ(limit(), 0);
  write("pod/container/memory.max", "3000000");
  EXPECT_EQ(limit(), 3'000'000);
  write("pod/memory.max", "2000000");
  EXPECT_EQ(limit(), 2'000'000);
  // Inside of a container its own group is the root.
  write("cgroup", "0::/");
  write("memory.max", "4000000");
  EXPECT_EQ(limit(), 4'000'000);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace memoryd
