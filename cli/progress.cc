#include "cli/progress.h"

#include <chrono>
#include <functional>
#include <string>

#include "cli/status_line.h"

namespace memoryd::cli {
namespace {

constexpr std::chrono::milliseconds kInterval(100);

}  // namespace

bool Progress::IsShown() { return StatusLine::Instance().is_shown(); }

void Progress::Show(const std::function<std::string()>& text) {
  const auto now = std::chrono::steady_clock::now();
  if (!IsShown() || now < next_) return;
  next_ = now + kInterval;
  shown_ = true;
  StatusLine::Instance().ShowWork(text());
}

void Progress::Clear() {
  if (!shown_) return;
  shown_ = false;
  StatusLine::Instance().ShowWork("");
}

}  // namespace memoryd::cli
