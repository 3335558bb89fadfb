#include "cli/waiting_line.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "cli/progress.h"

namespace memoryd::cli {

WaitingLine::WaitingLine(const std::string& target) {
  if (!Progress::IsShown()) return;
  thread_ = std::jthread([this, target](const std::stop_token& stop) { Run(stop, target); });
}

void WaitingLine::Run(const std::stop_token& stop, const std::string& target) {
  Progress progress;
  std::unique_lock lock(mutex_);
  for (int seconds = 1;; ++seconds) {
    ended_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
    if (stop.stop_requested()) return;
    progress.Show([&] { return fmt::format("waiting for {}: {} s", target, seconds); });
  }
}

}  // namespace memoryd::cli
