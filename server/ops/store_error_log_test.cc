#include "server/ops/store_error_log.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error_cause.h"
#include "core/storage/observed_store.h"
#include "server/ops/log.h"

namespace memoryd {
namespace {

using std::chrono::seconds;

class StoreErrorLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = ::memfd_create("log", 0);
    LogOptions options;
    options.descriptor = file_;
    log_ = std::make_unique<Log>(options);
    errors_ = std::make_unique<StoreErrorLog>(log_.get());
  }
  void TearDown() override { ::close(file_); }

  std::vector<nlohmann::json> Lines() {
    log_.reset();
    std::string text(1 << 16, '\0');
    text.resize(static_cast<std::size_t>(::pread(file_, text.data(), text.size(), 0)));
    std::vector<nlohmann::json> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }

  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int file_ = -1;
  std::unique_ptr<Log> log_;
  std::unique_ptr<StoreErrorLog> errors_;
};

TEST_F(StoreErrorLogTest, TheFirstErrorIsToldWithItsCause) {
  errors_->Note(StoreOperation::kCommit,
                WithCause(absl::UnavailableError("the store is busy"), "55P03", "a lock"), begin_);
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(lines[0]["level"], "warning");
  EXPECT_EQ(lines[0]["msg"], "store");
  EXPECT_EQ(lines[0]["operation"], "commit");
  EXPECT_EQ(lines[0]["code"], "UNAVAILABLE");
  EXPECT_EQ(lines[0]["error"], "the store is busy");
  EXPECT_EQ(lines[0]["errors"], 1);
  EXPECT_EQ(lines[0]["cause_code"], "55P03");
  EXPECT_EQ(lines[0]["cause"], "a lock");
}

TEST_F(StoreErrorLogTest, ManyErrorsAreALineInTenSecondsForEachOperation) {
  const absl::Status away = absl::UnavailableError("away");
  for (int i = 0; i < 100; ++i) errors_->Note(StoreOperation::kCommit, away, begin_);
  errors_->Note(StoreOperation::kPing, away, begin_ + seconds(1));
  errors_->Note(StoreOperation::kCommit, away, begin_ + seconds(9));
  errors_->Note(StoreOperation::kCommit, absl::DataLossError("a row"), begin_ + seconds(10));
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 3);
  EXPECT_EQ(lines[0]["errors"], 1);
  EXPECT_FALSE(lines[0].contains("cause")) << "the status has none";
  EXPECT_EQ(lines[1]["operation"], "ping");
  EXPECT_EQ(lines[2]["code"], "DATA_LOSS");
  EXPECT_EQ(lines[2]["errors"], 101);
}

}  // namespace
}  // namespace memoryd
