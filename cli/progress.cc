#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/terminal.h"
#include "cli/terminal_text.h"

namespace memoryd::cli {
namespace {

constexpr std::chrono::milliseconds kInterval(100);
// To the line's begin, and clear to its end.
constexpr char kClear[] = "\r\x1b[K";

}  // namespace

bool Progress::IsShown() { return CanRewriteLines(STDERR_FILENO); }

Progress::Progress() : width_(IsShown() ? TerminalWidth(STDERR_FILENO) : 0) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "{}", kClear);
}

void Progress::Show(const std::function<std::string()>& text) {
  const auto now = std::chrono::steady_clock::now();
  if (width_ == 0 || now < next_) return;
  next_ = now + kInterval;
  shown_ = true;
  fmt::print(stderr, "{}{}", kClear, CutToWidth(EscapeForTerminal(text()), width_ - 1));
  std::fflush(stderr);
}

}  // namespace memoryd::cli
