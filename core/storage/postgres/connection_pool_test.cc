#include "core/storage/postgres/connection_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/storage/postgres/connection_settings.h"

namespace memoryd {
namespace {

constexpr std::chrono::minutes kMinute(1);

struct FakeConnection {
  bool usable() const { return true; }
};

class ConnectionPoolTest : public ::testing::Test {
 protected:
  static Deadline Past() { return std::chrono::steady_clock::now() - std::chrono::seconds(1); }
  static Deadline Future() { return std::chrono::steady_clock::now() + kMinute; }

  absl::Status answer_;
  int connects_ = 0;
  ConnectionPool<FakeConnection> pool_{2,
                                       [this]() -> absl::StatusOr<std::unique_ptr<FakeConnection>> {
                                         ++connects_;
                                         if (!answer_.ok()) return answer_;
                                         return std::make_unique<FakeConnection>();
                                       }};
};

TEST_F(ConnectionPoolTest, NothingIsOpenedOrHandedOutFromTheDeadlineOn) {
  for (const bool patient : {false, true}) {
    EXPECT_TRUE(absl::IsUnavailable(pool_.Acquire(Past(), patient).status()));
  }
  EXPECT_EQ(connects_, 0);
  ASSERT_TRUE(pool_.Open(1, kMinute).ok());
  EXPECT_TRUE(absl::IsUnavailable(pool_.Acquire(Past()).status()));
  EXPECT_TRUE(pool_.Acquire(Future()).ok());
  EXPECT_EQ(connects_, 1);
}

TEST_F(ConnectionPoolTest, OpenedConnectionsAreTheFirstToBeUsed) {
  ASSERT_TRUE(pool_.Open(2, kMinute).ok());
  EXPECT_EQ(connects_, 2);
  const auto first = pool_.Acquire(Future());
  const auto second = pool_.Acquire(Future());
  EXPECT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(connects_, 2);
}

TEST_F(ConnectionPoolTest, OpenTellsWhyAConnectionCannotBeHad) {
  answer_ = absl::FailedPreconditionError("no such database");
  EXPECT_EQ(pool_.Open(2, kMinute), answer_);
  EXPECT_EQ(connects_, 1);
}

}  // namespace
}  // namespace memoryd
