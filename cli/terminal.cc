#include "cli/terminal.h"

#include <asm-generic/ioctls.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace memoryd::cli {

int TerminalWidth(int descriptor) {
  if (::isatty(descriptor) == 0) return 0;
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

bool CanRewriteLines(int descriptor) {
  const char* const terminal = std::getenv("TERM");
  return ::isatty(descriptor) != 0 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

bool WantsColour(int descriptor) {
  const char* const unwanted = std::getenv("NO_COLOR");
  return CanRewriteLines(descriptor) && (unwanted == nullptr || *unwanted == '\0');
}

std::string Bold(std::string_view text, bool colour) {
  return colour ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string Red(std::string_view text, bool colour) {
  return colour ? fmt::format("\x1b[1;31m{}\x1b[0m", text) : std::string(text);
}

}  // namespace memoryd::cli
