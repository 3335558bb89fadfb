#include "server/http2/event_loop.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/base/histogram.h"
#include "core/calls/call_thread.h"
#include "core/calls/wake_scope.h"

namespace memoryd {
namespace {

class EventLoopTest : public ::testing::Test {
 protected:
  EventLoopTest() { loop_->Start(); }
  ~EventLoopTest() override { loop_->Stop(); }

  // Runs function() with the turn, and returns what it did.
  template <typename Function>
  auto InTurn(Function function) {
    std::promise<decltype(function())> result;
    auto future = result.get_future();
    loop_->Post([&result, &function] { result.set_value(function()); });
    return future.get();
  }
  // Offers `task` during events until one accepts it: the other thread may not stand by yet.
  // Returns what `also` returns in that event.
  template <typename Function>
  auto Offer(CallThread::Task task, Function also) {
    for (;;) {
      const auto result = InTurn([&]() -> std::optional<decltype(also())> {
        if (!CallThread::Offer(task)) return std::nullopt;
        return also();
      });
      if (result.has_value()) return *result;
    }
  }
  void Offer(CallThread::Task task) {
    Offer(std::move(task), [] { return true; });
  }
  static bool IsAccepted(CallThread::Task task) { return CallThread::Offer(task); }

  Counter exceptions_{0};
  int rounds_ = 0;
  std::shared_ptr<EventLoop> loop_ =
      std::make_shared<EventLoop>([] {}, [this] { ++rounds_; }, &exceptions_);
};

TEST_F(EventLoopTest, AThreadThatWaitsForTheStoreLeavesThePollingToTheOther) {
  std::promise<void> begun;
  std::promise<void> released;
  std::promise<void> ended;
  Offer([&] {
    begun.set_value();
    released.get_future().wait();
    ended.set_value();
  });
  begun.get_future().wait();
  EXPECT_EQ(InTurn([] { return 7; }), 7);
  EXPECT_FALSE(InTurn([] { return IsAccepted([] {}); })) << "nobody is left to poll";
  released.set_value();
  ended.get_future().wait();
}

TEST_F(EventLoopTest, AnEventMayHaveOneTaskThatWaits) {
  std::promise<void> ran;
  EXPECT_FALSE(Offer([&] { ran.set_value(); }, [] { return IsAccepted([] {}); }));
  ran.get_future().wait();
}

TEST_F(EventLoopTest, OtherThreadsOfferNothing) {
  EXPECT_FALSE(CallThread::IsThis());
  EXPECT_FALSE(IsAccepted([] {}));
  EXPECT_TRUE(InTurn([] { return CallThread::IsThis(); }));
}

TEST_F(EventLoopTest, TasksHaveTheTurnWhoeverRunsThem) {
  EXPECT_FALSE(loop_->HasTurn());
  EXPECT_TRUE(InTurn([this] { return loop_->HasTurn(); }));
  std::promise<bool> ran;
  {
    const WakeScope scope;
    loop_->Post([&] { ran.set_value(loop_->HasTurn()); });
  }
  EXPECT_TRUE(ran.get_future().get());
}

TEST_F(EventLoopTest, WhatATaskPostsRunsAfterIt) {
  std::promise<int> ran;
  int tasks = 0;
  loop_->Post([&] {
    loop_->Post([&] { ran.set_value(++tasks); });
    ++tasks;
  });
  EXPECT_EQ(ran.get_future().get(), 2);
}

TEST_F(EventLoopTest, TasksOfManyThreadsRunOneAtATime) {
  constexpr int kTasks = 2000;
  int tasks = 0;  // With the turn.
  const auto post = [&] {
    for (int i = 0; i < kTasks; ++i) {
      const WakeScope scope;
      loop_->Post([&] { ++tasks; });
    }
  };
  std::thread first(post);
  std::thread second(post);
  first.join();
  second.join();
  EXPECT_EQ(InTurn([&] { return tasks; }), 2 * kTasks);
}

TEST_F(EventLoopTest, CountsWhatATaskThrows) {
  loop_->Post([] { throw std::runtime_error("a task"); });
  Offer([] { throw std::runtime_error("one that waits"); });
  loop_->Stop();
  EXPECT_EQ(exceptions_.load(), 2U);
}

}  // namespace
}  // namespace memoryd
