// Time and random numbers as a test says.
#ifndef MEMORYD_TESTS_SUPPORT_FAKE_CLOCK_H_
#define MEMORYD_TESTS_SUPPORT_FAKE_CLOCK_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "core/base/random_source.h"
#include "core/base/wall_clock.h"

namespace memoryd {

class FakeClock final : public WallClock {
 public:
  explicit FakeClock(std::function<std::int64_t()> now_us) : now_us_(std::move(now_us)) {}
  std::int64_t NowUs() const override { return now_us_(); }

 private:
  const std::function<std::int64_t()> now_us_;
};

class FakeRandom final : public RandomSource {
 public:
  explicit FakeRandom(std::function<std::uint64_t()> next) : next_(std::move(next)) {}
  std::uint64_t Next() override { return next_(); }
  void Set(std::function<std::uint64_t()> next) { next_ = std::move(next); }

 private:
  std::function<std::uint64_t()> next_;
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_FAKE_CLOCK_H_
