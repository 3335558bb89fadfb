#include "cli/export_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace memoryd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ExportFileTest : public ::testing::Test {
 protected:
  ExportFileTest() { std::filesystem::create_directories(folder_); }
  ~ExportFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  static std::string Content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ExportFileTest, TakesItsNameWhenItIsWhole) {
  std::ofstream(Path("out")) << "before";
  {
    const auto file = ExportFile::Create(Path("out"));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write("one").ok());
    EXPECT_EQ(Content(Path("out")), "before");
    EXPECT_EQ((*file)->bytes(), 4);
    ASSERT_TRUE((*file)->Keep().ok());
  }
  EXPECT_EQ(Content(Path("out")), "one\n");
  EXPECT_THAT(Names(), ElementsAre("out"));
  struct stat found {};
  ASSERT_EQ(::stat(Path("out").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
}

TEST_F(ExportFileTest, LeavesNothingThatWasNotKept) {
  {
    const auto file = ExportFile::Create(Path("out"));
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Write("one").ok());
    EXPECT_EQ(Names().size(), 1U);
  }
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(ExportFileTest, ASignalLeavesNothing) {
  const auto end = [this] {
    const auto file = ExportFile::Create(Path("out"));
    std::raise(SIGTERM);
  };
  EXPECT_EXIT(end(), ::testing::KilledBySignal(SIGTERM), "");
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(ExportFileTest, KeepsALinkAndReplacesWhatItLeadsTo) {
  std::ofstream(Path("real")) << "before";
  std::filesystem::create_symlink("real", Path("link"));
  const auto file = ExportFile::Create(Path("link"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Write("one").ok());
  ASSERT_TRUE((*file)->Keep().ok());
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_EQ(Content(Path("real")), "one\n");
}

TEST_F(ExportFileTest, RefusesWhatIsNoFile) {
  EXPECT_EQ(ExportFile::Create("/dev/null").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ExportFile::Create(folder_.string()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(ExportFile::Create(Path("no/such/folder")).ok());
}

}  // namespace
}  // namespace memoryd::cli
