#include "core/calls/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/base/histogram.h"
#include "tests/support/held_call_thread.h"

namespace memoryd {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// One thread, of which the test holds the first task, and a clock that tasks move.
class ExecutorTest : public ::testing::Test {
 protected:
  // Occupies the thread until Release().
  void Block() {
    std::promise<void> begun;
    executor_->Submit("first", [this, &begun] {
      begun.set_value();
      released_.get_future().wait();
    });
    begun.get_future().wait();
  }
  // What ran, once everything has.
  std::vector<std::string> Release() {
    released_.set_value();
    executor_.reset();
    return ran_;
  }
  Executor::Task Task(const std::string& name, int seconds = 0) {
    return [this, name, seconds] {
      ran_.push_back(name);
      time_ += std::chrono::seconds(seconds);
    };
  }

  Counter exceptions_{0};
  std::promise<void> released_;
  std::vector<std::string> ran_;
  std::chrono::steady_clock::time_point time_;
  std::unique_ptr<Executor> executor_ =
      std::make_unique<Executor>(1, 8, &exceptions_, [this] { return time_; });
};

TEST_F(ExecutorTest, TheThreadOfACallRunsWhatItSubmits) {
  HeldCallThread calls;
  calls.Take([&] { executor_->Submit("a", Task("a1")); });
  EXPECT_EQ(calls.accepted(), 1U);
  calls.Run();
  EXPECT_THAT(Release(), ElementsAre("a1"));
}

TEST_F(ExecutorTest, NoMoreThreadsRunThanThePoolHas) {
  HeldCallThread calls(2);
  Block();
  calls.Take([&] { executor_->Submit("a", Task("a1")); });
  EXPECT_EQ(calls.accepted(), 0U);
  EXPECT_THAT(Release(), ElementsAre("a1"));
}

TEST_F(ExecutorTest, ThePoolRunsWhatTheThreadOfACallLeaves) {
  HeldCallThread calls;
  calls.Take([&] {
    executor_->Submit("a", Task("a1"));
    executor_->Submit("a", Task("a2"));
  });
  EXPECT_EQ(calls.accepted(), 1U);
  std::thread end([this] { EXPECT_THAT(Release(), ElementsAre("a1", "a2")); });
  calls.Run();
  end.join();
}

TEST_F(ExecutorTest, OneTenantsTasksAreNotAllBeforeAnothers) {
  Block();
  for (const char* const name : {"a1", "a2", "a3"}) executor_->Submit("a", Task(name));
  for (const char* const name : {"b1", "b2"}) executor_->Submit("b", Task(name));
  executor_->Submit("c", Task("c1"));
  EXPECT_THAT(Release(), ElementsAre("a1", "b1", "c1", "a2", "b2", "a3"));
}

TEST_F(ExecutorTest, AShortTaskDoesNotWaitForEachLongOneOfAnotherTenant) {
  Block();
  for (const char* const name : {"a1", "a2", "a3"}) executor_->Submit("a", Task(name, 3));
  for (const char* const name : {"b1", "b2", "b3", "b4"}) executor_->Submit("b", Task(name, 1));
  EXPECT_THAT(Release(), ElementsAre("a1", "b1", "b2", "b3", "a2", "b4", "a3"));
}

TEST_F(ExecutorTest, OneTenantMayFillTheQueueAndShutsNobodyOut) {
  Block();
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(executor_->TrySubmit("a", Task("a")));
  EXPECT_FALSE(executor_->TrySubmit("a", Task("a"))) << "full";
  EXPECT_TRUE(executor_->TrySubmit("b", Task("b1"))) << "below its share";
  EXPECT_TRUE(executor_->TrySubmit("c", Task("c1")));
  EXPECT_FALSE(executor_->TrySubmit("b", Task("b2"))) << "a quarter more is the end";
  EXPECT_FALSE(executor_->TrySubmit("d", Task("d1")));
  executor_->Submit("d", Task("d2"));
  EXPECT_THAT(Release(), ElementsAre("a", "b1", "c1", "d2", "a", "a", "a", "a", "a", "a", "a"));
}

TEST_F(ExecutorTest, TenantsAtTheirShareAreRefusedWhenItIsFull) {
  Block();
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(executor_->TrySubmit("a", Task("a")));
    EXPECT_TRUE(executor_->TrySubmit("b", Task("b")));
  }
  EXPECT_FALSE(executor_->TrySubmit("a", Task("a")));
  EXPECT_FALSE(executor_->TrySubmit("b", Task("b")));
  EXPECT_TRUE(executor_->TrySubmit("c", Task("c")));
  EXPECT_THAT(Release(), SizeIs(9));
}

TEST_F(ExecutorTest, ATaskThatThrowsIsCountedAndTheOthersRun) {
  Block();
  executor_->Submit("a", [] { throw std::runtime_error("text"); });
  executor_->Submit("a", Task("a2"));
  EXPECT_THAT(Release(), ElementsAre("a2"));
  EXPECT_EQ(exceptions_.load(), 1U);
}

TEST_F(ExecutorTest, ThreadsBelowOthersAreNice) {
  int nice = 0;
  executor_ = std::make_unique<Executor>(1, 8, &exceptions_, &std::chrono::steady_clock::now,
                                         Executor::Priority::kBelow);
  executor_->Submit("a", [&nice] { nice = ::getpriority(PRIO_PROCESS, 0); });
  executor_.reset();
  EXPECT_GE(nice, 10);
}

TEST_F(ExecutorTest, WhatATaskAddsDuringShutdownStillRuns) {
  Block();
  executor_->Submit("a", [this, executor = executor_.get()] {
    ran_.push_back("a1");
    executor->Submit("a", Task("a2"));
  });
  EXPECT_THAT(Release(), ElementsAre("a1", "a2"));
}

}  // namespace
}  // namespace memoryd
