#include "core/calls/pending_calls.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>

namespace memoryd {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

class Call : public PendingCall {
 public:
  using PendingCall::PendingCall;
  void Expire() override { expired_.set_value(); }
  std::future<void> expired() { return expired_.get_future(); }

 private:
  std::promise<void> expired_;
};

TEST(PendingCallsTest, ACallExpiresAMomentBeforeItsDeadline) {
  const auto deadline = steady_clock::now() + std::chrono::hours(1);
  const Call call(deadline);
  EXPECT_EQ(deadline - call.expires_at(), milliseconds(120));
}

TEST(PendingCallsTest, AShortCallKeepsMostOfItsTime) {
  const auto deadline = steady_clock::now() + milliseconds(100);
  const Call call(deadline);
  EXPECT_LE(deadline - call.expires_at(), milliseconds(25));
  EXPECT_LE(call.expires_at(), deadline);
}

TEST(PendingCallsTest, ACallThatIsLateAlreadyExpiresAtItsDeadline) {
  const auto deadline = steady_clock::now() - milliseconds(1);
  EXPECT_EQ(Call(deadline).expires_at(), deadline);
}

TEST(PendingCallsTest, ExpiresWhatIsDueAndNothingElse) {
  PendingCalls calls;
  const auto late = std::make_shared<Call>(steady_clock::now() + std::chrono::hours(1));
  const auto removed = std::make_shared<Call>(steady_clock::now() + milliseconds(300));
  const auto due = std::make_shared<Call>(steady_clock::now() + milliseconds(400));
  auto late_expired = late->expired();
  auto removed_expired = removed->expired();
  auto due_expired = due->expired();
  calls.Add(late);
  calls.Add(removed);
  calls.Add(due);
  calls.Remove(removed.get());

  ASSERT_EQ(due_expired.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(removed_expired.wait_for(milliseconds(0)), std::future_status::timeout);
  EXPECT_EQ(late_expired.wait_for(milliseconds(0)), std::future_status::timeout);
  calls.Remove(due.get());  // Already gone: no harm.
}

}  // namespace
}  // namespace memoryd
