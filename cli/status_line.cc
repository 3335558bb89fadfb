#include "cli/status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

#include "cli/terminal.h"
#include "cli/terminal_text.h"

namespace memoryd::cli {
namespace {

// To the line's begin, and clear to its end.
constexpr char kClear[] = "\r\x1b[K";

}  // namespace

StatusLine& StatusLine::Instance() {
  static auto* const line = new StatusLine;
  return *line;
}

StatusLine::StatusLine()
    : width_(CanRewriteLines(STDERR_FILENO) ? TerminalWidth(STDERR_FILENO) : 0) {}

void StatusLine::ShowWork(std::string text) {
  const std::lock_guard lock(mutex_);
  work_ = std::move(text);
  Draw();
}

void StatusLine::ShowWaiting(std::string text) {
  const std::lock_guard lock(mutex_);
  waiting_ = std::move(text);
  Draw();
}

void StatusLine::Draw() {
  const std::string text = work_ + (work_.empty() || waiting_.empty() ? "" : "; ") + waiting_;
  if (width_ == 0 || (text.empty() && !drawn_)) return;
  drawn_ = !text.empty();
  fmt::print(stderr, "{}{}", kClear, CutToWidth(EscapeForTerminal(text), width_ - 1));
  std::fflush(stderr);
}

}  // namespace memoryd::cli
