#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace memoryd::cli {

int TerminalWidth(int descriptor) {
  if (::isatty(descriptor) == 0) return 0;
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace memoryd::cli
