// Stored texts on a terminal: what they say, and nothing that they could do to it.
#ifndef MEMORYD_CLI_TERMINAL_TEXT_H_
#define MEMORYD_CLI_TERMINAL_TEXT_H_

#include <string>
#include <string_view>

namespace memoryd::cli {

// One line of printable UTF-8. Line feed, carriage return and tab become `\n`, `\r` and `\t`, a
// backslash `\\`; controls, format characters (zero-width, bidirectional), private and unassigned
// ones and other separators of lines `\u{202E}`; bytes that are no UTF-8 `\xFF`.
std::string EscapeForTerminal(std::string_view text);

// Columns that what EscapeForTerminal returned takes on a terminal.
int DisplayWidth(std::string_view escaped);

// The beginning of `escaped` that takes at most `width` columns, with `…` at its end where more
// follows.
std::string CutToWidth(std::string_view escaped, int width);

}  // namespace memoryd::cli

#endif  // MEMORYD_CLI_TERMINAL_TEXT_H_
