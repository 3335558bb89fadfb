#include "server/start_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>

namespace memoryd {
namespace {

TEST(StartWatch, TellsOnceOfAStepThatTakesItsTime) {
  int count = 0;
  std::promise<std::string> told;
  StartWatch watch(
      [&](const std::string& step) {
        if (++count == 1) told.set_value(step);
      },
      std::chrono::milliseconds(0));
  watch.Begin("opening the store");
  EXPECT_EQ(told.get_future().get(), "opening the store");
  watch.End();
  EXPECT_EQ(count, 1);
}

TEST(StartWatch, TellsOfNoStepThatEnds) {
  bool told = false;
  {
    StartWatch watch([&told](const std::string&) { told = true; }, std::chrono::hours(1));
    watch.Begin("one");
    watch.Begin("two");
    watch.End();
  }
  EXPECT_FALSE(told);
}

TEST(StartWatch, EndsInTheMiddleOfAStep) {
  StartWatch watch([](const std::string&) {}, std::chrono::hours(1));
  watch.Begin("one");
}

}  // namespace
}  // namespace memoryd
