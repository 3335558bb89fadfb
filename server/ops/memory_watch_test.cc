#include "server/ops/memory_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/memory_budget.h"

namespace memoryd {
namespace {

TEST(MemoryWatchTest, WithoutALimitNothingIsRefusedOrShrunk) {
  MemoryBudget budget(0);
  int evictions = 0;
  budget.AddCache(MemoryUse::kSessions, [&evictions](auto&, auto) { ++evictions; });
  const MemoryBudget::Hold session = budget.Count("tenant", MemoryUse::kSessions, 100);
  MemoryWatch watch(
      0, [] { return std::int64_t{1} << 40; }, &budget);
  watch.Look();
  EXPECT_TRUE(watch.Admit("tenant").ok());
  EXPECT_EQ(evictions, 0);
  EXPECT_EQ(watch.used(), std::int64_t{1} << 40);
}

TEST(MemoryWatchTest, CachesShrinkFirst) {
  MemoryBudget budget(0);
  std::int64_t used = 810;
  int evictions = 0;
  budget.AddCache(MemoryUse::kSessions, [&](const std::string&, std::int64_t bytes) {
    EXPECT_EQ(bytes, 50);
    ++evictions;
    used = 790;
  });
  const MemoryBudget::Hold session = budget.Count("tenant", MemoryUse::kSessions, 100);
  MemoryWatch watch(
      1000, [&used] { return used; }, &budget);
  watch.Look();
  EXPECT_EQ(evictions, 1);
  EXPECT_TRUE(watch.Admit("tenant").ok());
  EXPECT_EQ(watch.used(), 790);
}

TEST(MemoryWatchTest, CallsAreRefusedUntilThereIsRoomToSpare) {
  MemoryBudget budget(0);
  std::int64_t used = 810;
  MemoryWatch watch(
      1000, [&used] { return used; }, &budget);
  EXPECT_TRUE(watch.Admit("tenant").ok());
  watch.Look();
  const absl::Status refusal = watch.Admit("tenant");
  EXPECT_EQ(refusal.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(refusal), "MEMORY_SHORT");
  EXPECT_EQ(ErrorDetails(refusal).front().first, kRetryAfterMs);
  EXPECT_EQ(watch.refused(), 1U);
  used = 760;
  watch.Look();
  EXPECT_FALSE(watch.Admit("tenant").ok());
  used = 740;
  watch.Look();
  EXPECT_TRUE(watch.Admit("tenant").ok());
  EXPECT_EQ(watch.refused(), 2U);
}

TEST(MemoryWatchTest, TenantsThatHoldLittleAreRefusedLast) {
  MemoryBudget budget(0);
  const MemoryBudget::Hold large = budget.Count("large", MemoryUse::kRequests, 100);
  const MemoryBudget::Hold small = budget.Count("small", MemoryUse::kRequests, 10);
  std::int64_t used = 850;
  MemoryWatch watch(
      1000, [&used] { return used; }, &budget);
  watch.Look();
  EXPECT_FALSE(watch.Admit("large").ok());
  EXPECT_TRUE(watch.Admit("small").ok());
  EXPECT_TRUE(watch.Admit("another").ok());
  used = 910;
  watch.Look();
  EXPECT_FALSE(watch.Admit("small").ok());
  EXPECT_FALSE(watch.Admit("another").ok());
}

TEST(MemoryWatchTest, TheBudgetLeavesRoomForWhatIsNotCounted) {
  EXPECT_EQ(MemoryBudgetFor(0, 100), 0);
  EXPECT_EQ(MemoryBudgetFor(1000, 100), 560);
  // Where there is hardly any room, some calls are served all the same.
  EXPECT_EQ(MemoryBudgetFor(1000, 900), 125);
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

TEST(MemoryWatchTest, ARequestHasWhatIsAskedWithinAnEighthOfTheBudget) {
  const std::int64_t mib = 1 << 20;
  EXPECT_EQ(RequestBytes(36, 0).value(), 36 * mib) << "without a limit nothing else bounds it";
  EXPECT_EQ(RequestBytes(36, 288 * mib).value(), 36 * mib);
  EXPECT_EQ(RequestBytes(60, 480 * mib).value(), 60 * mib);
  EXPECT_EQ(RequestBytes(36, 200 * mib).value(), 25 * mib);
  EXPECT_EQ(RequestBytes(36, 8 * mib).value(), 4 * mib);
  EXPECT_EQ(RequestBytes(4, 8 * mib).value(), 4 * mib);
  const absl::Status refused = RequestBytes(60, 200 * mib).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  for (const char* named : {"max_request_mib", "60 MiB", "25 MiB", "memory_limit_mib"}) {
    EXPECT_NE(refused.message().find(named), std::string::npos) << refused;
  }
}

TEST(MemoryWatchTest, LimitsOfVersion1Count) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("memory_watch_v1." + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "memory/pod/container");
  const auto write = [&folder](const char* name, const char* text) {
    std::ofstream(folder / name) << text << '\n';
  };
  const auto limit = [&folder] {
    return ContainerMemoryLimit(folder.string(), (folder / "cgroup").string());
  };
  // As a host has it that mounts both: version 2 has no controllers then.
  write("cgroup", "12:cpu,cpuacct:/other\n9:memory:/pod/container\n0::/pod");
  EXPECT_EQ(limit(), 0);
  write("memory/memory.limit_in_bytes", "9223372036854771712");
  write("memory/pod/container/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(limit(), 0) << "that is none";
  write("memory/pod/memory.limit_in_bytes", "3000000");
  EXPECT_EQ(limit(), 3'000'000);
  write("memory/pod/container/memory.limit_in_bytes", "2000000");
  EXPECT_EQ(limit(), 2'000'000);
  // Inside of a container its own group is the root, whatever its path is outside.
  write("cgroup", "3:hugetlb,memory,pids:/docker/0123");
  write("memory/memory.limit_in_bytes", "4000000");
  EXPECT_EQ(limit(), 4'000'000);
  write("cgroup", "3:memory_recursive:/pod\n4\n5:memory\n6:memory:");
  EXPECT_EQ(limit(), 4'000'000);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace memoryd
