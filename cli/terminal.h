// What a descriptor is connected to.
#ifndef MEMORYD_CLI_TERMINAL_H_
#define MEMORYD_CLI_TERMINAL_H_

#include <string>
#include <string_view>

namespace memoryd::cli {

// Columns of the terminal; 0 where `descriptor` is none.
int TerminalWidth(int descriptor);

// Whether it is a terminal on which a line can be written over: not one of TERM=dumb.
bool CanRewriteLines(int descriptor);

// Whether colours are wanted there: CanRewriteLines(), and NO_COLOR is not set, or is empty
// (no-color.org).
bool WantsColour(int descriptor);

// `text` in bold where `colour` is.
std::string Bold(std::string_view text, bool colour);

// In bold and red.
std::string Red(std::string_view text, bool colour);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_TERMINAL_H_
