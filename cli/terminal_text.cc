#include "cli/terminal_text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace memoryd::cli {
namespace {

// The code point at the beginning of `text`, negative where there is none, and its bytes.
std::pair<utf8proc_int32_t, std::size_t> First(std::string_view text) {
  utf8proc_int32_t code_point = -1;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  if (bytes <= 0) return {-1, 1};
  return {code_point, static_cast<std::size_t>(bytes)};
}

bool IsPrintable(utf8proc_int32_t code_point) {
  switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

}  // namespace

std::string EscapeForTerminal(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    const auto [code_point, bytes] = First(text);
    if (code_point < 0) {
      escaped += fmt::format("\\x{:02X}", static_cast<unsigned char>(text.front()));
    } else if (code_point == '\n') {
      escaped += "\\n";
    } else if (code_point == '\r') {
      escaped += "\\r";
    } else if (code_point == '\t') {
      escaped += "\\t";
    } else if (code_point == '\\') {
      escaped += "\\\\";
    } else if (IsPrintable(code_point)) {
      escaped += text.substr(0, bytes);
    } else {
      escaped += fmt::format("\\u{{{:X}}}", code_point);
    }
    text.remove_prefix(bytes);
  }
  return escaped;
}

int DisplayWidth(std::string_view escaped) {
  int width = 0;
  while (!escaped.empty()) {
    const auto [code_point, bytes] = First(escaped);
    width += utf8proc_charwidth(code_point);
    escaped.remove_prefix(bytes);
  }
  return width;
}

std::string CutToWidth(std::string_view escaped, int width) {
  std::size_t kept = 0;  // Bytes that leave a column for the ellipsis.
  int columns = 0;
  for (std::size_t at = 0; at < escaped.size();) {
    const auto [code_point, bytes] = First(escaped.substr(at));
    columns += utf8proc_charwidth(code_point);
    if (columns > width) {
      return width > 0 ? std::string(escaped.substr(0, kept)) + "…" : std::string();
    }
    at += bytes;
    if (columns < width) kept = at;
  }
  return std::string(escaped);
}

}  // namespace memoryd::cli
