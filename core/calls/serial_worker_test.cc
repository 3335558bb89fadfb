#include "core/calls/serial_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "tests/support/held_call_thread.h"

namespace memoryd {
namespace {

TEST(SerialWorkerTest, WorksOnAThreadOfItsOwnForOthers) {
  std::promise<std::thread::id> worked;
  SerialWorker worker([&] { worked.set_value(std::this_thread::get_id()); });
  worker.Wake();
  EXPECT_NE(worked.get_future().get(), std::this_thread::get_id());
}

TEST(SerialWorkerTest, WorksOnTheThreadOfACallThatMayWait) {
  HeldCallThread calls;
  std::optional<std::thread::id> worked;
  SerialWorker worker([&] { worked = std::this_thread::get_id(); });
  calls.Take([&] { worker.Wake(); });
  EXPECT_FALSE(worked.has_value()) << "the event is not handled yet";
  calls.Run();
  EXPECT_EQ(worked, std::this_thread::get_id());
}

TEST(SerialWorkerTest, WhatAThreadHasAcceptedNobodyElseBegins) {
  HeldCallThread calls(2);
  int runs = 0;
  SerialWorker worker([&] { ++runs; });
  calls.Take([&] {
    worker.Wake();
    worker.Wake();
  });
  EXPECT_EQ(calls.accepted(), 1U);
  std::thread([&] { worker.Wake(); }).join();
  calls.Run();
  EXPECT_EQ(runs, 1) << "it does all that is due";
}

TEST(SerialWorkerTest, WorksOnceMoreForWhatWakesItMeanwhile) {
  HeldCallThread calls;
  int runs = 0;
  SerialWorker* self = nullptr;
  SerialWorker worker([&] {
    if (++runs == 1) self->Wake();
  });
  self = &worker;
  calls.Take([&] { worker.Wake(); });
  calls.Run();
  EXPECT_EQ(runs, 2);
}

TEST(SerialWorkerTest, AThreadThatHasNobodyToStandInLeavesTheWork) {
  HeldCallThread calls(0);
  std::promise<std::thread::id> worked;
  SerialWorker worker([&] { worked.set_value(std::this_thread::get_id()); });
  calls.Take([&] { worker.Wake(); });
  EXPECT_NE(worked.get_future().get(), std::this_thread::get_id());
}

TEST(SerialWorkerTest, DoesWhatIsDueBeforeItEnds) {
  std::atomic<int> runs = 0;
  {
    SerialWorker worker([&] { ++runs; });
    worker.Wake();
  }
  EXPECT_EQ(runs, 1);
  HeldCallThread calls;
  std::thread end;
  {
    auto worker = std::make_unique<SerialWorker>([&] { ++runs; });
    calls.Take([&] { worker->Wake(); });
    end = std::thread([worker = std::move(worker)]() mutable { worker.reset(); });
  }
  calls.Run();
  end.join();
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace memoryd
