// What a descriptor is connected to.
#ifndef MEMORYD_CLI_TERMINAL_H_
#define MEMORYD_CLI_TERMINAL_H_

namespace memoryd::cli {

// Columns of the terminal; 0 where `descriptor` is none.
int TerminalWidth(int descriptor);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_TERMINAL_H_
