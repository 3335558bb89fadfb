#include "core/calls/wake_scope.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>

namespace memoryd {
namespace {

class Visited final : public WakeScope::Sleeper {
 public:
  explicit Visited(std::function<void()> at_visit = [] {}) : at_visit_(std::move(at_visit)) {}
  void Visit() override {
    ++visits;
    at_visit_();
  }

  void WakeUp() override { ++wakes; }

  int visits = 0;
  int wakes = 0;

 private:
  const std::function<void()> at_visit_;
};

TEST(WakeScopeTest, VisitsEachOnceAtTheEndOfTheOutermostScope) {
  const auto a = std::make_shared<Visited>();
  const auto b = std::make_shared<Visited>();
  EXPECT_FALSE(WakeScope::IsOpen());
  {
    const WakeScope outer;
    {
      const WakeScope inner;
      WakeScope::Add(a);
      WakeScope::Add(b);
      WakeScope::Add(a);
    }
    EXPECT_EQ(a->visits, 0);
    EXPECT_TRUE(WakeScope::IsOpen());
  }
  EXPECT_EQ(a->visits, 1);
  EXPECT_EQ(b->visits, 1);
  EXPECT_FALSE(WakeScope::IsOpen());
}

TEST(WakeScopeTest, WakesInsteadWhereItsThreadHasMoreToDo) {
  const auto a = std::make_shared<Visited>();
  {
    const WakeScope scope(WakeScope::AtEnd::kWakeUp);
    const WakeScope inner;
    WakeScope::Add(a);
  }
  EXPECT_EQ(a->wakes, 1);
  EXPECT_EQ(a->visits, 0);
}

TEST(WakeScopeTest, VisitsWhatAVisitAddsToo) {
  const auto second = std::make_shared<Visited>();
  const auto first = std::make_shared<Visited>([&] {
    const WakeScope inner;
    WakeScope::Add(second);
  });
  {
    const WakeScope scope;
    WakeScope::Add(first);
  }
  EXPECT_EQ(first->visits, 1);
  EXPECT_EQ(second->visits, 1);
}

}  // namespace
}  // namespace memoryd
