// Texts as words of a shell.
#ifndef MEMORYD_CORE_BASE_SHELL_WORD_H_
#define MEMORYD_CORE_BASE_SHELL_WORD_H_

#include <string>
#include <string_view>

namespace memoryd {

// `text` as one word of a POSIX shell, in single quotes.
std::string QuotedForShell(std::string_view text);

// The same, but without quotes where the shell needs none.
std::string ShellWord(std::string_view text);

}  // namespace memoryd

#endif  // MEMORYD_CORE_BASE_SHELL_WORD_H_
