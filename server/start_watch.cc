#include "server/start_watch.h"

#include <chrono>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

namespace memoryd {

StartWatch::StartWatch(std::function<void(const std::string& step)> tell,
                       std::chrono::milliseconds patience)
    : tell_(std::move(tell)),
      patience_(patience),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

void StartWatch::Begin(std::string step) {
  const std::lock_guard lock(mutex_);
  step_ = std::move(step);
  due_ = std::chrono::steady_clock::now() + patience_;
  changed_.notify_all();
}

void StartWatch::End() { Begin({}); }

void StartWatch::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !step_.empty(); })) {
    const auto due = due_;
    const auto is_other = [this, due] { return step_.empty() || due_ != due; };
    const bool ended = changed_.wait_until(lock, stop, due, is_other);
    if (stop.stop_requested()) return;
    if (ended) continue;
    tell_(step_);
    step_.clear();
  }
}

}  // namespace memoryd
