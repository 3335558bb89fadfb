#include "cli/waiting_line.h"

#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <stop_token>
#include <string>

#include "cli/status_line.h"

namespace memoryd::cli {

WaitingLine::WaitingLine(const std::string& target) {
  if (!StatusLine::Instance().is_shown()) return;
  thread_ = std::jthread([this, target](const std::stop_token& stop) { Run(stop, target); });
}

void WaitingLine::Run(const std::stop_token& stop, const std::string& target) {
  std::unique_lock lock(mutex_);
  for (int seconds = 1;; ++seconds) {
    ended_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
    if (stop.stop_requested()) break;
    StatusLine::Instance().ShowWaiting(fmt::format("waiting for {}: {} s", target, seconds));
  }
  StatusLine::Instance().ShowWaiting("");
}

}  // namespace memoryd::cli
