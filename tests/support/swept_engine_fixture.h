// An engine whose sweeper works when a test says so.
#ifndef MEMORYD_TESTS_SUPPORT_SWEPT_ENGINE_FIXTURE_H_
#define MEMORYD_TESTS_SUPPORT_SWEPT_ENGINE_FIXTURE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/lifecycle/session_expiry.h"
#include "core/sessions/session_touches.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/fake_clock.h"

namespace memoryd {

class SweptEngineTest : public EngineTest {
 protected:
  // The engine does not sweep by itself; expiry_ is its sweeper.
  void StartSwept(EngineOptions options, std::int64_t max_active_bytes = kAllActive) {
    options.sweep_interval = std::chrono::hours(1);
    expiry_.reset();
    touches_.clear();
    Start(std::move(options));
    expiry_ = MakeExpiry(*engine_, max_active_bytes);
  }
  std::unique_ptr<SessionExpiry> MakeExpiry(Engine& engine,
                                            std::int64_t max_active_bytes = kAllActive) {
    SessionExpiry::Options options;
    options.store = store_.get();
    touches_.push_back(
        std::make_unique<SessionTouches>(store_.get(), &engine.cache(), &stats_, &still_clock_));
    options.touches = touches_.back().get();
    options.stats = &stats_;
    options.writes = &engine.writes();
    options.clock = &still_clock_;
    options.stopping = [] { return false; };
    options.max_active_bytes = max_active_bytes;
    return std::make_unique<SessionExpiry>(std::move(options));
  }

  const FakeClock still_clock_{[this] { return now_us_.load(); }};  // No look moves it on.
  EngineStats stats_;
  std::vector<std::unique_ptr<SessionTouches>> touches_;  // Of each engine, the fixture's first.
  std::unique_ptr<SessionExpiry> expiry_;
};

}  // namespace memoryd

#endif  // MEMORYD_TESTS_SUPPORT_SWEPT_ENGINE_FIXTURE_H_
