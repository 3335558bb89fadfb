#include "server/ops/file_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"

namespace memoryd {
namespace {

class FileWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "memoryd-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    Write("a", "1");
    Write("b", "1");
    ASSERT_TRUE(Watch().ok());
    ASSERT_EQ(reloads_, 1);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path Path(const std::string& name) const { return folder_ / name; }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name)) << text;
  }

  absl::Status Watch() {
    return watch_.Add({Path("a").string(), Path("b").string()}, [this] {
      ++reloads_;
      return result_;
    });
  }

  // How many reloads one look causes.
  int Look() {
    const int before = reloads_;
    watch_.Look();
    return reloads_ - before;
  }

  std::filesystem::path folder_;
  absl::Status result_;
  int reloads_ = 0;
  FileWatch watch_{std::chrono::milliseconds(1)};
};

TEST_F(FileWatchTest, WhatIsAsItWasIsLeftAlone) {
  EXPECT_EQ(Look(), 0);
  EXPECT_EQ(Look(), 0);
}

TEST_F(FileWatchTest, AnEditARenameAndANewModeAreSeenOnce) {
  Write("b", "longer");
  EXPECT_EQ(Look(), 1);
  EXPECT_EQ(Look(), 0);
  Write("new", "1");
  std::filesystem::rename(Path("new"), Path("a"));
  EXPECT_EQ(Look(), 1);
  ASSERT_EQ(chmod(Path("a").c_str(), 0400), 0);
  EXPECT_EQ(Look(), 1);
  EXPECT_EQ(Look(), 0);
}

TEST_F(FileWatchTest, ASwappedLinkToAFolderIsSeen) {
  std::filesystem::create_directory(Path("1"));
  std::filesystem::create_directory(Path("2"));
  Write("1/f", "x");
  Write("2/f", "x");
  std::filesystem::create_directory_symlink("1", Path("data"));
  int reloads = 0;
  FileWatch watch{std::chrono::milliseconds(1)};
  ASSERT_TRUE(watch
                  .Add({Path("data/f").string()},
                       [&reloads] {
                         ++reloads;
                         return absl::OkStatus();
                       })
                  .ok());
  std::filesystem::create_directory_symlink("2", Path("next"));
  std::filesystem::rename(Path("next"), Path("data"));
  watch.Look();
  EXPECT_EQ(reloads, 2);
}

TEST_F(FileWatchTest, AFileThatGoesAndComesIsSeen) {
  std::filesystem::rename(Path("a"), Path("away"));
  EXPECT_EQ(Look(), 1);
  EXPECT_EQ(Look(), 0);
  std::filesystem::rename(Path("away"), Path("a"));
  EXPECT_EQ(Look(), 1);
}

TEST_F(FileWatchTest, WhatFailedIsTriedAgain) {
  result_ = absl::InvalidArgumentError("bad");
  Write("a", "bad");
  EXPECT_EQ(Look(), 1);
  EXPECT_EQ(Look(), 1);
  result_ = absl::OkStatus();
  EXPECT_EQ(Look(), 1);
  EXPECT_EQ(Look(), 0);
}

TEST_F(FileWatchTest, AFirstReadingThatFailsIsTheCallersToReport) {
  result_ = absl::InvalidArgumentError("bad");
  EXPECT_FALSE(Watch().ok());
}

TEST_F(FileWatchTest, ItsThreadEndsWithIt) {
  FileWatch idle{std::chrono::hours(1)};
  idle.Start();
}

}  // namespace
}  // namespace memoryd
