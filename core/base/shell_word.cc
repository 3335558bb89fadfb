#include "core/base/shell_word.h"

#include <algorithm>
#include <string>

namespace memoryd {
namespace {

// No more than that: what else a shell takes as it is depends on the shell.
bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-_./:@%+,").find(c) != std::string_view::npos;
}

}  // namespace

std::string QuotedForShell(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string ShellWord(std::string_view text) {
  const bool is_plain = !text.empty() && std::ranges::all_of(text, &IsPlain);
  return is_plain ? std::string(text) : QuotedForShell(text);
}

}  // namespace memoryd
