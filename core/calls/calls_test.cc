#include "core/calls/calls.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/error.h"
#include "core/calls/engine_stats.h"
#include "core/calls/executor.h"

namespace memoryd {
namespace {

class CallsTest : public ::testing::Test {
 protected:
  std::shared_ptr<ReadCall<int>> Begin() {
    return calls_.Begin<int>("tenant", std::chrono::steady_clock::time_point::max(),
                             [this](const absl::StatusOr<int>& result) {
                               reasons_ += ErrorReason(result.status());
                               reasons_ += ';';
                             });
  }
  // Of all answers.
  std::string Reasons() { return std::exchange(reasons_, ""); }

  EngineStats stats_;
  Executor readers_{1, 10, &stats_.exceptions};
  Calls calls_{10, 1000, &readers_, &stats_};
  std::string reasons_;
};

TEST_F(CallsTest, ACallThatOnlyReadsChangesNothing) {
  Begin()->Expire();
  Begin()->Finish(absl::UnavailableError("down"));
  EXPECT_EQ(Reasons(), "STORE_UNAVAILABLE;STORE_UNAVAILABLE;");
}

TEST_F(CallsTest, ACallThatWritesDoesNotSayThatNothingWasChanged) {
  for (const bool expires : {true, false}) {
    const auto call = Begin();
    EXPECT_TRUE(call->BeginWrite());
    if (expires) call->Expire();
    call->Finish(absl::UnavailableError("down"));
    EXPECT_EQ(Reasons(), "OUTCOME_UNKNOWN;");
  }
  const auto refused = Begin();
  EXPECT_TRUE(refused->BeginWrite());
  refused->Fail(Error(absl::StatusCode::kAborted, "REVISION_MISMATCH", "another one"));
  EXPECT_EQ(Reasons(), "REVISION_MISMATCH;") << "what the store says is known";
}

TEST_F(CallsTest, ACallThatWasAnsweredWritesNothing) {
  const auto call = Begin();
  call->Expire();
  EXPECT_FALSE(call->BeginWrite());
  EXPECT_EQ(Reasons(), "STORE_UNAVAILABLE;");
}

}  // namespace
}  // namespace memoryd
